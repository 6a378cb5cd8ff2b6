"""A cache that is lost is a miss, except where that would let an old answer through."""

from __future__ import annotations

import logging

import pytest
from braid.errors import InvalidRequest, StoreError, StoreTooSlow, TransientStoreError
from braid.ports.cache import Cache, NoCache, ResilientCache


class Seconds:
    """A clock that stands still until it is told to go on."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


class Memory:
    """A cache that can be told to fail."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], bytes] = {}
        self.generations: dict[str, int] = {}
        self.error: Exception | None = None
        self.asked = 0

    def _ask(self) -> None:
        self.asked += 1
        if self.error:
            raise self.error

    def get(self, tenant_id: str, key: str) -> bytes | None:
        self._ask()
        return self.kept.get((tenant_id, key))

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        self._ask()
        assert ttl_s
        self.kept[tenant_id, key] = value

    def generation(self, tenant_id: str) -> int:
        self._ask()
        return self.generations.get(tenant_id, 0)

    def advance(self, tenant_id: str) -> int:
        self._ask()
        self.generations[tenant_id] = self.generations.get(tenant_id, 0) + 1
        return self.generations[tenant_id]


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def cache(memory: Memory, clock: Seconds) -> ResilientCache:
    return ResilientCache(memory, rest_s=5, clock=clock)


def test_a_cache_that_works_is_passed_through(cache: ResilientCache) -> None:
    assert cache.get("acme", "a") is None
    cache.put("acme", "a", b"1", 60)
    assert cache.get("acme", "a") == b"1"
    assert cache.advance("acme") == cache.generation("acme") == 1


@pytest.mark.parametrize("error", [TransientStoreError("throttled"), StoreError("no such table")])
def test_a_lost_cache_is_a_miss(cache: ResilientCache, memory: Memory, error: StoreError) -> None:
    cache.put("acme", "a", b"1", 60)
    memory.error = error
    assert cache.get("acme", "a") is None


def test_what_a_lost_cache_should_keep_is_lost(cache: ResilientCache, memory: Memory, clock: Seconds) -> None:
    memory.error = TransientStoreError("throttled")
    cache.put("acme", "a", b"1", 60)
    memory.error = None
    clock.now += 5
    assert cache.get("acme", "a") is None


def test_a_generation_that_is_not_known_is_no_number(cache: ResilientCache, memory: Memory) -> None:
    memory.error = TransientStoreError("throttled")
    assert cache.generation("acme") is None


def test_a_write_that_could_not_outdate_old_answers_is_told(cache: ResilientCache, memory: Memory) -> None:
    memory.error = TransientStoreError("throttled")
    with pytest.raises(TransientStoreError, match="throttled"):
        cache.advance("acme")


def test_a_lost_cache_rests_and_then_comes_back(cache: ResilientCache, memory: Memory, clock: Seconds) -> None:
    cache.put("acme", "a", b"1", 60)
    memory.error = TransientStoreError("throttled")
    asked = memory.asked
    for _ in range(10):
        assert cache.get("acme", "a") is None
        assert cache.generation("acme") is None
    assert memory.asked == asked + 1
    memory.error = None
    clock.now += 4.9
    assert cache.get("acme", "a") is None
    clock.now += 0.1
    assert cache.get("acme", "a") == b"1"


def test_a_request_whose_time_is_over_takes_the_cache_from_nobody_else(cache: ResilientCache, memory: Memory) -> None:
    cache.put("acme", "a", b"1", 60)
    memory.error = StoreTooSlow("the time limit of the request has passed")
    assert cache.get("slow", "a") is None
    memory.error = None
    assert cache.get("acme", "a") == b"1"


def test_a_write_does_not_wait_for_the_cache_to_have_rested(cache: ResilientCache, memory: Memory) -> None:
    memory.error = TransientStoreError("throttled")
    cache.get("acme", "a")
    memory.error = None
    assert cache.advance("acme") == 1


def test_a_lost_cache_is_logged_without_what_was_asked(
    cache: ResilientCache, memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    memory.error = TransientStoreError("table values: ThrottlingException")
    with caplog.at_level(logging.WARNING):
        cache.get("acme", "secret")
        cache.get("acme", "secret")
    assert [record.message for record in caplog.records] == [
        "no cache for 5 s: TransientStoreError: table values: ThrottlingException"
    ]


@pytest.mark.parametrize("error", [InvalidRequest("key: is empty", field="key"), RuntimeError("a mistake")])
def test_a_mistake_is_no_miss(cache: ResilientCache, memory: Memory, error: Exception) -> None:
    memory.error = error
    with pytest.raises(type(error)):
        cache.get("acme", "a")


def test_no_cache_keeps_nothing_and_fails_nothing() -> None:
    cache = NoCache()
    assert isinstance(cache, Cache)
    cache.put("acme", "a", b"1", 60)
    assert cache.get("acme", "a") is None
    assert cache.generation("acme") == cache.advance("acme") == 0


@pytest.mark.parametrize("begins_at", [1, 2])
def test_a_slot_is_given_back_in_the_window_in_which_it_was_counted(clock: Seconds, begins_at: int) -> None:
    counted: dict[float, int] = {}
    calls = 0

    class Windows(Memory):
        def count(self, tenant_id: str, key: str, amount: int, window_s: int, *, ago: int = 0) -> int:  # noqa: ARG002
            nonlocal calls
            calls += 1
            window = clock.now // window_s - ago
            if calls == begins_at:
                clock.now = 180.0  # the next window begins while the answer is on its way
            counted[window] = counted.get(window, 0) + amount
            return counted[window]

    clock.now = 179.9
    cache = ResilientCache(Windows())
    with cache.slot("acme", "writes", limit=1, window_s=60, clock=clock, spans_windows=True) as free:  # type: ignore[arg-type]
        assert free
    assert set(counted.values()) == {0}
