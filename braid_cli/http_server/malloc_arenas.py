"""Limits the memory pools (arenas) of glibc."""

from __future__ import annotations

import ctypes
from typing import Final

ARENAS: Final = 2
_M_ARENA_MAX: Final = -8
"""Constant of glibc's malloc.h."""


def share_memory() -> None:
    """Limit glibc to :data:`ARENAS` memory pools for all threads; to be called before they start.

    By default glibc makes up to eight pools per core, and each stays as large as its largest request needed. Without
    effect on systems without glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
