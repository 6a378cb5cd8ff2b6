"""Namespaces of the cache, its keys and hit counts, write generations, and the cache of question vectors.

:mod:`braid.ports.cache` describes how write generations invalidate values.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter, OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from braid.models import Embedding
from braid.models.embedding_models import space_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.models.embedding_models import ModelConfig
    from braid.ports.cache import ResilientCache

_Found = TypeVar("_Found")
KEY_DIGITS = 16
_TENANTS_REMEMBERED = 10_000


class CacheName(StrEnum):
    """The caches, by the names under which their hits are counted; settings and metrics call answers results."""

    EMBEDDING = "Embedding"
    ANSWER = "Result"
    CONTEXT = "Context"
    GRAPH = "Graph"


class CacheCounts:
    """Hits and misses of each cache since they were last drained."""

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
class WriteGeneration:
    """A tenant's write generation."""

    number: int
    settled: bool
    """Whether all reads see every write that it counts; values that are read earlier are not cached."""


class WriteGenerations:
    """The tenants' write generations, and whether each is settled.

    Where reads see a write only a little after it was acknowledged, as on a replica or a serverless collection, an
    answer may be read from before a write but under the generation from after it. To cache no such answer, a generation
    counts as settled ``settle_s`` seconds after this process first read it.
    """

    def __init__(self, cache: ResilientCache, *, settle_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache = cache
        self._settle_s = settle_s
        self._clock = clock
        self._lock = threading.Lock()
        self._first_read: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def read(self, tenant_id: str) -> WriteGeneration | None:
        """Return a tenant's generation; None when the cache does not answer: then nothing is looked up or cached."""
        number = self._cache.generation(tenant_id)
        if number is None:
            return None
        if not self._settle_s:
            return WriteGeneration(number, settled=True)
        now = self._clock()
        with self._lock:
            known = self._first_read.get(tenant_id)
            if known is None or known[0] != number:
                known = self._first_read[tenant_id] = (number, now)
            self._first_read.move_to_end(tenant_id)
            while len(self._first_read) > _TENANTS_REMEMBERED:
                self._first_read.popitem(last=False)
        return WriteGeneration(number, settled=now - known[1] >= self._settle_s)


class CacheNamespace:
    """One cache's entries in the store that all caches share.

    Parameters
    ----------
    name
        Name of the cache; a part of every key.
    cache
        The store.
    ttl_s
        Longest time to live, in seconds.
    counts
        Where hits and misses are counted.
    """

    def __init__(self, name: CacheName, cache: ResilientCache, *, ttl_s: int, counts: CacheCounts) -> None:
        self.name = name
        self._cache = cache
        self._ttl_s = ttl_s
        self._counts = counts

    def find(self, tenant_id: str, key: str, read: Callable[[bytes], _Found | None]) -> _Found | None:
        """Return the value under a key, decoded by ``read``; None on a miss, or where ``read`` returns None."""
        value = self._cache.get(tenant_id, self._key(key))
        found = None if value is None else read(value)
        self._counts.add(self.name, hit=found is not None)
        return found

    def missed(self) -> None:
        """Count a miss without a look-up."""
        self._counts.add(self.name, hit=False)

    def keep(self, tenant_id: str, key: str, value: bytes, *, at_most_s: float | None = None) -> None:
        """Cache a value for the namespace's time to live or ``at_most_s`` seconds, the shorter; not for less than 1."""
        ttl_s = self._ttl_s if at_most_s is None else int(min(self._ttl_s, at_most_s))
        if ttl_s >= 1:
            self._cache.put(tenant_id, self._key(key), value, ttl_s)

    def _key(self, key: str) -> str:
        return f"{self.name.value.lower()}|{key}"


def key_of(*parts: object, digits: int = 64) -> str:
    """Return the first hexadecimal digits of SHA-256 over all parts, so that a key does not reveal them."""
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:digits]


class EmbeddingCache:
    """Cache of question vectors, by tenant, model, instruction and text; independent of write generations."""

    def __init__(self, namespace: CacheNamespace) -> None:
        self._namespace = namespace

    def find(self, tenant_id: str, model: ModelConfig, *, instruction: str, text: str) -> Embedding | None:
        """Return the vector that this model made of the text; None when it is not cached."""

        def read(value: bytes) -> Embedding | None:
            try:
                kept = Embedding.model_validate_json(value)
            except ValidationError:
                return None
            own = (kept.model_id, kept.space, kept.dimension) == (model.id, space_of(model), model.dimension)
            return kept if own else None

        return self._namespace.find(tenant_id, embedding_key(model.id, instruction, text), read)

    def keep(self, tenant_id: str, embedding: Embedding, *, instruction: str, text: str) -> None:
        """Cache a vector."""
        key = embedding_key(embedding.model_id, instruction, text)
        self._namespace.keep(tenant_id, key, embedding.model_dump_json().encode())


def embedding_key(model_id: str, instruction: str, text: str) -> str:
    """Return the first 16 hexadecimal digits of SHA-256 over model, instruction and text."""
    return key_of(model_id, instruction, text, digits=KEY_DIGITS)
