"""Say what was built, of what and by whom: an in-toto statement with SLSA's provenance as its predicate.

A built folder's digest is the SHA-256 of a list of its files, each with its own SHA-256, in the order of their paths:
``sha256sum`` of each file, sorted by path, and of that list.

Usage: ``python make/provenance.py BUILT OUT``, where every folder of BUILT is one artifact; the builder is named by
BUILDER_ID, a URI.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCKS = (
    "uv.lock",
    "layers/braid/requirements.txt",
    "layers/telemetry/requirements.txt",
    "functions/requirements.txt",
    "functions/graph_expand/requirements.txt",
    "functions/Dockerfile",
    "functions/small/requirements.txt",
    "template.yaml",
    "small.yaml",
)
"""Files that say, by hashes, what a build takes from elsewhere."""
BUILT_FROM = ("layers", "functions", "shared", "braid_cli")
"""Folders of which a build takes every file, whether git knows it or not."""
LOCAL_BUILDER = "urn:braid:builder:local"


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def tree_digest(folder: Path) -> str:
    """Return the SHA-256 of the list of a folder's files; what Python compiled on the way is left out."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    lines = [f"{file_digest(folder / name)}  {name}\n" for name in files if not name.endswith(".pyc")]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def commit_of(root: Path) -> tuple[str, bool]:
    """Return the commit that the working tree is of, and whether the tree has changed since."""

    def git(*arguments: str) -> str:
        return subprocess.run(  # noqa: S603 - git, and arguments made here
            ["git", "-C", str(root), *arguments],  # noqa: S607 - whichever git made the clone
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()

    tracked = git("status", "--porcelain", "--untracked-files=no")
    others = git("ls-files", "--others", "-z", "--", *BUILT_FROM).split("\0")  # those that git ignores too
    return git("rev-parse", "HEAD"), bool(tracked) or any(name and not _is_compiled(name) for name in others)


def _is_compiled(name: str) -> bool:
    return name.endswith(".pyc") and "__pycache__" in Path(name).parts


def images_of(dockerfile: str) -> list[dict[str, Any]]:
    """Return the images that a Dockerfile begins with, by digest.

    Raises
    ------
    ValueError
        If one of them has none.
    """
    found = []
    for image in re.findall(r"(?m)^FROM\s+(?:--\S+\s+)*(\S+)", dockerfile):
        name, _, digest = image.partition("@sha256:")
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            message = f"functions/Dockerfile: FROM {image} has no digest; make image-digests looks it up"
            raise ValueError(message)
        found.append({"uri": f"docker://{name}", "digest": {"sha256": digest}})
    return found


def statement(built: Path, root: Path, *, boms: list[Path], now: datetime, builder: str) -> dict[str, Any]:
    """Return the statement about a folder of built artifacts, and the bills of materials that go with them."""
    commit, changed = commit_of(root)
    materials = [
        {"uri": "git+file:.", "digest": {"gitCommit": commit}, "annotations": {"changedSince": changed}},
        *({"uri": f"file:{name}", "digest": {"sha256": file_digest(root / name)}} for name in LOCKS),
        *images_of((root / "functions" / "Dockerfile").read_text(encoding="utf-8")),
    ]
    folders = sorted(path for path in built.iterdir() if path.is_dir())
    subjects = [{"name": path.name, "digest": {"sha256": tree_digest(path)}} for path in folders]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:braid:build:make:1",
                "externalParameters": {"target": "build"},
                "resolvedDependencies": materials,
            },
            "runDetails": {
                "builder": {"id": builder, "version": {"python": sys.version.split()[0]}},
                "metadata": {"finishedOn": now.isoformat(timespec="seconds")},
                "byproducts": [{"name": path.name, "digest": {"sha256": file_digest(path)}} for path in boms],
            },
        },
    }


def main(built: str, out: str) -> None:
    """Write the statement about ``built`` to ``out``."""
    builder = os.environ.get("BUILDER_ID") or LOCAL_BUILDER
    boms = sorted(Path(out).parent.glob("sbom/*.json"))
    said = statement(Path(built), ROOT, boms=boms, now=datetime.now(UTC), builder=builder)
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    print(f"{out}: {len(said['subject'])} artifacts of commit {commit_of(ROOT)[0][:12]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
