"""Finds an installed Java of a supported version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from braid.errors import ConfigurationError

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_FOLDERS = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home", "/opt/java/*", "/opt/jdk*")


def major_version(home: Path) -> int | None:
    """Return the major version of the Java in a folder; None if there is none that runs."""
    binary = home / "bin" / "java"
    if not os.access(binary, os.X_OK):
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - a Java found on this machine, and a constant argument
            [str(binary), "-version"], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match.group(1)) if match and answer.returncode == 0 else None


def _candidates(variables: tuple[str, ...]) -> list[Path]:
    homes = [Path(os.environ[name]) for name in variables if os.environ.get(name)]
    on_path = shutil.which("java")
    if on_path:
        homes.append(Path(on_path).resolve().parent.parent)
    for pattern in _FOLDERS:
        homes += sorted(path for path in Path("/").glob(pattern.lstrip("/")) if path.is_dir())
    return list(dict.fromkeys(homes))


def find(server: str, *, minimum: int, maximum: int | None = None, variables: tuple[str, ...] = ("JAVA_HOME",)) -> Path:
    """Return the home of the first Java whose major version lies in ``[minimum, maximum]``.

    Raises ConfigurationError if there is none; the message lists what was found.

    Parameters
    ----------
    server
        Name of the server that needs it, for the message.
    minimum, maximum
        Major versions; a ``maximum`` of None means no upper bound.
    variables
        Environment variables that may name a home, the most specific first. ``PATH`` and the usual folders follow.
    """
    seen: list[str] = []
    for home in _candidates(variables):
        version = major_version(home)
        if version is None:
            seen.append(f"{home}: no Java that runs")
        elif version < minimum or (maximum is not None and version > maximum):
            seen.append(f"{home}: Java {version}")
        else:
            return home
    wanted = f"Java {minimum} or newer" if maximum is None else f"Java {minimum} to {maximum}"
    found = "; ".join(seen) or "no Java at all"
    message = f"{server} needs {wanted}; found {found}. Install one, or set {variables[0]} to its folder"
    raise ConfigurationError(message)
