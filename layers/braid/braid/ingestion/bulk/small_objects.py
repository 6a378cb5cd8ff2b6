"""Reading small objects whole: notes that one process writes again while another one reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from braid.errors import ObjectChanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.ports.object_store import ObjectStore

_ATTEMPTS: Final = 10
"""A note is written twice or so in its life; one that changes under every reading is something else."""
_WAIT_S: Final = 0.02
_T = TypeVar("_T")


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
    return read_again(lambda: b"".join(objects.open(tenant_id, key)))


def read_again(read: Callable[[], _T]) -> _T:
    """Return what is read of one object, beginning again where it is replaced meanwhile, as :func:`read_object`."""
    attempts = Retrying(
        stop=stop_after_attempt(_ATTEMPTS),
        wait=wait_random(0, _WAIT_S),
        retry=retry_if_exception_type(ObjectChanged),
        reraise=True,
    )
    return attempts(read)
