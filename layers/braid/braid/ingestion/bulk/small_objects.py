"""Reads whole small objects, retrying when they are replaced meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from braid.errors import ObjectChanged

if TYPE_CHECKING:
    from braid.ports.object_store import ObjectStore

_ATTEMPTS: Final = 10
"""A note is written twice or so in its life; one that changes under every reading is something else."""
_WAIT_S: Final = 0.02


def read_object(objects: ObjectStore, tenant_id: str, key: str) -> bytes:
    """Return all of one version of an object, beginning again where it is replaced meanwhile.

    For what fits into memory: lines are put together without their line feeds.

    Raises
    ------
    ObjectMissing
        If there is none.
    ObjectChanged
        If it was replaced each of the ten times that it was read.
    StoreError
        As the store.
    """
    attempts = Retrying(
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random(0, _WAIT_S),
        retry=retry_if_exception_type(ObjectChanged),
        reraise=True,
    )
    return attempts(lambda: b"".join(objects.open(tenant_id, key)))
