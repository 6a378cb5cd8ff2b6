"""Lock of a tenant's writes and deletes in this process.

Embedded stores have one writer at a time for all tenants. What a tenant's own writes make each other do again is done
in this turn, before the store's transaction, so that no other tenant waits for it.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Turn:
    """A lock that can be referred to weakly."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


_TURNS: Final[WeakValueDictionary[str, _Turn]] = WeakValueDictionary()
_FINDING: Final = threading.Lock()


@contextmanager
def turn(tenant_id: str) -> Iterator[None]:
    """Wait for this tenant's other writes and deletes; entered before a transaction of the store, never inside one."""
    with _FINDING:
        own = _TURNS.get(tenant_id) or _Turn()
        _TURNS[tenant_id] = own
    with own.lock:
        yield
