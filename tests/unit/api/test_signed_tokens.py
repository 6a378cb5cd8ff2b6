"""Signed tokens: what is accepted as one."""

from __future__ import annotations

import pytest
from braid.api.signed_tokens import InvalidToken, sign, verify

KEY = b"k" * 32
SIGNED = [sign({"sub": f"{number}?>"}, purpose="test", key=KEY, expires_at=100) for number in range(64)]


def content(token: str) -> dict[str, str | None]:
    return verify(token, purpose="test", key=KEY, now=1)


def test_a_token_is_read_until_it_expires_and_for_its_purpose() -> None:
    token = SIGNED[0]
    assert content(token) == {"sub": "0?>"}
    with pytest.raises(InvalidToken):
        verify(token, purpose="test", key=KEY, now=100)
    with pytest.raises(InvalidToken):
        verify(token, purpose="other", key=KEY, now=1)


def test_a_token_has_one_spelling() -> None:
    """One holder would else be many callers, each with its own calls at once."""
    others = {token + padding for token in SIGNED for padding in ("=", "==", "===", " ", "\n")}
    others |= {token.replace(*pair) for token in SIGNED for pair in (("-", "+"), ("_", "/"))} - {*SIGNED}
    others |= {token[:-1] + chr(ord(token[-1]) + 1) for token in SIGNED}
    assert any("+" in token for token in others)
    assert any("/" in token for token in others)
    for token in others:
        with pytest.raises(InvalidToken):
            content(token)
