"""A hosted reranker's call ends with its time, is tried again only where that may help, and holds up no other."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from braid.engines.rerankers.hosted_calls import CallBudget, TryAgain
from braid.errors import RerankFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.engines.retries_and_deadlines import CallDeadline


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Return what stalled calls wait for; set when the test ends."""
    event = threading.Event()
    yield event
    event.set()


def test_what_the_call_returns_is_returned() -> None:
    assert CallBudget("it", attempts=1).run(lambda deadline: 0 < deadline.left() <= 5, timeout_s=5)


def test_a_call_that_does_not_end_is_given_up_when_its_time_is_over(released: threading.Event) -> None:
    started = time.monotonic()
    with pytest.raises(RerankFailed, match=r"reranker it: needs more than its 0.1 s") as late:
        CallBudget("it", attempts=3).run(lambda _: released.wait(20), timeout_s=0.1, cost_usd=0.002)
    assert 0.1 <= time.monotonic() - started < 1.0
    assert late.value.cost_usd == 0.002


def test_a_call_that_waits_holds_up_no_other(released: threading.Event) -> None:
    budget = CallBudget("it", attempts=1)
    waiting = threading.Event()

    def stall(_: CallDeadline) -> None:
        waiting.set()
        released.wait(20)

    def ask() -> None:
        with pytest.raises(RerankFailed):
            budget.run(stall, timeout_s=0.5)

    asking = threading.Thread(target=ask)
    asking.start()
    assert waiting.wait(5)
    assert budget.run(lambda _: "answer", timeout_s=5) == "answer"
    asking.join()


def test_calls_that_nobody_waits_for_are_bounded_in_number(released: threading.Event) -> None:
    budget = CallBudget("it", attempts=1, concurrency=2)
    ended = threading.Semaphore(0)

    def stall(_: CallDeadline) -> None:
        released.wait(20)
        ended.release()

    for _ in range(2):
        with pytest.raises(RerankFailed, match="needs more than"):
            budget.run(stall, timeout_s=0.01)
    with pytest.raises(RerankFailed, match="too many calls are under way") as refused:
        budget.run(lambda _: "answer", timeout_s=0.01, cost_usd=1.0)
    assert refused.value.cost_usd == 0
    released.set()
    assert ended.acquire(timeout=5)
    assert budget.run(lambda _: "answer", timeout_s=5) == "answer"


def test_what_may_help_is_tried_again_as_often_as_set() -> None:
    tried: list[float] = []

    def throttled(deadline: CallDeadline) -> str:
        tried.append(deadline.left())
        raise TryAgain("HTTP 429")

    with pytest.raises(RerankFailed, match="reranker it: HTTP 429") as refused:
        CallBudget("it", attempts=3).run(throttled, timeout_s=10)
    assert len(tried) == 3
    assert tried == sorted(tried, reverse=True)
    assert refused.value.cost_usd == 0

    def second_time(_: CallDeadline) -> str:
        tried.append(0)
        if len(tried) < 5:
            raise TryAgain("HTTP 500")
        return "answer"

    assert CallBudget("it", attempts=2).run(second_time, timeout_s=10) == "answer"


def test_a_refusal_is_not_tried_again() -> None:
    tried: list[CallDeadline] = []

    def refused(deadline: CallDeadline) -> None:
        tried.append(deadline)
        raise RerankFailed("HTTP 403")

    with pytest.raises(RerankFailed, match="HTTP 403"):
        CallBudget("it", attempts=3).run(refused, timeout_s=10)
    assert len(tried) == 1


def test_a_pause_that_is_longer_than_the_time_left_is_not_waited_for() -> None:
    def throttled(_: CallDeadline) -> None:
        raise TryAgain("HTTP 429", after_s=60)

    started = time.monotonic()
    with pytest.raises(RerankFailed, match="HTTP 429"):
        CallBudget("it", attempts=3).run(throttled, timeout_s=30)
    assert time.monotonic() - started < 5


def test_a_try_that_used_up_the_time_says_so() -> None:
    def late(deadline: CallDeadline) -> None:
        while deadline.left():
            threading.Event().wait(deadline.left())
        raise TryAgain("ReadTimeoutError")

    with pytest.raises(RerankFailed, match=r"needs more than its 0\.05 s") as failed:
        CallBudget("it", attempts=3).run(late, timeout_s=0.05, cost_usd=0.5)
    assert failed.value.cost_usd == 0.5


def test_an_unexpected_error_is_named_by_its_kind_and_not_by_what_it_quotes() -> None:
    def broken(_: CallDeadline) -> None:
        raise ValueError("Invalid header value b'Bearer pa-0123'")

    with pytest.raises(RerankFailed) as failed:
        CallBudget("it", attempts=3).run(broken, timeout_s=5)
    assert str(failed.value) == "reranker it: ValueError"
