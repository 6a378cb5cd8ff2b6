"""A proxy before OpenSearch that throttles, stalls, and refuses single items of a bulk request."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Status:
    """Answer with an error instead of asking the server."""

    code: int


@dataclass(frozen=True)
class Stall:
    """Never answer, until the proxy ends."""


@dataclass(frozen=True)
class RefuseItems:
    """Keep some items of a bulk request from the server and say that they were refused."""

    positions: frozenset[int]
    code: int
    type: str


@dataclass(frozen=True)
class HalfAnswer:
    """Pass a search on, and say that a shard did not answer."""


@dataclass(frozen=True)
class Drip:
    """Answer so slowly that the answer never ends, and each wait for a part of it soon does."""


@dataclass(frozen=True)
class Answer:
    """Answer with this body instead of asking the server."""

    body: bytes


Fault = Status | Stall | RefuseItems | HalfAnswer | Drip | Answer


@dataclass
class HttpProxy:
    """``faults`` befall the next requests whose path holds ``only``, one each, in order."""

    target: str
    only: str = "/"
    faults: deque[Fault] = field(default_factory=deque)
    paths: list[str] = field(default_factory=list)
    bulk_items: list[int] = field(default_factory=list)
    """Number of items of each bulk request that arrived."""

    def __post_init__(self) -> None:
        self.ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextlib.contextmanager
    def running(self) -> Iterator[HttpProxy]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.ended.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def count(self, part: str) -> int:
        return sum(part in path for path in self.paths)

    def forward(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Ask the server."""
        address = urlsplit(self.target)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | Drip | None:
        """Return status and body, None to close the connection without any, or that it is to drip."""
        self.paths.append(path)
        operations = _operations(body) if "/_bulk" in path else []
        if operations:
            self.bulk_items.append(len(operations))
        fault = self.faults.popleft() if self.faults and self.only in path else None
        if isinstance(fault, Stall):
            self.ended.wait(30)
            return None
        if isinstance(fault, Drip):
            return fault
        if isinstance(fault, Answer):
            return 200, fault.body
        if isinstance(fault, Status):
            error = {"type": "injected", "reason": "by the test"}
            return fault.code, json.dumps({"error": error, "status": fault.code}).encode()
        if isinstance(fault, RefuseItems):
            return self._refuse_items(fault, operations, method, path, headers)
        status, answer = self.forward(method, path, headers, body)
        if isinstance(fault, HalfAnswer):
            parsed = json.loads(answer)
            parsed["responses"][0]["_shards"] = {"total": 2, "successful": 1, "failed": 1}
            answer = json.dumps(parsed).encode()
        return status, answer

    def _refuse_items(
        self, fault: RefuseItems, operations: list[bytes], method: str, path: str, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        parsed: dict[str, Any]
        kept = b"".join(operation for place, operation in enumerate(operations) if place not in fault.positions)
        status, parsed = 200, {"took": 0, "items": []}
        if kept:
            status, answer = self.forward(method, path, headers, kept)
            parsed = json.loads(answer)
        for place in sorted(fault.positions):
            error = {"type": fault.type, "reason": "by the test"}
            parsed["items"].insert(place, {"index": {"status": fault.code, "error": error}})
        parsed["errors"] = True
        return status, json.dumps(parsed).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # headers and body are two writes: without this the second waits 40 ms

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                pass

            def serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                headers = {"content-type": self.headers.get("content-type", "application/json")}
                answer = proxy.answer(self.command, self.path, headers, body)
                if answer is None:
                    self.close_connection = True
                    return
                if isinstance(answer, Drip):
                    self.drip()
                    return
                self.send_response(answer[0])
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(answer[1])))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer[1])

            def drip(self) -> None:
                self.send_response(200)
                self.send_header("content-length", "1000000")
                self.end_headers()
                with contextlib.suppress(OSError):  # whoever asked has gone
                    while not proxy.ended.wait(0.05):
                        self.wfile.write(b" ")
                self.close_connection = True

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = serve  # noqa: N815 - the base class's names

        return Handler


def _operations(body: bytes) -> list[bytes]:
    """Split a bulk request into its items; a delete is one line, anything else two."""
    lines = body.splitlines(keepends=True)
    found: list[bytes] = []
    place = 0
    while place < len(lines):
        size = 1 if b'"delete"' in lines[place] else 2
        found.append(b"".join(lines[place : place + size]))
        place += size
    return found
