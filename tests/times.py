"""When a record holds and when it happened, said once more and independently of the product."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from braid.models import Record, TimeRange


def valid_at(record: Record, moment: datetime) -> bool:
    """Whether a record holds: from ``valid_at``, until just before ``invalid_at``; an end that is not given is open."""
    begun = record.valid_at is None or record.valid_at <= moment
    ended = record.invalid_at is not None and record.invalid_at <= moment
    return begun and not ended


def in_span(record: Record, span: TimeRange) -> bool:
    """Whether a record's timestamp is in ``start <= t < end``; one without a timestamp is in no span."""
    at = record.timestamp
    if at is None or (span.start is not None and at < span.start):
        return False
    return span.end is None or at < span.end
