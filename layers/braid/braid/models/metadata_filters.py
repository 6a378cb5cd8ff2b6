"""Metadata filters: the syntax, parsing and validation of conditions on fields, and the test of a record by them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    FailFast,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from braid.errors import InvalidRequest
from braid.models.enums_and_scalars import Frozen, Text, dates_as_text
from braid.models.metadata_terms import (
    MOMENT,
    TermTest,
    ValueKind,
    exactly,
    key_of,
    span_between,
    span_of,
    terms_of,
    terms_of_value,
)
from braid.models.records import MAX_METADATA_KEY_BYTES, MAX_WHOLE, WHOLE_TOO_LONG

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_CONDITIONS: Final = 16
MAX_VALUES: Final = 100
MAX_CONDITIONS_BYTES: Final = 16 * 1024
"""Most bytes of all conditions of a question together, as JSON: it travels in the workflow's state."""
MAX_FACETS: Final = 8
FACET_VALUES: Final = 20
"""Most values of a facet, the most frequent ones."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_OPERATOR: Final = re.compile("!=|>=|<=|=|>|<")
_BOUNDS: Final = {">=": "gte", ">": "gt", "<=": "lte", "<": "lt"}


def _short_enough(name: str) -> str:
    if len(name.encode()) > MAX_METADATA_KEY_BYTES:
        raise ValueError(f"must not be longer than {MAX_METADATA_KEY_BYTES} bytes, which no field's name is")
    return name


def _value(value: object) -> object:
    value = dates_as_text(value)
    if value is None:
        raise ValueError("must not be null; ask for records without the field with exists: false")
    if not isinstance(value, str | bool | int | float):
        message = "is not text, a number, true or false"
        raise ValueError(message)  # noqa: TRY004 - pydantic reports a ValueError as the field's, and raises a TypeError
    return _whole(value)


def _whole(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("is no finite number")
    if isinstance(value, int) and abs(value) > MAX_WHOLE:
        raise ValueError(WHOLE_TOO_LONG)
    return value


def _bound(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _whole(value)
    try:
        return MOMENT.validate_python(value)
    except ValidationError:
        raise ValueError("a bound has to be a number or a date such as 2024-05-01") from None


FieldName = Annotated[Text, AfterValidator(_short_enough)]
"""Name of a field of metadata; any text, which is compared and never interpreted."""
FieldValue = Annotated[str | bool | int | float, BeforeValidator(_value)]
Values: TypeAlias = Annotated[tuple[FieldValue, ...], Field(max_length=MAX_VALUES), FailFast()]
Bound = Annotated[
    float | int | datetime,
    PlainValidator(_bound),
    PlainSerializer(lambda bound: bound.isoformat() if isinstance(bound, datetime) else bound),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string", "format": "date-time"}]}),
]


class FieldCondition(Frozen):
    """A condition on one field of a record's metadata; every part that is stated must hold."""

    field: FieldName
    any_of: Values = ()
    """The value is one of these; of a list, any of its values is."""
    none_of: Values = ()
    """The value is none of these, or there is none; of a list, none of its values is one of these."""
    gte: Bound | None = None
    gt: Bound | None = None
    lte: Bound | None = None
    lt: Bound | None = None
    exists: Annotated[bool, Field(strict=True)] | None = None
    """Whether there is a value."""

    @property
    def bounds(self) -> dict[str, float | datetime]:
        """The stated bounds of the range, by name."""
        stated = {"gte": self.gte, "gt": self.gt, "lte": self.lte, "lt": self.lt}
        return {name: bound for name, bound in stated.items() if bound is not None}

    @model_validator(mode="after")
    def _is_a_condition(self) -> Self:
        bounds = self.bounds
        if not (self.any_of or self.none_of or bounds) and self.exists is None:
            raise ValueError("states nothing: give any_of, none_of, a bound (gte, gt, lte, lt) or exists")
        if {"gte", "gt"} <= set(bounds) or {"lte", "lt"} <= set(bounds):
            raise ValueError("has two bounds on one side: gte or gt, and lte or lt")
        if len({isinstance(bound, datetime) for bound in bounds.values()}) > 1:
            raise ValueError("has a number and a date as bounds")
        if self.exists is False and (self.any_of or bounds):
            raise ValueError("asks for a value of a field that is not to exist")
        return self


def _as_list(given: object) -> object:
    """Expand short forms: ``{"team": "payments", "floor": {"gte": 2}}`` or ``["team=payments", "floor>=2"]``."""
    if isinstance(given, list | tuple):
        if len(given) > MAX_CONDITIONS * MAX_VALUES:
            raise ValueError(f"must not hold more than {MAX_CONDITIONS} items")
        return _parsed_texts(given)
    if not isinstance(given, Mapping):
        return given
    if len(given) > MAX_CONDITIONS:
        raise ValueError(f"must not hold more than {MAX_CONDITIONS} items")
    return [
        {**asked, "field": name}
        if isinstance(asked, Mapping)
        else {"field": name, "any_of": asked if isinstance(asked, list | tuple) else [asked]}
        for name, asked in given.items()
    ]


def _parsed(text: str) -> dict[str, Any]:
    """Parse a condition such as ``team=payments``, ``floor>=2``, ``day<2024-05-01``, ``owner`` or ``!owner``."""
    found = _OPERATOR.search(text)
    if found is None and (field := text.strip().removeprefix("!").strip()):
        return {"field": field, "exists": not text.strip().startswith("!")}
    field, operator, value = text, "", ""
    if found is not None:
        field, operator, value = text[: found.start()].strip(), found.group(), text[found.end() :].strip()
        if text.startswith("=", found.end()):
            raise ValueError(f"holds {operator}=, which is no operator; did you mean {operator}?")
    if not (field and value):
        raise ValueError("holds a text that is none of field=value, field!=value, field>=value, field and !field")
    if operator in {"=", "!="}:
        return {"field": field, "any_of" if operator == "=" else "none_of": _possible_values(value)}
    number = next((one for one in _possible_values(value) if not isinstance(one, str | bool)), None)
    return {"field": field, _BOUNDS[operator]: value if number is None else number}


def _possible_values(text: str) -> list[str | bool | int | float]:
    """Return the values that a text may stand for: the text itself, and the number or truth value that it spells."""
    said = (_as_kind(text, kind) for kind in (ValueKind.NUMBER, ValueKind.BOOLEAN))
    return [text, *(one for one in said if one is not None)]


def _parsed_texts(given: Sequence[object]) -> list[Any]:
    """Parse the conditions that are texts; of several ``=`` on one field, any has to hold.

    Conditions that are objects stay as they are, and all of them hold: a program that adds those of its user to one of
    its own would otherwise show more than its own allows.
    """
    conditions: list[Any] = []
    by_field: dict[str, dict[str, Any]] = {}
    for one in given:
        if not isinstance(one, str):
            conditions.append(one)
            continue
        parsed = _parsed(one)
        if "any_of" in parsed:
            first = by_field.setdefault(parsed["field"], parsed)
            if first is not parsed:
                first["any_of"] += parsed["any_of"]
                continue
        conditions.append(parsed)
    return conditions


def _short_together(conditions: tuple[FieldCondition, ...]) -> tuple[FieldCondition, ...]:
    size = sum(len(condition.model_dump_json().encode()) for condition in conditions)
    if size > MAX_CONDITIONS_BYTES:
        raise ValueError(f"must not be longer than {MAX_CONDITIONS_BYTES:,} bytes in all")
    return conditions


ShortConditions: TypeAlias = list[FieldCondition | str] | dict[str, FieldValue | list[FieldValue] | dict[str, Any]]
"""Forms in which conditions may be given; :func:`_as_list` expands the short ones."""
Conditions = Annotated[
    tuple[FieldCondition, ...],
    Field(max_length=MAX_CONDITIONS),
    FailFast(),
    AfterValidator(_short_together),
    BeforeValidator(_as_list, json_schema_input_type=ShortConditions),
]


class FacetValue(Frozen):
    """A value of a field, and how many records have it, alone or in a list."""

    value: str | bool | int | float
    count: int


def term_tests(conditions: Iterable[FieldCondition], tenant_id: str = "") -> list[TermTest]:
    """Return the tests of a record's terms that are equivalent to the conditions."""
    tests: list[TermTest] = []
    for condition in conditions:
        key = key_of(condition.field, tenant_id)
        for values, wanted in ((condition.any_of, True), (condition.none_of, False)):
            if values:
                terms = tuple(dict.fromkeys(terms_of_value(key, value)[0] for value in values))
                tests.append(TermTest(terms=terms, wanted=wanted))
        if condition.exists is not None:
            tests.append(TermTest(span=span_of(condition.field, None, tenant_id), wanted=condition.exists))
        if condition.bounds:
            tests.append(TermTest(span=span_between(key, condition.bounds)))
    return tests


def meet(
    metadata: Mapping[str, object],
    conditions: Sequence[FieldCondition],
    tests: Iterable[TermTest] | None = None,
) -> bool:
    """Return whether a record's metadata meets all conditions, as the stores decide it.

    Of a list, one of its values has to be in a range, or among ``any_of``, and none of them among ``none_of``.

    Parameters
    ----------
    tests
        :func:`term_tests` of the conditions, computed once for many records; computed here when left out.
    """
    terms = frozenset(terms_of({one.field: metadata.get(one.field) for one in conditions}))
    return all(
        (
            not terms.isdisjoint(test.terms)
            or (test.span is not None and any(test.span.start <= term < test.span.end for term in terms))
        )
        is test.wanted
        for test in (term_tests(conditions) if tests is None else tests)
    )


def typed(
    conditions: Iterable[FieldCondition], kinds: Mapping[str, frozenset[ValueKind]]
) -> tuple[FieldCondition, ...]:
    """Return the conditions with their values converted to the kinds that their fields have.

    Where all values of a field are of one kind, a condition's value is converted to it: ``"3"`` to 3 where the field
    has numbers. Raises InvalidRequest if it cannot be, or if a range is asked of a field whose values are of several
    kinds, or of another kind than the range.

    Parameters
    ----------
    kinds
        Kinds of values that the tenant's records have, by field; a field that no record has may be missing.
    """
    return tuple(_typed(condition, kinds.get(condition.field, frozenset())) for condition in conditions)


def _typed(condition: FieldCondition, kinds: frozenset[ValueKind]) -> FieldCondition:
    """Return one condition as :func:`typed` does, given the kinds of its field's values; unchanged for none."""
    if not kinds:
        return condition
    had = " and ".join(kind.plural for kind in sorted(kinds))
    bounds = condition.bounds
    if bounds:
        asked = ValueKind.DATE if isinstance(next(iter(bounds.values())), datetime) else ValueKind.NUMBER
        if kinds != {asked}:
            why = "a range needs a field of one kind" if len(kinds) > 1 else f"the range is of {asked.plural}"
            if ValueKind.TEXT in kinds:
                form = "a date such as 2024-05-01" if asked is ValueKind.DATE else "a number, without quotes,"
                why += f"; write it as {form} in every record that has it"
            raise _wrong(condition, f"records have {had} there, and {why}")
    if len(kinds) > 1:
        return condition
    (kind,) = kinds
    changes: dict[str, Any] = {}
    for name in ("any_of", "none_of"):
        values = [_as_kind(value, kind) for value in getattr(condition, name)]
        if None in values:
            raise _wrong(condition, f"records have {had} there, and a value of {name} is something else")
        changes[name] = tuple(values)
    return condition.altered(**changes)


def _as_kind(value: str | float, kind: ValueKind) -> str | float | None:
    """Convert a value to a kind; None if it cannot be."""
    if kind in {ValueKind.TEXT, ValueKind.DATE}:
        return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else exactly(value)
    if not isinstance(value, str):
        return value if isinstance(value, bool) == (kind is ValueKind.BOOLEAN) else None
    if kind is ValueKind.BOOLEAN:
        return {"true": True, "false": False}.get(value.strip().lower())
    if not _NUMBER.fullmatch(value.strip()):  # float() reads "1_0" and Arabic digits too
        return None
    number: int | float = int(value) if _INTEGER.fullmatch(value) else float(value)
    return number if math.isfinite(number) else None


def _wrong(condition: FieldCondition, why: str) -> InvalidRequest:
    return InvalidRequest.of("filters.metadata", f"field {condition.field!r}: {why}")
