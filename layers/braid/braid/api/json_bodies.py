"""What may be read as a request's body: one JSON object in UTF-8, not too long, not too deep, each key once.

Python's own reader takes more than JSON: NaN, keys twice (the last wins), halves of surrogate pairs. Whoever checks a
request before it gets here may have read something else than this would.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NoReturn

from braid.api.problems import Problem, malformed, too_large

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_DEPTH = 32
"""Of objects and arrays in one another; no request needs ten."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def check_body(event: Mapping[str, Any], *, limit_bytes: int) -> str:
    """Return the body of a request as text that any JSON reader reads alike.

    Parameters
    ----------
    event
        In API Gateway's format 2.0.
    limit_bytes
        Longest body that is read.

    Raises
    ------
    Problem
        413 if it is too long, 415 if its type is not JSON, 400 if it cannot be read.
    """
    raw = _raw(event, limit_bytes)
    if not _is_json(str(event.get("headers", {}).get("content-type", ""))):
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "the body has to be application/json"
        )
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise malformed("the body is not UTF-8") from None
    if not isinstance(read_json(text), dict):
        raise malformed("the body is not a JSON object")
    return text


def read_json(text: str) -> object:
    """Read JSON, and nothing that is not.

    Raises
    ------
    Problem
        400 that says what is wrong with it.
    """
    _check_depth(text)
    try:
        value = json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise malformed(f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except ValueError:
        # Python reads no whole number of more than 4,300 digits.
        raise malformed("the body holds a number that is too long") from None
    if "\\u" in text or not text.isascii():
        _check_characters(value)
    return value


def _raw(event: Mapping[str, Any], limit_bytes: int) -> bytes:
    body = event.get("body") or ""
    # Base64 has four characters for three bytes; no more of it is decoded than could be allowed.
    if len(body) > limit_bytes * 4 // 3 + 4:
        raise too_large(limit_bytes)
    if event.get("isBase64Encoded"):
        try:
            raw = base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            raise malformed("the body is not base64, as was said") from None
    else:
        raw = body.encode("utf-8", "surrogatepass")
    if len(raw) > limit_bytes:
        raise too_large(limit_bytes)
    if not raw.strip():
        raise malformed("the body is empty")
    return raw


def _is_json(content_type: str) -> bool:
    name, _, parameters = content_type.lower().partition(";")
    charset = parameters.partition("charset=")[2].strip(' "')
    return name.strip() == "application/json" and charset in {"", "utf-8", "utf8"}


def _check_depth(text: str) -> None:
    """Refuse what is too deep before the reader recurses into it."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for character in _STRING.sub("", text):
        if character in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise malformed(f"the body is more than {MAX_DEPTH} levels deep")
        elif character in "]}":
            depth -= 1


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    read = dict(pairs)
    if len(read) != len(pairs):
        raise malformed("the body holds a key twice in one object")
    return read


def _no_constant(name: str) -> NoReturn:
    raise malformed(f"the body holds {name}, which JSON has not")


def _check_characters(value: object) -> None:
    """Refuse halves of surrogate pairs anywhere, keys included: they cannot be written as UTF-8."""
    todo = [value]
    while todo:
        match todo.pop():
            case str() as text:
                if not _encodes(text):
                    raise malformed("the body holds a lone surrogate, which is not a character")
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
