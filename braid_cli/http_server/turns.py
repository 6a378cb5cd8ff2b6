"""Turns of requests to be begun: few at a time, in the order of their arrival, each tenant's in turn."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SLOW_S: Final = 0.2
"""Seconds after which a request counts as slow, and the next one begins beside it."""


class Turns:
    """Lets few requests begin at a time: more would share the same processors, and each end later.

    A slow request, such as a long text that is embedded, gives its turn away after :data:`SLOW_S` and goes on, so that
    nobody waits for its end. Only for the event loop's thread.

    Parameters
    ----------
    at_once
        Requests that are begun and not yet slow.
    """

    def __init__(self, at_once: int, *, slow_s: float = SLOW_S) -> None:
        self._free = at_once
        self._slow_s = slow_s
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Of each tenant those that wait; the tenant whose turn is next comes first."""

    @asynccontextmanager
    async def turn(self, tenant_id: str) -> AsyncIterator[None]:
        """Wait for a tenant's turn, and have it while the block runs, or until the request is slow."""
        await self._begin(tenant_id)
        has_turn = True

        def give_away() -> None:
            nonlocal has_turn
            if has_turn:
                has_turn = False
                self._free += 1
                self._go_on()

        slow = asyncio.get_running_loop().call_later(self._slow_s, give_away)
        try:
            yield
        finally:
            slow.cancel()
            give_away()

    async def _begin(self, tenant_id: str) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came in the same moment
                self._free += 1
                self._go_on()
            raise

    def _go_on(self) -> None:
        """Give free turns to requests that wait."""
        while self._free > 0 and self._waiting:
            tenant_id = next(iter(self._waiting))
            waiting = self._waiting.pop(tenant_id)
            turn = waiting.popleft()
            if waiting:
                self._waiting[tenant_id] = waiting  # at the end
            if not turn.done():
                self._free -= 1
                turn.set_result(None)
