"""Scores of words, kept or worked out from counts: the same as FTS5's own, and of no write but the last."""

from __future__ import annotations

import gc
import random
import sqlite3
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded.search import bm25
from braid.engines.embedded.search.bm25 import WordCache, WordReader
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import StoreCorrupt
from braid.ports.search_index import SearchRequest
from braid.understanding.tokens import search_words

from tests.contract.shapes import ACME, AS_OF, DIMENSIONS, record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

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


COUNTED, SCORED = 0, 1_000_000
"""Numbers of rows from which on words are counted: all tenants', and none's."""


def of_all_sorts(store: EmbeddedStore, count: int) -> EmbeddedSearchIndex:
    """Fill a store with records of names, aliases, long texts and scripts without spaces; some are removed again."""
    generator = random.Random(5)  # noqa: S311 - a fixed sequence
    index = EmbeddedSearchIndex(store, DIMENSIONS)

    def words(most: int) -> str:
        return " ".join(generator.choices(MANY, range(len(MANY), 0, -1), k=generator.randrange(1, most)))

    index.upsert(
        [
            record(
                f"r{number:04}",
                name=words(4) if number % 3 else None,
                aliases=(words(3),) if number % 5 == 0 else (),
                content=words(400 if number % 7 == 0 else 30),
            )
            for number in range(count)
        ]
    )
    index.delete(ACME, [f"r{number:04}" for number in range(0, count, 11)])
    index.upsert([record(f"r{number:04}", content=words(50)) for number in range(1, count, 13)])
    return index


MANY = [*WORDS, "keelsons", "Strakes", "Überlauf", "ropes and", "kiel", "東京 湾", "船", "rowing", "x", "2021"]
ASKED = ["strake keelson thwarts", "uberlauf ropes painter x", "gunwale 東京 strake 船", "strake", "2021 no-word", "?"]


@pytest.mark.parametrize("added_at", [0, 200, bm25._ADDED_AT])
@pytest.mark.parametrize("counted_from", [COUNTED, SCORED])
@pytest.mark.parametrize("question", ASKED)
def test_scores_are_those_of_fts5(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, question: str, counted_from: int, added_at: int
) -> None:
    of_all_sorts(store, 400)
    monkeypatch.setattr(bm25, "_ADDED_AT", added_at)
    words = search_words(question) or ["no-word"]
    with store.read() as connection:
        reader = WordCache(store, counted_from=counted_from).reader(connection, 1, words)
        rows = connection.execute(
            "SELECT rowid, round(-bm25(words_1, 2.0, 1.0, 1.0), 12) FROM words_1 WHERE words_1 MATCH ? ORDER BY rowid",
            (" OR ".join(f'"{word}"' for word in words),),
        ).fetchall()
        for count in (1, 10, 100, 399, 1_000):
            least, *found = bm25.Matches(reader, words).best(count)
            reached = [row for row in rows if row[1] >= least]
            assert [*zip(*found, strict=True)] == reached
            assert len(reached) >= min(count, len(rows))


def test_the_second_best_rows_follow_without_the_best(store: EmbeddedStore) -> None:
    of_all_sorts(store, 400)
    with store.read() as connection:
        words = ["strake", "keelson"]
        matches = bm25.Matches(WordCache(store, counted_from=COUNTED).reader(connection, 1, words), words)
        first, numbers, _ = matches.best(20)
        second, others, scores = matches.best(80, first)

    assert not {*numbers} & {*others}
    assert len(numbers) + len(others) >= 80
    assert all(second <= score < first for score in scores)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("ids", [None, tuple(f"r{number:04}" for number in range(2, 400, 40))])
def test_counted_words_find_what_scored_ones_find(
    store: EmbeddedStore, ids: tuple[str, ...] | None, newest_first: bool
) -> None:
    index = of_all_sorts(store, 400)
    for question in ASKED:
        request = SearchRequest(tenant_id=ACME, text=question, k=7, ids=ids, newest_first=newest_first, as_of=AS_OF)
        found = []
        for counted_from in (COUNTED, SCORED):
            index._words = WordCache(store, counted_from=counted_from)
            found.append(index.search(request))
        assert found[0] == found[1]


def test_a_word_that_one_text_repeats_very_often_is_scored_and_not_counted(store: EmbeddedStore) -> None:
    index = filled(store, 100)
    index.upsert([record("repeats", content="keelson " * 2_000 + "strake")])
    with store.read() as connection:
        reader = WordCache(store, counted_from=COUNTED).reader(connection, 1, ["keelson", "strake"])
        assert (reader.read("keelson").idf is None, reader.read("strake").idf is None) == (True, False)
    found = []
    for counted_from in (COUNTED, SCORED):
        index._words = WordCache(store, counted_from=counted_from)
        found.append(asked(index, "keelson strake"))
    assert found[0] == found[1]


def test_the_vocabulary_stays_with_a_connection(store: EmbeddedStore) -> None:
    filled(store, 20)
    for _ in range(2):
        with store.read() as connection:
            rows = WordCache(store, counted_from=COUNTED).reader(connection, 1, ["strake"]).read("strake")
        assert rows.idf is not None
    with store.read() as again:
        made = again.execute("SELECT count(*) FROM sqlite_temp_master WHERE name = 'vocabulary_instance_1'").fetchone()

    assert again is connection
    assert made == (1,)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM words_1_docsize",
        "UPDATE words_1_docsize SET sz = x'ffff'",
        "DELETE FROM words_1_data WHERE id = 1",
        "UPDATE words_1_data SET block = x'0080' WHERE id = 1",
    ],
)
def test_damaged_lengths_are_named(store: EmbeddedStore, damage: str) -> None:
    index = filled(store, 100)
    index._words = WordCache(store, counted_from=COUNTED)
    with store.transaction() as connection:
        connection.execute(damage)

    with pytest.raises(StoreCorrupt, match="words_1"):
        asked(index, "gunwale")


def test_lengths_of_few_rows_are_read(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(store, 1_000)
    read: list[int] = []
    weights = WordReader.length_weights

    def counting(reader: WordReader, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
        read.extend(numbers.tolist())
        return weights(reader, numbers)

    monkeypatch.setattr(WordReader, "length_weights", counting)
    with store.read() as connection:
        matches = bm25.Matches(WordCache(store, counted_from=COUNTED).reader(connection, 1, WORDS), WORDS[-3:])
        matches.best(10)
        matches.best(10)

    assert 10 <= len(read) < len(matches) / 2
    assert len(read) == len({*read})


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


@pytest.mark.parametrize("counted_from", [COUNTED, SCORED])
def test_a_question_of_many_words_takes_no_more_memory_than_one_of_few(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch, counted_from: int
) -> None:
    filled(store, 300)
    words = WORDS * 30
    monkeypatch.setattr(bm25, "_ADDED_AT", 500)
    taken = []
    with store.read() as connection:
        for asked_for in (words[:8], words):
            known = WordCache(store, kept_bytes=0, counted_from=counted_from)
            tracemalloc.start()
            try:
                bm25.Matches(known.reader(connection, 1, words), asked_for).best(10)
                taken.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
    assert taken[1] < 3 * taken[0]


def test_only_as_much_is_kept_as_there_is_room_for(store: EmbeddedStore) -> None:
    filled(store, 300)
    known = WordCache(store, kept_bytes=5_000)
    with store.read() as connection:
        for word in WORDS * 2:
            known.reader(connection, 1, WORDS).read(word)

    assert 0 < sum(rows.size for rows in known._kept.values()) <= 5_000


def test_what_was_asked_last_takes_the_place_of_what_was_kept_before(store: EmbeddedStore) -> None:
    filled(store, 300)
    known = WordCache(store, kept_bytes=5_000)
    with store.read() as connection:
        for generation in range(3):  # after each write of a tenant its words of before are of no use
            reader = WordReader(known, connection, 1, generation, WORDS)
            assert sum(reader.read(word).size for word in WORDS) > 5_000
            assert known.find((1, generation, WORDS[-1])) is not None
    assert {generation for _, generation, _ in known._kept} == {2}
    assert known._room == 5_000 - sum(rows.size for rows in known._kept.values())


def test_a_cache_of_words_that_is_let_go_closes_what_it_opened(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as store:
        cache = WordCache(store)
        assert cache.tokens(["harbour"])
        opened = cache._tokenizer
        assert opened is not None
        del cache
        gc.collect()
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            opened.execute("SELECT 1")
