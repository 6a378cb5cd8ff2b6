"""One connection to a Gremlin endpoint that survives what connections do.

The client library's own pool hands a socket back after a read time-out, so that the late reply answers the next
query; it waits for ever after a refused handshake; it has no default time-out; and it never reopens a closed socket.
Here there is one socket, every wait on it is bounded, a reply must carry its request's id, and *any* exception throws
the socket away. What is worth trying again is tried on a new one, signed anew.
"""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import aiohttp
from gremlin_python.driver.request import RequestMessage
from gremlin_python.driver.serializer import GraphBinarySerializersV1
from gremlin_python.process.graph_traversal import GraphTraversalSource
from gremlin_python.process.traversal import TraversalStrategies, Traverser
from gremlin_python.structure.graph import Graph

from braid.engines.retrying import Deadline, retrying, too_slow_after
from braid.errors import StoreError, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from gremlin_python.process.graph_traversal import GraphTraversal

_FAREWELL_S = 0.05
"""How long a closing socket waits for the other side's farewell, which a dead one never sends."""
_MAX_REPLY_BYTES = 64 * 1024 * 1024
_SUCCESS, _NO_CONTENT, _PARTIAL = 200, 204, 206
_SERVER_TIMEOUT = 598
# Names that Neptune and TinkerPop give to what passes by itself.
_TRANSIENT_MARKS = (
    "ConcurrentModificationException",
    "ThrottlingException",
    "TooManyRequestsException",
    "TimeLimitExceededException",
    "MemoryLimitExceededException",
    "QueryLimitExceededException",
    "ReadOnlyViolationException",
    "server overloaded",
    # Two writers made one element at the same moment: the second try finds it.
    "with id already exists",
)
_FORBIDDEN = 403
_TOO_MANY = 429
_FIRST_SERVER_ERROR = 500


class GremlinConnection:
    """Runs traversals as bytecode over one WebSocket, from any thread, one at a time.

    Parameters
    ----------
    url
        ``ws://`` or ``wss://`` address of the endpoint, with its path.
    connect_timeout_s, read_timeout_s
        Bounds on the handshake, and on the whole of one attempt's reply.
    evaluation_timeout_ms
        After which the server gives a traversal up; below the read time-out, so that the server ends first.
    attempts
        Tries of one traversal, the first included.
    budget_s
        Bound on all tries together; None for ``attempts`` times connect and read time-outs.
    headers
        Makes the handshake's headers from its URL, called for each connection, so that a signature and its credentials
        are never older than the connection.
    """

    def __init__(
        self,
        url: str,
        *,
        connect_timeout_s: float = 2.0,
        read_timeout_s: float = 8.0,
        evaluation_timeout_ms: int = 6_000,
        attempts: int = 3,
        budget_s: float | None = None,
        headers: Callable[[str], Mapping[str, str]] | None = None,
    ) -> None:
        self.url = url
        self._connect_timeout_s = connect_timeout_s
        self._read_timeout_s = read_timeout_s
        self._evaluation_timeout_ms = evaluation_timeout_ms
        self._attempts = attempts
        self._budget_s = budget_s or attempts * (connect_timeout_s + read_timeout_s)
        self._headers = headers
        self._serializer = GraphBinarySerializersV1()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_pid = 0
        self._session: aiohttp.ClientSession | None = None
        self._socket: aiohttp.ClientWebSocketResponse | None = None

    def submit(
        self, build: Callable[[GraphTraversalSource], GraphTraversal], *, within_s: float | None = None
    ) -> list[Any]:
        """Run one traversal and return all its results.

        Parameters
        ----------
        build
            Makes the traversal from a source. Only its bytecode is sent: no text that a value could break out of.
        within_s
            Bound on all tries together for somebody who waits, if that is less than the budget.

        Raises
        ------
        StoreTooSlow
            If ``within_s`` is over.
        TransientStoreError
            If the endpoint is unreachable, too slow, throttled or in conflict, also after the last try.
        StoreError
            If the endpoint refused the traversal; it is not tried again.
        """
        bytecode = build(GraphTraversalSource(Graph(), TraversalStrategies())).bytecode
        budget_s = min(self._budget_s, within_s or self._budget_s)
        until = Deadline.after(budget_s)
        policy = retrying(self._attempts, until=until, pause_s=0.05, longest_pause_s=1.0)
        message = f"the knowledge graph did not answer within {budget_s:.1f} s"
        with nullcontext() if within_s is None else too_slow_after(until, message):
            return policy(self._attempt, bytecode, until)

    def close(self) -> None:
        """Close the socket and end the thread that reads it; the next traversal opens a new one."""
        with self._lock:
            self._discard()
            loop, self._loop = self._loop, None
            if loop is not None and self._loop_pid == os.getpid():
                loop.call_soon_threadsafe(loop.stop)

    def _attempt(self, bytecode: object, until: Deadline) -> list[Any]:
        if not self._lock.acquire(timeout=until.left()):
            message = "the knowledge graph was busy until it was too late to ask it"
            raise TransientStoreError(message)
        try:
            remaining = max(0.001, until.left())
            try:
                return self._await(self._exchange(bytecode, remaining), remaining)
            except BaseException:
                self._discard()
                raise
        finally:
            self._lock.release()

    async def _exchange(self, bytecode: object, remaining_s: float) -> list[Any]:
        try:
            async with asyncio.timeout(min(self._connect_timeout_s, remaining_s)):
                socket = self._socket or await self._connect()
            async with asyncio.timeout(min(self._read_timeout_s, remaining_s)):
                return await self._ask(socket, bytecode)
        except TimeoutError as error:
            message = "the knowledge graph did not answer in time"
            raise TransientStoreError(message) from error
        except aiohttp.WSServerHandshakeError as error:
            # The message of this exception holds the signed headers: only its status is passed on.
            message = f"the knowledge graph refused the connection with status {error.status}"
            if error.status in (_FORBIDDEN, _TOO_MANY) or error.status >= _FIRST_SERVER_ERROR:
                # 403 too: credentials rotate, and the next handshake is signed with the new ones.
                raise TransientStoreError(message) from None
            raise StoreError(message) from None
        except (aiohttp.ClientError, OSError) as error:
            message = f"the knowledge graph is unreachable: {type(error).__name__}"
            raise TransientStoreError(message) from error

    async def _connect(self) -> aiohttp.ClientWebSocketResponse:
        headers = dict(self._headers(self.url)) if self._headers else None
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        self._socket = await self._session.ws_connect(
            self.url,
            headers=headers,
            max_msg_size=_MAX_REPLY_BYTES,
            timeout=aiohttp.ClientWSTimeout(ws_close=_FAREWELL_S),
        )
        return self._socket

    async def _ask(self, socket: aiohttp.ClientWebSocketResponse, bytecode: object) -> list[Any]:
        request_id = str(uuid.uuid4())
        arguments = {"gremlin": bytecode, "aliases": {"g": "g"}, "evaluationTimeout": self._evaluation_timeout_ms}
        message = RequestMessage("traversal", "bytecode", arguments)
        await socket.send_bytes(self._serializer.serialize_message(request_id, message))
        results: list[Any] = []
        while True:
            frame = await socket.receive()
            if frame.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                closed = f"the knowledge graph closed the connection ({frame.type.name.lower()})"
                raise TransientStoreError(closed)
            reply = self._serializer.deserialize_message(frame.data)
            if str(reply["requestId"]) != request_id:
                stray = "the knowledge graph answered another request"
                raise TransientStoreError(stray)
            status = reply["status"]
            if status["code"] == _NO_CONTENT:
                return results
            if status["code"] not in (_SUCCESS, _PARTIAL):
                raise _refusal(status["code"], str(status["message"]))
            for item in reply["result"]["data"]:
                results.extend(_unrolled(item))
            if status["code"] == _SUCCESS:
                return results

    def _await(self, work: Coroutine[Any, Any, list[Any]], remaining_s: float) -> list[Any]:
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            # The coroutine bounds itself; this bound is for a loop that does not run.
            return future.result(timeout=remaining_s + 1.0)
        except TimeoutError as error:
            future.cancel()
            message = "the knowledge graph did not answer in time"
            raise TransientStoreError(message) from error

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return a loop in a thread of its own: callers may be inside a loop of theirs."""
        if self._loop is None or self._loop_pid != os.getpid():
            # A forked child has neither the parent's thread nor a right to its socket.
            self._socket = self._session = None
            loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(loop,), name="gremlin", daemon=True).start()
            self._loop, self._loop_pid = loop, os.getpid()
        return self._loop

    def _discard(self) -> None:
        session, socket = self._session, self._socket
        self._session = self._socket = None
        loop = self._loop
        if session is None or loop is None or self._loop_pid != os.getpid():
            return
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(_hang_up(session, socket), loop).result(timeout=1.0)


async def _hang_up(session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse | None) -> None:
    try:
        if socket is not None:
            await asyncio.wait_for(socket.close(), 2 * _FAREWELL_S)
    finally:
        await session.close()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _unrolled(item: object) -> list[Any]:
    """Unroll what the server sends in bulk: a traverser and how many of it there are."""
    return [item.object] * int(item.bulk) if isinstance(item, Traverser) else [item]


def _refusal(code: int, message: str) -> StoreError:
    first_line = message.strip().splitlines()[0][:300] if message.strip() else ""
    text = f"the knowledge graph answered {code}: {first_line}"
    if code == _SERVER_TIMEOUT or any(mark in message for mark in _TRANSIENT_MARKS):
        return TransientStoreError(text)
    return StoreError(text)
