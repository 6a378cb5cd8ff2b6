"""Downloads packages with Maven into a cache folder, each set once."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from braid.errors import ConfigurationError

_TIMEOUT_S = 900


@dataclass(frozen=True)
class Artifact:
    """One package: group, name, version and file type."""

    group: str
    name: str
    version: str
    type: str = "jar"


def cache_folder() -> Path:
    """Return the folder for downloads: ``BRAID_CACHE``, else ``braid`` in the user's cache folder."""
    explicit = os.environ.get("BRAID_CACHE")
    if explicit:
        return Path(explicit)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "braid"


def _project(artifacts: tuple[Artifact, ...]) -> str:
    dependencies = "".join(
        "<dependency>"
        f"<groupId>{escape(item.group)}</groupId><artifactId>{escape(item.name)}</artifactId>"
        f"<version>{escape(item.version)}</version><type>{escape(item.type)}</type>"
        "</dependency>"
        for item in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>braid</groupId><artifactId>servers</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def fetch(name: str, artifacts: tuple[Artifact, ...], *, transitive: bool) -> Path:
    """Return the folder that holds the files of some packages, downloading them the first time.

    Raises ConfigurationError if Maven is missing or cannot fetch them; the message ends with what Maven said.
    """
    versions = "-".join(dict.fromkeys(item.version for item in artifacts))
    folder = cache_folder() / "servers" / f"{name}-{versions}"
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigurationError(f"{name} is fetched with Maven, and there is no mvn on PATH. Install Maven")
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        project = partial / "pom.xml"
        project.write_text(_project(artifacts), encoding="utf-8")
        command = [
            maven,
            "-q",
            "-B",
            "-f",
            str(project),
            "dependency:copy-dependencies",
            f"-DoutputDirectory={partial}",
        ]
        if not transitive:
            command.append("-DexcludeTransitive=true")
        try:
            answer = subprocess.run(  # noqa: S603 - the user's own Maven, and arguments made here
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise ConfigurationError(f"Maven did not fetch {name} in {_TIMEOUT_S} s") from error
        if answer.returncode:
            message = f"Maven could not fetch {name}: {(answer.stdout + answer.stderr).strip()[-1_000:]}"
            raise ConfigurationError(message)
        project.unlink()
        partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder
