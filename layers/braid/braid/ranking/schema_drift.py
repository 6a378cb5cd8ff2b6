"""Schema drift: how far a record's schema version is behind, the factor on its score, and the search window."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from braid.models import SchemaWindow


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


def reach(threshold: int = 3, window: SchemaWindow = SchemaWindow.THRESHOLD) -> int:
    """Return how many versions behind the current one a record may be and still be found."""
    return min(1, threshold) if window is SchemaWindow.STRICT else threshold


def oldest_searched(current_version: int, reach: int = 3) -> int:
    """Return the lowest schema version inside the search window."""
    return max(1, current_version - reach)
