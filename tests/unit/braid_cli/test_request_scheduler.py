"""Turns of requests: few at a time, each tenant's in turn, and slow ones hold up nobody."""

from __future__ import annotations

import asyncio

from braid_cli.http_server.request_scheduler import Turns

NEVER_S = 60.0


def begun(order: str, *, at_once: int = 1, slow_s: float = NEVER_S, slow: str = "") -> str:
    """Return in which order requests begin that arrive in this one; a letter is a tenant, slow ones' never end."""

    async def run() -> str:
        turns, began = Turns(at_once, slow_s=slow_s), list[str]()
        all_began = asyncio.Event()

        async def request(tenant: str) -> None:
            async with turns.turn(tenant):
                began.append(tenant)
                if len(began) == len(order):
                    all_began.set()
                await (all_began.wait() if tenant in slow else asyncio.sleep(0))

        tasks = [asyncio.create_task(request(tenant)) for tenant in order]
        await asyncio.wait_for(all_began.wait(), 20)
        await asyncio.gather(*tasks)
        return "".join(began)

    return asyncio.run(run())


def test_one_tenants_requests_begin_as_they_came() -> None:
    assert begun("aaaa") == "aaaa"


def test_a_tenant_that_asks_much_waits_for_the_others_turns() -> None:
    assert begun("aaaaabc") == "aabcaaa"


def test_slow_requests_give_their_turns_away_and_go_on() -> None:
    assert begun("aaaab", slow_s=0.01, slow="a")[0:3] == "aab"


def test_as_many_have_a_turn_as_may_and_no_more() -> None:
    async def run() -> tuple[int, int]:
        turns, running, most = Turns(2, slow_s=NEVER_S), 0, 0

        async def request(tenant: str) -> None:
            nonlocal running, most
            async with turns.turn(tenant):
                running += 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1

        await asyncio.gather(*(request(tenant) for tenant in "abcabcaaa"))
        return most, running

    assert asyncio.run(run()) == (2, 0)


def test_whoever_stops_waiting_takes_no_turn() -> None:
    async def run() -> None:
        turns, ends = Turns(1, slow_s=NEVER_S), asyncio.Event()

        async def request() -> None:
            async with turns.turn("a"):
                await ends.wait()

        first, second, third = [asyncio.create_task(request()) for _ in range(3)]
        await asyncio.sleep(0)
        second.cancel()
        ends.set()
        await asyncio.wait_for(asyncio.gather(first, third), 20)
        assert second.cancelled()
        async with asyncio.timeout(20), turns.turn("b"):
            pass

    asyncio.run(run())
