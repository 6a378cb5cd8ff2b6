"""Slots that limit concurrent writes over all processes: of imported or re-embedded batches, and of writing requests.

:mod:`braid.ingestion.bulk.import_steps` states the limits and takes slots, in the function that writes. Within one
process :mod:`braid.ingestion.tenant_locks` limits writes; requests of all kinds are limited by :mod:`braid.api.quotas`.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from braid.errors import QueueFull, QuotaExceeded
from braid.ports.ingestion import WAITED, WAITED_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from braid.ports.cache import ResilientCache

_ALL, _WRITERS, _OWN_WRITERS = "all-tenants", "batches being written", "own batches being written"
"""Owner of the counters of all tenants together. A tenant of this name shares none of them: its own have other keys."""
WRITING_S = 900
"""Window in seconds of the slots of writes: the longest time that the function which writes has for one step.

A slot counts in its window and the next one, and so until its step has ended; a slot of a process that died is free
again after at most two windows.
"""
_WRITERS_RETRY_S = 5
_WRITES = "writes under way"
_WRITES_RETRY_S = 10


def _writing(
    cache: ResilientCache, owner: str, key: str, limit: int, *, free_if_lost: bool = True
) -> AbstractContextManager[bool]:
    """Hold one of the slots of writes; a write lasts up to a window."""
    return cache.slot(
        owner,
        key,
        limit=limit,
        window_s=WRITING_S,
        clock=time.time,
        spans_windows=True,
        free_if_lost=free_if_lost,
    )


def share_of_writers(limit: int) -> int:
    """Return how many of the slots of bulk writes one tenant may hold: a third is left to others."""
    return -(-2 * limit // 3)


@contextmanager
def writing_in_bulk(cache: ResilientCache, limit: int, *, tenant_id: str | None = None) -> Iterator[None]:
    """Hold one of the slots of bulk writes (imports and re-embedding) while the block runs.

    Raises QueueFull if none is free, or it cannot be counted now: steps that wait count again and again, all of one
    tenant in one item, and would otherwise all be free to write once they are so many that it is throttled.

    Parameters
    ----------
    tenant_id
        Tenant whose share it counts against; None for a write of the operator.
    """
    own = ((tenant_id, _OWN_WRITERS, share_of_writers(limit)),) if tenant_id else ()
    with ExitStack() as held:
        for owner, key, most in (*own, (_ALL, _WRITERS, limit)):
            if not held.enter_context(_writing(cache, owner, key, most, free_if_lost=False)):
                if key == _OWN_WRITERS:
                    cache.count(owner, WAITED, 1, WAITED_S)  # where many wait, braid.api.quotas starts no more
                message = f"{most} batches of imports and of embedding again are being written; try again later"
                raise QueueFull(message, retry_after_s=_WRITERS_RETRY_S)
        yield


@contextmanager
def writing_for_request(cache: ResilientCache, limit: int, *, tenant_id: str) -> Iterator[None]:
    """Hold one of the slots of a tenant's writes by request while the block runs.

    A request times out after some seconds and no longer counts as concurrent, while the writing function continues to
    embed for minutes. Raises QuotaExceeded if no slot is free.

    Parameters
    ----------
    limit
        Number of slots; 0 sets no limit.
    """
    with _writing(cache, tenant_id, _WRITES, limit) as free:
        if not free:
            message = f"{limit} writes of this tenant are under way, some given up by their callers; try again later"
            raise QuotaExceeded(message, retry_after_s=_WRITES_RETRY_S)
        yield
