"""Hydration: reads the candidates' records in one call, and drops those that may not be answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from braid.models import Candidate, Filters, Query, Record, Source, earliest
from braid.ranking import schema_drift
from braid.ranking.scoring import clamp

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from braid.ports.search_index import SearchIndex

MAX_HYDRATED = 200
"""Most candidates whose records are read."""
SUPPLIED_FACTOR: Final = 0.85
"""Factor of a hit by a supplied vector, as of moderate drift: nothing ties the vector to the text."""


@dataclass(frozen=True)
class Ranked:
    """A candidate with its record."""

    candidate: Candidate
    record: Record
    fused_rank: int
    drift: schema_drift.Drift
    relevance: float
    rerank_score: float | None = None
    vector_supplied: bool = False
    """Whether the vector that found it came with the record, and so was not made by the model of its space."""


@dataclass(frozen=True)
class Hydrated:
    """Candidates with their records, best first, and counts of those that were dropped."""

    ranked: list[Ranked]
    superseded: int = 0
    begins_at: datetime | None = None
    """When the first of those dropped that are not valid yet becomes so."""
    outdated: tuple[str, ...] = ()
    """Dropped: older than the schema window."""
    moderate: tuple[str, ...] = ()
    """Kept, and to be transformed."""


def hydrate(
    query: Query,
    fused: Sequence[Candidate],
    index: SearchIndex,
    *,
    now: datetime,
    schema_version: int | None,
    drift_threshold: int,
    reach: int | None = None,
    space: str | None = None,
) -> Hydrated:
    """Read the candidates in one call, drop what may not be an answer, and apply drift.

    What the graph found is held to the same conditions that the search index applied to its own, and the tenant is
    checked again. A candidate that has no record is a vertex only, and no answer.

    Parameters
    ----------
    reach
        How many schema versions the window goes back; as far as ``drift_threshold`` when None.
    space
        The embedding space that was searched, if any was.

    Raises
    ------
    StoreError
        If the index does not answer.
    """
    as_of = query.as_of or now
    candidates = fused[:MAX_HYDRATED]
    found = index.get_many(query.tenant_id, [candidate.id for candidate in candidates])
    records = {record.id: record for record in found if record.tenant_id == query.tenant_id}
    ranked: list[Ranked] = []
    superseded = 0
    begins: list[datetime | None] = []
    outdated: list[str] = []
    for candidate in candidates:
        record = records.get(candidate.id)
        if record is None or not meets(record, query.filters):
            continue
        if not valid(record, as_of):
            superseded += 1
            begins.append(record.valid_at if record.valid_at is not None and as_of < record.valid_at else None)
            continue
        current = schema_version or record.schema_version
        drift = schema_drift.drift(record.schema_version, current, drift_threshold)
        window = drift_threshold if reach is None else reach
        if record.schema_version < schema_drift.oldest_searched(current, window):
            outdated.append(record.id)
            continue
        supplied = candidate.vector_score is not None and space in record.supplied_spaces
        factor = schema_drift.FACTORS[drift] * (SUPPLIED_FACTOR if supplied else 1.0)
        relevance = clamp(candidate.combined_score * factor)
        ranked.append(Ranked(candidate, record, len(ranked) + 1, drift, relevance, vector_supplied=supplied))
    ranked.sort(key=lambda item: (-item.relevance, item.candidate.id))
    moderate = [item.record.id for item in ranked if item.drift is schema_drift.Drift.MODERATE]
    return Hydrated(ranked, superseded, earliest(begins), tuple(outdated), tuple(moderate))


def without_text(query: Query, fused: Sequence[Candidate], *, has_record: Collection[str]) -> list[Ranked]:
    """Return the candidates without their text, for when the index was lost after the search.

    Text hits met the query's conditions inside the index. A graph hit stands only where there are none to meet.
    """
    conditions = query.filters != Filters()
    ranked: list[Ranked] = []
    for candidate in fused[:MAX_HYDRATED]:
        from_index = Source.VECTOR in candidate.sources or Source.LEXICAL in candidate.sources
        if from_index or (candidate.id in has_record and not conditions):
            record = Record(id=candidate.id, tenant_id=query.tenant_id)
            ranked.append(Ranked(candidate, record, len(ranked) + 1, schema_drift.Drift.NONE, candidate.combined_score))
    return ranked


def valid(record: Record, as_of: datetime) -> bool:
    """Whether a record holds at a moment: ``valid_at <= as_of < invalid_at``, a missing bound being open."""
    if record.valid_at is not None and as_of < record.valid_at:
        return False
    return record.invalid_at is None or as_of < record.invalid_at


def meets(record: Record, filters: Filters) -> bool:
    """Whether a record from the graph meets the filters, which the search index applied to its own hits."""
    if filters.kinds and record.kind not in filters.kinds:
        return False
    if filters.entity_types and record.entity_type not in filters.entity_types:
        return False
    if filters.task_id is not None and record.task_id != filters.task_id:
        return False
    if filters.tool_name is not None and record.tool_name != filters.tool_name:
        return False
    if filters.trusted_only and not record.trusted:
        return False
    if filters.time_range is None:
        return True
    at, span = record.timestamp, filters.time_range
    if at is None:
        return False
    return (span.start is None or at >= span.start) and (span.end is None or at < span.end)
