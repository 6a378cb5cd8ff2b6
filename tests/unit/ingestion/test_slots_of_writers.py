"""Slots of writes that all processes share, which are counted until their steps have ended."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedCache
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import QueueFull, QuotaExceeded, TransientStoreError
from braid.ingestion import writer_slots
from braid.ingestion.writer_slots import WRITING_S, writing_for_request, writing_in_bulk
from braid.ports.cache import NoCache, ResilientCache

from tests.contract.shapes import ACME, GLOBEX, Clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

SLOTS = 6
"""Slots of bulk writes, of which one tenant may hold four."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    clock.advance(WRITING_S - 1 - clock.seconds() % WRITING_S)  # a second before a window ends
    monkeypatch.setattr(writer_slots, "time", SimpleNamespace(time=clock.seconds))
    return clock


@pytest.fixture
def cache(tmp_path: Path, clock: Clock) -> Iterator[ResilientCache]:
    with EmbeddedStore(tmp_path / "braid.db") as store:
        yield ResilientCache(EmbeddedCache(store, clock=clock.now))


def slot(cache: ResilientCache, tenant_id: str = ACME) -> AbstractContextManager[None]:
    return writing_in_bulk(cache, SLOTS, tenant_id=tenant_id)


def test_steps_of_one_tenant_are_counted_for_as_long_as_a_step_may_take(cache: ResilientCache, clock: Clock) -> None:
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(slot(cache))
        for _ in range(WRITING_S // 60):
            clock.advance(60)
            with pytest.raises(QueueFull), slot(cache):
                pass
        with slot(cache, GLOBEX), slot(cache, GLOBEX), pytest.raises(QueueFull), slot(cache, GLOBEX):
            pass


def test_writes_of_one_tenants_requests_are_counted_until_they_end(cache: ResilientCache, clock: Clock) -> None:
    with writing_for_request(cache, 1, tenant_id=ACME):
        clock.advance(WRITING_S)
        with pytest.raises(QuotaExceeded), writing_for_request(cache, 1, tenant_id=ACME):
            pass
    with writing_for_request(cache, 1, tenant_id=ACME):
        pass


def test_a_step_that_ends_in_the_next_window_gives_its_slot_back(cache: ResilientCache, clock: Clock) -> None:
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(slot(cache))
        clock.advance(60)
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(slot(cache))


def test_slots_of_processes_that_died_are_free_after_two_windows(cache: ResilientCache, clock: Clock) -> None:
    died = [slot(cache) for _ in range(4)]
    for each in died:
        each.__enter__()
    clock.advance(2 * WRITING_S)
    with slot(cache):
        pass


class Throttled(EmbeddedCache):
    """A cache that refuses some requests."""

    refused = 0
    """How many of the next."""

    def _refuse(self) -> None:
        if self.refused:
            self.refused -= 1
            raise TransientStoreError("throttled")

    def get(self, tenant_id: str, key: str, *, consistent: bool = False) -> bytes | None:
        self._refuse()
        return super().get(tenant_id, key, consistent=consistent)

    def count(self, tenant_id: str, key: str, amount: int, window_s: int, *, ago: int = 0) -> int:
        self._refuse()
        return super().count(tenant_id, key, amount, window_s, ago=ago)


@pytest.mark.parametrize("refused", [1, 2])
def test_slots_are_given_back_though_the_cache_refused_a_request_just_before(
    tmp_path: Path, clock: Clock, refused: int
) -> None:
    with EmbeddedStore(tmp_path / "braid.db") as store:
        throttled = Throttled(store, clock=clock.now)
        for _ in range(SLOTS):
            with slot(cache := ResilientCache(throttled)):
                throttled.refused = refused
                assert cache.get(ACME, "key") is None
            throttled.refused = 0
        with slot(ResilientCache(throttled), GLOBEX):
            pass


@pytest.mark.parametrize("maybe_done", [True, False])
def test_a_slot_whose_count_got_no_answer_is_given_back_if_it_may_have_been_counted(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, maybe_done: bool
) -> None:
    with EmbeddedStore(tmp_path / "braid.db") as store:
        inner = EmbeddedCache(store, clock=clock.now)
        real = inner.count

        def count(tenant_id: str, key: str, amount: int, window_s: int, *, ago: int = 0) -> int:
            total = real(tenant_id, key, amount if maybe_done or amount < 1 else 0, window_s, ago=ago)
            if amount == 1:
                raise TransientStoreError("no answer", maybe_done=maybe_done)
            return total

        with monkeypatch.context() as lost:
            lost.setattr(inner, "count", count)
            for _ in range(SLOTS):
                with pytest.raises(QueueFull), slot(ResilientCache(inner)):
                    pass
        with ExitStack() as held:  # as many as before: none is held by nobody, and none was freed that nobody had
            for tenant in [ACME] * 4 + [GLOBEX] * 2:
                held.enter_context(slot(ResilientCache(inner), tenant))
            with pytest.raises(QueueFull):
                held.enter_context(slot(ResilientCache(inner), GLOBEX))


@pytest.mark.parametrize("place", range(4))
def test_no_step_writes_uncounted_while_the_counting_is_throttled(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """One tenant's waiting steps may be so many that its own counter is throttled."""
    with EmbeddedStore(tmp_path / "braid.db") as store:
        inner = EmbeddedCache(store, clock=clock.now)
        cache, real = ResilientCache(inner), inner.count
        for _ in range(2):  # the second time while the cache rests
            answers = iter([True] * place + [False])

            def count(*given: Any, answers: Iterator[bool] = answers, **named: Any) -> int:
                if next(answers, True):
                    return real(*given, **named)
                raise TransientStoreError("throttled")

            with monkeypatch.context() as throttled:
                throttled.setattr(inner, "count", count)
                with pytest.raises(QueueFull), slot(cache):
                    pass
        with ExitStack() as held:  # none is held by nobody
            for tenant in [ACME] * 4 + [GLOBEX] * 2:
                held.enter_context(slot(cache, tenant))


def test_without_a_cache_steps_are_not_counted() -> None:
    with slot(ResilientCache(NoCache())):
        pass
