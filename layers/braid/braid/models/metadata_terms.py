"""Index terms of metadata: sortable strings by which stores filter on any field.

A record has a term for each field of its metadata: a hash of the field's name, a letter for the kind of value, and the
value, encoded so that the terms sort as the values do. A date has a second term, for its order; a list has the terms of
each of its values. So a store needs a single column of strings for all fields: equality matches a term, and a range of
numbers or dates a range of terms.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from braid.models.enums_and_scalars import Timestamp, microseconds, values_in

if TYPE_CHECKING:
    from collections.abc import Mapping

MOMENT: Final[TypeAdapter[datetime]] = TypeAdapter(Timestamp)
_TEXT_BYTES: Final = 200
"""Most bytes of a text in a term; the term of a longer one has its beginning and its hash."""
_KEY_CHARACTERS: Final = 20
"""Length of the prefix of a field's terms."""
_EXACT_WHOLE: Final = 10**19
"""Absolute value below which a whole number is written as an integer."""
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}\S{0,26})?")
_SIGN: Final = 1 << 63
"""Sign bit of 64 bits; added to signed values, it makes their unsigned hexadecimal form sort as they do."""
_CUT: Final = "\x1f"


class ValueKind(StrEnum):
    """Kind of a metadata value."""

    NUMBER = "n"
    TEXT = "t"
    DATE = "s"
    """Text that is a date or a time in ISO 8601."""
    BOOLEAN = "b"

    @property
    def plural(self) -> str:
        """Name of several such values, for messages."""
        return {"n": "numbers", "t": "text", "s": "dates", "b": "true or false"}[self.value]


MOMENT_KIND: Final = "d"
"""Kind letter of a date's second term, which holds its moment and so sorts by time."""


class TermRange(NamedTuple):
    """Half-open range of terms: ``start <= term < end``."""

    start: str
    end: str


class TermTest(NamedTuple):
    """Test of a record's terms: one of them is among ``terms`` or in ``span``; with ``wanted`` False, none is."""

    terms: tuple[str, ...] = ()
    span: TermRange | None = None
    wanted: bool = True


def key_of(field: str, tenant_id: str = "") -> str:
    """Return the prefix of a field's terms: a hash of its name, and of the tenant where tenants share an index."""
    named = f"{tenant_id}\0{field}" if tenant_id else field
    return hashlib.blake2b(named.encode(), digest_size=_KEY_CHARACTERS // 2).hexdigest()


def span_of(field: str, kind: str | None = None, tenant_id: str = "") -> TermRange:
    """Return the range of a field's terms, or of those of one kind."""
    begin = key_of(field, tenant_id) + (kind or "")
    return TermRange(begin, begin + "\x7f" if kind is None else begin[:-1] + chr(ord(begin[-1]) + 1))


def terms_of(metadata: Mapping[str, object], tenant_id: str = "") -> list[str]:
    """Return the distinct terms of a record's metadata; a value of null and an empty list have none."""
    terms: dict[str, None] = {}
    for field, given in metadata.items():
        key = key_of(field, tenant_id)
        for value in values_in(given):
            terms |= dict.fromkeys(terms_of_value(key, value))
    return list(terms)


def terms_of_value(key: str, value: object) -> list[str]:
    """Return the terms of one value, given the prefix of its field's terms; equality is tested by the first."""
    if isinstance(value, bool):
        return [f"{key}{ValueKind.BOOLEAN}{str(value).lower()}"]
    if isinstance(value, int | float):
        return [f"{key}{ValueKind.NUMBER}{_ordered(value)}:{exactly(value)}"]
    text = str(value)
    if (moment := _moment(text)) is not None:
        at = f"{microseconds(moment) + _SIGN:016x}"
        return [f"{key}{ValueKind.DATE}{_shortened(text)}", f"{key}{MOMENT_KIND}{at}"]
    return [f"{key}{ValueKind.TEXT}{_shortened(text)}"]


def value_of(term: str) -> str | bool | int | float | None:
    """Return the value of a term, only the beginning of a long text; None of a date's second term."""
    kind, text = term[_KEY_CHARACTERS : _KEY_CHARACTERS + 1], term[_KEY_CHARACTERS + 1 :]
    if kind == MOMENT_KIND:
        return None
    if kind == ValueKind.BOOLEAN:
        return text == "true"
    if kind == ValueKind.NUMBER:
        number: int | float = json.loads(text.partition(":")[2])
        return number
    # A short text may hold the character that stands before the hash of a long one.
    return text if len(text.encode()) <= _TEXT_BYTES else f"{text.rpartition(_CUT)[0]}…"


def _moment(text: str) -> datetime | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        return MOMENT.validate_python(text)
    except ValidationError:
        return None


def _shortened(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= _TEXT_BYTES:
        return text
    return f"{encoded[:_TEXT_BYTES].decode(errors='ignore')}{_CUT}{hashlib.sha256(encoded).hexdigest()}"


def _ordered(value: float) -> str:
    """Return a number as sixteen hexadecimal digits that sort as numbers do: its IEEE 754 bits, made monotonic."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", float(value) + 0.0))
    return f"{bits ^ (_SIGN | (_SIGN - 1)) if bits & _SIGN else bits | _SIGN:016x}"


def exactly(value: float) -> str:
    """Return a number as canonical JSON: equal numbers give the same text."""
    return str(int(value)) if abs(value) < _EXACT_WHOLE and value == int(value) else repr(float(value))


def span_between(key: str, bounds: Mapping[str, float | datetime]) -> TermRange:
    """Return the range of a field's terms within bounds, by name: ``gte``, ``gt``, ``lte`` and ``lt``."""
    dated = any(isinstance(bound, datetime) for bound in bounds.values())
    start = key + (MOMENT_KIND if dated else ValueKind.NUMBER)
    end = start + "g"  # above every hexadecimal digit
    for name, bound in bounds.items():
        place = f"{microseconds(bound) + _SIGN:016x}" if isinstance(bound, datetime) else _ordered(bound)
        # A number's digits are followed by a colon, so a semicolon sorts after all terms of that number.
        term = start[: _KEY_CHARACTERS + 1] + place + (";" if name in {"gt", "lte"} else "")
        if name in {"gte", "gt"}:
            start = term
        else:
            end = term
    return TermRange(start, end)
