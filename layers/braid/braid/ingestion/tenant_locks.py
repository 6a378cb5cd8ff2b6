"""Lock of a tenant's writes and deletes in this process.

Embedded stores have one writer at a time for all tenants. What a tenant's own writes make each other do again is done
in this turn, before the store's transaction, so that no other tenant waits for it. Few of a tenant's writes embed at
the same time, so that long texts leave other tenants' questions their share of the processor.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from braid.deadline import holding

if TYPE_CHECKING:
    from collections.abc import Iterator


EMBEDDING_AT_ONCE: Final = 2
"""Writes of one tenant that run a model at the same time."""


class _Turn:
    """Locks that can be referred to weakly."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.embedding = threading.BoundedSemaphore(EMBEDDING_AT_ONCE)


_TURNS: Final[WeakValueDictionary[str, _Turn]] = WeakValueDictionary()
_FINDING: Final = threading.Lock()


@contextmanager
def turn(tenant_id: str) -> Iterator[None]:
    """Wait for this tenant's other writes and deletes; entered before a transaction of the store, never inside one."""
    own = _turn_of(tenant_id)
    with own.lock:
        yield


@contextmanager
def embedding_turn(tenant_id: str) -> Iterator[None]:
    """Wait until few other writes of this tenant run a model; entered while no lock of the store is held.

    Raises StoreTooSlow if they do until the deadline of the request.
    """
    own = _turn_of(tenant_id)  # kept, as others find it only while somebody has it
    with holding(own.embedding):
        yield


def _turn_of(tenant_id: str) -> _Turn:
    with _FINDING:
        own = _TURNS.get(tenant_id) or _Turn()
        _TURNS[tenant_id] = own
    return own
