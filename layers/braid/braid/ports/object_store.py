"""Port of the object store: files of a tenant, and the splitting of their content into parts and lines."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, TypeVar, runtime_checkable

from pydantic import Field

from braid.errors import InvalidRequest, ObjectChanged, StoreError
from braid.models import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

MAX_LINE_BYTES = 10_000_000
"""Longest line of an object that is accepted: a whole line is held in memory."""
_DELETED_WITH_EACH: Final = 30
_READ_ATTEMPTS: Final = 10
_READ_WAIT_S: Final = 0.02
_T = TypeVar("_T")


class ObjectInfo(Frozen):
    """An object's key, size and version."""

    key: str
    size_bytes: int = Field(ge=0)
    version: str
    """Changes whenever the content does."""


@dataclass(frozen=True)
class ObjectLines:
    """The lines of one version of an object, read lazily from the beginning."""

    info: ObjectInfo
    read: Callable[[], Iterator[bytes]]
    """Returns the content in parts, from the beginning; raises the port's errors."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines without their line feed."""
        return lines_of(self.read(), self.info.key)


@runtime_checkable
class ObjectStore(Protocol):
    """Stores each tenant's objects by key.

    A key is 1 to :data:`~braid.ports.keys.MAX_KEY_BYTES` bytes of UTF-8 without control characters, and no part of it
    between slashes is empty, ``.`` or ``..``; anything else raises :class:`~braid.errors.InvalidRequest`.
    """

    def put(self, tenant_id: str, key: str, content: bytes | BinaryIO) -> ObjectInfo:
        """Write an object atomically, replacing an older one. A stream is read to its end, in parts."""

    def open(self, tenant_id: str, key: str) -> ObjectLines:
        """Open an object for reading. Raises ObjectMissing if there is none."""

    def read(self, tenant_id: str, info: ObjectInfo, start: int, end: int) -> bytes:
        """Return the bytes from ``start`` to ``end``, exclusive, of one version of an object.

        Parameters
        ----------
        info
            The version, as returned when it was opened or written, maybe by another process.
        start, end
            ``0 <= start <= end <= size_bytes``.

        Raises
        ------
        ObjectChanged
            If that version is no longer the stored one.
        InvalidRequest
            If the bounds are invalid.
        """

    def list(self, tenant_id: str, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the tenant's objects whose key begins with ``prefix``, ordered by key."""

    def delete(self, tenant_id: str, key: str) -> None:
        """Remove an object; one that does not exist is no error."""

    def delete_many(self, tenant_id: str, keys: Sequence[str]) -> None:
        """Remove objects in batches; missing objects are no error, so repeating a failed call completes it.

        Any key of :meth:`list` is accepted, even one that :meth:`put` refuses: a bucket may have other writers.
        """


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
    return retry_if_replaced(lambda: b"".join(objects.open(tenant_id, key)))


def retry_if_replaced(read: Callable[[], _T], *errors: type[StoreError]) -> _T:
    """Return what ``read`` reads, starting over, up to ten times, if an object is replaced meanwhile.

    Raises ObjectChanged if that happened during each read. ``errors`` are further ones after which it starts over.
    """
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random  # no question needs it

    attempts = Retrying(
        stop=stop_after_attempt(_READ_ATTEMPTS),
        wait=wait_random(0, _READ_WAIT_S),
        retry=retry_if_exception_type((ObjectChanged, *errors)),
        reraise=True,
    )
    return attempts(read)


def check_range(info: ObjectInfo, start: int, end: int) -> None:
    """Check a byte range of an object. Raises InvalidRequest if it is out of bounds."""
    if not 0 <= start <= end <= info.size_bytes:
        raise InvalidRequest(f"start, end: bytes {start} to {end} are no part of {info.size_bytes}", field="start")


def parts_of(content: bytes | BinaryIO, size: int) -> Iterator[bytes]:
    """Yield content in parts of ``size`` bytes, the last one shorter; one empty part if there is no content.

    Raises InvalidRequest if a stream is in text mode.
    """
    if isinstance(content, bytes):
        for start in range(0, max(1, len(content)), size):
            yield content[start : start + size]
        return
    ahead = _read_full(content, size)
    while True:
        part, ahead = ahead, _read_full(content, size) if len(ahead) == size else b""
        yield part
        if not ahead:
            return


def _read_full(stream: BinaryIO, size: int) -> bytes:
    """Read ``size`` bytes, or fewer at the end of the stream: one read of a pipe may return less."""
    pieces: list[bytes] = []
    missing = size
    while missing:
        piece = stream.read(missing)
        if not isinstance(piece, bytes):
            raise InvalidRequest.of("content", "the stream gives text; open it in binary mode")
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def timed_name() -> str:
    """Return a new name that begins with the time: names sort by it, and :func:`delete_older` reads it."""
    return f"{time.time_ns():020d}-{secrets.token_hex(8)}"


def time_in(key: str, prefix: str) -> int:
    """Return the time, in nanoseconds since 1970, of a :func:`timed_name` after a prefix; 0 of any other key."""
    digits = key.removeprefix(prefix).partition("-")[0] if key.startswith(prefix) else ""
    return int(digits) if digits.isascii() and digits.isdigit() else 0


def delete_older(objects: ObjectStore, tenant_id: str, prefix: str, age_ns: int) -> None:
    """Delete some of a tenant's oldest objects that have a timed name after a prefix, if they are older than that."""
    before, first = time.time_ns() - age_ns, islice(objects.list(tenant_id, prefix), _DELETED_WITH_EACH)
    if old := [info.key for info in first if 0 < time_in(info.key, prefix) < before]:
        objects.delete_many(tenant_id, old)


def lines_of(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of chunks of bytes, of any sizes, without their line feed.

    Raises StoreError if one is longer than :data:`MAX_LINE_BYTES`.
    """
    number = 1
    held: list[bytes] = []
    size = 0
    for chunk in chunks:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            _check_length(size + len(end), name, number)
            yield b"".join([*held, end])
            held, size, number = [], 0, number + 1
        size += len(rest)
        _check_length(size, name, number)
        held.append(rest)
    if size:
        yield b"".join(held)


def _check_length(size: int, name: str, number: int) -> None:
    if size > MAX_LINE_BYTES:
        raise StoreError(f"{name}: line {number} is longer than {MAX_LINE_BYTES:,} bytes")
