"""Counts of uses: gathered in memory, added later, and what they do to the ranking profile ``memory``."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from braid import Braid
from braid.models import Ranking
from braid.ports.cache import NoCache, ResilientCache
from braid.retrieval import use_counts
from braid.retrieval.use_counts import (
    ADDED_AFTER_S,
    HALF_LIFE_S,
    KEY,
    MAX_BYTES,
    MAX_GATHERED,
    MAX_RECORDS,
    UseCounts,
    with_uses,
)

from tests.fakes import NOW, fused, query, record, searched

if TYPE_CHECKING:
    from pathlib import Path

AT = 1_700_000_000.0


def counts(kept: bytes) -> dict[str, float]:
    found: dict[str, float] = json.loads(kept)[1]
    return found


def test_a_use_counts_half_after_its_half_life_and_nothing_in_the_end() -> None:
    kept = with_uses(None, {"a": 4}, AT)
    later = with_uses(kept, {"b": 1}, AT + HALF_LIFE_S)
    assert counts(later) == {"a": 2.0, "b": 1.0}
    assert counts(with_uses(later, {"c": 1}, AT + 20 * HALF_LIFE_S)) == {"c": 1.0}
    assert counts(with_uses(kept, {}, AT - 5)) == {"a": 4.0}, "a clock that is behind"


def test_the_most_used_records_are_kept_and_no_more_than_an_item_holds() -> None:
    many = {f"r{number:04}": number + 1 for number in range(MAX_RECORDS + 500)}
    kept = counts(with_uses(None, many, AT))
    assert len(kept) == MAX_RECORDS
    assert min(kept.values()) == 501.0
    long = with_uses(None, {"é" * 250 + str(number): 1 for number in range(MAX_RECORDS)}, AT)
    assert 0 < len(long) <= MAX_BYTES + 100


@pytest.mark.parametrize(
    "damaged",
    [
        *(b"", b"{", b"[1]", b'["x", {}]', b"[1, 2]", b'[1, {"a": "x"}]', b"\xff", b"[" * 100_000),
        pytest.param(b'[1, {"a": 1%s}]' % (b"0" * 400), id="no float"),
    ],
)
def test_counts_that_cannot_be_read_begin_anew(damaged: bytes) -> None:
    assert counts(with_uses(damaged, {"a": 1}, AT)) == {"a": 1.0}


class Counted(NoCache):
    """A cache that keeps nothing and knows for what it was asked."""

    asked = 0

    def get(self, tenant_id: str, key: str) -> bytes | None:
        self.asked += key == KEY
        return super().get(tenant_id, key)


def test_gathering_asks_no_store_and_is_bounded() -> None:
    moment, cache = 0.0, Counted()
    uses = UseCounts(lambda: ResilientCache(cache), lambda _tenant, ids: ids, lambda: NOW, lambda: moment)
    for number in range(MAX_GATHERED + 100):
        uses.note("acme", [str(number), "0"])
    assert cache.asked == 0
    assert len(uses._gathered["acme"]) == MAX_GATHERED
    assert uses._gathered["acme"]["0"] == MAX_GATHERED + 101
    moment = ADDED_AFTER_S
    uses.note("acme", ["0"])
    until = time.monotonic() + 30
    while not cache.asked and time.monotonic() < until:
        time.sleep(0.01)
    assert cache.asked == 1
    uses.add_gathered()
    assert cache.asked == 1, "nothing is left to be added"


def test_no_tenant_takes_the_places_of_another() -> None:
    uses = UseCounts(lambda: ResilientCache(Counted()), lambda _tenant, ids: ids, lambda: NOW, lambda: 0.0)
    uses.note("acme", map(str, range(2 * MAX_GATHERED)))
    uses.note("globex", ["a", "b"])
    assert {tenant: len(own) for tenant, own in uses._gathered.items()} == {"acme": MAX_GATHERED - 2, "globex": 2}


def test_a_use_looks_at_other_tenants_only_to_take_a_place_of_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tenants(dict[str, Counter[str]]):
        looks = 0

        def values(self) -> Any:
            self.looks += 1
            return super().values()

    monkeypatch.setattr(use_counts, "MAX_GATHERED", 10)
    uses = UseCounts(lambda: ResilientCache(Counted()), lambda _tenant, ids: ids, lambda: NOW, lambda: 0.0)
    uses._gathered = looked = Tenants()
    uses.note("acme", map(str, range(30)))
    assert looked.looks == 0
    uses.note("globex", map(str, range(30)))
    assert looked.looks == 5
    assert {tenant: len(own) for tenant, own in looked.items()} == {"acme": 5, "globex": 5}
    uses.add_gathered()
    uses.note("initech", map(str, range(30)))
    assert len(uses._gathered["initech"]) == 10


def test_memory_ranking_puts_the_more_used_first_and_other_rankings_do_not_ask() -> None:
    records = [record("a", updated_at=NOW), record("b", updated_at=NOW)]
    asked: list[str] = []

    def uses(tenant_id: str) -> dict[str, float]:
        asked.append(tenant_id)
        return {"b": 2.5}

    found = {"searched": searched(("a", 0.9), ("b", 0.85)), "uses": uses}
    assert fused(records, **found).results[0].id == "a"
    assert asked == []
    memory = query(ranking=Ranking.MEMORY)
    assert fused(records, **found, query=memory).results[0].id == "b"
    assert asked == [memory.tenant_id]


def test_what_is_returned_is_counted_and_what_was_counted_is_there_for_the_next_process(tmp_path: Path) -> None:
    with Braid(tmp_path) as braid:
        braid.add([{"id": "a", "content": "The harbour crane."}, {"id": "b", "content": "A quiet quay."}])
        for _ in range(3):
            assert braid.search("harbour crane", top_k=1)[0].id == "a"
    with Braid(tmp_path) as braid:
        braid.search("quay")
        assert braid._backend.application.uses.of("default") == {"a": 3.0}
