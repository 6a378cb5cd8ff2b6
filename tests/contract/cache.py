"""What every cache must do."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from braid.errors import InvalidRequest
from braid.ports.cache import MAX_CACHE_VALUE_BYTES, Cache, ResilientCache
from braid.ports.keys import MAX_KEY_BYTES
from braid.retrieval.use_counts import UseCounts

from tests.contract.shapes import ACME, AS_OF, GLOBEX

if TYPE_CHECKING:
    from tests.contract.shapes import Clock

HOUR = 3_600


class CacheContract:
    """Subclass this and provide the fixtures ``clock`` and ``cache``: a cache by that clock, empty for every test."""

    def test_the_port_is_implemented(self, cache: Cache) -> None:
        assert isinstance(cache, Cache)

    def test_what_was_kept_is_found(self, cache: Cache) -> None:
        cache.put(ACME, "embeddings/0f", b"\x00\xffvector", HOUR)
        assert cache.get(ACME, "embeddings/0f") == b"\x00\xffvector"

    def test_uses_of_records_are_added_up_by_several_writers_at_once(self, cache: Cache) -> None:
        def uses() -> UseCounts:
            return UseCounts(lambda: ResilientCache(cache), lambda _tenant, ids: ids, lambda: AS_OF)

        writers = [uses() for _ in range(3)]
        for writer in writers:
            for _ in range(2):
                writer.note(ACME, ["a", "b"])
            writer.note(ACME, ["a"])
            writer.note(GLOBEX, ["secret"])
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(UseCounts.add_gathered, writers))
        assert uses().of(ACME) == {"a": 9.0, "b": 6.0}
        assert uses().of("nobody") == {}

    def test_what_was_never_kept_is_a_miss(self, cache: Cache) -> None:
        cache.put(ACME, "a", b"1", HOUR)
        assert cache.get(ACME, "A") is None

    def test_an_empty_value_is_not_a_miss(self, cache: Cache) -> None:
        cache.put(ACME, "a", b"", HOUR)
        assert cache.get(ACME, "a") == b""

    def test_the_last_value_counts(self, cache: Cache) -> None:
        cache.put(ACME, "a", b"old", HOUR)
        cache.put(ACME, "a", b"new", HOUR)
        assert cache.get(ACME, "a") == b"new"

    def test_two_tenants_share_no_key(self, cache: Cache) -> None:
        cache.put(ACME, "a", b"acme", HOUR)
        assert cache.get(GLOBEX, "a") is None
        cache.put(GLOBEX, "a", b"globex", HOUR)
        assert (cache.get(ACME, "a"), cache.get(GLOBEX, "a")) == (b"acme", b"globex")

    @pytest.mark.parametrize("tenant", ["", "acme|a", "acme#generation", "ácme"])
    def test_a_tenant_whose_name_could_reach_another_is_refused(self, cache: Cache, tenant: str) -> None:
        calls = [
            lambda: cache.get(tenant, "a"),
            lambda: cache.put(tenant, "a", b"", HOUR),
            lambda: cache.exchange(tenant, "a", None, b"", HOUR),
            lambda: cache.count(tenant, "a", 1, HOUR),
            lambda: cache.generation(tenant),
            lambda: cache.advance(tenant),
        ]
        for call in calls:
            with pytest.raises(InvalidRequest) as caught:
                call()
            assert caught.value.field == "tenant_id"

    def test_a_value_is_found_until_its_time_and_never_after(self, cache: Cache, clock: Clock) -> None:
        cache.put(ACME, "a", b"1", 300)
        clock.advance(299)
        assert cache.get(ACME, "a") == b"1"
        clock.advance(1)
        assert cache.get(ACME, "a") is None

    def test_keeping_a_value_again_begins_its_time_again(self, cache: Cache, clock: Clock) -> None:
        cache.put(ACME, "a", b"1", 300)
        clock.advance(200)
        cache.put(ACME, "a", b"1", 300)
        clock.advance(200)
        assert cache.get(ACME, "a") == b"1"

    def test_keys_and_values_may_hold_any_character(self, cache: Cache) -> None:
        keys = ["Größe 東京 🧵", "a|b", "a'; DROP TABLE cache;--", "%", "line\nfeed"]
        for key in keys:
            cache.put(ACME, key, key.encode(), HOUR)
        assert [cache.get(ACME, key) for key in keys] == [key.encode() for key in keys]

    def test_a_value_of_300_kb_is_kept(self, cache: Cache) -> None:
        value = bytes(range(256)) * 1_200
        cache.put(ACME, "a" * MAX_KEY_BYTES, value, HOUR)
        assert cache.get(ACME, "a" * MAX_KEY_BYTES) == value

    def test_the_largest_value_is_kept(self, cache: Cache) -> None:
        cache.put(ACME, "a", b"x" * MAX_CACHE_VALUE_BYTES, HOUR)
        assert cache.get(ACME, "a") == b"x" * MAX_CACHE_VALUE_BYTES

    def test_a_value_that_is_too_large_is_not_kept_and_leaves_no_older_one(self, cache: Cache) -> None:
        cache.put(ACME, "a", b"old", HOUR)
        cache.put(ACME, "a", b"x" * (MAX_CACHE_VALUE_BYTES + 1), HOUR)
        assert cache.get(ACME, "a") is None
        cache.put(ACME, "a", b"old", HOUR)
        assert cache.exchange(ACME, "a", b"old", b"x" * (MAX_CACHE_VALUE_BYTES + 1), HOUR) == b"old"
        assert cache.get(ACME, "a") is None

    @pytest.mark.parametrize("key", ["", "é" * (MAX_KEY_BYTES // 2) + "x", "\ud800"])
    def test_a_key_that_no_store_takes_is_refused(self, cache: Cache, key: str) -> None:
        with pytest.raises(InvalidRequest, match=r"^key:") as caught:
            cache.put(ACME, key, b"1", HOUR)
        assert caught.value.field == "key"

    def test_a_value_is_kept_for_at_least_a_second(self, cache: Cache) -> None:
        with pytest.raises(InvalidRequest, match=r"ttl_s: 0"):
            cache.put(ACME, "a", b"1", 0)

    def test_a_value_is_exchanged_only_for_the_one_that_was_expected(self, cache: Cache) -> None:
        assert cache.exchange(ACME, "a", None, b"1", HOUR) is None
        assert cache.exchange(ACME, "a", None, b"2", HOUR) == b"1"
        assert cache.exchange(ACME, "a", b"other", b"2", HOUR) == b"1"
        assert cache.get(ACME, "a") == b"1"
        assert cache.exchange(ACME, "a", b"1", b"2", HOUR) == b"1"
        assert cache.get(ACME, "a") == b"2"
        assert cache.exchange(GLOBEX, "a", None, b"globex", HOUR) is None
        assert cache.get(ACME, "a") == b"2"

    def test_a_value_is_removed_only_by_whoever_knows_it(self, cache: Cache) -> None:
        cache.put(ACME, "a", b"1", HOUR)
        assert cache.exchange(ACME, "a", b"2", None, HOUR) == b"1"
        assert cache.get(ACME, "a") == b"1"
        assert cache.exchange(ACME, "a", b"1", None, HOUR) == b"1"
        assert cache.get(ACME, "a") is None
        assert cache.exchange(ACME, "a", b"1", b"2", HOUR) is None
        assert cache.get(ACME, "a") is None
        assert cache.exchange(ACME, "a", None, None, HOUR) is None

    def test_a_value_that_has_expired_is_nothing_to_an_exchange(self, cache: Cache, clock: Clock) -> None:
        cache.exchange(ACME, "a", None, b"1", 60)
        clock.advance(60)
        assert cache.exchange(ACME, "a", b"1", b"2", 60) is None
        assert cache.exchange(ACME, "a", None, b"3", 60) is None
        clock.advance(59)
        assert cache.get(ACME, "a") == b"3"

    def test_of_many_who_claim_a_key_at_once_one_gets_it(self, cache: Cache) -> None:
        with ThreadPoolExecutor(8) as pool:
            before = list(pool.map(lambda n: cache.exchange(ACME, "a", None, f"{n}".encode(), HOUR), range(16)))
        (winner,) = {value for value in before if value is not None}
        assert before.count(None) == 1
        assert cache.get(ACME, "a") == winner

    def test_a_counter_holds_the_sum_of_its_window_and_of_one_tenant(self, cache: Cache, clock: Clock) -> None:
        clock.advance(60 - clock.seconds() % 60)
        assert [cache.count(ACME, "a", amount, 60) for amount in (1, 2, 0, -1)] == [1, 3, 3, 2]
        assert cache.count(GLOBEX, "a", 1, 60) == 1
        assert cache.count(ACME, "b", 1, 60) == 1
        assert cache.count(ACME, "a", 1, HOUR) == 1
        clock.advance(59)
        assert cache.count(ACME, "a", 1, 60) == 3
        clock.advance(1)
        assert cache.count(ACME, "a", 0, 60) == 0

    def test_the_counter_of_the_window_before_is_kept_until_the_current_one_ends(
        self, cache: Cache, clock: Clock
    ) -> None:
        cache.count(ACME, "a", 3, 60)
        clock.advance(60)
        assert cache.count(ACME, "a", 1, 60) == 1
        assert [cache.count(ACME, "a", amount, 60, ago=1) for amount in (0, -1)] == [3, 2]
        clock.advance(59)
        assert cache.count(ACME, "a", 0, 60, ago=1) == 2
        clock.advance(1)
        assert cache.count(ACME, "a", 0, 60, ago=1) == 1

    def test_a_counter_is_no_value(self, cache: Cache) -> None:
        cache.put(ACME, "a", b"value", HOUR)
        assert cache.count(ACME, "a", 7, HOUR) == 7
        assert cache.get(ACME, "a") == b"value"
        for call in (
            lambda key: cache.get(ACME, key),
            lambda key: cache.put(ACME, key, b"0", HOUR),
            lambda key: cache.exchange(ACME, key, None, b"0", HOUR),
        ):
            with pytest.raises(InvalidRequest, match=r"^key: begins with counter/"):
                call("counter/60/0/a")

    def test_what_many_count_at_once_is_all_counted(self, cache: Cache) -> None:
        with ThreadPoolExecutor(8) as pool:
            sums = list(pool.map(lambda _: cache.count(ACME, "a", 1, 365 * 24 * HOUR), range(40)))
        assert sorted(sums) == list(range(1, 41))

    def test_a_window_is_at_least_a_second(self, cache: Cache) -> None:
        with pytest.raises(InvalidRequest, match=r"window_s: 0"):
            cache.count(ACME, "a", 1, 0)

    def test_every_generation_is_greater_than_those_before(self, cache: Cache) -> None:
        seen = [cache.generation(ACME)]
        for _ in range(3):
            seen.append(cache.advance(ACME))
            assert cache.generation(ACME) == seen[-1]
        assert seen == sorted(set(seen))

    def test_each_tenant_has_its_own_generation(self, cache: Cache) -> None:
        before = cache.generation(GLOBEX)
        cache.advance(ACME)
        assert cache.generation(GLOBEX) == before

    def test_a_generation_never_expires(self, cache: Cache, clock: Clock) -> None:
        generation = cache.advance(ACME)
        clock.advance(10 * 365 * 24 * HOUR)
        assert cache.generation(ACME) == generation

    def test_a_key_named_like_the_generation_does_not_touch_it(self, cache: Cache) -> None:
        generation = cache.advance(ACME)
        for key in ("generation", "#generation", f"{ACME}#generation"):
            cache.put(ACME, key, b"7", HOUR)
        assert cache.generation(ACME) == generation

    def test_no_two_writers_begin_the_same_generation(self, cache: Cache) -> None:
        with ThreadPoolExecutor(4) as pool:
            begun = list(pool.map(lambda _: cache.advance(ACME), range(20)))
        assert len(set(begun)) == 20
        assert cache.generation(ACME) == max(begun)

    def test_a_tenant_is_forgotten_with_all_its_values_and_no_others(self, cache: Cache) -> None:
        for number in range(3):
            cache.put(ACME, f"a{number}", b"acme", HOUR)
            cache.put(f"{ACME}-2", f"a{number}", b"other", HOUR)
        generation = cache.advance(ACME)
        assert (cache.forget(ACME), cache.forget(ACME)) == (3, 0)
        assert cache.get(ACME, "a0") is None
        assert cache.get(f"{ACME}-2", "a0") == b"other"
        assert cache.generation(ACME) == generation
        assert cache.forget("never-seen") == 0
