"""What crosses a boundary is checked there: every field is strict, every refusal names it."""

from __future__ import annotations

import json
import math
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from threading import Barrier
from typing import Any

import pytest
from braid.models import (
    Embedding,
    Filters,
    Frozen,
    GraphConstraint,
    Hints,
    Kind,
    Path,
    PlanStep,
    Query,
    Record,
    Relationship,
    SourceRef,
    StepOperation,
    TimeRange,
    Vertex,
    Weights,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError, create_model

from tests.fakes import embedding, query, record

ASKED = {"text": "who is Oyin", "tenant_id": "acme"}


def refused_field(shape: type[BaseModel], **fields: Any) -> str:
    """Return the first field that a refusal names."""
    with pytest.raises(ValidationError) as caught:
        shape.model_validate(fields)
    return ".".join(str(part) for part in caught.value.errors()[0]["loc"])


@pytest.mark.parametrize("top_k", ["5", True, math.nan, 5.0, 5.5, 0, 51, -1, None, [5]])
def test_top_k_is_an_integer_from_1_to_50_and_nothing_like_one(top_k: Any) -> None:
    assert refused_field(Query, **ASKED, top_k=top_k) == "top_k"


@pytest.mark.parametrize("top_k", [1, 50])
def test_the_ends_of_top_k_are_allowed(top_k: int) -> None:
    assert query(top_k=top_k).top_k == top_k


@pytest.mark.parametrize(
    "tenant",
    [
        "",
        "a b",
        "../x",
        "ten٣nt",
        "*",
        "a,b",
        "a::b",
        "acme\n",
        "\nacme",
        "acme\x00",
        "-acme",
        "_acme",
        "akmé",
        "\uff41cme",
        "a" * 65,
        "a\ud800",
        7,
        None,
    ],
)
@pytest.mark.parametrize("shape", [Query, Record, Vertex])
def test_a_tenant_is_an_ascii_name_and_nothing_else(shape: type[BaseModel], tenant: Any) -> None:
    others = {"text": "x"} if shape is Query else {"id": "a"}
    assert refused_field(shape, **others, tenant_id=tenant) == "tenant_id"


@pytest.mark.parametrize("tenant", ["a", "7", "Acme-1_b", "a" * 64])
def test_a_plain_tenant_is_allowed(tenant: str) -> None:
    assert Query(text="x", tenant_id=tenant).tenant_id == tenant


@pytest.mark.parametrize("text", ["", " \n\t ", "x" * 10_001, "a\x00b", "a\ud800b", 7, None, b"\xff"])
def test_a_query_is_1_to_10000_characters_of_text(text: Any) -> None:
    assert refused_field(Query, tenant_id="acme", text=text) == "text"


def test_a_query_is_read_without_the_space_around_it() -> None:
    assert query("  who\nis Oyin ").text == "who\nis Oyin"
    assert len(query(" " + "x" * 10_000 + " ").text) == 10_000


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"colour": "red"}, "colour"),
        ({"filters": {"colour": "red"}}, "filters.colour"),
        ({"intent": "guess"}, "intent"),
        ({"vector_weight": 1.01}, "vector_weight"),
        ({"graph_weight": math.nan}, "graph_weight"),
        ({"hints": {"min_similarity": -0.1}}, "hints.min_similarity"),
        ({"hints": {"steps": [{"operation": "search"}] * 7}}, "hints.steps"),
        ({"hints": {"steps": [{"operation": "search", "limit": "10"}]}}, "hints.steps.0.limit"),
        ({"graph_constraint": {"entity": "x", "depth": 4}}, "graph_constraint.depth"),
        ({"graph_constraint": {"entity": "x", "types": ["x').drop()"]}}, "graph_constraint.types.0"),
        ({"graph_constraint": {"entity": "x", "types": ["A\n"]}}, "graph_constraint.types.0"),
        ({"filters": {"entity_types": ["9lives"]}}, "filters.entity_types.0"),
        ({"as_of": "yesterday"}, "as_of"),
    ],
)
def test_a_field_that_is_wrong_or_unknown_is_named(fields: dict[str, Any], field: str) -> None:
    assert refused_field(Query, **ASKED, **fields) == field


def test_a_question_that_weighs_nothing_or_constrains_by_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match="both 0"):
        query(vector_weight=0, graph_weight=0)
    with pytest.raises(ValidationError, match="needs a graph_constraint"):
        query(hints=Hints(strategy="graph_first"))
    assert query(hints=Hints(strategy="graph_first"), graph_constraint=GraphConstraint(entity="x"))
    assert query(hints=Hints(strategy="vector_first"), graph_constraint=GraphConstraint(entity="x"))


@pytest.mark.parametrize(
    "hints", [{"strategy": "semantic"}, {"strategy": "hybrid"}, {"steps": [{"operation": "search"}]}]
)
def test_a_strategy_that_would_not_keep_to_a_graph_constraint_is_refused(hints: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="does not keep to a graph_constraint"):
        query(hints=Hints.model_validate(hints), graph_constraint=GraphConstraint(entity="x"))


@pytest.mark.parametrize("shape", [query(), record("a"), Filters(), embedding(1.0)])
def test_no_shape_can_be_changed(shape: BaseModel) -> None:
    name = next(iter(type(shape).model_fields))
    with pytest.raises(ValidationError, match="frozen"):
        setattr(shape, name, "other")


@pytest.mark.parametrize("identity", ["", "a\nb", "a\x00", "a\u0085", "é" * 129, "x" * 257, "a\ud800", 7])
def test_an_id_is_at_most_256_bytes_without_controls(identity: Any) -> None:
    assert refused_field(Record, id=identity, tenant_id="acme") == "id"
    assert refused_field(Relationship, tenant_id="acme", source="a", type="KNOWS", target=identity) == "target"


@pytest.mark.parametrize("unseen", ["\u202e", "\u2066", "\u200b", "\ufeff", "\U000e0041"])
def test_a_name_loses_what_would_make_it_look_like_another(unseen: str) -> None:
    made = record("a", name=f"invoice{unseen}gpj.exe", source={"title": f"{unseen}March"}, aliases=(f"Ma{unseen}y",))
    assert (made.name, made.source.title, made.aliases) == ("invoicegpj.exe", "March", ("May",))
    assert record("a", name=unseen).name == "\N{REPLACEMENT CHARACTER}"
    joined = "\u200fA\u200cB\u200d\u061c"  # as words of Hebrew, Arabic and Persian have them
    assert record("a", name=joined).name == joined


def test_the_longest_id_is_allowed() -> None:
    assert record("é" * 128).id == "é" * 128


@pytest.mark.parametrize("score", [math.nan, math.inf, -0.01, 1.01, "high"])
@pytest.mark.parametrize("field", ["importance", "confidence"])
def test_a_score_of_a_record_is_in_the_unit_interval(field: str, score: Any) -> None:
    assert refused_field(Record, id="a", tenant_id="acme", **{field: score}) == field


def test_no_metadata_holds_what_json_cannot() -> None:
    assert refused_field(Record, id="a", tenant_id="acme", metadata={"x": math.nan}).startswith("metadata.x")
    assert refused_field(Record, id="a", tenant_id="acme", metadata={"x": {"y": 1}}) == "metadata.x"
    for value in ([{"y": 1}], [["a"]], ["a", None], ["a"] * 101):
        assert refused_field(Record, id="a", tenant_id="acme", metadata={"x": value}) == "metadata.x"
    assert refused_field(Record, id="a", tenant_id="acme", metadata={"x": ["a", math.nan]}).startswith("metadata.x")
    assert Record(id="a", tenant_id="acme", metadata={"x": (True, 1, "a")}).metadata == {"x": [True, 1, "a"]}


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=40))
def test_a_vector_comes_back_from_json_bit_by_bit(values: list[float]) -> None:
    made = embedding(*values)
    assert Embedding.model_validate_json(made.model_dump_json()) == made
    assert Embedding.model_validate(json.loads(made.model_dump_json())) == made
    assert made.model_dump()["vector"] == struct.pack(f"<{len(values)}f", *values)
    assert made.dimension == len(values)


@pytest.mark.parametrize("vector", [b"", b"abc", b"abcde", "", "AAA", "not base64!", "AAAAAAA=\n", [0.1], None])
def test_a_vector_is_whole_float32_values_or_their_base64(vector: Any) -> None:
    assert refused_field(Embedding, space="s", model_id="m", vector=vector) == "vector"


def test_a_record_has_one_vector_a_space() -> None:
    with pytest.raises(ValidationError, match="two vectors of one space"):
        record("a", embeddings=(embedding(1.0), embedding(0.5)))
    assert record("a", embeddings=(embedding(1.0), embedding(1.0, space="other")))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2024-05-17", datetime(2024, 5, 17, tzinfo=UTC)),
        ("2024-05-17T10:00:00", datetime(2024, 5, 17, 10, tzinfo=UTC)),
        ("2024-05-17T10:00:00Z", datetime(2024, 5, 17, 10, tzinfo=UTC)),
        ("2024-05-17T10:00:00+02:00", datetime(2024, 5, 17, 8, tzinfo=UTC)),
        (datetime(2024, 5, 17), datetime(2024, 5, 17, tzinfo=UTC)),  # noqa: DTZ001 - a naive time is the point
        (datetime(2024, 5, 17, tzinfo=timezone(timedelta(hours=-3))), datetime(2024, 5, 17, 3, tzinfo=UTC)),
    ],
)
def test_every_time_is_stored_in_utc_and_a_naive_one_was_utc(written: Any, meant: datetime) -> None:
    stored = query(as_of=written).as_of
    assert stored == meant
    assert stored is not None
    assert stored.tzinfo is UTC


@pytest.mark.parametrize("written", ["soon", "2024-13-01", "", 2024, True, "0001-01-01T00:00:00+05:00", math.nan])
def test_what_is_no_time_in_utc_is_refused(written: Any) -> None:
    assert refused_field(Query, **ASKED, as_of=written) == "as_of"


def test_an_interval_ends_after_it_starts() -> None:
    with pytest.raises(ValidationError, match="end is not after start"):
        TimeRange(start="2024-05-02", end="2024-05-02")
    with pytest.raises(ValidationError, match="invalid_at is before valid_at"):
        record("a", valid_at="2024-05-02", invalid_at="2024-05-01")
    assert TimeRange(end="2024-05-02").start is None
    assert record("a", valid_at="2024-05-02", invalid_at="2024-05-02")


def test_a_path_has_a_type_between_each_two_ids_and_a_name_for_each() -> None:
    with pytest.raises(ValidationError, match="2 ids has 2 types"):
        Path(ids=("a", "b"), types=("X", "Y"))
    with pytest.raises(ValidationError, match="0 ids has 0 types"):
        Path(ids=(), types=())
    with pytest.raises(ValidationError, match="2 ids has 1 names"):
        Path(ids=("a", "b"), types=("X",), names=("A",))
    with pytest.raises(ValidationError):
        Path(ids=("a", "b"), types=("X",), evidence=("r", None))
    assert Path(ids=("a",), types=())


def test_a_path_goes_on_where_it_ended() -> None:
    to_b = Path(ids=("a", "b"), types=("X",), names=("A", "B"), inward=(True,), evidence=("r",))
    from_b = Path(ids=("b", "c"), types=("Y",))
    assert to_b.onwards(from_b) == Path(
        ids=("a", "b", "c"),
        types=("X", "Y"),
        names=("A", "B", "c"),
        inward=(True, False),
        evidence=("r", None),
    )
    assert to_b.onwards(Path(ids=("b",), types=())) == to_b
    back = Path(ids=("b", "a"), types=("Y",))
    assert to_b.onwards(back) == back


def test_weights_sum_to_one() -> None:
    with pytest.raises(ValidationError, match="sum to"):
        Weights(vector=0.5, lexical=0.5, graph=0.5)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": "Keelson", "content": "A database."}, "Keelson\nA database."),
        ({"source": SourceRef(title="Guide"), "content": "Use it."}, "Guide\nUse it."),
        ({"name": "Keelson", "source": SourceRef(title="Guide"), "content": ""}, "Keelson"),
        ({"content": "Use it."}, "Use it."),
        ({"content": ""}, ""),
    ],
)
def test_a_records_text_is_its_name_or_title_then_its_content(fields: dict[str, Any], text: str) -> None:
    assert record("a", **fields).text() == text


def test_a_question_comes_back_from_json_whole() -> None:
    asked = query(
        as_of="2024-05-17",
        filters=Filters(kinds=("fact",), time_range=TimeRange(start="2024-01-01")),
        hints=Hints(steps=(PlanStep(operation=StepOperation.EXPAND, types=("CALLS",)),)),
    )
    assert Query.model_validate_json(asked.model_dump_json()) == asked


def test_the_defaults_that_stored_records_leave_out_stay_as_they_are() -> None:
    # The embedded store keeps what differs from them: another default would change what is stored already.
    plain = Record(id="a", tenant_id="acme")
    stored = {name: getattr(plain, name) for name in Record.model_fields if name not in {"id", "tenant_id", "source"}}
    lists = ("aliases", "embeddings", "supersedes", "supplied_spaces")
    values = {"importance": 0.5, "trusted": True, "access_count": 0, "schema_version": 1, "content": "", "metadata": {}}
    assert {name: value for name, value in stored.items() if value is not None} == {
        **dict.fromkeys(lists, ()),
        **values,
        "kind": Kind.CHUNK,
    }
    assert set(plain.source.model_dump().values()) == {None}


def test_what_no_process_uses_takes_no_time_at_its_start() -> None:
    class Unused(Frozen):
        number: int

    assert not Unused.__pydantic_complete__
    assert Unused(number=1).number == 1
    assert Unused.__pydantic_complete__


def test_threads_may_be_the_first_to_use_a_model_at_the_same_time() -> None:
    threads, interval = 6, sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for _ in range(60):
                inner = create_model("Inner", __base__=Frozen, **{f"field_{number}": (int, 0) for number in range(20)})
                outer = create_model("Outer", __base__=Frozen, one=(inner, ...), many=(tuple[inner, ...], ()))
                begin = Barrier(threads)

                def use(outer: type[BaseModel] = outer, begin: Barrier = begin) -> str:
                    begin.wait()
                    return outer.model_validate({"one": {}, "many": [{}]}).model_dump_json()

                assert len({used.result() for used in [pool.submit(use) for _ in range(threads)]}) == 1
    finally:
        sys.setswitchinterval(interval)
