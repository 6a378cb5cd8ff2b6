"""Schema drift: what a record's schema version does to its score."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Drift(StrEnum):
    """How far a record's schema is behind the tenant's current one."""

    NONE = "none"
    MINOR = "minor"
    MODERATE = "moderate"
    SEVERE = "severe"


FACTORS: Final = {Drift.NONE: 1.0, Drift.MINOR: 0.95, Drift.MODERATE: 0.85, Drift.SEVERE: 0.0}


def drift(record_version: int, current_version: int, threshold: int = 3) -> Drift:
    """Classify the difference: 0 none, 1 minor, up to ``threshold`` moderate, more severe.

    A record newer than the current version is not behind, and so has no drift; writing it is what gets refused.
    """
    behind = max(0, current_version - record_version)
    if behind > threshold:
        return Drift.SEVERE
    if behind == 0:
        return Drift.NONE
    return Drift.MINOR if behind == 1 else Drift.MODERATE


class Window(StrEnum):
    """How far back the search window reaches."""

    THRESHOLD = "threshold"
    """As far as the drift threshold: moderate drift is found, at a discount."""
    STRICT = "strict"
    """To the version before the current one."""


def reach(threshold: int = 3, window: Window = Window.THRESHOLD) -> int:
    """Return how many versions behind the current one a record may be and still be found."""
    return min(1, threshold) if window is Window.STRICT else threshold


def oldest_searched(current_version: int, reach: int = 3) -> int:
    """Return the lowest schema version inside the search window."""
    return max(1, current_version - reach)
