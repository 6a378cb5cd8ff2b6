"""A server on this machine that answers as Voyage documents, or fails as a test says."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from tests.loopback import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

KEY = "pa-0123456789abcdef"


@dataclass(frozen=True)
class Reply:
    """A status, a body and headers instead of scores."""

    status: int = 200
    body: bytes = b'{"detail": "no"}'
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Stall:
    """Read the request and never answer, until the server ends."""


@dataclass(frozen=True)
class Drip:
    """Begin a good answer and send a byte of it now and then, until the server ends."""


@dataclass(frozen=True)
class HangUp:
    """End the connection instead of answering."""


@dataclass
class VoyageServer:
    """``faults`` befall the next requests, one each, in order; after them, every request is answered.

    Attributes
    ----------
    score
        What a document scores.
    requests, keys
        The JSON body, and the ``Authorization`` header, of each request.
    """

    score: Callable[[str], float] = lambda _: 0.5
    faults: deque[Reply | Stall | Drip | HangUp] = field(default_factory=deque)
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)
    ended: threading.Event = field(default_factory=threading.Event)
    hung_up_on: threading.Event = field(default_factory=threading.Event)
    """Set once a client left while an answer dripped."""
    url: str = ""


def answered(scores: Sequence[tuple[int, Any]]) -> bytes:
    """Return the documented body, from (index, score)."""
    data = [{"relevance_score": score, "index": index} for index, score in scores]
    return json.dumps({"object": "list", "data": data, "model": "rerank-2.5", "usage": {"total_tokens": 26}}).encode()


class _Handler(BaseHTTPRequestHandler):
    voyage: VoyageServer
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.voyage.connections.add(self.client_address)
        self.voyage.requests.append(json.loads(body))
        self.voyage.keys.append(self.headers["Authorization"])
        fault = self.voyage.faults.popleft() if self.voyage.faults else None
        match fault:
            case Stall():
                self.voyage.ended.wait(30)
                self.close_connection = True
            case HangUp():
                self.close_connection = True
            case Drip():
                self._drip()
            case Reply():
                self._send(fault.status, fault.body, fault.headers)
            case None:
                scores = [
                    (place, self.voyage.score(text)) for place, text in enumerate(self.voyage.requests[-1]["documents"])
                ]
                # The service lists the most relevant first.
                self._send(200, answered(sorted(scores, key=lambda one: -one[1])))

    def _send(self, status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        with contextlib.suppress(OSError):  # a client need not read all of it
            self.wfile.write(body)

    def _drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        self.close_connection = True
        while not self.voyage.ended.wait(0.02):
            try:
                self.wfile.write(b" ")
            except OSError:
                self.voyage.hung_up_on.set()
                return

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def voyage_server() -> Iterator[VoyageServer]:
    """Run a server for the time of a context."""
    server = VoyageServer()
    with listening(type("Handler", (_Handler,), {"voyage": server})) as address:
        server.url = f"{address}/v1/rerank"
        try:
            yield server
        finally:
            server.ended.set()
