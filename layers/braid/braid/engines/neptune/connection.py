"""Connection to a Gremlin endpoint over one WebSocket, with time limits, retries and reconnection.

The client library's pool reuses a socket after a read timeout, so that the late reply answers the next query; it waits
forever after a refused handshake, has no default timeout, and never reopens a closed socket. Here waits are bounded, a
reply must carry its request's id, and *any* exception discards the socket. Retries use a new one, signed anew.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import uuid
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
from gremlin_python.driver.request import RequestMessage
from gremlin_python.process.graph_traversal import GraphTraversalSource
from gremlin_python.process.traversal import TraversalStrategies, Traverser
from gremlin_python.structure.graph import Graph

from braid import deadline
from braid.engines.neptune.graphbinary_strings import graphbinary_serializer
from braid.engines.retries_and_deadlines import CallDeadline, retrying, too_slow_after
from braid.errors import StoreError, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from gremlin_python.process.graph_traversal import GraphTraversal

_CLOSE_TIMEOUT_S = 0.05
"""Seconds that a closing socket waits for the close frame of the server, which a dead one never sends."""
_MAX_REPLY_BYTES = 64 * 1024 * 1024
_SUCCESS, _NO_CONTENT, _PARTIAL = 200, 204, 206
_TRANSIENT_CODES = frozenset({429, 596, 598})
"""Too many requests, and TinkerPop's codes of a temporary error and of a timeout of the server."""
# Names of transient errors of Neptune and TinkerPop.
_TRANSIENT_NAMES = (
    "CancelledByMaintenanceException",
    "ConcurrentModificationException",
    # An edge's endpoint was changed by another write at the same time.
    "ConstraintViolationException",
    "InternalFailureException",
    "ServerShutdownException",
    "ThrottlingException",
    "TooManyRequestsException",
    "TimeLimitExceededException",
    "MemoryLimitExceededException",
    "QueryLimitExceededException",
    "ReadOnlyViolationException",
    "server overloaded",
    # Two writers created the same element at once: the second attempt finds it.
    "with id already exists",
)
_FORBIDDEN = 403
_TOO_MANY = 429
_FIRST_SERVER_ERROR = 500


class _Reply(NamedTuple):
    """One frame of a reply."""

    request_id: str
    code: int
    message: str
    results: list[Any]


class GremlinConnection:
    """Runs traversals as bytecode over one WebSocket, from any thread, one at a time.

    Parameters
    ----------
    url
        ``ws://`` or ``wss://`` address of the endpoint, with its path.
    connect_timeout_s, read_timeout_s
        Limits on the handshake, and on the complete reply of one attempt.
    evaluation_timeout_ms
        Evaluation timeout of the server; below the read timeout, so that the server ends first. A question with less
        time left sends that instead, so that the server does not continue after the question has ended.
    attempts
        Most attempts at one traversal, the first included.
    budget_s
        Limit on all attempts together; None for ``attempts`` times the connect and read timeouts.
    headers
        Returns the handshake's headers for its URL. Called for each connection, so that each has a fresh signature.
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
        self._serializer = graphbinary_serializer()
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
            Builds the traversal from a source. Only its bytecode is sent, which is safe from injection.
        within_s
            Limit on all attempts together of a question's traversal, if less than the budget. The request's deadline
            limits them in any case.

        Raises
        ------
        StoreTooSlow
            After ``within_s`` seconds, or if the request's deadline has passed.
        TransientStoreError
            If the endpoint is unreachable, too slow, throttled or in conflict after the last attempt.
        StoreError
            If the endpoint refused the traversal, which is not retried.
        """
        deadline.check()  # so that a write of very many traversals ends in time too
        bytecode = build(GraphTraversalSource(Graph(), TraversalStrategies())).bytecode
        longest_s = min(within_s or math.inf, deadline.left())
        budget_s = min(self._budget_s, longest_s)
        until = CallDeadline.after(budget_s)
        policy = retrying(self._attempts, until=until, pause_s=0.05, longest_pause_s=1.0)
        message = f"the knowledge graph did not answer within {budget_s:.1f} s"
        is_limited = within_s is not None or longest_s < self._budget_s
        with too_slow_after(until, message) if is_limited else nullcontext():
            return policy(self._attempt, bytecode, until)

    def close(self) -> None:
        """Close the socket and end its event-loop thread; the next traversal opens a new one."""
        with self._lock:
            self._discard()
            loop, self._loop = self._loop, None
            if loop is not None and self._loop_pid == os.getpid():
                loop.call_soon_threadsafe(loop.stop)

    def _attempt(self, bytecode: object, until: CallDeadline) -> list[Any]:
        if not self._lock.acquire(timeout=until.left()):
            raise TransientStoreError("the knowledge graph was busy until the deadline")
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
                return await self._ask(socket, bytecode, remaining_s)
        except TimeoutError as error:
            raise TransientStoreError("the knowledge graph did not answer in time") from error
        except aiohttp.WSServerHandshakeError as error:
            # The exception's message contains the signed headers: only its status is used.
            message = f"the knowledge graph refused the connection with status {error.status}"
            if error.status in (_FORBIDDEN, _TOO_MANY) or error.status >= _FIRST_SERVER_ERROR:
                # 403 is transient, too: credentials rotate, and the next handshake is signed with the new ones.
                raise TransientStoreError(message) from None
            raise StoreError(message) from None
        except (aiohttp.ClientError, OSError) as error:
            raise TransientStoreError(f"the knowledge graph is unreachable: {type(error).__name__}") from error

    async def _connect(self) -> aiohttp.ClientWebSocketResponse:
        headers = dict(self._headers(self.url)) if self._headers else None
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None))
        self._socket = await self._session.ws_connect(
            self.url,
            headers=headers,
            max_msg_size=_MAX_REPLY_BYTES,
            timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_TIMEOUT_S),
        )
        return self._socket

    async def _ask(self, socket: aiohttp.ClientWebSocketResponse, bytecode: object, remaining_s: float) -> list[Any]:
        within_ms = min(self._evaluation_timeout_ms, math.ceil(1_000 * remaining_s))
        request_id = str(uuid.uuid4())
        arguments = {"gremlin": bytecode, "aliases": {"g": "g"}, "evaluationTimeout": within_ms}
        message = RequestMessage("traversal", "bytecode", arguments)
        await socket.send_bytes(self._serializer.serialize_message(request_id, message))
        results: list[Any] = []
        while True:
            frame = await socket.receive()
            if frame.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
                raise TransientStoreError(f"the knowledge graph closed the connection ({frame.type.name.lower()})")
            reply = self._read(frame.data)
            if reply.request_id != request_id:
                raise TransientStoreError("the knowledge graph answered another request")
            if reply.code == _NO_CONTENT:
                return results
            if reply.code not in (_SUCCESS, _PARTIAL):
                raise _error_of_code(reply.code, reply.message)
            results.extend(reply.results)
            if reply.code == _SUCCESS:
                return results

    def _read(self, data: bytes | str) -> _Reply:
        """Parse one frame of a reply. Raises TransientStoreError if it is none, or is damaged."""
        try:
            reply = self._serializer.deserialize_message(data)
            code, message = int(reply["status"]["code"]), str(reply["status"]["message"])
            items = reply["result"]["data"] if code in (_SUCCESS, _PARTIAL) else ()
            return _Reply(str(reply["requestId"]), code, message, [each for one in items for each in _unrolled(one)])
        except Exception as error:
            message = f"the knowledge graph answered with something that cannot be read: {type(error).__name__}"
            raise TransientStoreError(message) from error

    def _await(self, work: Coroutine[Any, Any, list[Any]], remaining_s: float) -> list[Any]:
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            # The coroutine has its own timeouts; this one covers a loop that has stopped running.
            return future.result(timeout=remaining_s + 1.0)
        except TimeoutError as error:
            future.cancel()
            raise TransientStoreError("the knowledge graph did not answer in time") from error

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        """Return an event loop in its own thread, since callers may run in an event loop."""
        if self._loop is None or self._loop_pid != os.getpid():
            # A forked child lacks the parent's thread and must not use its socket.
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
            asyncio.run_coroutine_threadsafe(_close(session, socket), loop).result(timeout=1.0)


def iam_headers() -> Callable[[str], Mapping[str, str]]:
    """Return a function that signs a handshake for Neptune with the current credentials.

    Raises ConfigurationError if AWS credentials or the region are missing.
    """
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    from braid.engines.aws.clients import signing_credentials

    credentials, region = signing_credentials("connections to Neptune")

    def headers(url: str) -> Mapping[str, str]:
        request = AWSRequest(method="GET", url=url.replace("wss://", "https://", 1))
        SigV4Auth(credentials.get_frozen_credentials(), "neptune-db", region).add_auth(request)
        return dict(request.headers.items())

    return headers


async def _close(session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse | None) -> None:
    try:
        if socket is not None:
            await asyncio.wait_for(socket.close(), 2 * _CLOSE_TIMEOUT_S)
    finally:
        await session.close()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _unrolled(item: object) -> list[Any]:
    """Return the results of one item: a traverser is repeated ``bulk`` times."""
    return [item.object] * int(item.bulk) if isinstance(item, Traverser) else [item]


def _error_of_code(code: int, message: str) -> StoreError:
    first_line = message.strip().splitlines()[0][:300] if message.strip() else ""
    text = f"the knowledge graph answered {code}: {first_line}"
    if code in _TRANSIENT_CODES or any(mark in message for mark in _TRANSIENT_NAMES):
        return TransientStoreError(text)
    return StoreError(text)
