"""Order in which requests begin: few at a time, each tenant's in turn, and those of heavy tenants after the others.

What is bounded are requests that are begun and not yet slow. A slow one goes on and no longer counts; those that wait
are bounded in ``server``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from braid_cli.http_server.heavy_tenants import Shares, Spent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SLOW_S: Final = 0.2
"""Seconds after which a request counts as slow, and the next one begins beside it."""
PATIENT_S: Final = 5.0
"""Seconds after which a question of a heavy tenant waits no longer for questions that came later."""


class _Queue(NamedTuple):
    """Name of a queue of waiting requests."""

    tenant_id: str
    is_question: bool


class Turns:
    """Lets few requests begin at a time: more would share the same processors, and each end later.

    A slow request, such as a long text that is embedded, gives its turn away after :data:`SLOW_S` and goes on, so that
    nobody waits for its end. A question of a heavy tenant may have to wait for those before it while others ask, as of
    :class:`~braid_cli.http_server.heavy_tenants.Shares`. Only for the event loop's thread.

    Parameters
    ----------
    at_once
        Most requests that are begun and not yet slow; slow ones run beside them and are not counted.
    shares
        What heavy tenants may begin; by default as with one worker process.
    """

    def __init__(self, at_once: int, *, slow_s: float = SLOW_S, shares: Shares | None = None) -> None:
        self._free = at_once  # turns: given back when a request has ended or is slow
        self._slow_s = slow_s
        self._shares = shares or Shares(1)
        self._waiting: dict[_Queue, deque[tuple[asyncio.Future[None], float]]] = {}
        """Those that wait, and since when; the queue whose turn is next comes first, of heavy tenants last."""

    @asynccontextmanager
    async def turn(self, tenant_id: str, *, is_question: bool = True) -> AsyncIterator[Spent]:
        """Wait for a tenant's turn, and have it while the block runs, or until the request is slow.

        Yields where the block has to note the processor seconds of the request. Only questions count for what a tenant
        may begin: they do not wait for its long writes.
        """
        queue, spent = _Queue(tenant_id, is_question), Spent()
        has_turn = False

        def give_away() -> None:
            nonlocal has_turn
            if has_turn:
                has_turn = False
                self._free += 1
                self._go_on()

        self._shares.asked(tenant_id)
        try:
            await self._begin(queue)
            has_turn = True
            slow = asyncio.get_running_loop().call_later(self._slow_s, give_away)
            try:
                yield spent
            finally:
                slow.cancel()
                self._ended(queue, spent.seconds)
                give_away()
                self._go_on()  # others may have waited for this question's end, not for its turn
        finally:
            self._shares.left(tenant_id)

    async def _begin(self, queue: _Queue) -> None:
        if self._free > 0 and self._may_begin(queue):
            self._began(queue)
            return
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.setdefault(queue, deque()).append((turn, loop.time()))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came in the same moment
                self._free += 1
                self._ended(queue, 0.0)
                self._go_on()
            raise

    def _may_begin(self, queue: _Queue) -> bool:
        return not queue.is_question or self._shares.may_begin(queue.tenant_id)

    def _began(self, queue: _Queue) -> None:
        self._free -= 1
        if queue.is_question:
            self._shares.began(queue.tenant_id)

    def _ended(self, queue: _Queue, seconds: float) -> None:
        if queue.is_question:
            self._shares.ended(queue.tenant_id, seconds)

    def _order(self, queue: _Queue) -> float:
        """Return a number that is least for the queue whose turn is next."""
        _, since = self._waiting[queue][0]
        if not queue.is_question or asyncio.get_running_loop().time() - since > PATIENT_S:
            return float("-inf")
        return self._shares.order(queue.tenant_id)

    def _go_on(self) -> None:
        """Give free turns to requests that wait and may begin."""
        while self._free > 0:
            may = [queue for queue in self._waiting if self._may_begin(queue)]
            if not may:
                return
            queue = min(may, key=self._order)
            waiting = self._waiting.pop(queue)
            turn, _ = waiting.popleft()
            if waiting:
                self._waiting[queue] = waiting  # at the end
            if not turn.done():
                self._began(queue)
                turn.set_result(None)
