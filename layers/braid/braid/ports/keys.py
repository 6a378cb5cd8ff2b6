"""Keys of tenants, objects and caches, and cursors of scans."""

from __future__ import annotations

import base64
import binascii
import json
import unicodedata
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pydantic import TypeAdapter, ValidationError

from braid.errors import InvalidRequest
from braid.models import TenantId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_KEY_BYTES = 900
"""Most bytes of a key in UTF-8. S3 allows 1,024 with the tenant, DynamoDB 2,048."""
_TENANT = TypeAdapter(TenantId)
_RELATIVE_PARTS: Final = frozenset({"", ".", ".."})


def check_tenant(tenant_id: str) -> str:
    """Check a tenant's name and return it. Raises InvalidRequest if it is invalid: it might contain the separator."""
    try:
        return _TENANT.validate_python(tenant_id)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, {"request": "tenant_id"}) from None


def check_key(key: str) -> str:
    """Check a cache key and return it. Raises InvalidRequest if it is empty, too long or not text."""
    if not key:
        raise InvalidRequest.of("key", "is empty")
    return check_prefix(key, field="key")


def check_prefix(prefix: str, *, field: str = "prefix") -> str:
    """Check a key prefix, which may be empty, and return it. Raises InvalidRequest if it is too long or not text."""
    try:
        size = len(prefix.encode())
    except UnicodeEncodeError:
        raise InvalidRequest.of(field, "holds a lone surrogate, which is not a character") from None
    if size > MAX_KEY_BYTES:
        raise InvalidRequest.of(field, f"is {size} bytes long, at most {MAX_KEY_BYTES} are allowed")
    return prefix


def check_object_key(key: str) -> str:
    """Check an object key and return it.

    Raises InvalidRequest if it is empty, too long, holds control characters or could be read as a path to elsewhere.
    """
    check_key(key)
    if any(unicodedata.category(character) == "Cc" for character in key):
        raise InvalidRequest.of("key", "holds a control character")
    if _RELATIVE_PARTS & set(key.split("/")):
        raise InvalidRequest.of("key", f"{key!r} has a part that is empty, '.' or '..'")
    return key


MAX_PAGE: Final = 1_000
"""Most records of one page."""
_BEFORE_ALL = ""  # smaller than any id


def encode(tenant_id: str, record_id: str) -> str:
    """Return the cursor of a scan that continues after a record, as text without spaces or quotes."""
    return base64.urlsafe_b64encode(json.dumps([tenant_id, record_id]).encode()).decode("ascii")


def decode(tenant_id: str, text: str | None) -> str:
    """Return the record id of a cursor of :func:`encode`; for None an id before every record's.

    Raises InvalidRequest if it is no such cursor, or another tenant's.
    """
    if text is None:
        return _BEFORE_ALL
    try:
        owner, record_id = json.loads(base64.b64decode(text, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError) as error:
        raise InvalidRequest.of("after", "this is no cursor that a scan returned") from error
    if not isinstance(record_id, str):
        raise InvalidRequest.of("after", "this is no cursor that a scan returned")
    if owner != tenant_id:
        raise InvalidRequest.of("after", "this cursor is another tenant's")
    return record_id


def check_limit(limit: int) -> int:
    """Check a page's limit and return it. Raises InvalidRequest if it is not between 1 and :data:`MAX_PAGE`."""
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidRequest.of("limit", f"{limit} is not between 1 and {MAX_PAGE}")
    return limit


class _Page(Protocol):
    @property
    def cursor(self) -> str | None: ...


_P = TypeVar("_P", bound=_Page)


def pages(scan: Callable[..., _P], tenant_id: str, *, after: str | None = None, **how: object) -> Iterator[_P]:
    """Yield the pages of a store's ``scan`` of a tenant, each read lazily."""
    while True:
        page = scan(tenant_id, after=after, **how)
        yield page
        after = page.cursor
        if after is None:
            return


def encode_scan_cursor(scan: int, cursor: str | None) -> str:
    """Return the cursor of several scans in sequence: the index of the current one, and its own cursor."""
    return f"{scan:d}:{cursor or ''}"


def decode_scan_cursor(text: str | None) -> tuple[int, str | None]:
    """Return the scan's index and cursor from a cursor of :func:`encode_scan_cursor`; None begins the first scan.

    Raises InvalidRequest if it is no such cursor.
    """
    if text is None:
        return 0, None
    scan, _, cursor = text.partition(":")
    if not scan.isascii() or not scan.isdigit():
        raise InvalidRequest.of("after", "this is no cursor that a scan returned")
    return int(scan), cursor or None
