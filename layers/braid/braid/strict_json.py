"""Strict JSON parser for untrusted input: refuses what JSON readers disagree on, in linear time.

Python's own parser accepts more than JSON: NaN, duplicate keys (the last wins), lone surrogates. A component in front
that checked the same text may have read it otherwise.
"""

from __future__ import annotations

import json
from typing import Final, NoReturn

MAX_DEPTH: Final = 32
"""Most nested objects and arrays; no request needs ten."""


class NotJson(ValueError):
    """A text is not strict JSON; the message is a predicate whose subject the caller adds, such as "the body"."""


def read_json(text: str) -> object:
    """Parse strict JSON.

    Raises
    ------
    json.JSONDecodeError
        If the text is not JSON; it names the position.
    NotJson
        If it has a duplicate key in an object, NaN or a number of thousands of digits, or is nested more than
        :data:`MAX_DEPTH` levels deep.
    """
    try:
        value = json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_no_constant)
    except (json.JSONDecodeError, NotJson):
        raise
    except RecursionError:
        # Python's own parser stops at about 1,000 levels.
        raise NotJson(_TOO_DEEP) from None
    except ValueError:
        # Python parses no integer of more than 4,300 digits.
        message = "holds a number that is too long"
        raise NotJson(message) from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    return value


_TOO_DEEP: Final = f"is more than {MAX_DEPTH} levels deep"


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    read = dict(pairs)
    if len(read) != len(pairs):
        message = "holds a key twice in one object"
        raise NotJson(message)
    return read


def _no_constant(name: str) -> NoReturn:
    message = f"holds {name}, which JSON has not"
    raise NotJson(message)


def _check_depth(value: object) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise NotJson(_TOO_DEEP)


def check_characters(value: object) -> None:
    """Refuse lone surrogates anywhere, keys included: they cannot be encoded as UTF-8.

    Raises
    ------
    NotJson
        If there is one.
    """
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text:
                if not _encodes(text):
                    message = "holds a lone surrogate, which is not a character"
                    raise NotJson(message)
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
