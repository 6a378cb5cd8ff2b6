"""Conditions on the fields of records' metadata, and the terms by which stores find what meets them.

A record has a term for each field of its metadata: a hash of the field's name, a letter for the kind of value, and the
value in a form whose alphabetical order is its own. So a store needs one column of strings whatever fields there are,
equality is a term, and a range of numbers or dates is a range of terms.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    FailFast,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from braid.errors import InvalidRequest
from braid.models.records import MAX_METADATA_KEY_BYTES, MAX_WHOLE
from braid.models.scalars import Frozen, Text, Timestamp, microseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_CONDITIONS: Final = 16
MAX_VALUES: Final = 100
MAX_CONDITIONS_BYTES: Final = 16 * 1024
"""Of all conditions of a question together, as JSON: it travels in the workflow's state."""
MAX_FACETS: Final = 8
FACET_VALUES: Final = 20
"""Values that a facet has, the most frequent ones."""
_TEXT_BYTES: Final = 200
"""Of a text in a term; a longer one is its beginning and its hash."""
_KEY_CHARACTERS: Final = 20
_EXACT_WHOLE: Final = 10**19
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}\S{0,26})?")
_MOMENT: Final[TypeAdapter[datetime]] = TypeAdapter(Timestamp)
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,18}")
_OPERATOR: Final = re.compile("!=|>=|<=|=|>|<")
_BOUNDS: Final = {">=": "gte", ">": "gt", "<=": "lte", "<": "lt"}
_SIGN: Final = 1 << 63
_CUT: Final = "\x1f"


class ValueKind(StrEnum):
    """What the values of a field are."""

    NUMBER = "n"
    TEXT = "t"
    DATE = "s"
    """Text that is a date or a time by ISO 8601."""
    BOOLEAN = "b"

    @property
    def plural(self) -> str:
        """What several of them are called."""
        return {"n": "numbers", "t": "text", "s": "dates", "b": "true or false"}[self.value]


MOMENT_KIND: Final = "d"
"""Of a second term that dates have: the moment, by which they are ordered."""


def _short_enough(name: str) -> str:
    if len(name.encode()) > MAX_METADATA_KEY_BYTES:
        raise ValueError(f"must not be longer than {MAX_METADATA_KEY_BYTES} bytes, which no field's name is")
    return name


def _value(value: object) -> object:
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
        raise ValueError("must not hold a whole number of more than 64 bits")
    return value


def _bound(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _whole(value)
    try:
        return _MOMENT.validate_python(value)
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
    """What one field of a record's metadata has to be; all that is stated has to hold."""

    field: FieldName
    any_of: Values = ()
    """The value is one of these."""
    none_of: Values = ()
    """The value is none of these, or there is none."""
    gte: Bound | None = None
    gt: Bound | None = None
    lte: Bound | None = None
    lt: Bound | None = None
    exists: Annotated[bool, Field(strict=True)] | None = None
    """Whether there is a value."""

    @property
    def bounds(self) -> dict[str, float | datetime]:
        """The bounds of the range that are stated, by their names."""
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
    """Read conditions in short: ``{"team": "payments", "floor": {"gte": 2}}`` or ``["team=payments", "floor>=2"]``."""
    if isinstance(given, list | tuple):
        if len(given) > MAX_CONDITIONS * MAX_VALUES:
            raise ValueError(f"must not hold more than {MAX_CONDITIONS} items")
        return _together([_parsed(one) if isinstance(one, str) else one for one in given])
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
    """Read a condition such as ``team=payments``, ``floor>=2``, ``day<2024-05-01``, ``owner`` or ``!owner``."""
    found = _OPERATOR.search(text)
    if found is None and (field := text.strip().removeprefix("!").strip()):
        return {"field": field, "exists": not text.strip().startswith("!")}
    field, operator, value = text, "", ""
    if found is not None:
        field, operator, value = text[: found.start()].strip(), found.group(), text[found.end() :].strip()
    if not (field and value):
        raise ValueError("holds a text that is none of field=value, field!=value, field>=value, field and !field")
    if operator in {"=", "!="}:
        return {"field": field, "any_of" if operator == "=" else "none_of": _readings(value)}
    number = next((one for one in _readings(value) if not isinstance(one, str | bool)), None)
    return {"field": field, _BOUNDS[operator]: value if number is None else number}


def _readings(text: str) -> list[str | bool | int | float]:
    """Return what a text may be meant as: the text, and the number, true or false that it says."""
    said = (_as_kind(text, kind) for kind in (ValueKind.NUMBER, ValueKind.BOOLEAN))
    return [text, *(one for one in said if one is not None)]


def _together(conditions: list[Any]) -> list[Any]:
    """Put the values that texts state of one field into one condition: any of them will do."""
    kept: list[Any] = []
    by_field: dict[str, dict[str, Any]] = {}
    for one in conditions:
        if isinstance(one, Mapping) and set(one) == {"field", "any_of"} and isinstance(one["any_of"], list):
            field = str(one["field"])
            if field in by_field:
                by_field[field]["any_of"] += one["any_of"]
                continue
            one = by_field[field] = {"field": one["field"], "any_of": list(one["any_of"])}  # noqa: PLW2901 - a copy
        kept.append(one)
    return kept


def _in_all(conditions: tuple[FieldCondition, ...]) -> tuple[FieldCondition, ...]:
    size = sum(len(condition.model_dump_json().encode()) for condition in conditions)
    if size > MAX_CONDITIONS_BYTES:
        raise ValueError(f"must not be longer than {MAX_CONDITIONS_BYTES:,} bytes in all")
    return conditions


Conditions = Annotated[
    tuple[FieldCondition, ...],
    Field(max_length=MAX_CONDITIONS),
    FailFast(),
    AfterValidator(_in_all),
    BeforeValidator(_as_list),
]


class FacetValue(Frozen):
    """A value of a field, and how many records have it."""

    value: str | bool | int | float
    count: int


class TermRange(NamedTuple):
    """Terms from the first on, up to the second and without it."""

    start: str
    end: str


class TermTest(NamedTuple):
    """What a record's terms have to meet: some of them is one of the terms, or in the range; or none is."""

    terms: tuple[str, ...] = ()
    span: TermRange | None = None
    wanted: bool = True


def key_of(field: str, tenant_id: str = "") -> str:
    """Return what the terms of a field begin with: of one tenant, where tenants share an index of terms."""
    named = f"{tenant_id}\0{field}" if tenant_id else field
    return hashlib.blake2b(named.encode(), digest_size=_KEY_CHARACTERS // 2).hexdigest()


def span_of(field: str, kind: str | None = None, tenant_id: str = "") -> TermRange:
    """Return the range of a field's terms, or of those of one kind."""
    begin = key_of(field, tenant_id) + (kind or "")
    return TermRange(begin, begin + "\x7f" if kind is None else begin[:-1] + chr(ord(begin[-1]) + 1))


def terms_of(metadata: Mapping[str, object], tenant_id: str = "") -> list[str]:
    """Return the terms of a record's metadata; a value of null has none."""
    terms: list[str] = []
    for field, value in metadata.items():
        if value is not None:
            terms += _terms(key_of(field, tenant_id), value)
    return terms


def _terms(key: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [f"{key}{ValueKind.BOOLEAN}{str(value).lower()}"]
    if isinstance(value, int | float):
        return [f"{key}{ValueKind.NUMBER}{_ordered(value)}:{_exactly(value)}"]
    text = str(value)
    if (moment := _moment(text)) is not None:
        at = f"{microseconds(moment) + _SIGN:016x}"
        return [f"{key}{ValueKind.DATE}{_shortened(text)}", f"{key}{MOMENT_KIND}{at}"]
    return [f"{key}{ValueKind.TEXT}{_shortened(text)}"]


def value_of(term: str) -> str | bool | int | float | None:
    """Return the value of a term, of a long text its beginning; None of a term that only orders dates."""
    kind, text = term[_KEY_CHARACTERS : _KEY_CHARACTERS + 1], term[_KEY_CHARACTERS + 1 :]
    if kind == MOMENT_KIND:
        return None
    if kind == ValueKind.BOOLEAN:
        return text == "true"
    if kind == ValueKind.NUMBER:
        number: int | float = json.loads(text.partition(":")[2])
        return number
    head, cut, _ = text.partition(_CUT)
    return f"{head}…" if cut else text


def _moment(text: str) -> datetime | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return _MOMENT.validate_python(text)
    except ValidationError:
        return None


def _shortened(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= _TEXT_BYTES:
        return text
    return f"{encoded[:_TEXT_BYTES].decode(errors='ignore')}{_CUT}{hashlib.sha256(encoded).hexdigest()}"


def _ordered(value: float) -> str:
    """Return a number as sixteen digits that are in the order of the numbers."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", float(value) + 0.0))
    return f"{bits ^ (_SIGN | (_SIGN - 1)) if bits & _SIGN else bits | _SIGN:016x}"


def _exactly(value: float) -> str:
    """Return a number as JSON, equal ones alike."""
    return str(int(value)) if abs(value) < _EXACT_WHOLE and value == int(value) else repr(float(value))


def term_tests(conditions: Iterable[FieldCondition], tenant_id: str = "") -> list[TermTest]:
    """Return what a record's terms have to meet to meet the conditions."""
    tests: list[TermTest] = []
    for condition in conditions:
        key = key_of(condition.field, tenant_id)
        for values, wanted in ((condition.any_of, True), (condition.none_of, False)):
            if values:
                terms = tuple(dict.fromkeys(_terms(key, value)[0] for value in values))
                tests.append(TermTest(terms=terms, wanted=wanted))
        if condition.exists is not None:
            tests.append(TermTest(span=span_of(condition.field, None, tenant_id), wanted=condition.exists))
        if condition.bounds:
            tests.append(TermTest(span=_span_between(key, condition.bounds)))
    return tests


def _span_between(key: str, bounds: Mapping[str, float | datetime]) -> TermRange:
    dated = any(isinstance(bound, datetime) for bound in bounds.values())
    start = key + (MOMENT_KIND if dated else ValueKind.NUMBER)
    end = start + "g"  # above every hexadecimal digit
    for name, bound in bounds.items():
        place = f"{microseconds(bound) + _SIGN:016x}" if isinstance(bound, datetime) else _ordered(bound)
        # A number's digits are followed by a colon, so that a semicolon stands behind all terms of that number.
        term = start[: _KEY_CHARACTERS + 1] + place + (";" if name in {"gt", "lte"} else "")
        if name in {"gte", "gt"}:
            start = term
        else:
            end = term
    return TermRange(start, end)


def meet(
    metadata: Mapping[str, object],
    conditions: Sequence[FieldCondition],
    tests: Iterable[TermTest] | None = None,
) -> bool:
    """Return whether a record's metadata meets all conditions, as the stores decide it.

    Parameters
    ----------
    tests
        Those of the conditions, where many records are tried with the same ones.
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
    """Return conditions whose values are of the kind that their fields have.

    Where a field has one kind of value, a value that is written as another is read as that: ``"3"`` as 3 where the
    field has numbers. Raises InvalidRequest if a range is asked of a field that has none, or of one whose values are of
    several kinds, or a value is not of the field's kind.

    Parameters
    ----------
    kinds
        Kinds of values that the tenant's records have, by field; a field that no record has may be missing.
    """
    return tuple(_typed(condition, kinds.get(condition.field, frozenset())) for condition in conditions)


def _typed(condition: FieldCondition, kinds: frozenset[ValueKind]) -> FieldCondition:
    if not kinds:
        return condition
    had = " and ".join(kind.plural for kind in sorted(kinds))
    bounds = condition.bounds
    if bounds:
        asked = ValueKind.DATE if isinstance(next(iter(bounds.values())), datetime) else ValueKind.NUMBER
        if kinds != {asked}:
            why = "a range needs a field of one kind" if len(kinds) > 1 else f"the range is of {asked.plural}"
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
    return condition.model_copy(update=changes)


def _as_kind(value: str | float, kind: ValueKind) -> str | float | None:
    """Return a value as one of another kind; None where it is none."""
    if kind in {ValueKind.TEXT, ValueKind.DATE}:
        return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else _exactly(value)
    if not isinstance(value, str):
        return value if isinstance(value, bool) == (kind is ValueKind.BOOLEAN) else None
    if kind is ValueKind.BOOLEAN:
        return {"true": True, "false": False}.get(value.strip().lower())
    try:
        number: int | float = int(value) if _INTEGER.fullmatch(value) else float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _wrong(condition: FieldCondition, why: str) -> InvalidRequest:
    return InvalidRequest(f"filters.metadata: field {condition.field!r}: {why}", field="filters.metadata")
