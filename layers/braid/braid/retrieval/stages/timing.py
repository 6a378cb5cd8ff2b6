"""How long a stage took."""

from __future__ import annotations

import time


class Stopwatch:
    """Milliseconds since it was made, from a clock that never goes back."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def ms(self) -> float:
        """Return elapsed milliseconds, to the microsecond."""
        return round((time.perf_counter() - self._start) * 1000.0, 3)

    def lap(self) -> float:
        """Return elapsed milliseconds and start again."""
        elapsed, self._start = self.ms(), time.perf_counter()
        return elapsed
