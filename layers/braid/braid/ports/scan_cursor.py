"""Cursors of paged scans, in one format for every engine.

A scan goes through the records in the order of their ids, so that the last id alone says where to go on, whatever was
written meanwhile and whatever else an engine has forgotten.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final

from braid.errors import InvalidRequest

MAX_PAGE: Final = 1_000
"""Most records of one page."""
_BEFORE_ALL = ""  # smaller than any id


def encode(tenant_id: str, record_id: str) -> str:
    """Return after which record a scan goes on, as text that holds no space or quote."""
    return base64.urlsafe_b64encode(json.dumps([tenant_id, record_id]).encode()).decode("ascii")


def decode(tenant_id: str, text: str | None) -> str:
    """Read what :func:`encode` wrote; None begins before the first record.

    Raises
    ------
    InvalidRequest
        If it was not written there, or for another tenant.
    """
    if text is None:
        return _BEFORE_ALL
    try:
        owner, record_id = json.loads(base64.b64decode(text, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        message = "after: this is no cursor that a scan returned"
        raise InvalidRequest(message, field="after") from error
    if not isinstance(record_id, str):
        message = "after: this is no cursor that a scan returned"
        raise InvalidRequest(message, field="after")
    if owner != tenant_id:
        message = "after: this cursor is another tenant's"
        raise InvalidRequest(message, field="after")
    return record_id


def check_limit(limit: int) -> int:
    """Return how many records a page may hold.

    Raises
    ------
    InvalidRequest
        If it is not between 1 and :data:`MAX_PAGE`.
    """
    if not 1 <= limit <= MAX_PAGE:
        message = f"limit: {limit} is not between 1 and {MAX_PAGE}"
        raise InvalidRequest(message, field="limit")
    return limit


def encode_phase(phase: int, cursor: str | None) -> str:
    """Return the cursor of several scans in turn: in which of them, and where in it."""
    return f"{phase:d}:{cursor or ''}"


def decode_phase(text: str | None) -> tuple[int, str | None]:
    """Read what :func:`encode_phase` wrote; None begins the first scan.

    Raises
    ------
    InvalidRequest
        If it was not written there.
    """
    if text is None:
        return 0, None
    phase, _, cursor = text.partition(":")
    if not phase.isascii() or not phase.isdigit():
        message = "after: this is no cursor that a scan returned"
        raise InvalidRequest(message, field="after")
    return int(phase), cursor or None
