"""Parses and validates request bodies: one UTF-8 JSON object of bounded size and depth, with unique keys.

On a laptop ``_body`` of ``braid_cli/http_server/server.py`` refuses what is too large before it has arrived.
"""

from __future__ import annotations

import base64
import binascii
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from braid.api.problems import Problem, malformed, too_large
from braid.strict_json import NotJson, check_characters, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_body(event: Mapping[str, Any], *, limit_bytes: int) -> str:
    """Validate the body of a request and return its text.

    Raises Problem 413 if it is too long, 415 if its type is not JSON, 400 if it is malformed.

    Parameters
    ----------
    event
        In API Gateway's format 2.0.
    limit_bytes
        Size limit of the body, in bytes.
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
    try:
        value = read_json(text)
        if "\\u" in text or not text.isascii():
            check_characters(value)
    except json.JSONDecodeError as error:
        raise malformed(f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except NotJson as error:
        raise malformed(f"the body {error}") from None
    if not isinstance(value, dict):
        raise malformed("the body is not a JSON object")
    return text


def _raw(event: Mapping[str, Any], limit_bytes: int) -> bytes:
    body = event.get("body") or ""
    # Base64 has four characters for three bytes: a body that is surely too long is refused before decoding.
    if len(body) > limit_bytes * 4 // 3 + 4:
        raise too_large(limit_bytes)
    if event.get("isBase64Encoded"):
        try:
            raw = base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            raise malformed("the body is marked as base64 and is not") from None
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
