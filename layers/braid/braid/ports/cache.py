"""Port of the cache: values and counters of a tenant that may be lost at any time, and the tenant's write generation.

:class:`ResilientCache`, the circuit breaker that each process puts before its cache, and :class:`NoCache` are here too.

A question reads the generation, looks for a value under a key that holds it, computes the value where there is none,
and keeps it under the same key. A write stores, calls :meth:`Cache.advance`, and then reports that it is done. So a
value from before the write has a key that no question asks for after it.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from braid.errors import ConfigurationError, InvalidRequest, StoreError
from braid.ports.keys import check_key

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_CACHE_VALUE_BYTES = 384 * 1024
"""DynamoDB refuses items above 400 KB, keys and names of attributes included; the embedded cache keeps to the same."""
COUNTER = "counter/"
"""What the key of a counter begins with, and that of no value; a policy of the deployment names it."""
_LOG = logging.getLogger(__name__)
_Found = TypeVar("_Found")


@runtime_checkable
class Cache(Protocol):
    """Values that may be lost at any time; :class:`ResilientCache` makes a lost cache a miss.

    A key is 1 to :data:`~braid.ports.keys.MAX_KEY_BYTES` bytes of UTF-8; anything else raises
    :class:`~braid.errors.InvalidRequest`.
    """

    def get(self, tenant_id: str, key: str, *, consistent: bool = False) -> bytes | None:
        """Return what is kept; None when nothing is, or it has expired.

        With ``consistent`` what was kept last; else possibly what was there a moment before.
        """

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        """Keep a value for ``ttl_s`` seconds, at least 1, or up to one second less, instead of what was there.

        A value above :data:`MAX_CACHE_VALUE_BYTES` is not kept, and what was there is gone.
        """

    def exchange(
        self, tenant_id: str, key: str, expected: bytes | None, value: bytes | None, ttl_s: int
    ) -> bytes | None:
        """Compare and set, in one step: keep ``value`` if what is kept equals ``expected``.

        Parameters
        ----------
        expected
            What has to be kept for anything to change; None is nothing, or a value that has expired.
        value
            What is kept then, as :meth:`put` keeps it; None removes what is kept.

        Returns
        -------
        bytes or None
            What was kept before. The value was exchanged if this equals ``expected``, and else nothing changed.
        """

    def count(self, tenant_id: str, key: str, amount: int, window_s: int) -> int:
        """Add to a counter of the present window, in one step, and return its sum.

        A window is a whole multiple of ``window_s`` seconds since 1970, and begins at 0. An amount of 0 reads the
        counter, and one below 0 gives back. Counters and values share no key.
        """

    def generation(self, tenant_id: str) -> int:
        """Return a number that has grown since any write of this tenant that :meth:`advance` was called for.

        A part of the key of everything that depends on what is stored. Read it before working out what is to be kept
        under it. It never expires and is never out of date.
        """

    def advance(self, tenant_id: str) -> int:
        """Begin a new generation and return it; between a write and saying that it is done.

        Trying again is safe: a generation more only costs misses.
        """

    def forget(self, tenant_id: str) -> int:
        """Remove every value of a tenant, expired or not, and return how many there were.

        The generation stays: what is still being worked out must not be kept under a number that comes again. Slow
        where a table has to be read through; for a tenant that is removed.
        """


def check_value_key(key: str) -> str:
    """Return a key of a value in a cache. Raises InvalidRequest if it is empty, too long, not text, or a counter's."""
    if check_key(key).startswith(COUNTER):
        raise InvalidRequest(f"key: begins with {COUNTER}, as those of counters do", field="key")
    return key


def check_ttl(ttl_s: int) -> int:
    """Return for how many seconds something is kept. Raises InvalidRequest if it is none."""
    if ttl_s < 1:
        raise InvalidRequest(f"ttl_s: {ttl_s} is below 1", field="ttl_s")
    return ttl_s


def counter_key(key: str, window_s: int, now: float) -> str:
    """Return the key of a counter in the window that is open at a moment, in seconds since 1970.

    Raises InvalidRequest if there is no such window.
    """
    if window_s < 1:
        raise InvalidRequest(f"window_s: {window_s} is below 1", field="window_s")
    return check_key(f"{COUNTER}{window_s:d}/{now // window_s:.0f}/{check_key(key)}")


class NoCache:
    """Keeps nothing; implements :class:`braid.ports.cache.Cache` where no cache is deployed."""

    def get(self, tenant_id: str, key: str, *, consistent: bool = False) -> None:
        """Return None."""

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
        """Refuse: a sum that is not kept would let everything through."""
        raise StoreError("BRAID_CACHE_TABLE: is not set, and nothing is counted without it")

    def generation(self, tenant_id: str) -> int:  # noqa: ARG002 - the port's signature
        """Return 0: no value is ever found under it."""
        return 0

    def advance(self, tenant_id: str) -> int:  # noqa: ARG002 - the port's signature
        """Return 0: there is nothing to be out of date."""
        return 0

    def forget(self, tenant_id: str) -> int:  # noqa: ARG002 - the port's signature
        """Refuse: others may keep what this process does not know of."""
        raise ConfigurationError("BRAID_CACHE_TABLE: is not set")


class ResilientCache:
    """Cache wrapper: failures count as misses, except where that would let an outdated answer through.

    After a failure it is not asked again for a while, so that a cache that is down costs one time-out and not one a
    question.

    Parameters
    ----------
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

    @property
    def strict(self) -> Cache:
        """The cache itself, whose failures are errors."""
        return self._cache

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

        Raises StoreError or ConfigurationError if that failed, or no cache is named: what is to be removed must not
        stay unnoticed.
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
