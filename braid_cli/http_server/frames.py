"""What ``braid serve`` and its worker processes say to each other, over a socket.

Frames go both ways: four bytes of length, big-endian, and as many of JSON. The first of the server is a
:class:`Start`; the worker sends :data:`READY` when it can answer. From then on the server sends ``[number, event]`` and
the worker ``[number, answer, processor seconds]``, in the order in which they are answered. A :data:`PING` of the
server is answered with :data:`PONG` whatever else the worker does. When the server closes its end, or ends itself, the
worker finishes what it has begun and ends.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from typing import BinaryIO

LENGTH: Final = struct.Struct(">I")
READY: Final = "ready"
PING: Final = "ping"
PONG: Final = "pong"


class Start(NamedTuple):
    """What a worker is told when it starts."""

    tenants: list[str]
    """Asked once before the worker is ready."""
    at_once: int
    """Requests that it may be given at once."""
    cursor_key: str
    """Signs cursors, which any worker may be given back."""


def framed(value: object) -> bytes:
    """Return a value as a frame."""
    body = json.dumps(value, separators=(",", ":")).encode()
    return LENGTH.pack(len(body)) + body


def read_frame(frames: BinaryIO) -> Any:  # noqa: ANN401 - any JSON
    """Return the value of the next frame; None at the end, also in the middle of one."""
    head = frames.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    body = frames.read(size)
    return json.loads(body) if len(body) == size else None
