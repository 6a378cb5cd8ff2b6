"""What may be asked of the stores beside the index and the graph: a cache, a queue and a store of objects.

As in :mod:`braid.ports.retrieval` every request carries its tenant, and errors are
:class:`~braid.errors.TransientStoreError` for what is worth trying again and another
:class:`~braid.errors.StoreError` for what is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, BinaryIO, Protocol, runtime_checkable

from pydantic import Field, StringConstraints

from braid.models import Frozen, TenantId, Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_CACHE_VALUE_BYTES = 384 * 1024
"""DynamoDB refuses items above 400 KB, keys and names of attributes included; the embedded cache keeps to the same."""
MAX_KEY_BYTES = 900
"""Of a key in UTF-8. S3 allows 1,024 with the tenant, DynamoDB 2,048."""
MAX_MESSAGE_BYTES = 240 * 1024
"""Of a message as it is sent. A batch to SQS has never had less than 256 KiB."""
DEDUPLICATION_S = 300
"""For how long a queue remembers what was sent."""
MAX_LINE_BYTES = 10_000_000
"""No more than one line of an object is held in memory, and no longer one is accepted."""


@runtime_checkable
class Cache(Protocol):
    """Values that may be lost at any time; :mod:`braid.ports.resilient_cache` makes a lost cache a miss.

    A key is 1 to :data:`MAX_KEY_BYTES` bytes of UTF-8; anything else raises :class:`~braid.errors.InvalidRequest`.
    """

    def get(self, tenant_id: str, key: str) -> bytes | None:
        """Return what is kept; None when nothing is, or it has expired."""

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        """Keep a value for ``ttl_s`` seconds, at least 1, or up to one second less, instead of what was there.

        A value above :data:`MAX_CACHE_VALUE_BYTES` is not kept, and what was there is gone.
        """

    def exchange(
        self, tenant_id: str, key: str, expected: bytes | None, value: bytes | None, ttl_s: int
    ) -> bytes | None:
        """Compare and set, in one step: keep ``value`` if what is kept equals ``expected``.

        Parameters
        ----------
        expected
            What has to be kept for anything to change; None is nothing, or a value that has expired.
        value
            What is kept then, as :meth:`put` keeps it; None removes what is kept.

        Returns
        -------
        bytes or None
            What was kept before. The value was exchanged if this equals ``expected``, and else nothing changed.
        """

    def count(self, tenant_id: str, key: str, amount: int, window_s: int) -> int:
        """Add to a counter of the present window, in one step, and return its sum.

        A window is a whole multiple of ``window_s`` seconds since 1970, and begins at 0. An amount of 0 reads the
        counter, and one below 0 gives back. Counters and values share no key.
        """

    def generation(self, tenant_id: str) -> int:
        """Return a number that has grown since any write of this tenant that :meth:`advance` was called for.

        A part of the key of everything that depends on what is stored. Read it before working out what is to be kept
        under it. It never expires and is never out of date.
        """

    def advance(self, tenant_id: str) -> int:
        """Begin a new generation and return it; between a write and saying that it is done.

        Trying again is safe: a generation more only costs misses.
        """

    def forget(self, tenant_id: str) -> int:
        """Remove every value of a tenant, expired or not, and return how many there were.

        The generation stays: what is still being worked out must not be kept under a number that comes again. Slow
        where a table has to be read through; for a tenant that is removed.
        """


class QueueMessage(Frozen):
    """Something to be done later, for one tenant."""

    tenant_id: TenantId
    deduplication_id: Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]
    """Names the work *and* the state that it is for. The same id again within :data:`DEDUPLICATION_S` seconds is
    dropped, whichever tenant sent it, so it holds the tenant too."""
    body: Text = ""


class Delivery(Frozen):
    """A message that is this receiver's until its visibility time-out."""

    message: QueueMessage
    receipt: str
    receives: int = Field(ge=1)
    """How often the message was handed out, this time included."""


@runtime_checkable
class Queue(Protocol):
    """Work that is done at least once, in no certain order.

    A message that was handed out several times and never deleted is set aside, and so is one that cannot be read; they
    are kept for a person to look at.
    """

    def send(self, messages: Sequence[QueueMessage]) -> None:
        """Add messages; when it returns they are durable.

        Raises
        ------
        InvalidRequest
            If a message is longer than :data:`MAX_MESSAGE_BYTES`; nothing is sent.
        TransientStoreError
            If some or all were not accepted; sending all of them again adds none twice.
        """

    def receive(self, max_messages: int, visibility_s: int) -> list[Delivery]:
        """Return up to ``max_messages`` that nobody else gets for ``visibility_s`` seconds; empty when there are none.

        What is not deleted within that time is handed out again.
        """

    def delete(self, receipts: Sequence[str]) -> None:
        """Remove messages that are done.

        A receipt that no longer counts is passed over: its message was handed out again, and will be done again.
        """

    def depth(self) -> int:
        """Return how many messages wait or are being worked on; a deployed queue counts approximately."""

    def forget(self, tenant_id: str) -> int | None:
        """Remove a tenant's messages, those set aside among them, and return how many there were.

        None, and nothing removed, where messages cannot be chosen: they go when they are worked off, or expire.
        """


class ObjectInfo(Frozen):
    """What is known of an object without reading it."""

    key: str
    size_bytes: int = Field(ge=0)
    version: str
    """Differs whenever the content does."""


@runtime_checkable
class ObjectLines(Protocol):
    """The lines of one version of an object, read from their beginning as they are asked for."""

    @property
    def info(self) -> ObjectInfo:
        """What is known of the object without reading it."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines without their line feed.

        Raises
        ------
        ObjectChanged
            If the object is replaced or removed before its last part was read; what was yielded is of one version.
        StoreError
            If a line is longer than :data:`MAX_LINE_BYTES`; the message has its number.
        """


@runtime_checkable
class ObjectStore(Protocol):
    """Files of each tenant.

    A key is 1 to :data:`MAX_KEY_BYTES` bytes of UTF-8 without control characters, and no part of it between slashes is
    empty, ``.`` or ``..``; anything else raises :class:`~braid.errors.InvalidRequest`.
    """

    def put(self, tenant_id: str, key: str, content: bytes | BinaryIO) -> ObjectInfo:
        """Write an object whole or not at all, instead of what was there. A stream is read to its end, in parts."""

    def open(self, tenant_id: str, key: str) -> ObjectLines:
        """Begin to read an object.

        Raises
        ------
        ObjectMissing
            If there is none.
        """

    def read(self, tenant_id: str, info: ObjectInfo, start: int, end: int) -> bytes:
        """Return a part of one version of an object, from byte ``start`` up to, without it, byte ``end``.

        Parameters
        ----------
        info
            The version, as it was opened or written, maybe by another process.
        start, end
            ``0 <= start <= end <= size_bytes``.

        Raises
        ------
        ObjectChanged
            If that version is no longer what is stored.
        InvalidRequest
            If the bounds are others.
        """

    def list(self, tenant_id: str, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the tenant's objects whose key begins with ``prefix``, ordered by key."""

    def delete(self, tenant_id: str, key: str) -> None:
        """Remove an object; one that does not exist is no error."""

    def delete_many(self, tenant_id: str, keys: Sequence[str]) -> None:
        """Remove objects, many in one request; those that do not exist are no error, and repeating it completes it.

        Whatever :meth:`list` gives is removed, keys too under which nothing can be put here: others write to a bucket.
        """
