"""Limits of connections: their number, their timeouts, and the bytes of unread responses.

Malformed HTTP is refused with a problem document. ``server`` limits the concurrent requests of a tenant.

uvicorn waits forever for a request's headers, and for a client that does not read its response. Here a connection has
:attr:`Connection.headers_s` for the headers of each request, and :attr:`Connection.answer_s` to read a response. When
there are too many connections, the one that has been idle the longest is dropped; those that are still sending a
response only if there are no others. Responses wait in memory until their clients read them: one for each connection.
When they take too much memory, the oldest of the tenant with most bytes are dropped.
"""

from __future__ import annotations

import errno
import socket
from collections import Counter
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Literal

import h11
import uvicorn
from braid.api.problems import Problem
from braid.errors import InvalidRequest
from uvicorn.protocols.http.h11_impl import H11Protocol

from braid_cli.http_server.parsing import READ_BYTES, Requests

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

WORKED_ON: Final = "worked_on"
"""Key in the ASGI scope's state of a request with a token: whether it is being read or answered."""
TENANT: Final = "tenant"
"""Key in the same state: the request's tenant."""
GRACE_S: Final = 5


class Connection(H11Protocol):
    """One HTTP/1.1 connection: uvicorn's, with limits."""

    most = 128
    """Limit of concurrent connections."""
    headers_s = 10.0
    """Time limit of receiving a request's headers, in seconds."""
    answer_s = 30.0
    """Time limit of the client for reading a response, in seconds."""
    unread_of_tenant = 64_000_000
    """Limit of one tenant's unread response bytes: enough for the longest responses to all its concurrent requests."""
    unread = 128_000_000
    """Limit of all unread response bytes."""

    def __init__(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - as uvicorn gives it
        super().__init__(*given, **named)
        self.conn = self._requests = Requests()
        self._headers_due: asyncio.TimerHandle | None = None
        self._reading_due: asyncio.TimerHandle | None = None
        self._next_waits = False
        self.since = 0.0

    @property
    def worked_on(self) -> bool:
        """Whether a request of this connection is being read or answered."""
        return bool(self.scope and self.scope["state"].get(WORKED_ON))

    @property
    def tenant(self) -> str:
        """The tenant of its current or last request; empty without one."""
        return str(self.scope["state"].get(TENANT, "")) if self.scope else ""

    @property
    def downloading(self) -> bool:
        """Whether a response to an authenticated request is not fully read by the client."""
        return bool(self.scope and WORKED_ON in self.scope["state"] and self.transport.get_write_buffer_size())

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout of the first headers; drop a connection if there are too many."""
        super().connection_made(transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined] # of asyncio; 256 KB otherwise
        self.since = self.loop.time()
        self._watch()
        if len(self.connections) > self.most:
            others = [
                other
                for other in self.connections
                if isinstance(other, Connection) and other is not self and not other.worked_on
            ]
            # A connection that is still sending a response is dropped only if all others are too.
            oldest = min(others or [self], key=lambda other: (other.downloading, other.since))
            self.connections.discard(oldest)  # now, as connection_lost is called only in the loop's next iteration
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeouts."""
        self._stop_watching()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Process received bytes. Headers that arrive byte by byte do not extend their timeout."""
        super().data_received(data)
        self._watch()

    def eof_received(self) -> None:
        """Refuse a body that is shorter than its Content-Length."""
        if self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.SEND_RESPONSE:
            self.send_400_response("the body ended before its Content-Length")

    def on_response_complete(self) -> None:
        """Start the timeout for reading this response; continue with the next request once it is mostly read."""
        if self.transport.get_write_buffer_size():
            self.loop.call_later(
                self.answer_s, self._drop_unread, self.cycle
            )  # uvicorn's keep-alive starts when all is read
        self.since = self.loop.time()
        self._bound_unread()
        # A client may pipeline requests without reading; the next response would wait in memory beside this one.
        self._next_waits = self.flow.write_paused
        if not self._next_waits:
            self._go_on()

    def pause_writing(self) -> None:
        """Start the timeout of a client that has too many bytes unread."""
        super().pause_writing()
        self._reading_due = self.loop.call_later(self.answer_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel that timeout, and continue with the next request."""
        super().resume_writing()
        if self._reading_due is not None:
            self._reading_due.cancel()
            self._reading_due = None
        if self._next_waits:
            self._next_waits = False
            self._go_on()

    def send_400_response(self, msg: str) -> None:
        """Refuse malformed HTTP, unless a response is being sent already, and close the connection."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            why = self._requests.refused or msg[:1].lower() + msg[1:].rstrip(".")
            answer = Problem(HTTPStatus.BAD_REQUEST, "malformed-request", why).response()
            body = answer["body"].encode()
            given = {**answer["headers"], "Content-Length": len(body), "Connection": "close"}
            headers = [(name.lower().encode(), str(value).encode()) for name, value in given.items()]
            for event in (
                h11.Response(status_code=answer["statusCode"], headers=headers, reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    def _go_on(self) -> None:
        """Wait for the next request, or start it if it has arrived."""
        super().on_response_complete()
        self._watch()

    def _bound_unread(self) -> None:
        """Drop unread responses above the limits: the oldest of the tenant with most unread bytes first."""
        unread = {
            other: other.transport.get_write_buffer_size()
            for other in self.connections
            if isinstance(other, Connection) and not other.transport.is_closing()
        }
        while unread:
            held: Counter[str] = Counter()
            for other, size in unread.items():
                held[other.tenant] += size
            ((tenant, most),) = held.most_common(1)
            if most <= self.unread_of_tenant and held.total() <= self.unread:
                return
            oldest = min((other for other in unread if other.tenant == tenant), key=lambda other: other.since)
            del unread[oldest]
            oldest.transport.abort()

    def _watch(self) -> None:
        """Start the timeout of a request's headers, or cancel it once they have arrived."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_watching()
        elif self._headers_due is None:
            self._headers_due = self.loop.call_later(self.headers_s, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _drop_unread(self, cycle: object) -> None:
        """Drop the connection if the client has neither read its response nor sent another request."""
        if self.cycle is cycle and self.transport.get_write_buffer_size():
            self.transport.abort()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises InvalidRequest if it cannot be bound, such as when the port is in use."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()  # before the address is printed, so that clients can connect at once
    except OSError as error:
        free = "; --port 0 takes a free one" if error.errno == errno.EADDRINUSE else ""
        raise InvalidRequest(f"--host {host} --port {port}: {error.strerror or error}{free}") from error
    return listening


def address_of(listening: socket.socket) -> str:
    """Return the URL at which a socket is reached from this machine."""
    host, port = listening.getsockname()[:2]
    if ip_address(host).is_unspecified:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def configured(
    application: Callable[..., Any],
    *,
    at_once: int = 16,
    kind: type[Connection] = Connection,
    lifespan: Literal["on", "off"] = "off",
) -> uvicorn.Config:
    """Return uvicorn's configuration for an application, with at least six connections per concurrent request."""
    bounded = type(kind.__name__, (kind,), {"most": max(kind.most, 6 * at_once)})
    return uvicorn.Config(
        application,
        http=bounded,
        ws="none",
        lifespan=lifespan,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
