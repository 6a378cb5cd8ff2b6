"""Use counts: how often each record was returned or opened recently, for the ranking profile ``memory``.

They are stored in the cache, one value a tenant, and not in the search index, where an update would index the whole
document again, vectors included. Uses are collected in memory and added by a background thread, so that no question
waits. Uses that were not added before a process ends are lost; without a cache, all are.

A record may be deleted, alone or with its tenant, after its uses were gathered or added. Each time that uses of a
tenant are added, the counts of records that are no longer stored are left out.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from braid.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from braid.ports.cache import ResilientCache

KEY: Final = "uses"
HALF_LIFE_S: Final = 30 * 86_400.0
"""Half-life of a use, in seconds."""
KEPT_S: Final = 90 * 86_400
"""Time to live of a tenant's counts after its last use, in seconds."""
MAX_RECORDS, MAX_BYTES = 1_000, 200_000
"""Largest counts of one tenant, of its most used records; ids have up to 512 bytes."""
MAX_GATHERED: Final = 5_000
"""Most records of all tenants together whose uses are gathered before they are added.

Beyond it, a record of a tenant that has less than an equal share replaces one of the tenant that has most."""
ADDED_AFTER_S: Final = 30.0
_ATTEMPTS = 3
_LEAST = 0.01
_LOG = logging.getLogger(__name__)


class UseCounts:
    """Gathers uses of records and adds them to the tenants' counts.

    Parameters
    ----------
    cache
        Returns the cache; called when counts are read or added.
    stored
        Returns which of a tenant's ids, at most :data:`MAX_RECORDS`, are of stored records; called when uses are added.
    now
        Returns the present moment.
    clock
        Returns seconds of a monotonic clock.
    """

    def __init__(
        self,
        cache: Callable[[], ResilientCache],
        stored: Callable[[str, Sequence[str]], Collection[str]],
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache, self._stored, self._now, self._clock = cache, stored, now, clock
        self._lock, self._adding = threading.Lock(), threading.Lock()
        self._gathered: dict[str, Counter[str]] = {}
        self._records = 0  # of all tenants
        self._added_at = clock()

    def note(self, tenant_id: str, ids: Iterable[str]) -> None:
        """Count a use of each record, without waiting for the cache."""
        with self._lock:
            own = self._gathered.setdefault(tenant_id, Counter())
            for identity in ids:
                if identity not in own:
                    if not self._has_room(own):
                        continue
                    self._records += 1
                own[identity] += 1
            due = self._clock() - self._added_at >= ADDED_AFTER_S
            if due:
                self._added_at = self._clock()
        if due:
            threading.Thread(target=self.add_gathered, name="braid-uses", daemon=True).start()

    def _has_room(self, own: Counter[str]) -> bool:
        """Return whether a tenant's uses may grow by a record; if necessary, evict one of the tenant with most."""
        if self._records < MAX_GATHERED:
            return True
        if len(own) >= MAX_GATHERED // len(self._gathered):
            return False
        max(self._gathered.values(), key=len).popitem()
        self._records -= 1
        return True

    def add_gathered(self) -> None:
        """Add the gathered uses to the tenants' counts in the cache."""
        with self._lock:
            gathered, self._gathered, self._records = self._gathered, {}, 0
        with self._adding:
            for tenant_id, uses in gathered.items():
                self._add(tenant_id, uses)

    close = add_gathered

    def of(self, tenant_id: str) -> dict[str, float]:
        """Return the uses of a tenant's most used records by id, as decayed by their age when last written."""
        return _read(self._cache().get(tenant_id, KEY))[1]

    def _add(self, tenant_id: str, uses: Mapping[str, int]) -> None:
        cache = self._cache()
        kept = cache.get(tenant_id, KEY)
        for _ in range(_ATTEMPTS):
            try:
                counts = self._of_stored(tenant_id, with_uses(kept, uses, self._now().timestamp()))
            except StoreError as error:
                _LOG.info("uses of %d records are not counted: %s", len(uses), type(error).__name__)
                return
            if counts is None and kept is None:
                return
            before = cache.exchange(tenant_id, KEY, kept, counts, KEPT_S)
            if before == kept:
                return
            kept = before
        _LOG.info("uses of %d records are not counted: others counted at the same time", len(uses))

    def _of_stored(self, tenant_id: str, summed: bytes) -> bytes | None:
        """Return counts as JSON without those of records that are no longer stored; None if no record is left."""
        since, counts = _read(summed)
        stored = self._stored(tenant_id, list(counts))
        left = {identity: count for identity, count in counts.items() if identity in stored}
        return json.dumps([since, left]).encode() if left else None


def with_uses(kept: bytes | None, uses: Mapping[str, int], now_s: float) -> bytes:
    """Return a tenant's counts as JSON: the earlier ones, decayed by age, plus new uses; only the most used records.

    Parameters
    ----------
    kept
        The counts before, as this function returned them; None for none.
    uses
        New uses by record id.
    now_s
        Seconds since 1970.
    """
    since, counts = _read(kept)
    share = 0.5 ** (max(0.0, now_s - since) / HALF_LIFE_S)
    summed = Counter({identity: count * share for identity, count in counts.items()})
    summed.update(uses)
    chosen: dict[str, float] = {}
    size = 0
    for identity, count in sorted(summed.items(), key=lambda entry: (-entry[1], entry[0]))[:MAX_RECORDS]:
        size += len(json.dumps(identity)) + 12
        if size > MAX_BYTES or count < _LEAST:
            break
        chosen[identity] = round(count, 3)
    return json.dumps([now_s, chosen]).encode()


def _read(kept: bytes | None) -> tuple[float, dict[str, float]]:
    """Return when counts were written, in seconds since 1970, and the counts; 0 and none if they cannot be parsed."""
    try:
        since, counts = json.loads(kept) if kept else (0.0, {})
        return float(since), {str(identity): float(count) for identity, count in counts.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return 0.0, {}
