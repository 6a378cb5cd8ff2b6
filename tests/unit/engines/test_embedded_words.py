"""Scores of words that are kept in memory: the same as FTS5's own, and of no write but the last."""

from __future__ import annotations

import math
import random
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded.search import bm25
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.ports.search_index import SearchRequest

from tests.contract.shapes import ACME, AS_OF, DIMENSIONS, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WORDS = ["keelson", "garboard", "strake", "thwart", "rowlock", "transom", "painter", "gunwale"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path / "home") as opened:
        yield opened


def filled(store: EmbeddedStore, count: int) -> EmbeddedSearchIndex:
    generator = random.Random(3)  # noqa: S311 - a fixed sequence
    index = EmbeddedSearchIndex(store, DIMENSIONS)
    texts = [" ".join(generator.choices(WORDS, range(8, 0, -1), k=generator.randrange(1, 30))) for _ in range(count)]
    index.upsert([record(f"r{number:04}", content=text) for number, text in enumerate(texts)])
    return index


def asked(index: EmbeddedSearchIndex, text: str) -> list[str]:
    return [hit.id for hit in index.search(SearchRequest(tenant_id=ACME, text=text, k=20, as_of=AS_OF)).lexical]


@pytest.mark.parametrize("added_at", [0, 200, bm25._ADDED_AT])
@pytest.mark.parametrize("sparse", [0, bm25._SPARSE])
def test_sums_of_words_are_those_of_one_question_for_all(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, sparse: int, added_at: int
) -> None:
    filled(store, 300)
    monkeypatch.setattr(bm25, "_ADDED_AT", added_at)
    monkeypatch.setattr(bm25, "_SPARSE", sparse)
    words = [*WORDS[2:7], "not-a-word", "keel keel"]
    with store.read() as connection:
        sums = bm25.WordScores(store).sums(connection, 1, words)
        rows = connection.execute(
            "SELECT rowid, round(-bm25(words_1, 2.0, 1.0, 1.0), 12) FROM words_1 WHERE words_1 MATCH ? ORDER BY rowid",
            (" OR ".join(f'"{word}"' for word in words),),
        ).fetchall()

    assert len(rows) > 200
    assert [*zip(*sums.between(0.0, math.inf), strict=True)] == rows
    for count in (1, 10, 100, len(rows), 1_000):
        least = sums.among_best(count)
        assert sum(score >= least for _, score in rows) >= min(count, len(rows))


def test_a_write_is_found_by_words_that_were_asked_for_before(store: EmbeddedStore) -> None:
    index = filled(store, 50)
    before = asked(index, "gunwale")
    index.upsert([record("new", content="gunwale")])

    assert asked(index, "gunwale")[0] == "new"
    index.delete(ACME, ["new"])
    assert asked(index, "gunwale") == before


def test_what_is_undone_leaves_no_scores_behind(store: EmbeddedStore) -> None:
    index = filled(store, 50)
    before = asked(index, "gunwale")

    def undone() -> None:
        with store.transaction():
            index.upsert([record("undone", content="gunwale")])
            assert asked(index, "gunwale")[0] == "undone"
            raise InterruptedError

    with pytest.raises(InterruptedError):
        undone()
    index.upsert([record("other", content="strake")])

    assert asked(index, "gunwale") == before


def test_a_question_of_many_words_takes_no_more_memory_than_one_of_few(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(store, 300)
    words = WORDS * 30
    monkeypatch.setattr(bm25, "_ADDED_AT", 500)
    monkeypatch.setattr(bm25, "_BEST", 10)
    taken = []
    with store.read() as connection:
        for asked_for in (words[:8], words):
            known = bm25.WordScores(store, kept_bytes=0)
            tracemalloc.start()
            try:
                known.sums(connection, 1, asked_for)
                taken.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
    assert taken[1] < 3 * taken[0]


def test_only_as_much_is_kept_as_there_is_room_for(store: EmbeddedStore) -> None:
    filled(store, 300)
    known = bm25.WordScores(store, kept_bytes=5_000)
    with store.read() as connection:
        for word in WORDS * 2:
            known.sums(connection, 1, [word])

    assert 0 < sum(rows.size for rows in known._kept.values()) <= 5_000
