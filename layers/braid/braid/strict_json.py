"""Strict JSON parser for untrusted input: refuses what JSON readers disagree on, in linear time.

Python's own parser accepts more than JSON: NaN, duplicate keys (the last wins), lone surrogates. A component in front
that checked the same text may have read it otherwise.
"""

from __future__ import annotations

import json
from typing import Final, NoReturn

MAX_DEPTH: Final = 32
"""Of objects and arrays in one another; no request needs ten."""


class NotJson(ValueError):
    """A text is no JSON that may be read; the message says why and follows what the text is, such as "the body"."""


def read_json(text: str) -> object:
    """Read JSON, and nothing that is not.

    Raises
    ------
    json.JSONDecodeError
        If the text is no JSON at all; it says where.
    NotJson
        If it holds a key twice in one object, NaN or a number of thousands of digits, or is more than
        :data:`MAX_DEPTH` levels deep.
    """
    try:
        value = json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_no_constant)
    except (json.JSONDecodeError, NotJson):
        raise
    except RecursionError:
        # Python's reader itself stops at about 1,000 levels.
        raise NotJson(_TOO_DEEP) from None
    except ValueError:
        # Python reads no whole number of more than 4,300 digits.
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
    """Refuse halves of surrogate pairs anywhere, keys included: they cannot be written as UTF-8.

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
