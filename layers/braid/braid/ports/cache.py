"""Port of the cache: values and counters of a tenant that may be lost at any time, and the tenant's write generation.

:class:`ResilientCache`, the circuit breaker that each process puts before its cache, and :class:`NoCache` are here too.

A question reads the generation and looks up a value by a key that contains it; on a miss it computes the value and
stores it under the same key. A write stores its items, calls :meth:`Cache.advance`, and only then is acknowledged. So
after a write, no question looks up the key of an older value.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from braid.deadline import CircuitBreaker
from braid.errors import ConfigurationError, InvalidRequest, StoreError, StoreTooSlow, TransientStoreError
from braid.ports.keys import check_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_CACHE_VALUE_BYTES = 384 * 1024
"""DynamoDB refuses items above 400 KB, keys and names of attributes included; the embedded cache keeps to the same."""
COUNTER = "counter/"
"""Key prefix of counters, which no value's key has; a policy of the deployment names it."""
_LOG = logging.getLogger(__name__)
_Found = TypeVar("_Found")
_GIVE_BACK_ATTEMPTS = 3
"""Attempts at giving a slot back. Where an answer was lost, of these or of the slot's beginning, one slot more may be
freed than was taken, which bounds a little less; one less would be nobody's until its window ends."""


@runtime_checkable
class Cache(Protocol):
    """Values that may be lost at any time; :class:`ResilientCache` makes a lost cache a miss.

    A key is 1 to :data:`~braid.ports.keys.MAX_KEY_BYTES` bytes of UTF-8; anything else raises
    :class:`~braid.errors.InvalidRequest`.
    """

    def get(self, tenant_id: str, key: str, *, consistent: bool = False) -> bytes | None:
        """Return the cached value; None when there is none, or it has expired.

        With ``consistent`` it is the last one written; otherwise it may be a moment old.
        """

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        """Cache a value for ``ttl_s`` seconds, at least 1, or up to one second less; it replaces an older one.

        A value above :data:`MAX_CACHE_VALUE_BYTES` is not cached, and the older one is removed.
        """

    def exchange(
        self, tenant_id: str, key: str, expected: bytes | None, value: bytes | None, ttl_s: int
    ) -> bytes | None:
        """Compare and set, atomically: cache ``value`` if the cached value equals ``expected``.

        Parameters
        ----------
        expected
            The value that must be cached for the exchange to happen; None means no value, or an expired one.
        value
            The new value, cached as by :meth:`put`; None removes the cached one.

        Returns
        -------
        bytes or None
            The previous value. It was exchanged if this equals ``expected``; otherwise nothing changed.
        """

    def count(self, tenant_id: str, key: str, amount: int, window_s: int, *, ago: int = 0) -> int:
        """Add to a counter of a window, atomically, and return its sum.

        A window begins at a whole multiple of ``window_s`` seconds since 1970, with the counter at 0. An amount of 0
        reads the counter, and one below 0 gives back. Counters and values share no key.

        Parameters
        ----------
        ago
            0 for the current window, 1 for the one before it, whose counter is kept until the current one ends.
        """

    def generation(self, tenant_id: str) -> int:
        """Return the tenant's write generation, which every call of :meth:`advance` increases.

        It is part of the key of every value that depends on stored data. Read it before computing such a value. It
        never expires and is never out of date.
        """

    def advance(self, tenant_id: str) -> int:
        """Begin a new generation and return it; called after a write, before it is reported as done.

        Repeating it is safe: one more generation only costs misses.
        """

    def forget(self, tenant_id: str) -> int:
        """Remove every value of a tenant, expired or not, and return how many there were.

        The generation is kept: a value that is still being computed must not be cached under a reused number. Slow if a
        whole table is scanned; meant for a tenant that is removed.
        """


def check_value_key(key: str) -> str:
    """Check a value's key and return it. Raises InvalidRequest if it is empty, too long, not text, or a counter's."""
    if check_key(key).startswith(COUNTER):
        raise InvalidRequest.of("key", f"begins with {COUNTER}, as those of counters do")
    return key


def check_ttl(ttl_s: int) -> int:
    """Check a time to live in seconds and return it. Raises InvalidRequest if it is below 1."""
    if ttl_s < 1:
        raise InvalidRequest.of("ttl_s", f"{ttl_s} is below 1")
    return ttl_s


def counter_key(key: str, window_s: int, now: float, ago: int = 0) -> str:
    """Return the key of a counter in the window around ``now``, in seconds since 1970, or ``ago`` windows before it.

    Raises InvalidRequest if ``window_s`` is below 1.
    """
    if window_s < 1:
        raise InvalidRequest.of("window_s", f"{window_s} is below 1")
    return check_key(f"{COUNTER}{window_s:d}/{now // window_s - ago:.0f}/{check_key(key)}")


class NoCache:
    """Caches nothing; implements :class:`braid.ports.cache.Cache` where no cache is deployed."""

    def get(self, *_: object, **__: object) -> None:
        """Return None."""

    def put(self, *_: object) -> None:
        """Do nothing."""

    def exchange(self, _tenant_id: str, _key: str, expected: bytes | None, *_: object) -> bytes | None:
        """Return ``expected``, as if it had been exchanged: no other process caches anything either."""
        return expected

    def count(self, *_: object, **__: object) -> int:
        """Raise StoreError: a counter that is not stored would enforce no limit."""
        raise StoreError("BRAID_CACHE_TABLE: is not set, and nothing is counted without it")

    def generation(self, _tenant_id: str) -> int:
        """Return 0: no value is ever found under it."""
        return 0

    def advance(self, _tenant_id: str) -> int:
        """Return 0: nothing is cached."""
        return 0

    def forget(self, _tenant_id: str) -> int:
        """Raise ConfigurationError: other processes may have a cache that this one is not configured for."""
        raise ConfigurationError("BRAID_CACHE_TABLE: is not set")


class ResilientCache:
    """Cache wrapper: failures count as misses, except where that would let an outdated answer through.

    A circuit breaker: after a failure the cache is not called for a while, so that an outage costs one time-out, not
    one per question.

    Parameters
    ----------
    rest_s
        Seconds for which the cache is not called after a failure.
    clock
        Returns seconds of a monotonic clock.
    """

    def __init__(self, cache: Cache, *, rest_s: float = 5.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache = cache
        self._breaker = CircuitBreaker(rest_s, clock)

    @property
    def strict(self) -> Cache:
        """The wrapped cache, whose failures are raised."""
        return self._cache

    def get(self, tenant_id: str, key: str) -> bytes | None:
        """Return the cached value; None when there is none, it has expired, or the cache fails."""
        return self._ask(lambda: self._cache.get(tenant_id, key))

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        """Cache a value; a failure is ignored."""
        self._ask(lambda: self._cache.put(tenant_id, key, value, ttl_s))

    def exchange(
        self, tenant_id: str, key: str, expected: bytes | None, value: bytes | None, ttl_s: int
    ) -> bytes | None:
        """Cache ``value`` if the cached value equals ``expected``, and return the previous one.

        Returns ``expected``, as if it had been exchanged, when the cache fails.
        """
        kept = self._ask(lambda: (self._cache.exchange(tenant_id, key, expected, value, ttl_s),))
        return expected if kept is None else kept[0]

    def count(self, tenant_id: str, key: str, amount: int, window_s: int, *, ago: int = 0) -> int | None:
        """Add to a counter of a window and return its sum; None when the cache fails."""
        return self._ask(lambda: self._cache.count(tenant_id, key, amount, window_s, ago=ago))

    @contextmanager
    def slot(
        self,
        tenant_id: str,
        key: str,
        *,
        limit: int,
        window_s: int,
        clock: Callable[[], float],
        spans_windows: bool = False,
        free_if_lost: bool = True,
    ) -> Iterator[bool]:
        """Hold one of ``limit`` slots that all processes share while the block runs; yield whether one was free.

        Slots are counted anew in each window, so that the slot of a process that died is free again after at most a
        window; a block that runs into the next window is counted there only with ``spans_windows``.

        Parameters
        ----------
        limit
            Number of slots; 0 sets no limit, and counts nothing.
        clock
            Returns seconds since 1970.
        spans_windows
            Whether slots of the window before the current one are counted too: for blocks about as long as a window,
            most of which run into the next one.
        free_if_lost
            Whether a slot is free if the cache is throttled or does not answer. Otherwise none is, and the cache is
            also called while it rests: for work that can wait, as its own counting may be what throttles the cache.
        """
        if not limit:
            yield True
            return
        window = clock() // window_s
        free, maybe_counted, amount = True, False, 0
        if not (free_if_lost and self._breaker.is_open()):
            try:
                earlier = self._cache.count(tenant_id, key, amount, window_s, ago=1) if spans_windows else 0
                amount = 1
                # Read again, just before the cache does: a slot is given back in the window that it is counted in.
                window = clock() // window_s
                taken = self._cache.count(tenant_id, key, amount, window_s)
                free, maybe_counted = taken + max(earlier, 0) <= limit, True
            except StoreError as error:
                self._rest(error)
                free = free_if_lost or not isinstance(error, TransientStoreError)
                maybe_counted = amount == 1 and isinstance(error, TransientStoreError) and error.maybe_done
        try:
            yield free
        finally:
            ago = int(clock() // window_s - window)
            if maybe_counted and ago <= spans_windows:
                self._give_back(tenant_id, key, window_s, ago)

    def _give_back(self, tenant_id: str, key: str, window_s: int, ago: int) -> None:
        """Count a slot's end, also just after a failure: a slot that is not given back is nobody's for a window."""
        for _ in range(_GIVE_BACK_ATTEMPTS):
            try:
                self._cache.count(tenant_id, key, -1, window_s, ago=ago)
            except StoreError as error:
                _LOG.warning("a slot was not given back: %s: %s", type(error).__name__, error)
            else:
                return

    def generation(self, tenant_id: str) -> int | None:
        """Return the tenant's generation; None when the cache fails: then no value may be looked up or cached.

        A made-up number would one day be a real generation, with outdated answers under it.
        """
        return self._ask(lambda: self._cache.generation(tenant_id))

    def advance(self, tenant_id: str) -> int:
        """Begin a new generation and return it.

        Raises
        ------
        StoreError
            If that failed. The write must then fail too: answers from before it would still be served.
        """
        return self._cache.advance(tenant_id)

    def forget(self, tenant_id: str) -> int:
        """Remove every value of a tenant and return how many there were.

        Raises StoreError if that failed, and ConfigurationError if no cache is configured: values that were to be
        removed must not remain unnoticed.
        """
        return self._cache.forget(tenant_id)

    def _ask(self, question: Callable[[], _Found]) -> _Found | None:
        if self._breaker.is_open():
            return None
        try:
            return question()
        except StoreError as error:
            self._rest(error)
            return None

    def _rest(self, error: StoreError) -> None:
        if isinstance(error, StoreTooSlow):
            return  # the time of one request is over, which says nothing of the cache and is not for others to pay
        self._breaker.open()
        _LOG.warning("no cache for %g s: %s: %s", self._breaker.rest_s, type(error).__name__, error)
