"""Limits that all processes share, counted in the cache: places of requests at once, and of those who write in bulk."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from braid.errors import QueueFull

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.ports.cache import ResilientCache

_ALL, _WRITERS, _OWN_WRITERS = "all-tenants", "batches being written", "own batches being written"
"""Counter of all tenants together. A tenant of this name shares no counter with it: its own have other keys."""
_WRITERS_S = 300
"""A batch takes a minute or so; what one has taken that died is free again after this."""
_WRITERS_RETRY_S = 5


@contextmanager
def place(
    cache: ResilientCache, tenant_id: str, key: str, *, limit: int, window_s: int, clock: Callable[[], float]
) -> Iterator[bool]:
    """Hold one of a number of places that all processes share while the block runs; yields whether there was one.

    Places are counted anew in each window, so that one whose holder died is free again after a window at most; a block
    that goes on from one window into the next is not counted there. Without the cache there is always one.

    Parameters
    ----------
    limit
        Number of places; 0 sets no limit, and counts nothing.
    clock
        Returns seconds since 1970.
    """
    if not limit:
        yield True
        return
    window = clock() // window_s
    taken = cache.count(tenant_id, key, 1, window_s)
    try:
        yield taken is None or taken <= limit
    finally:
        if taken is not None and clock() // window_s == window:
            cache.count(tenant_id, key, -1, window_s)


def share_of_writers(limit: int) -> int:
    """Return how many of the places of all who write many records one tenant may hold: others find a third free."""
    return -(-2 * limit // 3)


@contextmanager
def writing_in_bulk(cache: ResilientCache, limit: int, *, tenant_id: str | None = None) -> Iterator[None]:
    """Hold one of the places of all who write many records, of imports and of re-embedding, while the block runs.

    Raises QueueFull if there is none.

    Parameters
    ----------
    tenant_id
        Of whose places it is one; None where the operator has it written.
    """
    own = ((tenant_id, _OWN_WRITERS, share_of_writers(limit)),) if tenant_id else ()
    with ExitStack() as held:
        for owner, key, most in (*own, (_ALL, _WRITERS, limit)):
            if not held.enter_context(place(cache, owner, key, limit=most, window_s=_WRITERS_S, clock=time.time)):
                message = f"{most} batches of imports and of embedding again are being written; try again later"
                raise QueueFull(message, retry_after_s=_WRITERS_RETRY_S)
        yield
