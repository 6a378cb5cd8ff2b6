"""What caches, queues and object stores accept and how it is written, in one place so that all engines do the same."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from pydantic import TypeAdapter, ValidationError

from braid.errors import InvalidRequest, StoreError
from braid.models import TenantId
from braid.ports.state import MAX_KEY_BYTES, MAX_LINE_BYTES, MAX_MESSAGE_BYTES, QueueMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from braid.ports.state import ObjectInfo

_TENANT = TypeAdapter(TenantId)
MAX_VISIBILITY_S = 43_200
"""SQS hands a message to one receiver for 12 hours at most."""
COUNTER = "counter/"
"""What the key of a counter begins with, and that of no value; a policy of the deployment names it."""
_NO_PLACE = frozenset({"", ".", ".."})


def check_tenant(tenant_id: str) -> str:
    """Return a tenant's name.

    Raises
    ------
    InvalidRequest
        If it is none: it may hold what separates it from a key.
    """
    try:
        return _TENANT.validate_python(tenant_id)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, {"request": "tenant_id"}) from None


def check_key(key: str) -> str:
    """Return a key of a cache.

    Raises
    ------
    InvalidRequest
        If it is empty, too long or not text.
    """
    if not key:
        message = "key: is empty"
        raise InvalidRequest(message, field="key")
    return check_prefix(key, field="key")


def check_value_key(key: str) -> str:
    """Return a key of a value in a cache.

    Raises
    ------
    InvalidRequest
        If it is empty, too long, not text, or a counter's.
    """
    if check_key(key).startswith(COUNTER):
        message = f"key: begins with {COUNTER}, as those of counters do"
        raise InvalidRequest(message, field="key")
    return key


def check_prefix(prefix: str, *, field: str = "prefix") -> str:
    """Return the beginning of a key, which may be empty.

    Raises
    ------
    InvalidRequest
        If it is too long or not text.
    """
    try:
        size = len(prefix.encode())
    except UnicodeEncodeError:
        message = f"{field}: holds a lone surrogate, which is not a character"
        raise InvalidRequest(message, field=field) from None
    if size > MAX_KEY_BYTES:
        message = f"{field}: is {size} bytes long, at most {MAX_KEY_BYTES} are allowed"
        raise InvalidRequest(message, field=field)
    return prefix


def check_object_key(key: str) -> str:
    """Return a key of an object.

    Raises
    ------
    InvalidRequest
        If it is empty, too long, holds control characters or could be read as a path to elsewhere.
    """
    check_key(key)
    if any(unicodedata.category(character) == "Cc" for character in key):
        message = "key: holds a control character"
        raise InvalidRequest(message, field="key")
    if _NO_PLACE & set(key.split("/")):
        message = f"key: {key!r} has a part that is empty, '.' or '..'"
        raise InvalidRequest(message, field="key")
    return key


def check_ttl(ttl_s: int) -> int:
    """Return for how many seconds something is kept.

    Raises
    ------
    InvalidRequest
        If it is none.
    """
    if ttl_s < 1:
        message = f"ttl_s: {ttl_s} is below 1"
        raise InvalidRequest(message, field="ttl_s")
    return ttl_s


def counter_key(key: str, window_s: int, now: float) -> str:
    """Return the key of a counter in the window that is open at a moment, in seconds since 1970.

    Raises
    ------
    InvalidRequest
        If there is no such window.
    """
    if window_s < 1:
        message = f"window_s: {window_s} is below 1"
        raise InvalidRequest(message, field="window_s")
    return check_key(f"{COUNTER}{window_s:d}/{now // window_s:.0f}/{check_key(key)}")


def check_receive(max_messages: int, visibility_s: int) -> None:
    """Check how much is asked of a queue.

    Raises
    ------
    InvalidRequest
        If it is nothing, or for too long.
    """
    if max_messages < 1:
        message = f"max_messages: {max_messages} is below 1"
        raise InvalidRequest(message, field="max_messages")
    if not 1 <= visibility_s <= MAX_VISIBILITY_S:
        message = f"visibility_s: {visibility_s} is not between 1 and {MAX_VISIBILITY_S}"
        raise InvalidRequest(message, field="visibility_s")


def encode_messages(messages: Sequence[QueueMessage]) -> list[str]:
    """Return messages as they are sent: JSON in ASCII, because SQS refuses some characters that text may hold.

    Raises
    ------
    InvalidRequest
        If one is too long.
    """
    encoded = [json.dumps(message.model_dump()) for message in messages]
    for message, text in zip(messages, encoded, strict=True):
        if len(text) > MAX_MESSAGE_BYTES:
            explanation = (
                f"body: message {message.deduplication_id} takes {len(text)} bytes, at most {MAX_MESSAGE_BYTES}"
            )
            raise InvalidRequest(explanation, field="body")
    return encoded


def decode_message(text: str) -> QueueMessage | None:
    """Read what :func:`encode_messages` wrote; None when it is something else."""
    try:
        return QueueMessage.model_validate_json(text)
    except ValidationError:
        return None


def check_range(info: ObjectInfo, start: int, end: int) -> None:
    """Check which part of an object is asked for.

    Raises
    ------
    InvalidRequest
        If there is no such part.
    """
    if not 0 <= start <= end <= info.size_bytes:
        message = f"start, end: bytes {start} to {end} are no part of {info.size_bytes}"
        raise InvalidRequest(message, field="start")


def parts_of(content: bytes | BinaryIO, size: int) -> Iterator[bytes]:
    """Yield content in parts of ``size`` bytes, the last one shorter or, when there is nothing, empty.

    Raises
    ------
    InvalidRequest
        If a stream gives text.
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
    """Read until there are ``size`` bytes or no more; a pipe gives what it has."""
    pieces: list[bytes] = []
    missing = size
    while missing:
        piece = stream.read(missing)
        if not isinstance(piece, bytes):
            message = "content: the stream gives text; open it in binary mode"
            raise InvalidRequest(message, field="content")
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


@dataclass(frozen=True)
class StoredLines:
    """The lines of one version of an object; implements :class:`braid.ports.state.ObjectLines`."""

    info: ObjectInfo
    read: Callable[[], Iterator[bytes]]
    """Returns the content in parts, from its beginning; raises as the port says."""

    def __iter__(self) -> Iterator[bytes]:
        """Yield lines without their line feed."""
        return lines_of(self.read(), self.info.key)


def lines_of(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the lines of bytes that come in chunks of any size, without their line feed.

    Raises
    ------
    StoreError
        If one is longer than :data:`MAX_LINE_BYTES`.
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
        message = f"{name}: line {number} is longer than {MAX_LINE_BYTES:,} bytes"
        raise StoreError(message)
