"""Scheduler of accepted requests: few run at a time, round-robin over tenants, heavy tenants last.

The limit counts requests that are started and not yet slow; a slow one continues without being counted. ``server``
limits the waiting ones.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from braid_cli.http_server.fair_shares import Shares, Spent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

SLOW_S: Final = 0.2
"""Seconds after which a request counts as slow, and another one may start."""
PATIENT_S: Final = 5.0
"""Seconds after which a heavy tenant's waiting question is no longer overtaken by later ones."""


class _Queue(NamedTuple):
    """Key of a queue of waiting requests."""

    tenant_id: str
    is_question: bool


class Turns:
    """Limits the number of running requests: more would share the same processors, and each would take longer.

    A slow request, such as one that embeds a long text, releases its turn after :data:`SLOW_S` and continues, so that
    others need not wait for its end. Questions of heavy tenants are also limited by
    :class:`~braid_cli.http_server.fair_shares.Shares`. Only for the event loop's thread.

    Parameters
    ----------
    at_once
        Limit of requests that are started and not yet slow.
    slow_s
        Seconds after which a request is slow.
    shares
        Limits of heavy tenants; by default those for one worker process.
    """

    def __init__(self, at_once: int, *, slow_s: float = SLOW_S, shares: Shares | None = None) -> None:
        self._free = at_once  # free turns; a request returns its turn when it ends or is slow
        self._slow_s = slow_s
        self._shares = shares or Shares(1)
        self._waiting: dict[_Queue, deque[tuple[asyncio.Future[None], float]]] = {}
        """Waiting requests with the time of their arrival, by queue, in round-robin order of the queues."""

    @asynccontextmanager
    async def turn(self, tenant_id: str, *, is_question: bool = True) -> AsyncIterator[Spent]:
        """Wait for a turn, and hold it while the block runs, or until the request is slow.

        Yields an object in which the block sets the request's processor seconds. Only questions count towards a heavy
        tenant's limit, so that they do not wait for its long writes.
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
                self._go_on()  # requests may have waited for a heavy tenant's question to end, not for a turn
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
            if turn.done() and not turn.cancelled():  # the turn was granted in the same moment
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
        """Return a queue's sort key, lowest first: ``-inf`` unless it is of a heavy tenant's questions."""
        _, since = self._waiting[queue][0]
        if not queue.is_question or asyncio.get_running_loop().time() - since > PATIENT_S:
            return float("-inf")
        return self._shares.order(queue.tenant_id)

    def _next(self, queues: Sequence[_Queue]) -> _Queue:
        """Return the queue whose turn it is: round-robin, but heavy tenants' questions after all other questions.

        If no other questions wait, these take turns with the writes: a tenant with endless writes never counts as
        heavy.
        """
        order = {queue: self._order(queue) for queue in queues}
        first = min(queues, key=order.__getitem__)
        heavy = [queue for queue in queues if math.isfinite(order[queue])]
        if not heavy or any(queue.is_question for queue in queues if queue not in heavy):
            return first
        best = min(heavy, key=order.__getitem__)
        return next(queue for queue in queues if queue == best or not queue.is_question)

    def _go_on(self) -> None:
        """Give free turns to waiting requests that may start."""
        while self._free > 0:
            may = [queue for queue in self._waiting if self._may_begin(queue)]
            if not may:
                return
            queue = self._next(may)
            waiting = self._waiting.pop(queue)
            turn, _ = waiting.popleft()
            if waiting:
                self._waiting[queue] = waiting  # behind the other queues
            if not turn.done():
                self._began(queue)
                turn.set_result(None)
