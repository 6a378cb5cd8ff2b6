"""Concurrency limits that all processes share, counted in the cache: of requests, their writes, and bulk writes."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from braid.errors import QueueFull, QuotaExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.ports.cache import ResilientCache

_ALL, _WRITERS, _OWN_WRITERS = "all-tenants", "batches being written", "own batches being written"
"""Owner of the counters of all tenants together. A tenant of this name shares none of them: its own have other keys."""
_WRITERS_S = 300
"""Window in seconds, after which a slot of a process that died is free again; a batch takes about a minute."""
_WRITERS_RETRY_S = 5
_WRITES = "writes under way"
_WRITES_S = 900
"""Window in seconds of the writes of requests: the longest time that the function which writes has for one."""
_WRITES_RETRY_S = 10


@contextmanager
def place(
    cache: ResilientCache, tenant_id: str, key: str, *, limit: int, window_s: int, clock: Callable[[], float]
) -> Iterator[bool]:
    """Hold one of ``limit`` slots that all processes share while the block runs; yield whether one was free.

    Slots are counted anew in each window, so that one whose holder died is free again after at most a window; a block
    that runs into the next window is not counted there. If the cache fails, a slot is always free.

    Parameters
    ----------
    limit
        Number of slots; 0 sets no limit, and counts nothing.
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
    """Return how many of the slots of bulk writes one tenant may hold: a third is left to others."""
    return -(-2 * limit // 3)


@contextmanager
def writing_in_bulk(cache: ResilientCache, limit: int, *, tenant_id: str | None = None) -> Iterator[None]:
    """Hold one of the slots of bulk writes (imports and re-embedding) while the block runs.

    Raises QueueFull if none is free.

    Parameters
    ----------
    tenant_id
        Tenant whose share it counts against; None for a write of the operator.
    """
    own = ((tenant_id, _OWN_WRITERS, share_of_writers(limit)),) if tenant_id else ()
    with ExitStack() as held:
        for owner, key, most in (*own, (_ALL, _WRITERS, limit)):
            if not held.enter_context(place(cache, owner, key, limit=most, window_s=_WRITERS_S, clock=time.time)):
                message = f"{most} batches of imports and of embedding again are being written; try again later"
                raise QueueFull(message, retry_after_s=_WRITERS_RETRY_S)
        yield


@contextmanager
def writing_for_request(cache: ResilientCache, limit: int, *, tenant_id: str) -> Iterator[None]:
    """Hold one of the slots of a tenant's writes by request while the block runs.

    A request is given up after some seconds, and no longer counted among the requests at once; the function that writes
    goes on embedding for minutes. Raises QuotaExceeded if no slot is free.

    Parameters
    ----------
    limit
        Number of slots; 0 sets no limit.
    """
    with place(cache, tenant_id, _WRITES, limit=limit, window_s=_WRITES_S, clock=time.time) as free:
        if not free:
            message = f"{limit} writes of this tenant are under way, some given up by their callers; try again later"
            raise QuotaExceeded(message, retry_after_s=_WRITES_RETRY_S)
        yield
