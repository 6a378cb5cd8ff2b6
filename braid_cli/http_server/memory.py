"""How much memory the server's threads keep for themselves."""

from __future__ import annotations

import ctypes
from typing import Final

ARENAS: Final = 2
_M_ARENA_MAX: Final = -8
"""glibc's, of malloc.h."""


def share_memory() -> None:
    """Have all threads share :data:`ARENAS` pools of memory; to be called before they start.

    glibc gives each thread a pool of its own, up to eight a core, and each keeps what its largest request needed.
    Without effect where there is no glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
