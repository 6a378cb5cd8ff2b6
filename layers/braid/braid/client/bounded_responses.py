"""HTTP connections whose responses are bounded in bytes and in time.

Bounding the body alone is not enough: Python's HTTP client reads any number of ``100 Continue`` responses and trailers,
and urllib3 any number of empty compressed parts, without returning. Therefore the bytes are counted at the socket.
"""

from __future__ import annotations

import http.client
import io
import time
from typing import TYPE_CHECKING, Any, Final

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

if TYPE_CHECKING:
    import socket

MAX_READ_BYTES: Final = 8 << 20
"""Longest answer that is read, decompressed; a server sends 6 million bytes at most."""
TIMES: Final = 10
"""How many times the time-out of a connection an answer may take."""
_MAX_SENT_BYTES: Final = 2 * MAX_READ_BYTES
"""Of an answer as it is sent, with its headers."""


class AnswerUnbounded(Exception):
    """An answer has more bytes, or takes longer, than any of Braid's; the message is a predicate of the answer."""


class _Bytes(io.RawIOBase):
    """Counts the bytes that a socket receives for one response."""

    def __init__(self, source: io.RawIOBase, seconds: float) -> None:
        self._source, self._until, self._left = source, time.monotonic() + seconds, _MAX_SENT_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:  # noqa: ANN401 - any buffer that is written to
        if time.monotonic() > self._until:
            raise AnswerUnbounded("does not end")
        read = self._source.readinto(buffer)
        self._left -= read or 0
        if self._left < 0:
            raise AnswerUnbounded("is longer than Braid's are")
        return read

    def close(self) -> None:
        self._source.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as http.client gives it
        super().__init__(sock, *given, **named)
        seconds = TIMES * (sock.gettimeout() or 0.0)
        self.fp = io.BufferedReader(_Bytes(self.fp.detach(), seconds))


class _Plain(HTTPConnection):
    response_class = _Answer


class _Secure(HTTPSConnection):
    response_class = _Answer


class _PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Secure


def bounded_pool(timeout_s: float) -> urllib3.PoolManager:
    """Return connections that send nothing again by themselves, each with a time-out.

    Reading an answer raises :class:`AnswerUnbounded` if it is too long, or takes longer than :data:`TIMES` time-outs.
    """
    pool = urllib3.PoolManager(timeout=urllib3.Timeout(timeout_s), retries=False, maxsize=4)
    pool.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}
    return pool
