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
    """A token is not signed with this key for this purpose, or has expired."""


def sign(content: Mapping[str, str | None], *, purpose: str, key: bytes, expires_at: float) -> str:
    """Return a token.

    Parameters
    ----------
    content
        Claims of the token.
    purpose
        Purpose that it is valid for.
    key
        Secret signing key.
    expires_at
        Expiry, in seconds since 1970.
    """
    body = json.dumps([int(expires_at), dict(content)], separators=(",", ":"), sort_keys=True).encode()
    return base64.urlsafe_b64encode(_signature(body, purpose, key) + body).rstrip(b"=").decode("ascii")


def verify(token: str, *, purpose: str, key: bytes, now: float) -> dict[str, str | None]:
    """Return the content of a valid token.

    Raises
    ------
    InvalidToken
        If it is malformed, was changed, has another purpose, or has expired; the error does not tell which.
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
    # The signature is valid, so the body has the format of :func:`sign`.
    expires_at, content = json.loads(body)
    if now >= expires_at:
        raise InvalidToken
    return dict(content)


def _signature(body: bytes, purpose: str, key: bytes) -> bytes:
    return hmac.digest(key, purpose.encode() + b"\x00" + body, hashlib.sha256)
