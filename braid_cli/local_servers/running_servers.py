"""State file of the running servers, replaced atomically under a lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Running:
    """One server that was started."""

    name: str
    pid: int
    endpoint: str
    folder: str
    """Its own copy, configuration and data; removed when it is stopped."""
    log: str


def default_folder() -> Path:
    """Return ``servers`` in ``BRAID_HOME``, which is ``.braid`` unless set."""
    return Path(os.environ.get("BRAID_HOME", ".braid")) / "servers"


def read(folder: Path) -> dict[str, Running]:
    """Return the servers that the state file names; none when there is no file."""
    try:
        text = (folder / "state.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    return {name: Running(**entry) for name, entry in json.loads(text).items()}


def write(folder: Path, servers: dict[str, Running]) -> None:
    """Replace the state file."""
    file = folder / "state.json"
    partial = file.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps({name: asdict(entry) for name, entry in servers.items()}, indent=1), encoding="utf-8")
    partial.replace(file)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of the state folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
