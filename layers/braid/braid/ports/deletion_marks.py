"""Marks of tenants that are being deleted, by which writes to them are refused.

A mark is a value in the cache, apart from the tenant's own values, which a deletion removes. It expires after
:data:`HELD_S` unless it is renewed:

=======  =====================================================================================================
running  A deletion runs, or was interrupted a short time ago: writes are refused. The deletion renews the mark.
ended    A deletion has ended: new writes are accepted; a write that began before sees the mark, and is refused or
         undone.
=======  =====================================================================================================

Marked by :mod:`braid.ingestion.tenant_deletion`, checked and undone by :mod:`braid.ingestion.writing` and
:mod:`braid.ingestion.archive_import`. Embedded stores read the mark in the transaction of the write, which refuses it.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from braid.errors import TenantBeingDeleted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ports.cache import ResilientCache

HELD_S: Final = 900
"""Seconds for which a mark holds: above the longest time that a write, or one page of a deletion, takes."""
_OWNER: Final = "all-tenants"
_RUNNING: Final = b"running "
_ENDED: Final = b"ended "


def refuse_while_deleted(tenant_id: str, cache: ResilientCache) -> bytes | None:
    """Return the mark of the tenant's last deletion; None if there was none recently.

    Raises TenantBeingDeleted while a deletion runs, and StoreError if the mark cannot be read.
    """
    mark = cache.strict.get(_OWNER, _key(tenant_id), consistent=True)
    if mark is not None and mark.startswith(_RUNNING):
        raise TenantBeingDeleted(_message(tenant_id))
    return mark


def was_deleted_since(tenant_id: str, cache: ResilientCache, mark: bytes | None) -> bool:
    """Return whether a deletion began after :func:`refuse_while_deleted` returned this mark."""
    return cache.strict.get(_OWNER, _key(tenant_id), consistent=True) not in {None, mark}


def refuse_if_deleted_since(tenant_id: str, cache: ResilientCache, mark: bytes | None) -> None:
    """Refuse a write that has stored nothing yet, if a deletion runs or has ended since this mark was read.

    Raises TenantBeingDeleted to refuse it, and StoreError if the mark cannot be read.
    """
    if refuse_while_deleted(tenant_id, cache) not in {None, mark}:
        raise undone(tenant_id)


def are_kept_with(tenant_id: str) -> bool:
    """Return whether a tenant has the name under which the marks of all tenants are cached: its values must stay."""
    return tenant_id == _OWNER


def undone(tenant_id: str) -> TenantBeingDeleted:
    """Return the error to raise for a write that a deletion of the tenant has undone."""
    return TenantBeingDeleted(
        f"tenant {tenant_id} was deleted, or is being deleted, since this write began; nothing of this write was kept"
    )


class DeletionMark:
    """The mark of a running deletion."""

    def __init__(self, tenant_id: str, cache: ResilientCache) -> None:
        self._cache, self._key, self._own = cache.strict, _key(tenant_id), secrets.token_hex(8).encode()
        self._stays = False

    def renew(self) -> None:
        """Set the mark for another :data:`HELD_S` seconds; to be called well before they are over."""
        before = self._cache.get(_OWNER, self._key, consistent=True)
        while (kept := self._cache.exchange(_OWNER, self._key, before, _RUNNING + self._own, HELD_S)) != before:
            before = kept

    def stay(self) -> None:
        """Keep the mark after :meth:`end`: writes are refused until it expires or the deletion is repeated."""
        self._stays = True

    def end(self) -> None:
        """Allow writes to the tenant again, unless the mark stays or another deletion of the tenant has begun."""
        if not self._stays:
            self._cache.exchange(_OWNER, self._key, _RUNNING + self._own, _ENDED + self._own, HELD_S)


@contextmanager
def marked_as_deleted(tenant_id: str, cache: ResilientCache) -> Iterator[DeletionMark]:
    """Mark a tenant while the block runs.

    A block that fails leaves the mark, so that writes to the rest of the tenant are refused until the deletion is
    repeated or the mark expires. Raises StoreError if the mark cannot be set.
    """
    mark = DeletionMark(tenant_id, cache)
    mark.renew()
    yield mark
    mark.end()


def _key(tenant_id: str) -> str:
    return f"deletion/{tenant_id}"


def _message(tenant_id: str) -> str:
    return (
        f"tenant {tenant_id} is being deleted and takes no writes; write again when that has ended. If it was "
        f"interrupted, delete the tenant once more, or wait for {HELD_S // 60} minutes"
    )
