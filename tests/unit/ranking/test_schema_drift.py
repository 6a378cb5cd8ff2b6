"""What being behind the current schema does to a record."""

from __future__ import annotations

import pytest
from braid.models import SchemaWindow
from braid.ranking.scoring import DRIFT_FACTORS, Drift, drift, max_versions_behind, oldest_searched
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("record", "current", "expected", "factor"),
    [
        (7, 7, Drift.NONE, 1.0),
        (6, 7, Drift.MINOR, 0.95),
        (5, 7, Drift.MODERATE, 0.85),
        (4, 7, Drift.MODERATE, 0.85),
        (3, 7, Drift.SEVERE, 0.0),
        (1, 7, Drift.SEVERE, 0.0),
        (8, 7, Drift.NONE, 1.0),
    ],
)
def test_the_further_behind_a_record_the_less_it_counts(
    record: int, current: int, expected: Drift, factor: float
) -> None:
    assert drift(record, current) is expected
    assert DRIFT_FACTORS[expected] == factor


def test_the_threshold_is_the_last_difference_that_is_searched() -> None:
    assert drift(5, 10, threshold=5) is Drift.MODERATE
    assert drift(4, 10, threshold=5) is Drift.SEVERE
    assert drift(9, 10, threshold=0) is Drift.SEVERE
    assert drift(10, 10, threshold=0) is Drift.NONE


@given(current=st.integers(1, 60), threshold=st.integers(0, 10), record=st.integers(1, 60))
def test_the_search_window_holds_exactly_what_drift_does_not_exclude(current: int, threshold: int, record: int) -> None:
    inside = record >= oldest_searched(current, threshold)
    assert inside == (drift(record, current, threshold) is not Drift.SEVERE)


def test_the_window_ends_at_the_first_version() -> None:
    assert oldest_searched(2, 3) == 1
    assert oldest_searched(9, 3) == 6


def test_a_strict_window_reaches_to_the_version_before_the_current_one() -> None:
    assert [
        max_versions_behind(3),
        max_versions_behind(3, SchemaWindow.STRICT),
        max_versions_behind(0, SchemaWindow.STRICT),
    ] == [3, 1, 0]
    assert oldest_searched(9, max_versions_behind(3, SchemaWindow.STRICT)) == 8
