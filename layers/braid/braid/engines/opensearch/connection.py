"""Connections to OpenSearch with a total time limit for each request.

The client's own timeout bounds only each wait for bytes: with a server that sends one every second it never ends.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Any, Final

from opensearchpy import Urllib3HttpConnection
from opensearchpy.exceptions import ConnectionTimeout, OpenSearchException
from urllib3.connection import HTTPConnection, HTTPSConnection

from braid import deadline

_TIMES: Final = 10
"""Limit of a request without a deadline, as a multiple of its timeout: a response with many texts is long."""
_CURRENT = threading.local()


class _Request:
    """One request, which the alarm of its deadline ends."""

    def __init__(self) -> None:
        self.is_over = False
        self.socket: socket.socket | None = None

    def use(self, connected: socket.socket | None) -> None:
        self.socket = connected
        if self.is_over:
            self.end()

    def end(self) -> None:
        self.is_over = True
        if self.socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self.socket, socket.SHUT_RDWR)  # below TLS, which would wait for the server


class _Watched:
    """A connection of urllib3 that exposes the socket of its thread's request."""

    sock: Any

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]  # of the class beside this one
        _CURRENT.request.use(self.sock)

    def request(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as urllib3's
        _CURRENT.request.use(self.sock)  # one that is connected is used again
        super().request(*given, **named)  # type: ignore[misc]


class _Plain(_Watched, HTTPConnection):
    pass


class _Encrypted(_Watched, HTTPSConnection):
    pass


class BoundedConnection(Urllib3HttpConnection):
    """Ends a request when its caller's deadline passes, or after many times its timeout."""

    def _create_urllib3_pool(self) -> None:
        super()._create_urllib3_pool()
        self.pool.ConnectionCls = _Encrypted if self.pool.scheme == "https" else _Plain

    def perform_request(self, *given: Any, **named: Any) -> Any:  # noqa: ANN401 - as the client's
        """Send a request and return its answer. Raises ConnectionTimeout if it took too long."""
        request = _CURRENT.request = _Request()
        try:
            longest_s = _TIMES * (named.get("timeout") or self.timeout)
            with deadline.alarmed(request.end, seconds=min(deadline.left(), longest_s)):
                return super().perform_request(*given, **named)
        except OpenSearchException as error:
            if not request.is_over:
                raise
            raise ConnectionTimeout("TIMEOUT", "the answer took too long", error) from error
