"""Signed tokens: cursors of lists, and bearer tokens of a laptop's server.

A token is readable by its holder and cannot be changed: HMAC-SHA256 over its content, purpose and expiry. A token of
one purpose is not valid for another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LENGTH = 4_096
_SIGNATURE_BYTES = 32


class InvalidToken(ValueError):
    """A token was not signed with this key for this purpose, or holds no more."""


def sign(content: Mapping[str, str | None], *, purpose: str, key: bytes, expires_at: float) -> str:
    """Return a token.

    Parameters
    ----------
    content
        What it says.
    purpose
        What it is for.
    key
        Whoever has it can make tokens.
    expires_at
        Seconds since 1970 after which it no longer holds.
    """
    body = json.dumps([int(expires_at), dict(content)], separators=(",", ":"), sort_keys=True).encode()
    return base64.urlsafe_b64encode(_signature(body, purpose, key) + body).rstrip(b"=").decode("ascii")


def verify(token: str, *, purpose: str, key: bytes, now: float) -> dict[str, str | None]:
    """Return what a token says.

    Raises
    ------
    InvalidToken
        If it is none, was changed, is for something else, or has expired; which of them is not said.
    """
    if len(token) > MAX_LENGTH:
        raise InvalidToken
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidToken from None
    signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(body, purpose, key)):
        raise InvalidToken
    # Signed here, so it is what was written here.
    expires_at, content = json.loads(body)
    if now >= expires_at:
        raise InvalidToken
    return dict(content)


def _signature(body: bytes, purpose: str, key: bytes) -> bytes:
    return hmac.digest(key, purpose.encode() + b"\x00" + body, hashlib.sha256)
