"""Worker processes of ``braid serve``: started, given requests, and started again where one ends or says nothing.

They are to the server what containers of the function are to API Gateway: each opens the stores for itself, and what
has to be known of all requests lies in the stores' cache, such as quotas, idempotency keys, answers and write
generations. All that writes, imports among it, goes to one of them: a store on this machine has one writer at a time,
and what bounds and orders the writes of a tenant before its turn, a process knows of its own alone.
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

from braid_cli.http_server.frames import LENGTH, PING, PONG, READY, Start, framed, read_frame
from braid_cli.http_server.turns import SLOW_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LOG = logging.getLogger(__name__)
READING: Final = frozenset({"GET", "HEAD"})
QUESTIONS: Final = frozenset(
    {"/search", "/search/semantic", "/context", "/graph/query", "/entities:read", "/records:read"}
)
"""Paths of requests with a body that write nothing. Whatever is not known to be one of them counts as a write."""
SLOW_WEIGHT: Final = 4
"""Further requests that a slow one counts for where a question's process is chosen: it may well take seconds more."""
RESTART_S: Final = 1.0
"""Seconds until a worker is started again, doubled each time that it ends before it is ready."""
MAX_RESTART_S: Final = 30.0
CHARGED_S: Final = 1.0
"""Processor seconds that a question is charged with which may have ended its process: another one takes as long to
start."""
ENDS_IN_S: Final = 12.0
"""Longest that a worker may take to end."""
PING_S: Final = 3.0
"""Seconds between two questions whether a worker still lives."""
UNHEARD: Final = 5
"""After as many times without a word from it a worker is ended: it is stopped, or native code holds all of it."""


def is_question(event: Mapping[str, Any]) -> bool:
    """Whether a request only reads, by its method and path."""
    http = event["requestContext"]["http"]
    return http["method"] in READING or http["path"] in QUESTIONS


class Workers:
    """The worker processes, as the event loop's thread uses them once they are started.

    Parameters
    ----------
    count
        Processes. They are started at once, and import what they need meanwhile.
    at_once
        Requests that all of them may be given at once.
    """

    def __init__(self, count: int, *, at_once: int) -> None:
        self._at_once = at_once
        self._workers = [_Worker() for _ in range(count)]
        self._writing = self._workers[0]
        """The one that writes; another one once it has ended."""
        self._watching: list[asyncio.Task[None]] = []

    def start(self, tenants: Iterable[str]) -> None:
        """Have each open the stores and ask one question of each tenant; wait until all can answer.

        Raises StoreError if one ends before it can; it has said why on standard error.
        """
        start = Start(tenants=list(tenants), at_once=self._at_once, cursor_key=secrets.token_hex(32))
        for worker in self._workers:
            worker.begin(start)
        for worker in self._workers:
            worker.wait()

    def watch(self) -> None:
        """Read their answers from now on, and start those again that end or say nothing; in the event loop."""
        both = ((worker.watch(), worker.ping()) for worker in self._workers)
        self._watching = [asyncio.create_task(each) for each in itertools.chain.from_iterable(both)]

    def close(self) -> None:
        """End them, after what they have begun."""
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            worker.join()

    @property
    def processes(self) -> tuple[int, ...]:
        """The ids of those that can answer."""
        return tuple(worker.process.pid for worker in self._workers if worker.ready)

    @property
    def count(self) -> int:
        """How many processes there are."""
        return len(self._workers)

    async def answer(self, event: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """Return the answer of the process that writes, or to a question of the one that has the least to do.

        With the processor seconds that it took. If that process ends meanwhile, the answer is 503: whatever it was
        asked may then be done or not, and can be asked again.

        Raises Problem 503 if none can answer.
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
    """One worker process, and the next one in its place when it ends."""

    def __init__(self) -> None:
        self.ready = False
        self._start: Start | None = None
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[tuple[dict[str, Any], float]]] = {}
        self._slow: set[int] = set()
        """Numbers of the requests that it has for longer than a quick one takes."""
        self._sent: asyncio.StreamWriter | None = None
        """What it is sent, which waits in memory where it reads slowly: no more than there are places for requests."""
        self._heard = 0
        """Frames that it sent."""
        self.process, self._socket = _process()

    @property
    def load(self) -> int:
        """Requests that it has not answered yet; slow ones count several times."""
        return len(self._answers) + SLOW_WEIGHT * len(self._slow)

    def begin(self, start: Start) -> None:
        """Tell the process how to start."""
        self._start = start
        with suppress(ConnectionError):  # seen when its answer is waited for
            self._socket.sendall(framed(start))

    def wait(self) -> None:
        """Wait until it can answer. Raises StoreError if it ends before."""
        with self._socket.makefile("rb") as frames:
            self.ready = read_frame(frames) == READY
        if not self.ready:
            raise StoreError("a process that answers ended before it could; what it said stands above")
        self._socket.setblocking(False)

    async def watch(self) -> None:
        """Read its answers; start it again when it ends."""
        wait_s = RESTART_S
        while True:
            frames, self._sent = await asyncio.open_connection(sock=self._socket)
            try:
                # What is no frame ends it as well: where the next one begins, nobody knows.
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
        """Hand on what its next frame answers; return whether it says that it is ready."""
        (size,) = LENGTH.unpack(await frames.readexactly(LENGTH.size))
        received = json.loads(await frames.readexactly(size))
        self._heard += 1
        if received in (READY, PONG):
            return bool(received == READY)
        number, answer, seconds = received
        waiting = self._answers.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result((answer, float(seconds)))
        return False

    async def ping(self) -> None:
        """End the process where it answers nothing any more; :meth:`watch` sees that, and starts the next one."""
        unheard = 0
        while True:
            heard, can_hear = self._heard, self.ready and self._sent is not None
            if self._sent is not None and can_hear and not unheard:
                self._sent.write(framed(PING))
            # Counted, not timed: where the server itself was stopped, the answers are there when it goes on.
            await asyncio.sleep(PING_S)
            # Not before it was asked: at first nothing can be sent to it yet.
            unheard = unheard + 1 if can_hear and self.ready and self._heard == heard else 0
            if unheard == UNHEARD:
                _LOG.warning("worker process %d says nothing", self.process.pid)
                self.process.kill()

    async def answer(self, event: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """Return the answer to an event, and its processor seconds; 503 if the process ends before it.

        Raises Problem 503 if nothing can be sent to it yet.
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
        """End what is left of the process, and whatever waits for its answers."""
        self.ready = False
        self.process.kill()
        _LOG.warning("worker process %d ended (%d), and is started again", self.process.pid, self.process.wait())
        # Nobody knows which request ended it: rather a slow one, else any. Whoever asked that counts as heavy.
        may_have = self._slow or self._answers.keys()
        answer = unavailable("the process that worked on this has ended").response()
        for number, waiting in self._answers.items():
            if not waiting.done():
                waiting.set_result((answer, CHARGED_S if number in may_have else 0.0))

    def close(self) -> None:
        """Let the process end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def join(self) -> None:
        """Wait until the process has ended."""
        try:
            self.process.wait(ENDS_IN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._socket.close()


def _process() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a worker process; return it, and the socket to it."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "braid_cli.http_server.worker_process"],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,  # whoever reads the server's address waits for the end of its output
            start_new_session=True,  # signals of the terminal are the server's to heed
        )
    return process, ours
