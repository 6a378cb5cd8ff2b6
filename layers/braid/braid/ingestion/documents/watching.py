"""Keeps folders ingested: looks again after an interval, and ingests what has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.ingestion.documents.progress import Event

LEAST_INTERVAL_S: Final = 1.0
MOST_INTERVAL_S: Final = 86_400.0


def watch(
    ingest: Callable[[], Iterator[Event]], *, interval_s: float, wait: Callable[[float], bool]
) -> Iterator[Event]:
    """Ingest, and again after every interval, yielding the events of each time.

    Raises InvalidRequest if the interval is out of bounds.

    Parameters
    ----------
    ingest
        Begins an ingest, such as :func:`braid.ingestion.documents.ingesting.ingest_documents` of the same paths.
    interval_s
        Seconds from the end of one ingest to the next, 1 to 86,400.
    wait
        Waits so many seconds; returns whether to go on.
    """
    if not LEAST_INTERVAL_S <= interval_s <= MOST_INTERVAL_S:
        raise InvalidRequest(
            f"--every: must be {LEAST_INTERVAL_S:g} to {MOST_INTERVAL_S:,.0f} seconds", field="interval_s"
        )
    yield from ingest()
    while wait(interval_s):
        yield from ingest()
