"""Cached read of the model profiles that the index serves."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from braid.errors import StoreError
from braid.ports.index_migration import MigrationState

if TYPE_CHECKING:
    from collections.abc import Callable

_LOG = logging.getLogger(__name__)


class ServedProfiles:
    """The model profiles that an index serves, cached for some seconds.

    Parameters
    ----------
    read
        Reads the state from the index.
    default
        Profile of an index without a move so far, and of one that has never answered.
    keep_s
        Seconds for which a result is kept, and for which a failing index is not asked again.
    clock
        Monotonic clock, in seconds.
    """

    def __init__(
        self,
        read: Callable[[], MigrationState],
        default: str,
        *,
        keep_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._default = default
        self._keep_s = keep_s
        self._clock = clock
        self._known = MigrationState()
        self._until = float("-inf")
        self._lock = threading.Lock()

    def active(self) -> str:
        """Return the profile whose models embed questions."""
        return self._now().active or self._default

    def all(self) -> tuple[str, ...]:
        """Return the profiles in whose spaces records are written, the active one first."""
        serving = self._now()
        active = serving.active or self._default
        return (active,) if serving.mirrored in {None, active} else (active, str(serving.mirrored))

    def _now(self) -> MigrationState:
        with self._lock:
            if self._clock() >= self._until:
                try:
                    self._known = self._read()
                except StoreError as error:
                    _LOG.warning("the active model profile cannot be read: %s: %s", type(error).__name__, error)
                self._until = self._clock() + self._keep_s
            return self._known
