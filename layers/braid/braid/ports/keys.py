"""Checks of tenant names, cache keys and object keys, shared by the engines so that all accept the same."""

from __future__ import annotations

import unicodedata
from typing import Final

from pydantic import TypeAdapter, ValidationError

from braid.errors import InvalidRequest
from braid.models import TenantId

MAX_KEY_BYTES = 900
"""Of a key in UTF-8. S3 allows 1,024 with the tenant, DynamoDB 2,048."""
_TENANT = TypeAdapter(TenantId)
_RELATIVE_PARTS: Final = frozenset({"", ".", ".."})


def check_tenant(tenant_id: str) -> str:
    """Return a tenant's name.

    Raises
    ------
    InvalidRequest
        If it is none: it may hold what separates it from a key.
    """
    try:
        return _TENANT.validate_python(tenant_id)
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, {"request": "tenant_id"}) from None


def check_key(key: str) -> str:
    """Return a key of a cache.

    Raises
    ------
    InvalidRequest
        If it is empty, too long or not text.
    """
    if not key:
        message = "key: is empty"
        raise InvalidRequest(message, field="key")
    return check_prefix(key, field="key")


def check_prefix(prefix: str, *, field: str = "prefix") -> str:
    """Return the beginning of a key, which may be empty.

    Raises
    ------
    InvalidRequest
        If it is too long or not text.
    """
    try:
        size = len(prefix.encode())
    except UnicodeEncodeError:
        message = f"{field}: holds a lone surrogate, which is not a character"
        raise InvalidRequest(message, field=field) from None
    if size > MAX_KEY_BYTES:
        message = f"{field}: is {size} bytes long, at most {MAX_KEY_BYTES} are allowed"
        raise InvalidRequest(message, field=field)
    return prefix


def check_object_key(key: str) -> str:
    """Return a key of an object.

    Raises
    ------
    InvalidRequest
        If it is empty, too long, holds control characters or could be read as a path to elsewhere.
    """
    check_key(key)
    if any(unicodedata.category(character) == "Cc" for character in key):
        message = "key: holds a control character"
        raise InvalidRequest(message, field="key")
    if _RELATIVE_PARTS & set(key.split("/")):
        message = f"key: {key!r} has a part that is empty, '.' or '..'"
        raise InvalidRequest(message, field="key")
    return key
