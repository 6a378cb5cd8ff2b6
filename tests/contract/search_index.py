"""What every search index must do."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from braid import deadline
from braid.errors import DimensionMismatch, InvalidRequest, StoreTooSlow
from braid.models import Embedding, Filters, FurtherPart, Kind, SourceRef, SourceType, TimeRange, ValueKind
from braid.models.metadata_filters import FACET_VALUES, meet
from braid.ports.search_index import MAX_OUTDATED, IndexStats, ScanPage, SearchHits, SearchIndex, SearchRequest
from braid.retrieval.context.episodes import search_episodes
from braid.retrieval.listing import documents

from tests.contract.shapes import (
    ACME,
    AS_OF,
    AXIS,
    DIMENSIONS,
    GLOBEX,
    SPACE,
    WIDE_SPACE,
    at_cosine,
    day,
    embedding,
    in_parts,
    packed,
    random_vector,
    record,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import Hit, Record


def ids(hits: Sequence[Hit]) -> list[str]:
    return [hit.id for hit in hits]


def ask(index: SearchIndex, text: str | None = None, vector: bytes | None = None, **fields: Any) -> SearchHits:
    fields = {"tenant_id": ACME, "k": 10, "as_of": AS_OF, **fields}
    asked = Embedding(space=SPACE, model_id=f"model-of-{SPACE}", vector=vector) if vector else None
    return index.search(SearchRequest(text=text, embedding=fields.pop("embedding", asked), **fields))


def found(index: SearchIndex, **fields: Any) -> set[str]:
    """Ask with the word and the vector that every record of a test has, and require equal strands."""
    hits = ask(index, "turbine", AXIS, **fields)
    assert set(ids(hits.vector)) == set(ids(hits.lexical))
    return set(ids(hits.vector))


def scanned(index: SearchIndex, **conditions: Any) -> list[str]:
    """Return the ids of a whole scan, page by page."""
    seen: list[str] = []
    after: str | None = None
    while True:
        page = index.scan(ACME, after=after, **conditions)
        assert len(page.records) <= conditions.get("limit", 500)
        seen += [each.id for each in page.records]
        if page.cursor is None:
            return seen
        after = page.cursor


def _with_metadata() -> list[Record]:
    given: dict[str, dict[str, Any]] = {
        "a": {"team": "payments", "floor": -2.5, "open": True, "day": "2024-05-01"},
        "b": {"team": "payments", "floor": 3, "open": False, "day": "2024-05-01T08:00:00+00:00"},
        "c": {"team": "gates", "floor": 41, "open": 1, "day": "2024-07-01"},
        "d": {"team": None, "floor": "3"},
        "e": {"a.b[0]['x'] OR 1=1": "*"},
        "f": {"long": "x" * 9_000 + "1"},
        "g": {"": "", "day of week": "2024-99-99"},
    }
    foreign = record("foreign", "turbine", cosine=0.9, tenant_id=GLOBEX, metadata={**given["b"], "secret": "s"})
    return [foreign, *(record(name, "turbine", cosine=0.5, metadata=one) for name, one in given.items())]


class SearchIndexContract:
    """Subclass this and provide the fixture ``index``: a search index that is empty for every test."""

    # --- an empty store ---------------------------------------------------------------------------------------------

    def test_the_port_is_implemented(self, index: SearchIndex) -> None:
        assert isinstance(index, SearchIndex)

    def test_an_empty_store_answers_with_nothing(self, index: SearchIndex) -> None:
        assert ask(index, "anything", AXIS) == SearchHits()
        assert index.get_many(ACME, ["nothing"]) == []
        assert index.delete(ACME, ["nothing"]) == 0
        assert index.stats(ACME) == IndexStats()

    def test_writing_nothing_is_allowed(self, index: SearchIndex) -> None:
        index.upsert([])
        assert index.stats(ACME) == IndexStats()
        assert index.delete(ACME, []) == 0
        assert index.get_many(ACME, []) == []

    def test_a_search_whose_time_is_over_is_given_up(self, index: SearchIndex) -> None:
        index.upsert([record("a", "turbine", cosine=0.5)])
        with deadline.within(1e-9), pytest.raises(StoreTooSlow):
            ask(index, "turbine", AXIS)
        assert ids(ask(index, "turbine", AXIS).lexical) == ["a"]

    # --- vectors ----------------------------------------------------------------------------------------------------

    def test_hits_are_ordered_by_cosine(self, index: SearchIndex) -> None:
        cosines = {"c": 0.95, "a": 0.7, "e": 0.3, "b": 0.1, "d": -0.6}
        index.upsert([record(name, cosine=cosine) for name, cosine in cosines.items()])
        hits = ask(index, vector=AXIS).vector
        assert ids(hits) == ["c", "a", "e", "b", "d"]
        assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
        assert [hit.score for hit in hits] == pytest.approx([0.95, 0.7, 0.3, 0.1, 0.0], abs=2e-3)

    def test_equal_vectors_are_ordered_by_id(self, index: SearchIndex) -> None:
        index.upsert([record(name, cosine=0.5) for name in ("m", "b", "z", "a")] + [record("first", cosine=0.9)])
        assert ids(ask(index, vector=AXIS).vector) == ["first", "a", "b", "m", "z"]

    def test_no_more_than_k_hits_come_back(self, index: SearchIndex) -> None:
        index.upsert([record(f"r{number}", "turbine", cosine=number / 20) for number in range(20)])
        hits = ask(index, "turbine", AXIS, k=3)
        assert ids(hits.vector) == ["r19", "r18", "r17"]
        assert len(hits.lexical) == 3

    def test_spaces_are_never_compared(self, index: SearchIndex) -> None:
        wide = embedding(at_cosine(1.0, 16), WIDE_SPACE)
        index.upsert([record("small", cosine=0.4), record("wide", embeddings=(wide,))])
        assert ids(ask(index, vector=AXIS).vector) == ["small"]
        assert ids(ask(index, embedding=wide).vector) == ["wide"]

    def test_a_record_may_have_vectors_in_two_spaces(self, index: SearchIndex) -> None:
        both = (embedding(at_cosine(0.9)), embedding(at_cosine(0.2, 16), WIDE_SPACE))
        index.upsert([record("both", embeddings=both)])
        small = ask(index, vector=AXIS).vector
        wide = ask(index, embedding=embedding(at_cosine(1.0, 16), WIDE_SPACE)).vector
        assert [hit.score for hit in (*small, *wide)] == pytest.approx([0.9, 0.2], abs=2e-3)

    def test_a_space_of_which_the_tenant_has_no_vector_is_told_from_one_where_nothing_was_found(
        self, index: SearchIndex
    ) -> None:
        wide = embedding(at_cosine(1.0, 16), WIDE_SPACE)
        assert ask(index, "turbine", embedding=wide).space_empty is False
        index.upsert([record("words", "turbine", embeddings=())])
        assert ask(index, "turbine", embedding=wide).space_empty is False
        index.upsert([record("small", "turbine", cosine=0.4), record("x", tenant_id=GLOBEX, embeddings=(wide,))])
        alone = ask(index, "turbine", embedding=wide)
        assert (alone.space_empty, alone.vector, len(alone.lexical)) == (True, (), 2)
        assert ask(index, embedding=wide).space_empty is True
        assert ask(index, "turbine", AXIS).space_empty is False
        assert ask(index, "turbine").space_empty is False
        assert ask(index, "turbine", AXIS, ids=("words",)).space_empty is False
        assert ask(index, "turbine", tenant_id=GLOBEX, embedding=wide).space_empty is False

    def test_a_space_without_vectors_has_no_hits(self, index: SearchIndex) -> None:
        index.upsert([record("small", cosine=0.4)])
        assert ask(index, embedding=embedding(at_cosine(1.0, 16), WIDE_SPACE)).vector == ()

    def test_random_vectors_are_found_as_by_exact_search(self, index: SearchIndex) -> None:
        generator = random.Random(20250601)  # noqa: S311 - a fixed sequence, no secret
        vectors = {f"r{number:03}": random_vector(generator, DIMENSIONS[WIDE_SPACE]) for number in range(500)}
        index.upsert([record(name, embeddings=(embedding(vector, WIDE_SPACE),)) for name, vector in vectors.items()])
        rows = {name: unpacked(vector) for name, vector in vectors.items()}
        shared = 0
        for _ in range(10):
            query = random_vector(generator, DIMENSIONS[WIDE_SPACE])
            values = unpacked(query)
            exact = sorted(rows, key=lambda name: -sum(a * b for a, b in zip(values, rows[name], strict=True)))[:20]
            shared += len(set(exact) & set(ids(ask(index, embedding=embedding(query, WIDE_SPACE), k=20).vector)))
        assert shared / 200 >= 0.95

    def test_a_vector_of_another_length_is_refused_and_nothing_is_written(self, index: SearchIndex) -> None:
        index.upsert([record("old", cosine=0.5)])
        short = record("short", embeddings=(embedding(packed([1.0, 0.0, 0.0, 0.0, 0.0])),))
        with pytest.raises(DimensionMismatch, match=r"small-space.*8.*5") as caught:
            index.upsert([record("good", cosine=0.9), short])
        assert caught.value.field == "embeddings"
        assert index.get_many(ACME, ["good", "short"]) == []
        assert ids(ask(index, vector=AXIS).vector) == ["old"]

    def test_a_space_that_is_not_configured_is_refused_and_nothing_is_written(self, index: SearchIndex) -> None:
        made_up = record("made-up", embeddings=(embedding(AXIS, "made-up-space"),))
        with pytest.raises(InvalidRequest, match=r"made-up-space.*small-space, wide-space") as caught:
            index.upsert([record("good", cosine=0.9), made_up])
        assert caught.value.field == "embeddings"
        assert index.get_many(ACME, ["good", "made-up"]) == []
        index.upsert([record("good", cosine=0.9)])
        assert ask(index, embedding=embedding(AXIS, "made-up-space")).vector == ()

    def test_whoever_writes_first_into_a_space_does_not_say_how_long_its_vectors_are(self, index: SearchIndex) -> None:
        short = record("short", tenant_id=GLOBEX, embeddings=(embedding(packed([1.0]), WIDE_SPACE),))
        with pytest.raises(DimensionMismatch, match=r"wide-space.*16.*1"):
            index.upsert([short])
        wide = embedding(at_cosine(1.0, 16), WIDE_SPACE)
        index.upsert([record("wide", embeddings=(wide,))])
        assert ids(ask(index, embedding=wide).vector) == ["wide"]

    def test_a_question_of_another_length_is_refused(self, index: SearchIndex) -> None:
        index.upsert([record("old", cosine=0.5)])
        with pytest.raises(DimensionMismatch, match=r"small-space.*8.*3"):
            ask(index, vector=packed([1.0, 0.0, 0.0]))

    # --- the parts of a long text -----------------------------------------------------------------------------------

    def test_a_long_text_is_as_near_as_its_nearest_part_and_says_where_that_begins(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("begin", "turbine", embeddings=(in_parts(0.8, 0.1),)),
                record("end", "turbine", embeddings=(in_parts(0.1, 0.3, 0.9),)),
                record("short", "turbine", cosine=0.5),
            ]
        )
        hits = ask(index, "turbine", AXIS)
        assert [(hit.id, hit.rank, hit.part_start) for hit in hits.vector] == [
            ("end", 1, 200),
            ("begin", 2, 0),
            ("short", 3, 0),
        ]
        assert [hit.score for hit in hits.vector] == pytest.approx([0.9, 0.8, 0.5], abs=2e-3)
        assert {hit.part_start for hit in hits.lexical} == {0}

    def test_the_parts_of_one_text_leave_room_for_others(self, index: SearchIndex) -> None:
        long = in_parts(*[0.9 - number / 10_000 for number in range(700)])
        index.upsert([record("long", embeddings=(long,)), *(record(f"r{n}", cosine=n / 20) for n in range(9))])
        hits = ask(index, vector=AXIS, k=10).vector
        assert ids(hits) == ["long", *(f"r{number}" for number in reversed(range(9)))]
        assert ids(ask(index, vector=AXIS, k=2).vector) == ["long", "r8"]

    def test_parts_are_found_only_where_their_record_is(self, index: SearchIndex) -> None:
        parts = (in_parts(0.1, 0.9),)
        index.upsert(
            [
                record("plain", "turbine", embeddings=parts),
                record("other", "turbine", tenant_id=GLOBEX, embeddings=parts),
                record("fact", "turbine", kind=Kind.FACT, embeddings=parts),
                record("mail", "turbine", trusted=False, embeddings=parts),
                record("ended", "turbine", invalid_at=day(1), embeddings=parts),
                record("old", "turbine", kind=Kind.FACT, embeddings=parts, task_id="t"),
            ]
        )
        assert found(index) == {"plain", "fact", "mail", "old"}
        assert found(index, filters=Filters(kinds=(Kind.FACT,))) == {"fact", "old"}
        assert found(index, filters=Filters(trusted_only=True)) == {"plain", "fact", "old"}
        assert found(index, filters=Filters(task_id="t")) == {"old"}
        assert found(index, ids=("plain", "other")) == {"plain"}
        assert found(index, tenant_id=GLOBEX) == {"other"}
        assert ask(index, vector=AXIS).superseded == 1
        assert index.stats(ACME).records == 5
        assert [index.count(ACME, at_most=most) for most in (9, 3)] == [5, 3]
        assert [index.count(ACME, at_most=most, trusted_only=True) for most in (9, 3)] == [4, 3]
        assert index.count("nobody", at_most=9) == index.count("nobody", at_most=9, trusted_only=True) == 0
        assert scanned(index, space_missing=SPACE) == []

    def test_the_parts_of_a_text_are_stored_and_go_with_it(self, index: SearchIndex) -> None:
        long = record("a", "turbine", embeddings=(in_parts(0.1, 0.2, 0.9),))
        index.upsert([long])
        assert index.get_many(ACME, ["a"], with_vectors=True)[0].embeddings == long.embeddings
        assert index.get_many(ACME, ["a"])[0].embeddings == ()
        assert index.scan(ACME, with_vectors=True).records[0].embeddings == long.embeddings
        index.upsert([record("a", "turbine", embeddings=(in_parts(0.1, 0.4),))])
        assert [hit.score for hit in ask(index, vector=AXIS).vector] == pytest.approx([0.4], abs=2e-3)
        index.upsert([record("a", "turbine", cosine=0.3)])
        (hit,) = ask(index, vector=AXIS).vector
        assert (hit.score, hit.part_start) == (pytest.approx(0.3, abs=2e-3), 0)
        index.upsert([long])
        assert index.delete(ACME, ["a"]) == 1
        assert ask(index, vector=AXIS).vector == ()

    def test_a_space_without_long_texts_is_searched_beside_one_with_them(self, index: SearchIndex) -> None:
        index.upsert([record("wide", embeddings=(embedding(at_cosine(0.4, 16), WIDE_SPACE),))])
        index.upsert([record("long", embeddings=(in_parts(0.1, 0.9), in_parts(0.2, 0.3, space=WIDE_SPACE)))])
        wide = embedding(at_cosine(1.0, 16), WIDE_SPACE)
        assert ids(ask(index, embedding=wide).vector) == ["wide", "long"]
        assert [hit.score for hit in ask(index, vector=AXIS).vector] == pytest.approx([0.9], abs=2e-3)

    def test_a_part_of_another_length_is_refused_and_nothing_is_written(self, index: SearchIndex) -> None:
        part = FurtherPart(start=100, vector=packed([1.0, 0.0, 0.0]))
        long = embedding(AXIS).model_copy(update={"further": (part,)})
        with pytest.raises(DimensionMismatch, match=r"small-space.*8.*3"):
            index.upsert([record("good", cosine=0.9), record("long", embeddings=(long,))])
        assert index.get_many(ACME, ["good", "long"]) == []

    # --- words ------------------------------------------------------------------------------------------------------

    def test_any_word_of_the_question_may_match(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("both", "the gearbox of the turbine"),
                record("one", "a gearbox made of steel and of brass"),
                record("none", "a pump"),
                *[record(f"other{number}", f"unrelated sentence number {number}") for number in range(8)],
            ]
        )
        hits = ask(index, "turbine gearbox").lexical
        assert ids(hits) == ["both", "one"]
        assert all(0.0 < hit.score < 1.0 for hit in hits)
        assert hits[0].score > hits[1].score
        assert [hit.rank for hit in hits] == [1, 2]

    def test_equal_texts_are_ordered_by_id(self, index: SearchIndex) -> None:
        index.upsert([record(name, "one gearbox") for name in ("m", "b", "z", "a")])
        assert ids(ask(index, "gearbox").lexical) == ["a", "b", "m", "z"]

    def test_words_are_found_newest_first_when_that_is_asked(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("old", "gearbox gearbox", timestamp=day(1)),
                record("newest", "a gearbox among many other words", timestamp=day(5)),
                record("timeless", "gearbox gearbox gearbox"),
                record("b", "gearbox", timestamp=day(3)),
                record("a", "one gearbox", timestamp=day(3)),
                record("retired", "gearbox", timestamp=day(4), invalid_at=day(5)),
                record("other", "turbine", timestamp=day(6)),
            ]
        )
        hits = ask(index, "gearbox", newest_first=True)
        assert ids(hits.lexical) == ["newest", "a", "b", "old", "timeless"]
        assert [hit.rank for hit in hits.lexical] == [1, 2, 3, 4, 5]
        assert all(0.0 < hit.score < 1.0 for hit in hits.lexical)
        assert hits.superseded == 1
        few = ask(index, "gearbox", newest_first=True, k=1)
        assert (ids(few.lexical), few.superseded) == (["newest"], 0)

    def test_the_newest_words_meet_the_conditions(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("call", "gearbox", kind=Kind.TOOL_CALL, task_id="t1", tool_name="grep", timestamp=day(1)),
                record("choice", "gearbox", kind=Kind.DECISION, task_id="t1", timestamp=day(2)),
                record("chunk", "gearbox", task_id="t1", timestamp=day(3)),
                record("elsewhere", "gearbox", kind=Kind.DECISION, task_id="t2", timestamp=day(4)),
                record("foreign", "gearbox", kind=Kind.DECISION, tenant_id=GLOBEX, timestamp=day(5)),
            ]
        )
        both = (Kind.DECISION, Kind.TOOL_CALL)
        for filters, expected in (
            (Filters(kinds=both), ["elsewhere", "choice", "call"]),
            (Filters(kinds=both, task_id="t1"), ["choice", "call"]),
            (Filters(kinds=both, tool_name="grep"), ["call"]),
        ):
            assert ids(ask(index, "gearbox", newest_first=True, filters=filters).lexical) == expected

    def test_names_titles_and_aliases_are_searched(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("name", "nothing here", name="Quillfeather"),
                record("title", "nothing here", source=SourceRef(title="Marrowgate")),
                record("alias", "nothing here", name="Plain", aliases=("Thistlewick", "Oakenshaw")),
            ]
        )
        for word, expected in {"quillfeather": "name", "marrowgate": "title", "OAKENSHAW": "alias"}.items():
            assert ids(ask(index, word).lexical) == [expected]

    @pytest.mark.parametrize("asked", ["50000", "50,000", "50.000", "50'000", "EUR 50 000"])
    def test_a_number_is_found_however_its_thousands_are_set_apart(self, index: SearchIndex, asked: str) -> None:
        texts = {"plain": "It costs 50000.", "grouped": "It costs 50,000.", "other": "It costs 51000."}
        index.upsert([record(name, text) for name, text in texts.items()])
        assert set(ids(ask(index, f"What costs {asked}?").lexical)[:2]) == {"plain", "grouped"}

    def test_a_number_of_four_digits_is_found_with_a_comma_unless_it_is_a_year(self, index: SearchIndex) -> None:
        index.upsert([record("price", "It costs 1,500."), record("year", "In 2,024 cases")])
        assert ids(ask(index, "1500").lexical) == ["price"]
        assert ids(ask(index, "2024").lexical) == []

    @pytest.mark.parametrize("asked", ["INC322", "inc-322", "INC-322"])
    def test_an_identifier_is_found_with_and_without_its_hyphen(self, index: SearchIndex, asked: str) -> None:
        texts = {"joined": "Cause: INC322.", "divided": "Cause: INC-322.", "other": "Cause: INC-321 and ABC-322."}
        index.upsert([record(name, text) for name, text in texts.items()])
        assert set(ids(ask(index, f"What is {asked}?").lexical)[:2]) == {"joined", "divided"}

    def test_case_and_diacritics_do_not_matter(self, index: SearchIndex) -> None:
        index.upsert([record("de", "Über Müller in Zürich"), record("plain", "a cafe in Lyon"), record("x", "else")])
        assert ids(ask(index, "zurich").lexical) == ["de"]
        assert ids(ask(index, "CAFÉ").lexical) == ["plain"]
        assert ids(ask(index, "cafe\u0301").lexical) == ["plain"]

    def test_other_scripts_are_found(self, index: SearchIndex) -> None:
        index.upsert([record("ru", "авария на станции"), record("el", "βλάβη στο δίκτυο"), record("文書", "🚀 rocket")])
        assert ids(ask(index, "АВАРИЯ").lexical) == ["ru"]
        assert ids(ask(index, "δίκτυο").lexical) == ["el"]
        assert ids(ask(index, "rocket").lexical) == ["文書"]

    def test_words_are_found_where_none_are_set_apart(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("tokyo", "東京支社の責任者は田中さんです。"),
                record("osaka", "大阪工場は来月閉鎖されます。"),
                record("kyoto", "京都の東にある倉庫。", name="北倉庫"),
                record("plain", "Tokyo office"),
            ]
        )
        assert ids(ask(index, "東京支社はどこですか").lexical)[0] == "tokyo"
        assert ids(ask(index, "工場").lexical) == ["osaka"]
        assert ids(ask(index, "東京").lexical) == ["tokyo"], "not where the characters stand apart"
        assert ids(ask(index, "Keelsonと北倉庫").lexical) == ["kyoto"]
        assert ids(ask(index, "東").lexical) == ["kyoto", "tokyo"], "the shorter text first"
        assert set(ids(ask(index, "Tokyo 閉鎖").lexical)) == {"plain", "osaka"}
        index.upsert([record("osaka", "大阪は静か。")])
        index.delete(ACME, ["kyoto"])
        assert ids(ask(index, "工場 倉庫 大阪").lexical) == ["osaka"]

    def test_nothing_that_is_asked_is_query_syntax(self, index: SearchIndex) -> None:
        index.upsert([record("yes", "one turbine"), record("no", "one turbinehouse")])
        asked = [
            '"',
            "turbine*",
            '"turbine',
            "turbine AND NOT",
            "content:turbine OR",
            "NEAR(turbine, 2)",
            "^turbine + -turbine",
            "turbine'); DROP TABLE records; --",
            "{turbine} : [turbine TO *]",
            "turbine~2 && || !",
            "((((",
            "\\",
        ]
        found = {text: ids(ask(index, text).lexical) for text in asked}
        assert found == {text: ["yes"] if "turbine" in text else [] for text in asked}

    def test_a_long_text_is_searched_to_its_end(self, index: SearchIndex) -> None:
        text = "filler words of no meaning " * 3_900 + "quillfeather"
        assert len(text) > 100_000
        index.upsert([record("long", text), record("short", "something else")])
        assert ids(ask(index, "quillfeather").lexical) == ["long"]
        assert index.get_many(ACME, ["long"])[0].content == text

    def test_a_question_of_ten_thousand_characters_is_answered(self, index: SearchIndex) -> None:
        index.upsert([record("yes", "quillfeather"), record("no", "something else")])
        question = "quillfeather " + " ".join(f"unknown{number}" for number in range(2_000))
        assert ids(ask(index, question[:10_000]).lexical) == ["yes"]

    def test_only_the_strands_asked_for_come_back(self, index: SearchIndex) -> None:
        index.upsert([record("r", "turbine", cosine=0.5)])
        assert ask(index) == SearchHits()
        assert (ids(ask(index, "turbine").lexical), ask(index, "turbine").vector) == (["r"], ())
        assert (ids(ask(index, vector=AXIS).vector), ask(index, vector=AXIS).lexical) == (["r"], ())

    # --- conditions -------------------------------------------------------------------------------------------------

    def test_filters_hold_in_both_strands(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("chunk", "turbine", cosine=0.9, timestamp=day(1)),
                record("event", "turbine", cosine=0.8, kind=Kind.ENTITY, entity_type="Event", timestamp=day(2)),
                record("person", "turbine", cosine=0.7, kind=Kind.ENTITY, entity_type="Person", timestamp=day(3)),
                record("call", "turbine", cosine=0.6, kind=Kind.TOOL_CALL, task_id="t1", tool_name="grep"),
                record("choice", "turbine", cosine=0.5, kind=Kind.DECISION, task_id="t1", timestamp=day(4)),
            ]
        )
        assert found(index) == {"chunk", "event", "person", "call", "choice"}
        assert found(index, filters=Filters(kinds=(Kind.ENTITY,))) == {"event", "person"}
        assert found(index, filters=Filters(kinds=(Kind.CHUNK, Kind.DECISION))) == {"chunk", "choice"}
        assert found(index, filters=Filters(entity_types=("Event",))) == {"event"}
        assert found(index, filters=Filters(task_id="t1")) == {"call", "choice"}
        assert found(index, filters=Filters(task_id="t1", tool_name="grep")) == {"call"}
        assert found(index, filters=Filters(kinds=(Kind.CHUNK,), entity_types=("Event",))) == set()

    def test_records_that_are_not_trusted_are_left_out_where_that_is_asked(self, index: SearchIndex) -> None:
        strangers = {"kind": Kind.TOOL_CALL, "trusted": False, "metadata": {"trusted": True}}
        index.upsert(
            [record(f"mail{number:03}", "turbine turbine", cosine=0.99, **strangers) for number in range(120)]
            + [record("own", "turbine and other words", cosine=0.1, metadata={"trusted": False})]
            + [record("call", "turbine and many other words", cosine=0.1, kind=Kind.TOOL_CALL, timestamp=day(1))]
        )
        assert {"own", "call"} == found(index, filters=Filters(trusted_only=True))
        assert not {"own", "call"} & found(index)
        both = {"tenant_id": ACME, "as_of": AS_OF, "limit": 5}
        assert [each.id for each in search_episodes(index, "turbine", trusted_only=True, **both)] == ["call"]
        assert len(search_episodes(index, "turbine", **both)) == 5
        assert [each.trusted for each in index.get_many(ACME, ["own", "mail000"])] == [True, False]
        index.upsert([record("mail000", "turbine turbine", cosine=0.99)])
        assert "mail000" in found(index, filters=Filters(trusted_only=True))

    def test_superseded_records_that_are_not_trusted_are_not_counted_where_that_is_asked(
        self, index: SearchIndex
    ) -> None:
        index.upsert([record("old", "turbine", cosine=0.9, invalid_at=day(1), trusted=False)])
        assert ask(index, "turbine", AXIS).superseded == 1
        assert ask(index, "turbine", AXIS, filters=Filters(trusted_only=True)).superseded == 0

    def test_metadata_is_filtered_in_both_strands(self, index: SearchIndex) -> None:
        index.upsert(_with_metadata())
        cases: list[tuple[object, str]] = [
            ({"team": "payments"}, "ab"),
            ({"team": ["payments", "gates"]}, "abc"),
            ({"team": {"none_of": ["payments"]}}, "cdefg"),
            ({"team": {"exists": True}}, "abc"),
            ({"team": {"exists": False}}, "defg"),
            ({"floor": 3}, "b"),
            ({"floor": 3.0}, "b"),
            ({"floor": "3"}, "d"),
            ({"floor": {"gte": 3}}, "bc"),
            ({"floor": {"gt": 3}}, "c"),
            ({"floor": {"lt": 3}}, "a"),
            ({"floor": {"lte": 3, "gt": -2.5}}, "b"),
            ({"floor": {"gte": -2.5, "lt": 3}}, "a"),
            ({"open": True}, "a"),
            ({"open": False}, "b"),
            ({"open": 1}, "c"),
            ({"day": "2024-05-01"}, "a"),
            ({"day": {"gte": "2024-05-01"}}, "abc"),
            ({"day": {"gt": "2024-05-01", "lt": "2024-06-01T00:00:00Z"}}, "b"),
            ({"day": {"lte": "2024-05-01T10:00:00+02:00"}}, "ab"),
            ({"a.b[0]['x'] OR 1=1": "*"}, "e"),
            ({"long": "x" * 9_000 + "1"}, "f"),
            ({"": ""}, "g"),
            ({"nothing": "anything"}, ""),
            ({"nothing": {"none_of": ["anything"]}}, "abcdefg"),
            ({"team": "payments", "floor": {"gt": 0}}, "b"),
            ([{"field": "team", "exists": True}, {"field": "team", "none_of": ["gates"]}], "ab"),
        ]
        names = (*"abcdefg", "unknown", "foreign")
        for conditions, expected in cases:
            assert found(index, filters={"metadata": conditions}) == set(expected), conditions
            asked = SearchRequest(tenant_id=ACME, k=1, as_of=AS_OF, filters={"metadata": conditions}, ids=names)
            assert index.passing(asked) == set(expected), conditions

    def test_metadata_that_is_changed_or_removed_is_filtered_as_it_is_now(self, index: SearchIndex) -> None:
        index.upsert([record(name, "turbine", cosine=0.5, metadata={"team": "payments"}) for name in "abc"])
        index.upsert([record("a", "turbine", cosine=0.5, metadata={"team": "gates"})])
        index.upsert([record("b", "turbine", cosine=0.5)])
        assert found(index, filters={"metadata": {"team": "payments"}}) == {"c"}
        index.delete(ACME, ["c"])
        assert found(index, filters={"metadata": {"team": "payments"}}) == set()
        assert index.field_kinds(ACME, ["team"]) == {"team": {ValueKind.TEXT}}

    def test_superseded_records_that_the_metadata_leaves_out_are_not_counted(self, index: SearchIndex) -> None:
        ended = {"invalid_at": day(1), "metadata": {"team": "gates"}}
        index.upsert([record("new", "turbine", cosine=0.5, metadata={"team": "payments"})])
        index.upsert([record("old", "turbine", cosine=0.9, **ended)])
        assert ask(index, "turbine", AXIS, filters={"metadata": {"team": "payments"}}).superseded == 0
        assert ask(index, "turbine", AXIS, filters={"metadata": {"team": "gates"}}).superseded == 1

    def test_a_filter_on_metadata_never_costs_hits(self, index: SearchIndex) -> None:
        index.upsert([record(f"r{n:03}", "turbine", cosine=1 - n / 300, metadata={"n": n}) for n in range(300)])
        hits = ask(index, "turbine", AXIS, filters={"metadata": {"n": {"gte": 290}}})
        assert ids(hits.vector) == [f"r{n}" for n in range(290, 300)]
        assert set(ids(hits.lexical)) == set(ids(hits.vector))

    def test_the_kinds_of_values_of_a_field_are_those_of_the_tenants_records(self, index: SearchIndex) -> None:
        index.upsert(_with_metadata())
        asked = ["team", "floor", "open", "day", "nothing", "secret"]
        assert index.field_kinds(ACME, asked) == {
            "team": {ValueKind.TEXT},
            "floor": {ValueKind.NUMBER, ValueKind.TEXT},
            "open": {ValueKind.BOOLEAN, ValueKind.NUMBER},
            "day": {ValueKind.DATE},
        }
        assert index.field_kinds(ACME, []) == {}
        assert index.field_kinds("nobody", ["team"]) == {}

    def test_the_kinds_of_values_are_those_of_trusted_records_where_that_is_asked(self, index: SearchIndex) -> None:
        index.upsert([record("trusted", metadata={"floor": 2})])
        index.upsert([record("doubtful", metadata={"floor": "all", "owner": "x"}, trusted=False)])
        asked = ["floor", "owner"]
        assert index.field_kinds(ACME, asked, trusted_only=True) == {"floor": {ValueKind.NUMBER}}
        everything = {"floor": {ValueKind.NUMBER, ValueKind.TEXT}, "owner": {ValueKind.TEXT}}
        assert index.field_kinds(ACME, asked) == everything

    def test_words_are_known_by_the_tenants_own_texts_whatever_their_ending(self, index: SearchIndex) -> None:
        index.upsert([record("a", "The turbine was painted"), record("b", "Keelsn", tenant_id=GLOBEX)])
        asked = ["turbines", "painted", "keelsn", "müller"]
        assert index.unknown_words(ACME, asked) == {"keelsn", "müller"}
        assert index.unknown_words("nobody", asked) == set(asked)
        assert index.unknown_words(ACME, []) == frozenset()

    def test_words_of_what_is_not_trusted_are_unknown_where_that_is_asked(self, index: SearchIndex) -> None:
        index.upsert([record("own", "The turbine"), record("mail", "Keelsn turbine", trusted=False)])
        assert index.unknown_words(ACME, ["turbines", "keelsn"], trusted_only=True) == {"keelsn"}
        assert index.unknown_words(ACME, ["turbines", "keelsn"]) == frozenset()

    def test_values_are_counted_among_what_passes(self, index: SearchIndex) -> None:
        index.upsert(_with_metadata())
        asked = SearchRequest(tenant_id=ACME, k=1, as_of=AS_OF)
        counted = index.count_values(asked, ["team", "floor", "day", "long", "nothing", "secret"])
        plain = {field: [(one.value, one.count) for one in values] for field, values in counted.items()}
        assert plain["team"] == [("payments", 2), ("gates", 1)]
        assert plain["floor"] == [(-2.5, 1), (3, 1), (41, 1), ("3", 1)]
        assert sorted(plain["day"]) == [("2024-05-01", 1), ("2024-05-01T08:00:00+00:00", 1), ("2024-07-01", 1)]
        assert plain["long"] == [("x" * 200 + "…", 1)]
        assert plain["nothing"] == plain["secret"] == []
        narrowed = asked.model_copy(update={"filters": Filters(metadata={"floor": {"gt": 0}})})
        assert [(one.value, one.count) for one in index.count_values(narrowed, ["team"])["team"]] == [
            ("gates", 1),
            ("payments", 1),
        ]

    def test_each_value_of_a_list_is_filtered_by_and_counted_once_a_record(self, index: SearchIndex) -> None:
        given: dict[str, dict[str, Any]] = {
            "a": {"tags": ["hr", "policy", "hr"], "floors": [1, 5.0, 5]},
            "b": {"tags": "hr"},
            "c": {"tags": ["policy"], "days": ["2024-05-01", "2024-07-01"], "floors": [3]},
            "d": {"tags": [], "days": ["2023-01-01"]},
            "e": {},
        }
        index.upsert([record(name, "turbine", cosine=0.5, metadata=one) for name, one in given.items()])
        cases: list[tuple[dict[str, object], str]] = [
            ({"tags": "hr"}, "ab"),
            ({"tags": ["hr", "policy"]}, "abc"),
            ({"tags": {"none_of": ["hr"]}}, "cde"),
            ({"tags": {"any_of": ["policy"], "none_of": ["hr"]}}, "c"),
            ({"tags": {"exists": True}}, "abc"),
            ({"tags": {"exists": False}}, "de"),
            ({"floors": {"gt": 1, "lt": 5}}, "c"),
            ({"floors": {"gte": 5}}, "a"),
            ({"days": {"gte": "2024-06-01"}}, "c"),
            ({"tags": "hr, policy"}, ""),
        ]
        for conditions, expected in cases:
            filters = Filters(metadata=conditions)
            assert found(index, filters=filters) == set(expected), conditions
            assert {name for name, one in given.items() if meet(one, filters.metadata)} == set(expected), conditions
        counted = index.count_values(SearchRequest(tenant_id=ACME, k=1, as_of=AS_OF), ["tags", "floors"])
        assert [(one.value, one.count) for one in counted["tags"]] == [("hr", 2), ("policy", 2)]
        assert {(one.value, one.count) for one in counted["floors"]} == {(1, 1), (3, 1), (5, 1)}
        assert index.field_kinds(ACME, ["floors", "days"]) == {
            "floors": {ValueKind.NUMBER},
            "days": {ValueKind.DATE},
        }
        stored = {one.id: one.metadata for one in index.get_many(ACME, list("abcde"))}
        assert stored == given
        index.upsert([record("a", "turbine", cosine=0.5, metadata={"tags": ["other"]})])
        assert found(index, filters=Filters(metadata={"tags": "hr"})) == {"b"}

    def test_only_the_most_frequent_values_of_valid_records_are_counted(self, index: SearchIndex) -> None:
        rows = [record(f"r{n}", "turbine", metadata={"n": n, "odd": n % 2 == 1}) for n in range(FACET_VALUES + 9)]
        index.upsert([*rows, record("old", "turbine", metadata={"odd": True}, invalid_at=day(1))])
        counted = index.count_values(SearchRequest(tenant_id=ACME, k=1, as_of=AS_OF), ["n", "odd"])
        assert [one.value for one in counted["n"]] == list(range(FACET_VALUES))
        assert {one.value: one.count for one in counted["odd"]} == {True: 14, False: 15}

    def test_a_time_range_is_half_open_and_needs_a_time(self, index: SearchIndex) -> None:
        index.upsert(
            [record(f"d{number}", "turbine", cosine=0.5, timestamp=day(number)) for number in range(1, 5)]
            + [record("timeless", "turbine", cosine=0.9)]
        )
        for time_range, expected in (
            (TimeRange(start=day(2), end=day(4)), {"d2", "d3"}),
            (TimeRange(start=day(3)), {"d3", "d4"}),
            (TimeRange(end=day(2)), {"d1"}),
        ):
            assert found(index, filters=Filters(time_range=time_range)) == expected

    def test_only_the_ids_asked_for_are_searched(self, index: SearchIndex) -> None:
        index.upsert([record(name, "turbine", cosine=0.5) for name in ("a", "b", "c", 'it\'s "d"')])
        assert found(index, ids=("c", "a", "unknown")) == {"a", "c"}
        assert found(index, ids=('it\'s "d"',)) == {'it\'s "d"'}
        assert found(index, ids=()) == set()
        assert found(index, ids=None) == {"a", "b", "c", 'it\'s "d"'}

    def test_thousands_of_ids_may_be_asked_for(self, index: SearchIndex) -> None:
        index.upsert([record("a", "turbine", cosine=0.5), record("b", "turbine", cosine=0.6)])
        many = (*(f"unknown{number}" for number in range(5_000)), "b")
        assert found(index, ids=many) == {"b"}

    def test_a_filter_never_costs_hits(self, index: SearchIndex) -> None:
        near = [record(f"near{number:03}", "turbine turbine", cosine=0.99) for number in range(280)]
        far = [
            record(f"far{number:02}", "turbine and many other words", cosine=0.1, entity_type="Event")
            for number in range(20)
        ]
        index.upsert(near + far)
        hits = ask(index, "turbine", AXIS, filters=Filters(entity_types=("Event",)))
        assert ids(hits.vector) == ids(hits.lexical) == [f"far{number:02}" for number in range(10)]

    def test_records_of_an_older_schema_than_the_window_are_left_out(self, index: SearchIndex) -> None:
        index.upsert([record(f"v{number}", "turbine", cosine=0.5, schema_version=number) for number in range(1, 5)])
        assert found(index, min_schema_version=3) == {"v3", "v4"}
        assert found(index) == {"v1", "v2", "v3", "v4"}

    def test_what_only_the_schema_window_kept_out_is_told(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("new", "turbine", cosine=0.5, schema_version=5),
                record("old near", cosine=0.9, schema_version=2),
                record("old far", "turbine", cosine=0.1, schema_version=4),
                record("old words", "turbine", schema_version=1),
                record("old retired", "turbine", cosine=0.9, schema_version=1, invalid_at=day(10)),
                record("old event", "turbine", cosine=0.9, schema_version=1, entity_type="Event"),
                record("theirs", "turbine", cosine=0.9, schema_version=1, tenant_id=GLOBEX),
            ]
        )
        filters = Filters(entity_types=("Event",))
        hits = ask(index, "turbine", AXIS, min_schema_version=5)
        assert ids(hits.vector) == ids(hits.lexical) == ["new"]
        assert set(hits.outdated) == {"old near", "old far", "old words", "old event"}
        assert len(hits.outdated) == 4
        assert ask(index, "turbine", AXIS, min_schema_version=5, filters=filters).outdated == ("old event",)
        assert ask(index, "turbine", AXIS, min_schema_version=5, ids=("new",)).outdated == ()
        assert ask(index, "turbine", AXIS).outdated == ()

    def test_only_the_best_of_what_is_outdated_is_told(self, index: SearchIndex) -> None:
        old = [record(f"old{number:02}", cosine=number / 40, schema_version=1) for number in range(30)]
        index.upsert([*old, record("new", cosine=0.5, schema_version=5)])
        told = ask(index, "turbine", AXIS, min_schema_version=5).outdated
        assert sorted(told) == [f"old{number:02}" for number in range(30 - MAX_OUTDATED, 30)]

    # --- validity ---------------------------------------------------------------------------------------------------

    def test_what_is_not_valid_at_the_moment_is_left_out_and_counted_once(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("retired", "turbine", cosine=0.9, invalid_at=day(10)),
                record("future", "turbine", cosine=0.8, valid_at=day(20)),
                record("current", "turbine", cosine=0.7, valid_at=day(5), invalid_at=day(30)),
                record("always", "turbine", cosine=0.6),
            ]
        )
        for moment, expected in (
            (day(1), {"retired", "always"}),
            (day(7), {"retired", "current", "always"}),
            (day(15), {"current", "always"}),
            (day(25), {"current", "future", "always"}),
        ):
            assert found(index, as_of=moment) == expected
            assert ask(index, "turbine", AXIS, as_of=moment).superseded == 4 - len(expected)

    def test_a_validity_interval_is_half_open(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("begins", "turbine", cosine=0.9, valid_at=day(10)),
                record("ends", "turbine", cosine=0.8, invalid_at=day(10)),
            ]
        )
        assert found(index, as_of=day(10)) == {"begins"}

    def test_superseded_hits_do_not_take_the_place_of_valid_ones(self, index: SearchIndex) -> None:
        old = [record(f"old{number}", "turbine", cosine=0.95, invalid_at=day(2)) for number in range(6)]
        new = [record(f"new{number}", "turbine and more", cosine=0.5 - number / 100) for number in range(4)]
        index.upsert(old + new)
        hits = ask(index, vector=AXIS, k=3)
        assert ids(hits.vector) == ["new0", "new1", "new2"]
        assert hits.superseded == 3
        assert len(ask(index, "turbine", k=3).lexical) == 3

    def test_a_search_says_when_the_first_of_its_best_that_are_not_valid_yet_becomes_so(
        self, index: SearchIndex
    ) -> None:
        index.upsert(
            [
                record("now", "turbine", cosine=0.9),
                record("ended", "turbine", cosine=0.8, invalid_at=day(1)),
                record("later", "turbine", cosine=0.7, valid_at=day(9)),
                record("soon", "turbine", cosine=0.6, valid_at=day(7), invalid_at=day(8)),
                record("other", tenant_id=GLOBEX, cosine=0.9, valid_at=day(6)),
            ]
        )
        assert ask(index, "turbine", as_of=day(5)).begins_at == day(7)
        assert ask(index, vector=AXIS, as_of=day(5)).begins_at == day(7)
        assert ask(index, "turbine", AXIS, as_of=day(7)).begins_at == day(9)
        assert ask(index, "turbine", AXIS, as_of=day(9)).begins_at is None

    def test_superseded_records_beyond_the_first_k_are_not_counted(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("a", cosine=0.9),
                record("b", cosine=0.8, invalid_at=day(1)),
                record("c", cosine=0.7),
                record("d", cosine=0.6, invalid_at=day(1)),
            ]
        )
        hits = ask(index, vector=AXIS, k=2)
        assert (ids(hits.vector), hits.superseded) == (["a", "c"], 1)

    def test_superseded_records_that_a_filter_leaves_out_are_not_counted(self, index: SearchIndex) -> None:
        index.upsert([record("old", "turbine", cosine=0.9, invalid_at=day(1)), record("new", "turbine", cosine=0.5)])
        assert ask(index, "turbine", AXIS, ids=("new",)).superseded == 0
        assert ask(index, "turbine", AXIS, filters=Filters(kinds=(Kind.FACT,))) == SearchHits()

    # --- reading and writing ----------------------------------------------------------------------------------------

    def test_every_field_comes_back_but_the_vectors(self, index: SearchIndex) -> None:
        full = record(
            "full#1",
            "Text with\nlines, a tab\t, “quotes” and 🚀.",
            cosine=0.5,
            kind=Kind.FACT,
            entity_type="Event",
            name="Naïve name",
            aliases=("One", "Two"),
            schema_version=3,
            created_at=day(1),
            updated_at=day(2),
            valid_at=day(3),
            invalid_at=day(4).replace(microsecond=123_456),
            timestamp=day(5),
            importance=0.25,
            access_count=7,
            confidence=0.75,
            source=SourceRef(type=SourceType.DOCUMENT, title="A.pdf", page=5, chunk_index=0, description="Page 5"),
            task_id="task",
            tool_name="tool",
            status="done",
            metadata={"text": "x", "whole": 3, "real": 0.5, "yes": True, "none": None},
        )
        bare = record("bare")
        index.upsert([full, bare])
        assert index.get_many(ACME, ["bare", "unknown", "full#1"]) == [bare, full.model_copy(update={"embeddings": ()})]

    def test_candidates_say_whether_they_may_be_answers_and_are_the_records_that_were_written(
        self, index: SearchIndex
    ) -> None:
        ended = record("ended", "turbine", cosine=0.5, valid_at=day(1), invalid_at=day(4), schema_version=3)
        own = record("own", "gearbox", cosine=0.5, supplied_spaces=(SPACE,), name="Gearbox")
        index.upsert([ended, own, record("theirs", tenant_id=GLOBEX)])
        found = index.candidates(ACME, ["own", "unknown", "theirs", "ended"])
        assert {one: stored.record for one, stored in found.items()} == {
            record.id: record for record in index.get_many(ACME, ["ended", "own"])
        }
        for identity, stored in found.items():
            for field in ("tenant_id", "id", "schema_version", "valid_at", "invalid_at"):
                assert getattr(stored, field) == getattr(stored.record, field), (identity, field)
            assert tuple(stored.supplied_spaces) == stored.record.supplied_spaces
        assert index.candidates(ACME, []) == index.candidates("nobody", ["own"]) == {}

    def test_writing_twice_is_writing_once(self, index: SearchIndex) -> None:
        rows = [record(f"r{number}", f"turbine number {number}", cosine=number / 10) for number in range(5)]
        index.upsert(rows)
        once = ask(index, "turbine", AXIS)
        index.upsert(rows)
        assert ask(index, "turbine", AXIS) == once
        assert index.stats(ACME).records == 5

    def test_a_new_version_replaces_the_old_whole(self, index: SearchIndex) -> None:
        index.upsert([record("r", "a turbine", cosine=0.9, name="Old", aliases=("Elder",), task_id="t")])
        index.upsert([record("r", "a gearbox", cosine=0.2, name="New")])
        assert ids(ask(index, "turbine").lexical) == []
        assert ids(ask(index, "old elder").lexical) == []
        assert ids(ask(index, "gearbox").lexical) == ["r"]
        assert ask(index, vector=AXIS).vector[0].score == pytest.approx(0.2, abs=2e-3)
        assert index.get_many(ACME, ["r"]) == [record("r", "a gearbox", name="New")]

    def test_a_new_version_without_a_vector_has_none(self, index: SearchIndex) -> None:
        index.upsert([record("r", "turbine", cosine=0.9)])
        index.upsert([record("r", "turbine")])
        assert ask(index, vector=AXIS).vector == ()

    def test_the_last_of_one_id_in_a_batch_stands(self, index: SearchIndex) -> None:
        index.upsert([record("r", "turbine", cosine=0.9), record("s", "pump"), record("r", "gearbox", cosine=0.1)])
        assert ids(ask(index, "turbine").lexical) == []
        assert ids(ask(index, "gearbox").lexical) == ["r"]
        assert [hit.score for hit in ask(index, vector=AXIS).vector] == pytest.approx([0.1], abs=2e-3)
        assert index.stats(ACME).records == 2

    def test_what_was_deleted_is_not_found(self, index: SearchIndex) -> None:
        index.upsert([record(name, "turbine", cosine=0.5, kind=Kind.FACT) for name in ("a", "b", "c")])
        assert index.delete(ACME, ["a", "c", "unknown"]) == 2
        assert found(index) == {"b"}
        assert index.get_many(ACME, ["a", "b", "c"]) == index.get_many(ACME, ["b"])
        assert index.stats(ACME) == IndexStats(records=1, by_kind={Kind.FACT: 1})
        assert index.delete(ACME, ["a"]) == 0

    def test_what_was_deleted_can_be_written_again(self, index: SearchIndex) -> None:
        index.upsert([record("a", "turbine", cosine=0.5)])
        index.delete(ACME, ["a"])
        index.upsert([record("a", "turbine", cosine=0.9)])
        assert found(index) == {"a"}
        assert ask(index, vector=AXIS).vector[0].score == pytest.approx(0.9, abs=2e-3)

    def test_stats_count_what_is_stored(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("a", entity_type="Event", kind=Kind.ENTITY, schema_version=2),
                record("b", entity_type="Event", kind=Kind.ENTITY, schema_version=4),
                record("c", entity_type="Document"),
                record("d"),
                record("e", tenant_id=GLOBEX, schema_version=9),
            ]
        )
        assert index.stats(ACME) == IndexStats(
            records=4,
            by_kind={Kind.ENTITY: 2, Kind.CHUNK: 2},
            by_entity_type={"Event": 2, "Document": 1},
        )

    # --- scanning ---------------------------------------------------------------------------------------------------

    def test_a_scan_goes_through_every_record_once_in_the_order_of_ids(self, index: SearchIndex) -> None:
        names = [f"r{number:03}" for number in range(25)] + ["it's", "naïve 🚀", "\uffee", "Z", "z" * 256, '"quoted"']
        index.upsert([record(name, f"text of {name}", cosine=0.5) for name in names])
        assert scanned(index, limit=7) == sorted(names)
        assert scanned(index, limit=31) == sorted(names)
        assert index.scan(ACME, limit=30).cursor is not None
        assert index.scan(ACME, limit=31).cursor is None

    def test_an_empty_store_is_scanned_in_one_empty_page(self, index: SearchIndex) -> None:
        assert index.scan(ACME) == ScanPage()
        index.upsert([record("a")])
        assert index.scan(ACME, schema_below=1) == ScanPage()
        assert index.scan(GLOBEX) == ScanPage()

    def test_a_scan_returns_records_as_they_were_written_without_their_vectors(self, index: SearchIndex) -> None:
        both = (embedding(at_cosine(0.3)), embedding(at_cosine(0.7, 16), WIDE_SPACE))
        written = record("a", "text", name="Name", timestamp=day(3), metadata={"n": 1.5, "x": None}, embeddings=both)
        index.upsert([written, record("b")])
        assert index.scan(ACME).records == (written.model_copy(update={"embeddings": ()}), record("b"))
        assert index.scan(ACME, with_vectors=True).records == (written, record("b"))

    def test_a_scan_finds_what_an_older_schema_wrote(self, index: SearchIndex) -> None:
        index.upsert([record(f"v{version}", schema_version=version) for version in (1, 2, 3, 10)])
        assert scanned(index, schema_below=3) == ["v1", "v2"]
        assert scanned(index, schema_below=1) == []

    def test_a_scan_finds_what_lacks_a_vector_of_a_space_or_a_model(self, index: SearchIndex) -> None:
        other = Embedding(space=SPACE, model_id="another-model", vector=AXIS)
        wide = embedding(at_cosine(1.0, 16), WIDE_SPACE)
        index.upsert(
            [
                record("bare"),
                record("other", embeddings=(other,)),
                record("small", cosine=0.5),
                record("two", embeddings=(embedding(AXIS), wide), schema_version=2),
                record("wide", embeddings=(wide,), schema_version=2),
            ]
        )
        assert scanned(index, space_missing=SPACE) == ["bare", "wide"]
        assert scanned(index, space_missing="never-used") == ["bare", "other", "small", "two", "wide"]
        assert scanned(index, model_missing=f"model-of-{SPACE}") == ["bare", "other", "wide"]
        assert scanned(index, model_missing="another-model") == ["bare", "small", "two", "wide"]
        both = {"space_missing": WIDE_SPACE, "model_missing": "another-model"}
        assert scanned(index, **both) == ["bare", "small"]
        assert scanned(index, space_missing=SPACE, schema_below=2) == ["bare"]
        index.upsert([record("two", embeddings=(wide,))])
        assert scanned(index, space_missing=SPACE) == ["bare", "two", "wide"]

    @pytest.mark.parametrize(("limit", "read"), [(1, 1), (2, 3), (100, 20)])
    def test_documents_are_listed_page_by_page_each_once(self, index: SearchIndex, limit: int, read: int) -> None:
        chunks = [f"{name}#chunk-{number}" for name in ("a.md", "b.md") for number in range(12)]
        index.upsert([record(name) for name in (*chunks, "a", "a.m", "a.md plus", "zoe")])
        index.upsert([record(name, kind=Kind.MESSAGE) for name in ("a.md#said", "b", "m1", "m2", "zz")])
        index.upsert([record("theirs", tenant_id=GLOBEX)])
        assert self.listed(index, limit, read) == ["a", "a.m", "a.md plus", "a.md#chunk-0", "b.md#chunk-0", "zoe"]

    def test_a_list_of_documents_ends_whatever_ids_their_chunks_have(self, index: SearchIndex) -> None:
        index.upsert([record(f"a#\U0010ffff{number}") for number in range(9)])
        index.upsert([record("b")])
        assert self.listed(index, limit=1, read=2) == ["a#\U0010ffff0", "b"]

    @staticmethod
    def listed(index: SearchIndex, limit: int, read: int) -> list[str]:
        seen: list[str] = []
        after = None
        for _ in range(20):
            page = documents(index, ACME, after=after, limit=limit, read=read)
            assert len(page.first_records) <= limit
            seen += [one.id for one in page.first_records]
            after = page.cursor
            if after is None:
                return seen
        message = "the list does not end"
        raise AssertionError(message)

    def test_a_scan_loses_nothing_while_others_write(self, index: SearchIndex) -> None:
        names = [f"r{number:02}" for number in range(20)]
        index.upsert([record(name, schema_version=1) for name in names])
        seen: list[str] = []
        after: str | None = None
        while True:
            page = index.scan(ACME, schema_below=2, after=after, limit=4)
            seen += [each.id for each in page.records]
            if page.cursor is None:
                break
            after = page.cursor
            # What was seen is brought up to date, as re-embedding does; others come before, between and behind.
            index.upsert([record(each.id, schema_version=2) for each in page.records])
            index.upsert([record(f"{page.records[-1].id}-new", schema_version=2), record("a", schema_version=1)])
            index.delete(ACME, [page.records[0].id])
        assert [name for name in seen if name in names] == names
        assert len(set(seen)) == len(seen)

    def test_a_cursor_is_worth_as_much_after_a_pause_or_in_another_process(self, index: SearchIndex) -> None:
        names = [f"r{number}" for number in range(9)]
        index.upsert([record(name) for name in names])
        first = index.scan(ACME, limit=4)
        assert first.cursor is not None
        again = [index.scan(ACME, after=first.cursor, limit=limit) for limit in (2, 5, 2)]
        assert [[each.id for each in page.records] for page in again] == [names[4:6], names[4:], names[4:6]]

    def test_a_scan_never_leaves_its_tenant(self, index: SearchIndex) -> None:
        index.upsert([record("a"), record("b"), record("a", tenant_id=GLOBEX), record("c", tenant_id=GLOBEX)])
        assert scanned(index, limit=1) == ["a", "b"]
        cursor = index.scan(ACME, limit=1).cursor
        with pytest.raises(InvalidRequest, match="another tenant") as caught:
            index.scan(GLOBEX, after=cursor)
        assert caught.value.field == "after"

    def test_what_is_no_cursor_is_refused(self, index: SearchIndex) -> None:
        for cursor in ("", "r1", "bm8gSlNPTg==", "WzFd", "WyJhY21lIiwgMSwgbnVsbF0=", "é"):
            with pytest.raises(InvalidRequest, match="no cursor") as caught:
                index.scan(ACME, after=cursor)
            assert caught.value.field == "after", cursor

    def test_a_page_of_no_size_or_too_much_is_refused(self, index: SearchIndex) -> None:
        for limit in (0, -1, 1_001):
            with pytest.raises(InvalidRequest, match="limit") as caught:
                index.scan(ACME, limit=limit)
            assert caught.value.field == "limit", limit

    # --- writers ----------------------------------------------------------------------------------------------------

    def test_several_writers_at_once_lose_nothing(self, index: SearchIndex) -> None:
        def write(writer: int) -> None:
            for batch in range(5):
                names = [f"w{writer}b{batch}r{number}" for number in range(4)]
                index.upsert([record(name, "turbine", cosine=0.5) for name in names])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        assert index.stats(ACME).records == 80
        assert len(found(index, k=100)) == 80

    # --- tenants ----------------------------------------------------------------------------------------------------

    def test_tenants_never_see_one_another(self, index: SearchIndex) -> None:
        index.upsert(
            [
                record("same", "turbine of acme", cosine=0.9),
                record("same", "turbine of globex", cosine=0.2, tenant_id=GLOBEX),
                record("theirs", "turbine turbine", cosine=1.0, tenant_id=GLOBEX, invalid_at=day(1)),
            ]
        )
        hits = ask(index, "turbine", AXIS)
        assert ids(hits.vector) == ids(hits.lexical) == ["same"]
        assert hits.superseded == 0
        assert hits.vector[0].score == pytest.approx(0.9, abs=2e-3)
        assert [row.content for row in index.get_many(ACME, ["same", "theirs"])] == ["turbine of acme"]
        assert found(index, ids=("same", "theirs")) == {"same"}
        assert found(index, tenant_id=GLOBEX, as_of=AS_OF) == {"same"}

    def test_deleting_leaves_other_tenants_alone(self, index: SearchIndex) -> None:
        index.upsert([record("same", "turbine", cosine=0.9, tenant_id=tenant) for tenant in (ACME, GLOBEX)])
        assert index.delete(ACME, ["same"]) == 1
        assert found(index) == set()
        assert found(index, tenant_id=GLOBEX) == {"same"}

    def test_a_tenant_whose_name_begins_alike_is_another(self, index: SearchIndex) -> None:
        index.upsert([record("r", "turbine", cosine=0.5, tenant_id="acme-2")])
        assert found(index) == set()
        assert index.stats(ACME) == IndexStats()
