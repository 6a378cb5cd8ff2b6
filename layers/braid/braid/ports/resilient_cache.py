"""A cache that may be lost without anybody noticing but the clock.

Whoever asks a question does it in this order: read the generation, look for a value under a key that holds it, work the
value out, keep it under the same key. Whoever writes does it in this one: write, :meth:`ForgivingCache.advance`, say
that it is done. What was worked out before a write then lies under a key that nobody asks for after it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, TypeVar

from braid.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.ports.state import Cache

_LOG = logging.getLogger(__name__)
_Found = TypeVar("_Found")


class NoCache:
    """Keeps nothing; implements :class:`braid.ports.state.Cache` where no cache is deployed."""

    def get(self, tenant_id: str, key: str) -> bytes | None:  # noqa: ARG002 - the port's signature
        """Return None."""
        return None

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        """Keep nothing."""

    def exchange(
        self,
        tenant_id: str,  # noqa: ARG002 - the port's signature
        key: str,  # noqa: ARG002
        expected: bytes | None,
        value: bytes | None,  # noqa: ARG002
        ttl_s: int,  # noqa: ARG002
    ) -> bytes | None:
        """Return ``expected``, as if it had been exchanged: nobody else keeps anything either."""
        return expected

    def count(self, tenant_id: str, key: str, amount: int, window_s: int) -> int:  # noqa: ARG002 - the port's signature
        """Refuse: a sum that is not kept would let everything through.

        Raises
        ------
        StoreError
            Always.
        """
        message = "BRAID_CACHE_TABLE: is not set, and nothing is counted without it"
        raise StoreError(message)

    def generation(self, tenant_id: str) -> int:  # noqa: ARG002 - the port's signature
        """Return 0: no value is ever found under it."""
        return 0

    def advance(self, tenant_id: str) -> int:  # noqa: ARG002 - the port's signature
        """Return 0: there is nothing to be out of date."""
        return 0

    def forget(self, tenant_id: str) -> int:  # noqa: ARG002 - the port's signature
        """Refuse: others may keep what this process does not know of.

        Raises
        ------
        ConfigurationError
            Always.
        """
        message = "BRAID_CACHE_TABLE: is not set"
        raise ConfigurationError(message)


class ForgivingCache:
    """A cache whose failures are misses, except where that would let an old answer through.

    After a failure it is not asked again for a while, so that a cache that is down costs one time-out and not one a
    question.

    Parameters
    ----------
    cache
        What is asked.
    rest_s
        Seconds without a question after a failure.
    clock
        Seconds of a clock that never goes back.
    """

    def __init__(self, cache: Cache, *, rest_s: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache = cache
        self._rest_s = rest_s
        self._clock = clock
        self._resting_until = float("-inf")

    def get(self, tenant_id: str, key: str) -> bytes | None:
        """Return what is kept; None when nothing is, it has expired, or the cache is lost."""
        return self._ask(lambda: self._cache.get(tenant_id, key))

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        """Keep a value, or lose it."""
        self._ask(lambda: self._cache.put(tenant_id, key, value, ttl_s))

    def exchange(
        self, tenant_id: str, key: str, expected: bytes | None, value: bytes | None, ttl_s: int
    ) -> bytes | None:
        """Keep ``value`` if what is kept equals ``expected``, and return what was kept.

        A cache that is lost returns ``expected``, as if it had been exchanged.
        """
        kept = self._ask(lambda: (self._cache.exchange(tenant_id, key, expected, value, ttl_s),))
        return expected if kept is None else kept[0]

    def count(self, tenant_id: str, key: str, amount: int, window_s: int) -> int | None:
        """Add to a counter of the present window and return its sum; None when the cache is lost."""
        return self._ask(lambda: self._cache.count(tenant_id, key, amount, window_s))

    def generation(self, tenant_id: str) -> int | None:
        """Return the tenant's generation; None when it is not known, and then nothing may be looked up or kept.

        A number made up instead would one day be a generation whose answers are out of date.
        """
        return self._ask(lambda: self._cache.generation(tenant_id))

    def advance(self, tenant_id: str) -> int:
        """Begin a new generation and return it.

        Raises
        ------
        StoreError
            If that failed. The write then is not done: the answers from before it would go on being given.
        """
        return self._cache.advance(tenant_id)

    def forget(self, tenant_id: str) -> int:
        """Remove every value of a tenant and return how many there were.

        Raises
        ------
        StoreError, ConfigurationError
            If that failed, or no cache is named: what is to be removed must not stay unnoticed.
        """
        return self._cache.forget(tenant_id)

    def _ask(self, question: Callable[[], _Found]) -> _Found | None:
        if self._clock() < self._resting_until:
            return None
        try:
            return question()
        except StoreError as error:
            self._resting_until = self._clock() + self._rest_s
            _LOG.warning("no cache for %g s: %s: %s", self._rest_s, type(error).__name__, error)
            return None
