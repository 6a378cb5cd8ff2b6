"""Worker processes of ``braid serve``: starts them, sends them requests (``worker_protocol``), restarts failed ones.

They are like containers of the Lambda function: each opens the stores itself, and shared state, such as quotas,
idempotency keys, answers and write generations, is in the stores' cache. All writes, imports included, go to one of
them: an embedded store has one writer at a time, and each process limits and orders only its own writes of a tenant.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import secrets
import socket
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from braid.api.problems import unavailable
from braid.errors import StoreError

from braid_cli.http_server.request_scheduler import SLOW_S
from braid_cli.http_server.worker_protocol import LENGTH, PING, PONG, READY, Start, framed, read_frame, with_body

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LOG = logging.getLogger(__name__)
READING: Final = frozenset({"GET", "HEAD"})
QUESTIONS: Final = frozenset(
    {"/search", "/search/semantic", "/context", "/graph/query", "/entities:read", "/records:read"}
)
"""Paths of requests that have a body but only read. All other requests with a body count as writes."""
SLOW_WEIGHT: Final = 4
"""Additional load of a slow request, in requests, for choosing the worker of a question: it may take seconds more."""
RESTART_S: Final = 1.0
"""Seconds until a worker is restarted, doubled each time that it ends before it is ready."""
MAX_RESTART_S: Final = 30.0
CHARGED_S: Final = 1.0
"""Processor seconds charged for a question that may have killed its worker: about the cost of starting another one."""
ENDS_IN_S: Final = 12.0
"""Time limit of a worker's shutdown, in seconds."""
PING_S: Final = 3.0
"""Interval of pings, in seconds."""
UNHEARD: Final = 5
"""Consecutive intervals without a frame from a worker after which it is killed: it is stopped, or native code hangs."""


def is_question(event: Mapping[str, Any]) -> bool:
    """Return whether a request only reads, by its method and path."""
    http = event["requestContext"]["http"]
    return http["method"] in READING or http["path"] in QUESTIONS


class Workers:
    """Pool of worker processes. After :meth:`start` it is only for the event loop's thread.

    Parameters
    ----------
    count
        Number of processes. They are launched by the constructor, and import modules meanwhile.
    at_once
        Limit of concurrent requests in all of them together.
    """

    def __init__(self, count: int, *, at_once: int) -> None:
        self._at_once = at_once
        self._workers = [_Worker() for _ in range(count)]
        self._writing = self._workers[0]
        """The worker that receives all writes; when it ends, another one takes over."""
        self._watching: list[asyncio.Task[None]] = []

    def start(self, tenants: Iterable[str]) -> None:
        """Let each worker open the stores and answer a warm-up question of each tenant; wait until all are ready.

        Raises StoreError if one ends before it is ready; it has printed the reason to standard error.
        """
        start = Start(tenants=list(tenants), at_once=self._at_once, cursor_key=secrets.token_hex(32))
        for worker in self._workers:
            worker.begin(start)
        for worker in self._workers:
            worker.wait()

    def watch(self) -> None:
        """Start tasks in the event loop that read the workers' frames, and restart those that end or hang."""
        both = ((worker.watch(), worker.ping()) for worker in self._workers)
        self._watching = [asyncio.create_task(each) for each in itertools.chain.from_iterable(both)]

    def close(self) -> None:
        """End the workers, after their started requests."""
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            worker.join()

    @property
    def processes(self) -> tuple[int, ...]:
        """Process ids of the workers that are ready."""
        return tuple(worker.process.pid for worker in self._workers if worker.ready)

    @property
    def count(self) -> int:
        """Number of workers."""
        return len(self._workers)

    async def answer(self, event: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """Send a request to a worker: a write to the writing one, a question to the one with the least load.

        Returns the response and its processor seconds. If the worker ends meanwhile, the response is 503: the request
        may or may not have been done, and can be repeated.

        Raises Problem 503 if no worker is ready.
        """
        ready = [worker for worker in self._workers if worker.ready]
        if not ready:
            raise unavailable("the server starts again")
        if not self._writing.ready:
            self._writing = ready[0]
        least = min(ready, key=lambda one: (one.load, one is self._writing))
        worker = least if is_question(event) else self._writing
        return await worker.answer(event)


class _Worker:
    """One worker process, which is replaced by a new one when it ends."""

    def __init__(self) -> None:
        self.ready = False
        self._start: Start | None = None
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[tuple[dict[str, Any], float]]] = {}
        self._slow: set[int] = set()
        """Numbers of its slow requests."""
        self._sent: asyncio.StreamWriter | None = None
        """Stream to the worker. It buffers requests without limit, as there are only so many places for requests."""
        self._heard = 0
        """Number of frames received from it."""
        self.process, self._socket = _process()

    @property
    def load(self) -> int:
        """Number of unanswered requests; slow ones count several times."""
        return len(self._answers) + SLOW_WEIGHT * len(self._slow)

    def begin(self, start: Start) -> None:
        """Send the process its parameters."""
        self._start = start
        with suppress(ConnectionError):  # :meth:`wait` and :meth:`watch` notice that it has ended
            self._socket.sendall(framed(start))

    def wait(self) -> None:
        """Wait until it is ready. Raises StoreError if it ends before."""
        with self._socket.makefile("rb") as frames:
            self.ready = read_frame(frames) == READY
        if not self.ready:
            raise StoreError("a worker process ended while it started; its output is above")
        self._socket.setblocking(False)

    async def watch(self) -> None:
        """Read its frames; restart it when it ends."""
        wait_s = RESTART_S
        while True:
            frames, self._sent = await asyncio.open_connection(sock=self._socket)
            try:
                # A malformed frame ends the worker too, as the start of the next frame is unknown.
                with suppress(OSError, EOFError, ValueError, TypeError):
                    while True:
                        if await self._heard_of(frames):
                            self.ready, wait_s = True, RESTART_S
            finally:
                self._sent.transport.abort()
            self._end()
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, MAX_RESTART_S)
            self.process, self._socket = _process()
            if self._start is not None:
                self.begin(self._start)
            self._socket.setblocking(False)

    async def _heard_of(self, frames: asyncio.StreamReader) -> bool:
        """Read its next frame and deliver a response in it; return whether it is :data:`READY`."""
        received = json.loads(await _content(frames))
        self._heard += 1
        if received in (READY, PONG):
            return bool(received == READY)
        number, answer, seconds = received
        answer = with_body(answer, await _content(frames))
        waiting = self._answers.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result((answer, float(seconds)))
        return False

    async def ping(self) -> None:
        """Ping the process, and kill it if it sends nothing any more; :meth:`watch` then restarts it."""
        unheard = 0
        while True:
            heard, can_hear = self._heard, self.ready and self._sent is not None
            if self._sent is not None and can_hear and not unheard:
                self._sent.write(framed(PING))
            # Intervals are counted, not timed: after the server itself was stopped, frames have arrived meanwhile.
            await asyncio.sleep(PING_S)
            # Only intervals in which a ping could be sent count.
            unheard = unheard + 1 if can_hear and self.ready and self._heard == heard else 0
            if unheard == UNHEARD:
                _LOG.warning("worker process %d says nothing", self.process.pid)
                self.process.kill()

    async def answer(self, event: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """Send an event; return the response and its processor seconds, or a 503 response if the process ends before.

        Raises Problem 503 if the process is not connected yet.
        """
        if self._sent is None:
            raise unavailable("the server starts again")
        number = next(self._numbers)
        loop = asyncio.get_running_loop()
        waiting = self._answers[number] = loop.create_future()
        slow = loop.call_later(SLOW_S, self._slow.add, number)
        try:
            self._sent.write(framed([number, event]))
            answered: tuple[dict[str, Any], float] = await waiting
            return answered
        finally:
            slow.cancel()
            self._slow.discard(number)
            del self._answers[number]

    def _end(self) -> None:
        """Kill the process if it still runs, and answer its requests with 503."""
        self.ready = False
        self.process.kill()
        _LOG.warning("worker process %d ended (%d), and is started again", self.process.pid, self.process.wait())
        # Which request killed it is unknown: a slow one if there is any, else any. Their tenants then count as heavy.
        may_have = self._slow or self._answers.keys()
        answer = unavailable("the process that worked on this has ended").response()
        for number, waiting in self._answers.items():
            if not waiting.done():
                waiting.set_result((answer, CHARGED_S if number in may_have else 0.0))

    def close(self) -> None:
        """Signal the process to end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def join(self) -> None:
        """Wait for the process to end; kill it after :data:`ENDS_IN_S`."""
        try:
            self.process.wait(ENDS_IN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._socket.close()


async def _content(frames: asyncio.StreamReader) -> bytes:
    """Return the content of the next frame."""
    (size,) = LENGTH.unpack(await frames.readexactly(LENGTH.size))
    return await frames.readexactly(size)


def _process() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Launch a worker process; return it and the socket to it."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            # Not with modules of the working folder (-P), which may be anybody's.
            [sys.executable, "-P", "-m", "braid_cli.http_server.worker_process"],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,  # a reader of the server's output waits until all writers have closed it
            start_new_session=True,  # the terminal's signals go to the server only
        )
    return process, ours
