"""Reads whole small objects, retrying when they are replaced meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from braid.errors import ObjectChanged

if TYPE_CHECKING:
    from braid.ports.object_store import ObjectStore

_ATTEMPTS: Final = 10
"""Such an object is written a few times in its life; one that changes under every read is a fault."""
_WAIT_S: Final = 0.02


def read_object(objects: ObjectStore, tenant_id: str, key: str) -> bytes:
    """Return the whole of one version of a small object, starting over if it is replaced meanwhile.

    Lines are joined without their line feeds.

    Raises
    ------
    ObjectMissing
        If it does not exist.
    ObjectChanged
        If it was replaced during each of ten reads.
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
