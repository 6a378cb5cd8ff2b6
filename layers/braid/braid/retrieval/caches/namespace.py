"""What the caches have in common: keys, write generations, and how often each hits."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.ports.cache import ResilientCache

_Found = TypeVar("_Found")
KEY_DIGITS = 16
_TENANTS_REMEMBERED = 10_000


class CacheName(StrEnum):
    """The caches, by the names under which their hits are counted."""

    EMBEDDING = "Embedding"
    RESULT = "Result"
    CONTEXT = "Context"
    GRAPH = "Graph"


class CacheCounts:
    """How often each cache was asked and had an answer, since somebody last looked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: CacheName, *, hit: bool) -> None:
        """Count one look-up."""
        with self._lock:
            self._counts[f"{name.value}Cache{'Hit' if hit else 'Miss'}"] += 1

    def drain(self) -> dict[str, int]:
        """Return the counts by the names of their metrics, ``ResultCacheHit`` and the like, and begin again at 0."""
        with self._lock:
            counts, self._counts = dict(self._counts), Counter()
        return counts


@dataclass(frozen=True)
class Standing:
    """A tenant's write generation."""

    number: int
    settled: bool
    """Whether every write that it counts can be seen by all reads; what was read before that is not to be kept."""


class Generations:
    """The tenants' write generations, and whether they have stood for long enough.

    Where a store shows a write a little after acknowledging it, as a replica or a serverless collection does, an
    answer may be worked out from before a write under the generation from after it. Such an answer is not kept: this
    process must have met the generation ``settle_s`` seconds ago.
    """

    def __init__(self, cache: ResilientCache, *, settle_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache = cache
        self._settle_s = settle_s
        self._clock = clock
        self._lock = threading.Lock()
        self._met: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def read(self, tenant_id: str) -> Standing | None:
        """Return a tenant's generation; None when the cache is lost, and nothing may be looked up or kept."""
        number = self._cache.generation(tenant_id)
        if number is None:
            return None
        if not self._settle_s:
            return Standing(number, settled=True)
        now = self._clock()
        with self._lock:
            known = self._met.get(tenant_id)
            if known is None or known[0] != number:
                known = self._met[tenant_id] = (number, now)
            self._met.move_to_end(tenant_id)
            while len(self._met) > _TENANTS_REMEMBERED:
                self._met.popitem(last=False)
        return Standing(number, settled=now - known[1] >= self._settle_s)


class Shelf:
    """Values of one kind in the tenants' cache.

    Parameters
    ----------
    name
        Of the kind; a part of every key.
    cache
        Where they lie.
    ttl_s
        Seconds for which one is kept at most.
    counts
        Where hits and misses are counted.
    """

    def __init__(self, name: CacheName, cache: ResilientCache, *, ttl_s: int, counts: CacheCounts) -> None:
        self.name = name
        self._cache = cache
        self._ttl_s = ttl_s
        self._counts = counts

    def find(self, tenant_id: str, key: str, read: Callable[[bytes], _Found | None]) -> _Found | None:
        """Return what ``read`` makes of the value under a key; what it cannot use is a miss."""
        value = self._cache.get(tenant_id, self._key(key))
        found = None if value is None else read(value)
        self._counts.add(self.name, hit=found is not None)
        return found

    def missed(self) -> None:
        """Count a question for which nothing could be looked up."""
        self._counts.add(self.name, hit=False)

    def keep(self, tenant_id: str, key: str, value: bytes, *, at_most_s: float | None = None) -> None:
        """Keep a value, unless it ends within a second."""
        ttl_s = self._ttl_s if at_most_s is None else int(min(self._ttl_s, at_most_s))
        if ttl_s >= 1:
            self._cache.put(tenant_id, self._key(key), value, ttl_s)

    def _key(self, key: str) -> str:
        return f"{self.name.value.lower()}|{key}"


def key_of(*parts: object, digits: int = 64) -> str:
    """Return a key that says nothing of its parts: the first hexadecimal digits of SHA-256 over them all."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:digits]
