"""Bounds of connections: their number, the time that they take, and the bytes of answers that nobody reads.

What is no HTTP is refused with a problem document. How many requests a tenant may have at once, ``server`` bounds.

uvicorn waits for the headers of a request, and for a client that does not read its answer, without end. Here a
connection has :attr:`Connection.headers_s` for the headers of each request and :attr:`Connection.answer_s` to read an
answer, and when there are too many the one that has been open the longest without a request being worked on is dropped,
those that an answer is on its way to after all others. Answers wait in memory until their clients read them: a client
has one at a time, and of the tenant with the most the oldest are dropped when there is too much of them.
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
"""In the state of the scope of a request with a token: whether it is being read or answered."""
TENANT: Final = "tenant"
"""In the same state: whose request it is."""
GRACE_S: Final = 5


class Connection(H11Protocol):
    """One connection, by HTTP/1.1."""

    most = 128
    """Connections at once."""
    headers_s = 10.0
    """For how long the headers of a request may arrive."""
    answer_s = 30.0
    """For how long a client may take to read an answer that it was sent."""
    unread_of_tenant = 64_000_000
    """Bytes of one tenant's answers that may wait to be read: the longest ones to all that it may ask at once."""
    unread = 128_000_000
    """Bytes of all answers that may wait to be read."""

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
        """Whose request it has, or had last; empty of nobody's."""
        return str(self.scope["state"].get(TENANT, "")) if self.scope else ""

    @property
    def downloading(self) -> bool:
        """Whether the client, whose request held a place, has yet to read some of the answer."""
        return bool(self.scope and WORKED_ON in self.scope["state"] and self.transport.get_write_buffer_size())

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it."""
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
            # An answer that is on its way is cut only when there are nothing but such.
            oldest = min(others or [self], key=lambda other: (other.downloading, other.since))
            self.connections.discard(oldest)  # at once: a dropped connection is lost in the loop's next round
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing more."""
        self._stop_watching()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came; headers that come byte by byte have no more time for it."""
        super().data_received(data)
        self._watch()

    def eof_received(self) -> None:
        """Refuse a body that is shorter than its Content-Length says."""
        if self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.SEND_RESPONSE:
            self.send_400_response("the body ended before its Content-Length")

    def on_response_complete(self) -> None:
        """Wait for the client to read this answer, and then for its next request."""
        if self.transport.get_write_buffer_size():
            self.loop.call_later(self.answer_s, self._drop_unread, self.cycle)  # keep-alive ends when all is read
        self.since = self.loop.time()
        self._bound_unread()
        # Requests are sent ahead by clients that read nothing; the next answer would wait beside this one.
        self._next_waits = self.flow.write_paused
        if not self._next_waits:
            self._go_on()

    def pause_writing(self) -> None:
        """Count the time while more is unread than is kept for a client."""
        super().pause_writing()
        self._reading_due = self.loop.call_later(self.answer_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Let the client go on reading."""
        super().resume_writing()
        if self._reading_due is not None:
            self._reading_due.cancel()
            self._reading_due = None
        if self._next_waits:
            self._next_waits = False
            self._go_on()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, unless an answer is on its way already, and close the connection."""
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
        """Wait for the next request, or begin with it if it is there."""
        super().on_response_complete()
        self._watch()

    def _bound_unread(self) -> None:
        """Drop, while too much waits to be read, the oldest answer of the tenant that has the most."""
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
        """Count the time while headers are waited for, from the first moment on."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_watching()
        elif self._headers_due is None:
            self._headers_due = self.loop.call_later(self.headers_s, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _drop_unread(self, cycle: object) -> None:
        """Drop a client that neither read its answer nor sent another request."""
        if self.cycle is cycle and self.transport.get_write_buffer_size():
            self.transport.abort()


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that is bound, so that a port in use is said before anything is loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen()  # whoever reads the address may connect at once
    except OSError as error:
        free = "; --port 0 takes a free one" if error.errno == errno.EADDRINUSE else ""
        raise InvalidRequest(f"--host {host} --port {port}: {error.strerror or error}{free}") from error
    return listening


def address_of(listening: socket.socket) -> str:
    """Return where a socket is reached from this machine, whatever other addresses it has."""
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
    """Return how uvicorn serves an application by these connections: at least six for each request at once."""
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
