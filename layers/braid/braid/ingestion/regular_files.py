"""Opens regular files that a user names, and refuses all else: reading a pipe or a device may never end."""

from __future__ import annotations

import os
import stat
from errno import EINVAL
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import BufferedReader


class NotRegular(OSError):
    """A path is a pipe, a device, a socket or a folder, or leads out of its expected folder."""


def open_regular(path: Path | str | bytes, *, follow_links: bool = True) -> BufferedReader:
    """Open a file to be read as bytes.

    Raises OSError as opening does, and NotRegular if it is no regular file.

    Parameters
    ----------
    follow_links
        Whether a part of the path may be a link; if False, one raises OSError.
    """
    # Non-blocking, so that opening a pipe without a writer does not wait.
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags) if follow_links else _open_without_links(Path(os.fsdecode(path)), flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NotRegular(EINVAL, "is no regular file", os.fsdecode(path))


def inside(folder: Path, name: str) -> Path:
    """Return the path of a file of a folder without links. Raises NotRegular if it leads out of the folder."""
    target = Path(os.path.realpath(folder / name))
    if not target.is_relative_to(os.path.realpath(folder)):
        raise NotRegular(EINVAL, "is a link that leads out of the folder", str(folder / name))
    return target


def open_inside(folder: Path, name: str) -> BufferedReader:
    """Open a file of a folder, which may be a link to another one in it. Raises NotRegular if it leads out of it."""
    return open_regular(inside(folder, name), follow_links=False)  # nor through a link that is put there since


def _open_without_links(path: Path, flags: int) -> int:
    if not hasattr(os, "O_PATH"):  # macOS has a flag for all parts; elsewhere only the last one is looked at
        return os.open(path, flags | getattr(os, "O_NOFOLLOW_ANY", getattr(os, "O_NOFOLLOW", 0)))
    *folders, name = path.absolute().parts[1:]
    inside = os.open("/", os.O_PATH)
    try:
        for folder in folders:
            outer, inside = inside, os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=inside)
            os.close(outer)
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=inside)
    finally:
        os.close(inside)
