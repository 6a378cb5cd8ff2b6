"""Opens files that a user names, and refuses what is no file: reading a pipe or a device may never end."""

from __future__ import annotations

import os
import stat
from errno import EINVAL
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path


class NotRegular(OSError):
    """A path leads to a pipe, a device, a socket or a folder."""


def open_regular(path: Path | str | bytes, *, follow_links: bool = True) -> BufferedReader:
    """Open a file to be read as bytes.

    Raises OSError as opening does, also of a link where none is followed; NotRegular if it is no regular file.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | (0 if follow_links else getattr(os, "O_NOFOLLOW", 0))
    # So that opening a pipe into which nobody writes does not wait.
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise NotRegular(EINVAL, "is no regular file", os.fsdecode(path))
