"""Look up what the tags of our images mean today, and write their digests behind them.

Asks ``docker buildx imagetools inspect``, which reads a registry and pulls nothing. The digest is that of the index of
all platforms. Usage: ``python make/image_digests.py``, then read the diff and build.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ("Dockerfile", "functions/Dockerfile", "compose.yaml")
IMAGE = re.compile(r"(?m)^((?:FROM|\s+image:)\s+)([^\s@]+:[^\s@]+)(@sha256:[0-9a-f]{64})?(?=\s|$)")
"""What stands before an image, its name with its tag, and its digest if it has one."""


def digest_of(image: str) -> str:
    """Return the digest that a tag has in its registry.

    Raises
    ------
    ValueError
        If what was answered is no digest.
    subprocess.CalledProcessError
        If it could not be looked up.
    """
    command = ["docker", "buildx", "imagetools", "inspect", image, "--format", "{{.Manifest.Digest}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603 - our own images
    digest = done.stdout.strip()
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        message = f"{image}: {digest!r} is no digest"
        raise ValueError(message)
    return digest


def main(root: Path) -> None:
    """Renew every image of every file; nothing is written unless all were found."""
    texts = {root / name: (root / name).read_text(encoding="utf-8") for name in FILES}
    images = sorted({found[2] for text in texts.values() for found in IMAGE.finditer(text)})
    digests = {image: digest_of(image) for image in images}
    for path, text in texts.items():
        path.write_text(IMAGE.sub(lambda found: f"{found[1]}{found[2]}@{digests[found[2]]}", text), encoding="utf-8")
    for image, digest in digests.items():
        print(f"{image}@{digest}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
