"""Locks of a tenant's writes and deletes in this process.

Embedded stores have one transaction at a time, for all tenants. A write is checked against what its tenant's writes
before it left: that is done in this tenant's turn, before the transaction begins, so that no other tenant waits for it.
Few of a tenant's writes embed at the same time, so that long texts leave other tenants' questions their share of the
processor.
"""

from __future__ import annotations

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


@contextmanager
def writing_turn(tenant_id: str, *stores: SearchIndex | WritableGraph) -> Iterator[None]:
    """Wait for this tenant's other writes and deletes, and finish their removals and one's own while others can write.

    Entered before a transaction of the store, never inside one. What is left where this breaks off, no reader sees; the
    tenant's next write, delete or repair removes it.
    """
    with _TURNS.of(tenant_id):
        for store in stores:
            store.finish_removals(tenant_id)
        yield
        for store in stores:
            store.finish_removals(tenant_id)


@contextmanager
def embedding_turn(tenant_id: str) -> Iterator[None]:
    """Wait until few other writes of this tenant run a model; entered while no lock of the store is held.

    Raises StoreTooSlow if they do until the deadline of the request.
    """
    with holding(_EMBEDDING.of(tenant_id)):
        yield
