"""Shares of tenants with heavy questions: everything while they ask alone, else their part, after the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from braid_cli.http_server.fair_shares import (
    ACTIVE_S,
    HEAVY_FOR_S,
    HEAVY_S,
    HEAVY_TOGETHER_S,
    ProcessorTime,
    Shares,
)
from braid_cli.http_server.request_scheduler import Turns
from braid_cli.http_server.server import Server
from braid_cli.http_server.workers import is_question
from tests.served import KEY, token

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from braid_cli.http_server.fair_shares import Spent

NEVER_S = 60.0
HEAVY, QUICK = 10 * HEAVY_S, HEAVY_S / 10


class Door:
    """Requests that are begun and ended by hand, under a clock that stands still; a letter is a tenant."""

    def __init__(self, workers: int, at_once: int = 16) -> None:
        self.now = 0.0
        self.shares = Shares(workers, lambda: self.now)
        self.turns = Turns(at_once, slow_s=NEVER_S, shares=self.shares)
        self.running: list[tuple[str, asyncio.Event]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.seconds = dict.fromkeys("abc", QUICK) | dict.fromkeys("hij", HEAVY)

    async def ask(self, tenants: str, *, is_question: bool = True) -> None:
        for tenant in tenants:
            turn = self.turns.turn(tenant, is_question=is_question)
            self.tasks.append(asyncio.create_task(self._request(tenant, turn)))
        await self._settle()

    async def _request(self, tenant: str, turn: AbstractAsyncContextManager[Spent]) -> None:
        async with turn as spent:
            ends = asyncio.Event()
            self.running.append((tenant, ends))
            await ends.wait()
            spent.seconds = self.seconds[tenant]

    async def end(self, tenant: str) -> None:
        """End the tenant's question that was begun first."""
        at = next(at for at, (name, _) in enumerate(self.running) if name == tenant)
        self.running.pop(at)[1].set()
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    @property
    def begun(self) -> str:
        return "".join(tenant for tenant, _ in self.running)

    async def known_as_heavy(self, tenants: str) -> None:
        for tenant in tenants:
            await self.ask(tenant)
            await self.end(tenant)
        self.now += ACTIVE_S  # none of them is active any more

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.mark.parametrize("method", ["GET", "get", "Get"])
def test_a_question_counts_as_one_however_its_method_is_spelt(method: str) -> None:
    events: list[dict[str, Any]] = []

    def answer(event: dict[str, Any], _context: object) -> dict[str, Any]:
        events.append(event)
        return {"statusCode": 200, "headers": {}, "body": ""}

    server = Server(answer, key=KEY)
    scope = {"type": "http", "method": method, "path": "/records", "query_string": b"", "state": {}}
    scope["headers"] = [(b"authorization", f"Bearer {token('acme')}".encode())]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(_message: object) -> None:
        pass

    asyncio.run(server(scope, receive, send))
    server.close()
    (event,) = events
    assert is_question(event)


def test_a_tenant_that_asks_alone_has_everything() -> None:
    async def run() -> None:
        door = Door(workers=2)
        await door.known_as_heavy("h")
        await door.ask("h" * 12)
        assert door.begun == "h" * 12
        await door.close()

    asyncio.run(run())


@pytest.mark.parametrize(("workers", "share"), [(1, 1), (2, 1), (4, 2), (8, 4)])
def test_beside_another_tenant_a_heavy_one_has_its_equal_share_of_the_workers(workers: int, share: int) -> None:
    async def run() -> None:
        door = Door(workers)
        await door.known_as_heavy("h")
        await door.ask("a")
        await door.ask("h" * 12)
        assert door.begun == "a" + "h" * share
        for _ in range(6):
            await door.end("h")
            assert door.begun == "a" + "h" * share
        await door.ask("aaaa")
        assert door.begun == "a" + "h" * share + "aaaa"
        await door.close()

    asyncio.run(run())


def test_one_worker_is_kept_from_all_heavy_tenants_together_while_another_asks() -> None:
    async def run() -> None:
        door = Door(workers=3)
        await door.known_as_heavy("hij")
        await door.ask("a")
        await door.ask("hhiijj")
        assert door.begun == "ahi"
        await door.end("a")
        door.now += ACTIVE_S
        await door.end("h")
        assert sorted(door.begun) == ["h", "i", "j"], "no other asks any more, and each has its share"
        await door.close()

    asyncio.run(run())


def test_of_heavy_tenants_the_one_that_used_least_is_next() -> None:
    async def run() -> None:
        door = Door(workers=2)
        door.seconds["i"] = HEAVY / 5
        await door.known_as_heavy("hi")
        await door.ask("a")
        await door.ask("hhhhh" + "iiiii")
        order = ""
        for _ in range(5):
            tenant = door.begun[-1]
            order += tenant
            await door.end(tenant)
        assert order == "hiiii"
        await door.close()

    asyncio.run(run())


def test_a_heavy_tenants_writes_do_not_wait_for_its_questions_nor_these_for_them() -> None:
    async def run() -> None:
        door = Door(workers=2)
        await door.known_as_heavy("h")
        await door.ask("a")
        await door.ask("hh", is_question=False)
        await door.ask("hh")
        await door.ask("h", is_question=False)
        assert door.begun == "ahhhh"
        await door.close()

    asyncio.run(run())


def test_a_tenant_is_heavy_for_a_minute_and_no_longer() -> None:
    async def run() -> None:
        door = Door(workers=2)
        await door.known_as_heavy("h")
        door.seconds["h"] = QUICK
        door.now += HEAVY_FOR_S - ACTIVE_S
        await door.ask("a")
        await door.ask("hhhh")
        assert door.begun == "ahhhh"
        await door.close()

    asyncio.run(run())


def test_who_waits_for_long_is_not_forgotten_and_whoever_stops_waiting_leaves_nothing() -> None:
    async def run() -> None:
        door = Door(workers=2)
        await door.known_as_heavy("h")
        await door.ask("a")
        await door.ask("hhh")
        door.tasks[-1].cancel()
        door.now += HEAVY_FOR_S + ACTIVE_S
        await door.ask("b")
        await door.end("h")
        assert door.begun == "abh"
        for tenant in "abh":
            await door.end(tenant)
        door.now += HEAVY_FOR_S + ACTIVE_S
        await door.ask("c")
        assert list(door.shares._tenants) == ["c"]
        await door.close()

    asyncio.run(run())


def test_a_tenant_with_very_many_light_questions_does_not_pass_one_that_asked_a_heavy_one() -> None:
    async def run() -> None:
        door = Door(workers=2, at_once=1)
        await door.known_as_heavy("h")
        door.seconds["a"] = HEAVY_S
        await door.ask("a" + "h" + "a" * 11)
        for _ in range(int(HEAVY_TOGETHER_S / HEAVY_S) + 1):
            if door.begun == "h":
                break
            await door.end("a")
            await door.ask("a")
        assert door.begun == "h"
        await door.close()

    asyncio.run(run())


def test_a_tenant_with_very_many_writes_takes_turns_with_one_that_asked_a_heavy_question() -> None:
    async def run() -> None:
        door = Door(workers=2, at_once=1)
        await door.known_as_heavy("h")
        await door.ask("aaa", is_question=False)
        await door.ask("hh")
        order = ""
        for _ in range(5):
            order += door.begun
            await door.end(door.begun)
            await door.ask("a", is_question=False)
        assert order == "aahah"
        await door.ask("bh")
        order = ""
        for _ in range(4):
            order += door.begun
            await door.end(door.begun)
        assert order == "aabh", "its questions are still last among questions"
        await door.close()

    asyncio.run(run())


def test_a_heavy_tenant_keeps_few_places_from_others() -> None:
    async def run() -> None:
        door = Door(workers=2)
        await door.known_as_heavy("hi")
        assert door.shares.places("h", 16) == 16
        await door.ask("a")
        assert (door.shares.places("h", 16), door.shares.places("a", 16)) == (4, 16)
        await door.ask("i")
        assert door.shares.places("h", 16) == 2
        await door.close()

    asyncio.run(run())


def test_a_heavy_question_that_has_waited_long_lets_no_later_ones_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        door = Door(workers=2, at_once=1)
        await door.known_as_heavy("h")
        await door.ask("aha")
        monkeypatch.setattr("braid_cli.http_server.request_scheduler.PATIENT_S", -1.0)
        await door.end("a")
        assert door.begun == "h"
        await door.close()

    asyncio.run(run())


def test_a_request_that_waits_is_charged_with_no_other_ones_thread() -> None:
    now, own = [0.0], [0.0, 0.0]
    clocks = iter([lambda: own[0], lambda: own[1]])
    processor = ProcessorTime(lambda: now[0], lambda: next(clocks))
    with processor.measured() as waits:
        now[0] = 1.0  # of threads that work for it
        with processor.measured() as works:
            now[0], own[1] = 3.0, 2.0
        now[0], own[0] = 4.0, 1.0
    assert (waits.seconds, works.seconds) == (2.0, 2.0)


def test_what_other_threads_took_is_divided_among_what_runs() -> None:
    times = iter([10.0, 11.0, 13.0, 14.0])
    processor = ProcessorTime(lambda: next(times), lambda: lambda: 0.0)
    with processor.measured() as first, processor.measured() as second:
        pass
    assert (first.seconds, second.seconds) == (1.0 + 1.0 + 1.0, 1.0)
