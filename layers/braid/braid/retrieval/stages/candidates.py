"""Hydrates candidates with their records in one call, and drops those that are not admissible.

Candidates are dropped if they have no record of the tenant, are not valid at the question's ``as_of`` (by default now),
or do not pass its filters, ``trusted_only`` among them. Of hits of the search few are: it filters by itself.

A record of an older schema version scores less by the factors of ``ranking.scoring``, whether its score is that of
fusion (``Ranked.factor``) or of a reranker (``Ranked.rescored``), or is dropped (``hydrate``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import Candidate, Filters, Query, Record, Source, StoredRecord, earliest
from braid.models.metadata_filters import meet
from braid.ranking import scoring
from braid.ranking.scoring import DRIFT_FACTORS, clamp

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from braid.models import Path, TimeRange
    from braid.ports.search_index import SearchIndex


MAX_HYDRATED = 200
"""Most candidates whose records are read."""
SUPPLIED_FACTOR: Final = 0.85
"""Score factor of a hit by a supplied vector, as for moderate drift: it may not be the vector of the text."""


class Ranked(NamedTuple):
    """A candidate with its record."""

    candidate: Candidate
    stored: StoredRecord
    fused_rank: int
    drift: scoring.Drift
    relevance: float
    rerank_score: float | None = None
    vector_supplied: bool = False
    """Whether it was found by a vector that came with the record, and was not made by the model of its space."""

    @property
    def record(self) -> Record:
        """The whole record."""
        return self.stored.record

    @property
    def kind(self) -> str:
        """The kind of its record."""
        return self.record.kind

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths on which the graph reached it."""
        return self.candidate.paths

    @property
    def aged_from(self) -> datetime | None:
        """The time from which its age counts: the record's last update, else its timestamp, else its creation."""
        return self.record.updated_at or self.record.timestamp or self.record.created_at

    @property
    def factor(self) -> float:
        """Factor of the fused score, for an older schema version and for a supplied vector."""
        return _factor(self.drift, vector_supplied=self.vector_supplied)

    def rescored(self, score: float) -> Ranked:
        """Return it with a reranker's score, which is lowered for an older schema, but not for a supplied vector."""
        return self._replace(relevance=clamp(score * DRIFT_FACTORS[self.drift]), rerank_score=clamp(score))


def _factor(drift: scoring.Drift, *, vector_supplied: bool) -> float:
    return DRIFT_FACTORS[drift] * (SUPPLIED_FACTOR if vector_supplied else 1.0)


@dataclass(frozen=True)
class Hydrated:
    """Candidates with their records, best first, and counts of dropped ones."""

    ranked: list[Ranked]
    superseded: int = 0
    """Candidates dropped as invalid at the question's ``as_of``, including those that are not valid yet."""
    begins_at: datetime | None = None
    """When the first candidate that was dropped as not valid yet becomes valid."""
    outdated: tuple[str, ...] = ()
    """Ids of candidates that were dropped as older than the schema window."""
    moderate: tuple[str, ...] = ()
    """Ids of candidates of moderate drift, which are kept and to be re-embedded."""
    evidence: dict[str, Record] = field(default_factory=dict)
    """Records that are evidence of facts, by id, as far as they exist."""
    text_lost: bool = False
    """Whether no text was read, because the index did not answer."""


def hydrate(
    query: Query,
    fused: Sequence[Candidate],
    index: SearchIndex,
    *,
    now: datetime,
    schema_version: int | None,
    drift_threshold: int,
    max_versions_behind: int,
    space: str | None = None,
    evidence: Sequence[str] = (),
) -> Hydrated:
    """Read the candidates' records in one call, drop those not valid or outside of the filters, and apply drift.

    Graph hits have to meet the same conditions that the search index applied to its hits, and the tenant is checked
    again. A candidate without a record is only a vertex, and no answer.

    Parameters
    ----------
    now
        The time used if the question has no ``as_of``.
    schema_version
        The tenant's current schema version; None if it is not known.
    drift_threshold
        Most versions behind of moderate drift; see :func:`~braid.ranking.scoring.drift`.
    max_versions_behind
        Most versions behind that are inside the schema window.
    space
        The embedding space that was searched; None if none was.
    evidence
        Ids of records that are evidence of facts, read in the same call.

    Raises
    ------
    StoreError
        If the index does not answer.
    """
    as_of, filtered = query.as_of or now, query.filters != Filters()
    candidates = fused[:MAX_HYDRATED]
    wanted = dict.fromkeys([*[candidate.id for candidate in candidates], *evidence])
    found = index.candidates(query.tenant_id, list(wanted))
    records = {identity: stored for identity, stored in found.items() if stored.tenant_id == query.tenant_id}
    ranked: list[Ranked] = []
    superseded = 0
    begins: list[datetime | None] = []
    outdated: list[str] = []
    drifts: dict[int, scoring.Drift] = {}
    """Drift by schema version."""
    for candidate in candidates:
        stored = records.get(candidate.id)
        if stored is None or (filtered and not meets(stored.record, query.filters)):
            continue
        bounded = stored.valid_at is not None or stored.invalid_at is not None
        if bounded and not valid(stored, as_of):
            superseded += 1
            begins.append(stored.valid_at if stored.valid_at is not None and as_of < stored.valid_at else None)
            continue
        version = stored.schema_version
        current = schema_version or version
        drift = drifts.get(version)
        if drift is None:
            drift = drifts[version] = scoring.drift(version, current, drift_threshold)
        if drift is not scoring.Drift.NONE and version < scoring.oldest_searched(current, max_versions_behind):
            outdated.append(candidate.id)
            continue
        supplied = candidate.vector_score is not None and space in stored.supplied_spaces
        relevance = clamp(candidate.combined_score * _factor(drift, vector_supplied=supplied))
        ranked.append(Ranked(candidate, stored, len(ranked) + 1, drift, relevance, vector_supplied=supplied))
    ranked.sort(key=lambda item: (-item.relevance, item.candidate.id))
    moderate = [item.candidate.id for item in ranked if item.drift is scoring.Drift.MODERATE]
    known = {identity: records[identity].record for identity in evidence if identity in records}
    return Hydrated(ranked, superseded, earliest(begins), tuple(outdated), tuple(moderate), known)


def without_text(query: Query, fused: Sequence[Candidate], *, has_record: Collection[str]) -> list[Ranked]:
    """Return the candidates without their text, if the index does not answer.

    Text hits met the query's filters inside the index, and graph hits are trusted if the query requires it. With any
    other filter, graph hits are dropped.

    Parameters
    ----------
    has_record
        Ids of the graph hits that have a record.
    """
    ranked: list[Ranked] = []
    for candidate in fused[:MAX_HYDRATED]:
        from_index = Source.VECTOR in candidate.sources or Source.LEXICAL in candidate.sources
        if from_index or (candidate.id in has_record and not query.filters.restrict):
            stored = StoredRecord.of(Record(id=candidate.id, tenant_id=query.tenant_id))
            ranked.append(Ranked(candidate, stored, len(ranked) + 1, scoring.Drift.NONE, candidate.combined_score))
    return ranked


def valid(record: Record | StoredRecord, as_of: datetime) -> bool:
    """Whether a record is valid at a moment: ``valid_at <= as_of < invalid_at``, a missing bound being open."""
    if record.valid_at is not None and as_of < record.valid_at:
        return False
    return record.invalid_at is None or as_of < record.invalid_at


def meets(record: Record, filters: Filters) -> bool:
    """Whether a record meets a question's filters: kind, type, task, tool, trust, time and metadata.

    The search index has filtered its own hits; hits of the graph, and the evidence of facts, are filtered here.
    Validity is checked by :func:`valid`.
    """
    return (
        (not filters.kinds or record.kind in filters.kinds)
        and (not filters.entity_types or record.entity_type in filters.entity_types)
        and filters.task_id in {None, record.task_id}
        and filters.tool_name in {None, record.tool_name}
        and (record.trusted or not filters.trusted_only)
        and (filters.time_range is None or _is_within(record.timestamp, filters.time_range))
        and (not filters.metadata or meet(record.metadata, filters.metadata, filters.metadata_tests))
    )


def _is_within(at: datetime | None, span: TimeRange) -> bool:
    if at is None:
        return False
    return (span.start is None or at >= span.start) and (span.end is None or at < span.end)
