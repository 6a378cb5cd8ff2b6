"""A proxy before a Gremlin endpoint that does what networks and servers do: late, lost, refused, closed."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import aiohttp
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Iterator

_REQUEST_ID = slice(34, 50)
"""Where a request's id lies: behind the length of the serialiser's name, the name and a version byte."""
_STATUS = slice(18, 22)
_PARTIAL = 206


@dataclass(frozen=True)
class Refusal:
    """Answer a request with an error instead of asking the server."""

    code: int
    message: str

    def frame(self, request_id: bytes) -> bytes:
        text = self.message.encode()
        status = struct.pack(">i", self.code) + b"\0" + struct.pack(">i", len(text)) + text + struct.pack(">i", 0)
        return b"\x81\0" + request_id + status + struct.pack(">i", 0) + b"\xfe\x01"


@dataclass(frozen=True)
class Damaged:
    """Answer a request with something that is no reply to it; ``{id}`` of bytes is replaced by the request's id."""

    frame: bytes | str

    def frame_for(self, request_id: bytes) -> bytes | str:
        return self.frame if isinstance(self.frame, str) else self.frame.replace(b"{id}", request_id)


Fault = Literal["late", "hang", "close", "abort", "lose the reply"] | Refusal | Damaged


@dataclass
class GremlinProxy:
    """``faults`` befall the next requests, ``statuses`` the next handshakes; both one each, in order."""

    target: str
    port: int = 0
    faults: deque[Fault] = field(default_factory=deque)
    statuses: deque[int] = field(default_factory=deque)
    handshakes: list[dict[str, str]] = field(default_factory=list)
    requests: int = 0

    def __post_init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None
        self._open: dict[int, web.Request] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._release = asyncio.Event()
        self._late: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/gremlin"

    @contextlib.contextmanager
    def running(self) -> Iterator[GremlinProxy]:
        self._thread.start()
        self.listen()
        try:
            yield self
        finally:
            self.stop_listening()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def listen(self) -> None:
        self._wait(self._listen())

    def stop_listening(self) -> None:
        """Close the port and every connection: the next handshake is refused."""
        self._wait(self._stop())

    def close_idle(self) -> None:
        """Close every connection that is open, as a server does with idle ones."""
        self._wait(self._abort_all())

    def release(self) -> None:
        """Send the late replies now."""
        self._wait(self._send_late())

    def _wait(self, work: object) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)  # type: ignore[arg-type]

    async def _listen(self) -> None:
        application = web.Application()
        application.router.add_get("/gremlin", self._serve)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def _stop(self) -> None:
        await self._abort_all()
        for task in self._late:
            task.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _abort_all(self) -> None:
        for request in list(self._open.values()):
            if request.transport is not None:
                request.transport.abort()
        await self._idle.wait()

    async def _send_late(self) -> None:
        self._release.set()
        await asyncio.gather(*self._late, return_exceptions=True)
        self._release.clear()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.handshakes.append(dict(request.headers))
        if self.statuses:
            return web.Response(status=self.statuses.popleft(), text="no")
        client = web.WebSocketResponse()
        await client.prepare(request)
        self._open[id(request)] = request
        self._idle.clear()
        try:
            async with aiohttp.ClientSession() as session, session.ws_connect(self.target) as server:
                async for message in client:
                    if not await self._pass_on(request, client, server, message.data):
                        break
        finally:
            del self._open[id(request)]
            if not self._open:
                self._idle.set()
        return client

    async def _pass_on(
        self, request: web.Request, client: web.WebSocketResponse, server: aiohttp.ClientWebSocketResponse, data: bytes
    ) -> bool:
        """Handle one request and return whether the connection goes on."""
        self.requests += 1
        fault = self.faults.popleft() if self.faults else None
        if isinstance(fault, Refusal):
            await client.send_bytes(fault.frame(data[_REQUEST_ID]))
            return True
        if isinstance(fault, Damaged):
            frame = fault.frame_for(data[_REQUEST_ID])
            await (client.send_str(frame) if isinstance(frame, str) else client.send_bytes(frame))
            return True
        if fault == "hang":
            return True
        if fault == "close":
            await client.close()
            return False
        if fault == "abort":
            request.transport.abort()  # type: ignore[union-attr]
            return False
        await server.send_bytes(data)
        replies = [await server.receive_bytes()]
        while struct.unpack(">i", replies[-1][_STATUS])[0] == _PARTIAL:
            replies.append(await server.receive_bytes())
        if fault == "lose the reply":
            request.transport.abort()  # type: ignore[union-attr]
            return False
        if fault == "late":
            self._late.add(asyncio.create_task(self._reply_late(client, replies)))
            return True
        for reply in replies:
            await client.send_bytes(reply)
        return True

    async def _reply_late(self, client: web.WebSocketResponse, replies: list[bytes]) -> None:
        await self._release.wait()
        for reply in replies:
            await client.send_bytes(reply)
