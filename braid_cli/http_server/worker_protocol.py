"""Protocol between ``braid serve`` and its worker processes, over a socket.

A frame is a length of four bytes, big-endian, and as many bytes of JSON. The server first sends a :class:`Start`; the
worker sends :data:`READY` when it can answer. From then on the server sends ``[number, event]``, and the worker
``[number, response, processor seconds]``, in the order in which requests are answered. The response's body, which may
have megabytes, follows in a frame of its own, as UTF-8: parsing it would hold up all other requests. The worker answers
a :data:`PING` with :data:`PONG` at once, even while it works on requests. When the server closes its end of the socket,
or its process ends, the worker finishes the requests that it has started and exits.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

LENGTH: Final = struct.Struct(">I")
READY: Final = "ready"
PING: Final = "ping"
PONG: Final = "pong"


class Start(NamedTuple):
    """Parameters of a worker process."""

    tenants: list[str]
    """Tenants of which it answers a warm-up question before it is ready."""
    at_once: int
    """Limit of concurrent requests."""
    cursor_key: str
    """Key that signs cursors; the same for all workers, as any of them may receive a cursor."""


def framed(value: object) -> bytes:
    """Return a value as a frame."""
    return _frame(json.dumps(value, separators=(",", ":")).encode())


def _frame(content: bytes) -> bytes:
    return LENGTH.pack(len(content)) + content


def framed_answer(number: int, response: Mapping[str, Any], seconds: float) -> bytes:
    """Return a response and its processor seconds as a frame, and its body as another one."""
    body = str(response.get("body") or "").encode("utf-8", "surrogatepass")
    rest = {name: value for name, value in response.items() if name != "body"}
    return framed([number, rest, seconds]) + _frame(body)


def with_body(response: dict[str, Any], body: bytes) -> dict[str, Any]:
    """Return a response that came without its body, given that of the frame behind it."""
    return {**response, "body": body.decode("utf-8", "surrogatepass")}


def read_frame(frames: BinaryIO) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of the next frame; None at the end of the stream, also within a frame."""
    head = frames.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    body = frames.read(size)
    return json.loads(body) if len(body) == size else None
