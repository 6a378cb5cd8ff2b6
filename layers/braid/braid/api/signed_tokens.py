"""Signs and verifies tokens (HMAC-SHA256): list cursors, and development tokens of the laptop's server."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TOKEN_CHARACTERS: Final = 4_096
_SIGNATURE_BYTES: Final = 32


class InvalidToken(ValueError):
    """A token is not signed with this key for this purpose, or has expired."""


def sign(content: Mapping[str, Any], *, purpose: str, key: bytes, expires_at: float) -> str:
    """Return a token that is valid for one purpose until ``expires_at``, in seconds since 1970."""
    body = json.dumps([int(expires_at), dict(content)], separators=(",", ":"), sort_keys=True).encode()
    return _written(_signature(body, purpose, key) + body)


def verify(token: str, *, purpose: str, key: bytes, now: float) -> dict[str, str | None]:
    """Return the content of a valid token.

    Raises InvalidToken if it is malformed, was changed, has another purpose, or has expired, without telling which.
    """
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise InvalidToken
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidToken from None
    if _written(raw) != token:  # one spelling of each token: callers are told apart by it
        raise InvalidToken
    signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(body, purpose, key)):
        raise InvalidToken
    # The signature is valid, so the body has the format of :func:`sign`.
    expires_at, content = json.loads(body)
    if now >= expires_at:
        raise InvalidToken
    return dict(content)


def _written(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _signature(body: bytes, purpose: str, key: bytes) -> bytes:
    return hmac.digest(key, purpose.encode() + b"\x00" + body, hashlib.sha256)
