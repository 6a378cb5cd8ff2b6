"""Sorted 8-byte fingerprints of edges and other items, with a membership test."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.models import EdgeId


SIZE = 8
"""Bytes of a fingerprint: with 20 million edges and as many fingerprints, one file in 50,000 has a collision."""


def fingerprint_of(what: str, identity: EdgeId) -> bytes:
    """Return the fingerprint of an item, by the identity of an edge, and a statement about it."""
    return blake2b(json.dumps([what, *identity]).encode(), digest_size=SIZE).digest()


class Fingerprints:
    """Collects fingerprints, partitioned by their first byte so that sorting needs little extra memory."""

    def __init__(self) -> None:
        self._parts = [bytearray() for _ in range(256)]

    def add(self, fingerprint: bytes) -> None:
        """Add a fingerprint."""
        self._parts[fingerprint[0]] += fingerprint

    def in_order(self) -> bytes:
        """Return the distinct fingerprints, sorted, for :func:`contains`."""
        return b"".join(b"".join(sorted({*_each(part)})) for part in self._parts)

    def repeated(self) -> set[bytes]:
        """Return the fingerprints that were added more than once."""
        return {each for part in self._parts for each, times in Counter(_each(part)).items() if times > 1}


def contains(fingerprints: bytes, fingerprint: bytes) -> bool:
    """Whether a fingerprint is among sorted ones."""
    count = len(fingerprints) // SIZE
    at = bisect_left(range(count), fingerprint, key=lambda number: fingerprints[number * SIZE : (number + 1) * SIZE])
    return at < count and fingerprints[at * SIZE : (at + 1) * SIZE] == fingerprint


def _each(part: bytearray) -> Iterator[bytes]:
    return (bytes(part[at : at + SIZE]) for at in range(0, len(part), SIZE))
