"""Where a scan goes on: the text that a caller keeps between pages, the same for every engine.

A scan goes through the records in the order of their ids, so that the last id alone says where to go on, whatever was
written meanwhile and whatever else an engine has forgotten.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final, NamedTuple

from braid.errors import InvalidRequest

MAX_PAGE: Final = 1_000
"""Most records of one page."""
_BEFORE_ALL = ""  # smaller than any id


class Cursor(NamedTuple):
    """After which record a scan goes on."""

    record_id: str = _BEFORE_ALL
    point_in_time: str | None = None
    """The engine's own name of the moment that it reads, where it has one."""


def encode(tenant_id: str, cursor: Cursor) -> str:
    """Return a cursor as text that holds no space or quote."""
    fields = [tenant_id, cursor.record_id, cursor.point_in_time]
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode("ascii")


def decode(tenant_id: str, text: str | None) -> Cursor:
    """Read what :func:`encode` wrote; None begins before the first record.

    Raises
    ------
    InvalidRequest
        If it was not written there, or for another tenant.
    """
    if text is None:
        return Cursor()
    try:
        owner, record_id, point_in_time = json.loads(base64.b64decode(text, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError) as error:
        message = "after: this is no cursor that a scan returned"
        raise InvalidRequest(message, field="after") from error
    if not isinstance(record_id, str) or not isinstance(point_in_time, str | None):
        message = "after: this is no cursor that a scan returned"
        raise InvalidRequest(message, field="after")
    if owner != tenant_id:
        message = "after: this cursor is another tenant's"
        raise InvalidRequest(message, field="after")
    return Cursor(record_id, point_in_time)


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
