"""Records a process's memory over time, and tests whether it still grows at the end."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psutil

POINTS = 60
"""As many are kept of a series, however long it took."""


@dataclass
class Series:
    """Memory in MB at moments, in seconds since the first."""

    seconds: list[float] = field(default_factory=list)
    megabytes: list[float] = field(default_factory=list)
    """Resident and its own: pages of files that are mapped come and go with what the system has to spare."""
    files: list[float] = field(default_factory=list)
    """Resident pages of files, which is how the embedded engine reads its own."""

    def growth_mb_per_min(self) -> float:
        """Return the slope of the least-squares line through the second half; in the first, caches fill."""
        half = len(self.seconds) // 2
        return round(60 * slope(self.seconds[half:], self.megabytes[half:]), 2)


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return how much ``ys`` grow for each of ``xs``; 0 of fewer than two points."""
    count = len(xs)
    middle_x, middle_y = (sum(values) / max(count, 1) for values in (xs, ys))
    spread = sum((x - middle_x) ** 2 for x in xs)
    both = sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True))
    return both / spread if spread else 0.0


@contextmanager
def watched(process: psutil.Process, seconds: int) -> Iterator[Series]:
    """Look at a process's memory while the block runs, :data:`POINTS` times in so many seconds.

    Parameters
    ----------
    process
        Whose memory, with that of the processes which it started.
    seconds
        For which the block is expected to run.
    """
    series, ended = Series(), threading.Event()
    began = time.monotonic()

    def look() -> None:
        while not ended.wait(seconds / POINTS):
            series.seconds.append(round(time.monotonic() - began, 1))
            held = [one.memory_info() for one in (process, *process.children())]
            of_files = [getattr(memory, "shared", 0) for memory in held]  # Linux tells them apart
            series.megabytes.append(round((sum(memory.rss for memory in held) - sum(of_files)) / 1e6, 1))
            series.files.append(round(max(of_files) / 1e6, 1))  # the processes map the same

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield series
    finally:
        ended.set()
        looking.join()
