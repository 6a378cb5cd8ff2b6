"""Strict JSON parser for untrusted input: refuses input on which JSON parsers disagree, in linear time.

Python's own parser accepts more than JSON: NaN, duplicate keys (the last wins), lone surrogates. A component in front,
such as a firewall, may have parsed the same text in another way.
"""

from __future__ import annotations

import json
import math
from typing import Final, NoReturn

MAX_DEPTH: Final = 32
"""Most nested objects and arrays; no request needs ten."""
MAX_ITEMS: Final = 10_000
"""Most items of one array; a conversation may have as many messages."""
MAX_KEYS: Final = 1_000
"""Most keys of one object."""
MAX_VALUES: Final = 60_000
"""Most values in all, objects and arrays included: each may be a wrong field. The largest valid write has fewer."""


class NotJson(ValueError):
    """A text is not strict JSON; the message is a predicate whose subject the caller adds, such as "the body"."""


def read_json(text: str) -> object:
    """Parse strict JSON.

    Raises
    ------
    json.JSONDecodeError
        If the text is not JSON; it names the position.
    NotJson
        If it has a duplicate key in an object, NaN, a number out of range or of thousands of digits, is nested deeper
        than :data:`MAX_DEPTH` levels, or has more than :data:`MAX_ITEMS`, :data:`MAX_KEYS` or :data:`MAX_VALUES`.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_float=_finite, parse_constant=_no_constant)
    except (json.JSONDecodeError, NotJson):
        raise
    except RecursionError:
        # Python's own parser stops at about 1,000 levels.
        raise NotJson(_TOO_DEEP) from None
    except ValueError:
        # Python parses no integer of more than 4,300 digits.
        raise NotJson("holds a number that is too long") from None
    containers = text.count("[") + text.count("{")
    # Each value but the first follows a comma or a bracket, so that these counts bound depth and number of values.
    if containers > MAX_DEPTH or containers + text.count(",") >= MAX_KEYS:
        _check_size(value)
    return value


_TOO_DEEP: Final = f"is more than {MAX_DEPTH} levels deep"


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(pairs) > MAX_KEYS:
        raise NotJson(f"holds an object of more than {MAX_KEYS:,} keys")
    read = dict(pairs)
    if len(read) != len(pairs):
        raise NotJson("holds a key twice in one object")
    return read


def _no_constant(name: str) -> NoReturn:
    raise NotJson(f"holds {name}, which JSON has not")


def _finite(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise NotJson("holds a number that is out of range")
    return value


def _check_size(value: object) -> None:
    """Raise NotJson for a value that is too deep, or has too many items or values; goes through it level by level."""
    level = [value]
    values = 1
    for _ in range(MAX_DEPTH + 1):
        inside: list[object] = []
        for outer in level:
            if isinstance(outer, list) and len(outer) > MAX_ITEMS:
                raise NotJson(f"holds an array of more than {MAX_ITEMS:,} items")
            if isinstance(outer, dict | list):
                values += len(outer)
                inside += outer.values() if isinstance(outer, dict) else outer
        if values > MAX_VALUES:
            raise NotJson(f"holds more than {MAX_VALUES:,} values")
        level = [inner for inner in inside if isinstance(inner, dict | list)]
        if not level:
            return
    raise NotJson(_TOO_DEEP)


def check_characters(value: object) -> None:
    """Refuse lone surrogates anywhere, keys included: they cannot be encoded as UTF-8.

    Raises NotJson if there is one.
    """
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text:
                if not _encodes(text):
                    raise NotJson("holds a lone surrogate, which is not a character")
            case dict() as members:
                todo.extend(members)
                todo.extend(members.values())
            case list() as items:
                todo.extend(items)


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
