"""Conditions on metadata: what meets them, how they are written in short, and which are refused."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest
from braid.models import FieldCondition, Filters, Question, ValueKind, query
from braid.models.metadata_filters import meet, term_tests, typed
from braid.models.metadata_terms import span_of, terms_of, value_of
from braid.retrieval.stages.candidates import meets
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.contract.shapes import record

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBER, TEXT, DATE, BOOLEAN = ValueKind.NUMBER, ValueKind.TEXT, ValueKind.DATE, ValueKind.BOOLEAN
NUMBERS = st.one_of(
    st.integers(-(2**63) + 1, 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.integers(-3, 3)
)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - zone beside it
VALUES = st.one_of(NUMBERS, st.booleans(), st.sampled_from(["a", "b", "", "3", "true", "x" * 300, "x" * 299 + "y"]))
BOUNDS: dict[str, Callable[[Any, Any], bool]] = {
    "gte": lambda value, bound: value >= bound,
    "gt": lambda value, bound: value > bound,
    "lte": lambda value, bound: value <= bound,
    "lt": lambda value, bound: value < bound,
}


def conditions(given: object) -> tuple[FieldCondition, ...]:
    return Filters.model_validate({"metadata": given}).metadata


def refusal(given: object) -> str:
    with pytest.raises(ValidationError) as caught:
        Question.model_validate({"text": "x", "filters": {"metadata": given}})
    return str(InvalidRequest.from_validation(caught.value))


def alike(one: object, other: object) -> bool:
    return (
        isinstance(one, bool) == isinstance(other, bool)
        and isinstance(one, str) == isinstance(other, str)
        and one == other
    )


@given(value=VALUES, asked=st.lists(VALUES, min_size=1, max_size=4))
def test_a_value_is_one_of_those_it_equals_and_is_of_one_kind_with(value: Any, asked: list[Any]) -> None:
    equal = any(alike(value, one) for one in asked)
    assert meet({"f": value, "other": "a"}, conditions({"f": asked})) == equal
    assert meet({"f": value}, conditions({"f": {"none_of": asked}})) == (not equal)


@given(
    value=st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53)),
    bound=NUMBERS.map(float),
)
def test_numbers_are_in_ranges_as_numbers_are(value: float, bound: float) -> None:
    for name, holds in BOUNDS.items():
        assert meet({"f": value}, conditions({"f": {name: bound}})) == holds(value, bound), name


@given(value=MOMENTS, bound=MOMENTS)
def test_dates_are_in_ranges_as_moments_are(value: datetime, bound: datetime) -> None:
    for name, holds in BOUNDS.items():
        assert meet({"f": value.isoformat()}, conditions({"f": {name: bound.isoformat()}})) == holds(value, bound), name


def test_all_of_the_conditions_have_to_hold_and_null_is_no_value() -> None:
    asked = conditions({"a": {"exists": True}, "b": {"exists": False}})
    assert meet({"a": 0, "b": None}, asked)
    assert not meet({"a": None}, asked)
    assert not meet({"a": "", "b": ""}, asked)


@pytest.mark.parametrize("value", ["gate\x1f7", "\x1f", "\x1f" * 200])
def test_a_short_text_is_said_whole_whatever_its_characters(value: str) -> None:
    (term,) = terms_of({"place": value})
    assert value_of(term) == value
    (longer,) = terms_of({"place": value * 201})
    assert value_of(longer) == f"{(value * 201)[:200]}…"


@given(key=st.text(max_size=60), value=VALUES)
def test_a_term_says_its_value_and_stands_in_the_range_of_its_field_and_kind(key: str, value: Any) -> None:
    first, *_ = terms_of({key: value})
    said = value_of(first)
    assert alike(said, value) or (
        isinstance(said, str) and len(value) > 200 and value.startswith(said.removesuffix("…"))
    )
    start, end = span_of(key)
    assert start <= first < end
    assert sum(span_of(key, kind).start <= first < span_of(key, kind).end for kind in ValueKind) == 1


def test_no_term_is_longer_than_a_store_takes() -> None:
    assert (
        max(len(term.encode()) for term in terms_of({"k" * 256: "語" * 5_000, "n": 1.7e308, "d": "2024-01-01"})) < 512
    )


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (["team=payments"], {"team": "payments"}),
        (["team=a", "floor>2", "team=b"], {"team": ["a", "b"], "floor": {"gt": 2}}),
        ([" floor >= 2.5 "], {"floor": {"gte": 2.5}}),
        (["day<=2024-05-01"], {"day": {"lte": "2024-05-01"}}),
        (["a.b=x=y"], {"a.b": "x=y"}),
        (["owner"], {"owner": {"exists": True}}),
        (["! owner"], {"owner": {"exists": False}}),
        (["team!=a"], {"team": {"none_of": ["a"]}}),
        (["floor=3"], {"floor": ["3", 3]}),
        (["open=true"], {"open": ["true", True]}),
    ],
)
def test_conditions_can_be_written_in_short(short: list[str], long: dict[str, Any]) -> None:
    assert conditions(short) == conditions(long)


def test_of_texts_on_one_field_any_has_to_hold_and_of_objects_all() -> None:
    own, of_user = {"field": "tags", "any_of": ["mine"]}, {"field": "tags", "any_of": ["theirs"]}
    assert len(conditions([own, of_user])) == len(conditions([own, "tags=theirs"])) == 2
    asked = conditions([own, of_user])
    assert [meet({"tags": tags}, asked) for tags in (["mine"], ["theirs"], ["mine", "theirs"])] == [False, False, True]
    assert meet({"tags": ["theirs"]}, conditions(["tags=mine", "tags=theirs"]))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"f": {}}, "filters.metadata.0: states nothing"),
        ({"f": {"gte": None, "lt": None}}, "filters.metadata.0: states nothing"),
        ({"f": list(range(1_000))}, "filters.metadata.0.any_of: must not hold more than 100 items"),
        ([f"f={number}" for number in range(1_000)], "filters.metadata.0.any_of: must not hold more than 100 items"),
        (["f=1"] * 100_000, "filters.metadata: must not hold more than 16 items"),
        ({f"f{number}": 1 for number in range(17)}, "filters.metadata: must not hold more than 16 items"),
        ({"f": {"any_of": [1], "field": "g", "and": []}}, "filters.metadata.0.and: unknown field"),
        ({"k" * 10_000: 1}, "filters.metadata.0.field: must not be longer than 256 bytes"),
        ({"f": "x" * 20_000}, "filters.metadata: must not be longer than 16,384 bytes in all"),
        ({"f": None}, "filters.metadata.0.any_of.0: must not be null"),
        ({"f": [{"g": 1}]}, "filters.metadata.0.any_of.0: is not text, a number, true or false"),
        ({"f": 10**30}, "filters.metadata.0.any_of.0: must not hold a whole number of more than 64 bits"),
        ({"f": math.nan}, "filters.metadata.0.any_of.0: is no finite number"),
        ({"f": {"gte": "high"}}, "filters.metadata.0.gte: a bound has to be a number or a date"),
        ({"f": {"gte": True}}, "filters.metadata.0.gte: a bound has to be a number or a date"),
        ({"f": {"gte": 1, "gt": 1}}, "filters.metadata.0: has two bounds on one side"),
        ({"f": {"gte": 1, "lt": "2024-01-01"}}, "filters.metadata.0: has a number and a date as bounds"),
        (
            {"f": {"exists": False, "any_of": [1]}},
            "filters.metadata.0: asks for a value of a field that is not to exist",
        ),
        (["=3"], "filters.metadata: holds a text that is none of"),
        (["f>="], "filters.metadata: holds a text that is none of"),
        (["  "], "filters.metadata: holds a text that is none of"),
        ("f=3", "filters.metadata: must be a list"),
    ],
)
def test_a_wrong_condition_is_refused_by_its_place_and_never_echoed(asked: object, said: str) -> None:
    told = refusal(asked)
    assert told.startswith(said)
    assert len(told) < 300


def test_where_tenants_share_an_index_no_range_of_one_holds_a_term_of_another() -> None:
    for tenant, other in (("acme", "globex"), ("acme", "acm"), ("acme", "")):
        start, end = span_of("team", None, tenant)
        assert all(start <= term < end for term in terms_of({"team": "red"}, tenant))
        assert not any(start <= term < end for term in terms_of({"team": "red"}, other))


@pytest.mark.parametrize(
    ("asked", "kinds", "becomes"),
    [
        ({"f": "3"}, {NUMBER}, {"f": 3}),
        ({"f": [" -.5e3 ", "+7."]}, {NUMBER}, {"f": [-500.0, 7.0]}),
        ({"f": ["3", 3]}, {TEXT}, {"f": ["3", "3"]}),
        ({"f": {"none_of": [3.0]}}, {TEXT}, {"f": {"none_of": ["3"]}}),
        ({"f": ["true", True]}, {BOOLEAN}, {"f": [True, True]}),
        ({"f": True}, {TEXT}, {"f": "true"}),
        ({"f": ["3", 3]}, {TEXT, NUMBER}, {"f": ["3", 3]}),
        ({"f": {"gte": 3}}, {NUMBER}, {"f": {"gte": 3}}),
        ({"f": {"gte": "2024-01-01"}}, {DATE}, {"f": {"gte": "2024-01-01"}}),
        ({"f": {"gte": 3}}, set(), {"f": {"gte": 3}}),
        ({"f": {"exists": True}}, {TEXT, NUMBER}, {"f": {"exists": True}}),
    ],
)
def test_a_value_is_read_as_its_field_has_it(asked: object, kinds: set[ValueKind], becomes: object) -> None:
    assert typed(conditions(asked), {"f": frozenset(kinds)}) == conditions(becomes)


@pytest.mark.parametrize(
    ("asked", "kinds", "said"),
    [
        (
            {"f": {"gte": 3}},
            {NUMBER, TEXT},
            (
                "records have numbers and text there, and a range needs a field of one kind; write it as a number, "
                "without quotes, in every record that has it"
            ),
        ),
        (
            {"f": {"gte": 3}},
            {TEXT},
            (
                "records have text there, and the range is of numbers; write it as a number, without quotes, in every "
                "record that has it"
            ),
        ),
        ({"f": {"gte": 3}}, {DATE}, "records have dates there, and the range is of numbers"),
        ({"f": {"lt": "2024-01-01"}}, {NUMBER}, "records have numbers there, and the range is of dates"),
        ({"f": ["1_0"]}, {NUMBER}, "records have numbers there, and a value of any_of is something else"),
        ({"f": ["\u0663"]}, {NUMBER}, "records have numbers there, and a value of any_of is something else"),
        ({"f": ["3", "many"]}, {NUMBER}, "records have numbers there, and a value of any_of is something else"),
        (
            {"f": {"none_of": [2]}},
            {BOOLEAN},
            "records have true or false there, and a value of none_of is something else",
        ),
    ],
)
def test_a_condition_that_its_field_can_never_meet_is_refused_by_its_name(
    asked: object, kinds: set[ValueKind], said: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        typed(conditions(asked), {"f": frozenset(kinds)})
    assert str(caught.value) == f"filters.metadata: field 'f': {said}"
    assert caught.value.field == "filters.metadata"


def test_conditions_travel_as_json_and_are_tests_of_terms_alone() -> None:
    asked = conditions({"a'; DROP TABLE x": {"gte": "2024-05-01T10:00:00+02:00", "none_of": ["' OR 1=1"]}, "n": 3.5})
    assert Filters.model_validate_json(Filters(metadata=asked).model_dump_json()).metadata == asked
    assert [test.wanted for test in term_tests(asked)] == [False, True, True]


def test_conditions_are_made_into_tests_once_for_all_records_that_are_tried_with_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[object] = []
    monkeypatch.setattr(query, "term_tests", lambda asked: (made.append(asked), term_tests(asked))[1])
    filters = Filters(metadata={"team": list("abc"), "floor": {"gt": 2}})
    held = [meets(record(f"r{at}", metadata={"team": "b", "floor": at}), filters) for at in range(5)]
    assert held == [False, False, False, True, True]
    assert len(made) == 1
    assert filters == Filters.model_validate_json(filters.model_dump_json())


@pytest.mark.parametrize("operator", ["=", "!=", ">=", "<="])
def test_a_condition_with_one_sign_too_many_is_refused_with_the_operator(operator: str) -> None:
    with pytest.raises(ValidationError, match=f"holds {operator}=, which is no operator; did you mean {operator}"):
        Filters(metadata=[f"team{operator}=people"])
    assert Filters(metadata=["url=a==b"]).metadata[0].any_of == ("a==b",)
