"""Locks of a tenant's writes and deletes in this process.

Embedded stores run one transaction at a time, over all tenants. A write is checked against the results of its tenant's
earlier writes: under the tenant's lock and before the transaction, so that no other tenant waits for the check.
The number of a tenant's writes that embed at the same time is limited, so that long texts leave processor time to other
tenants' questions.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from braid.deadline import Locks, holding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ports.knowledge_graph import WritableGraph
    from braid.ports.search_index import SearchIndex


EMBEDDING_AT_ONCE: Final = 2
"""Writes of one tenant that run a model at the same time."""
_TURNS: Final = Locks(threading.Lock)
_EMBEDDING: Final = Locks(partial(threading.BoundedSemaphore, EMBEDDING_AT_ONCE))
os.register_at_fork(after_in_child=_TURNS.reset)
os.register_at_fork(after_in_child=_EMBEDDING.reset)


@contextmanager
def writing_turn(tenant_id: str, *stores: SearchIndex | WritableGraph) -> Iterator[None]:
    """Hold the lock of this tenant's writes and deletes, and finish deferred removals before and after the block.

    To be entered before a transaction of the store, never inside one, so that other tenants can write during the
    removals. No reader sees the rows that an interruption leaves; the tenant's next write, delete or repair removes
    them.
    """
    with _TURNS.of(tenant_id):
        for store in stores:
            store.finish_removals(tenant_id)
        yield
        for store in stores:
            store.finish_removals(tenant_id)


@contextmanager
def embedding_turn(tenant_id: str) -> Iterator[None]:
    """Hold one of the :data:`EMBEDDING_AT_ONCE` slots of this tenant's writes; to be entered without a store's lock.

    Raises StoreTooSlow if none is free until the deadline of the request.
    """
    with holding(_EMBEDDING.of(tenant_id)):
        yield
