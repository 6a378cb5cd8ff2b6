"""Hits, candidates, paths, and the answer to a question, with what its confidence means in words."""

from __future__ import annotations

from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Self

from pydantic import Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from braid.models.enums_and_scalars import (
    Asked,
    Frozen,
    Fusion,
    Kind,
    Label,
    MetadataValue,
    Name,
    RecordId,
    Score,
    Source,
    Timestamp,
    on_one_line,
)
from braid.models.metadata_filters import FacetValue
from braid.models.query import Plan, Weights
from braid.models.records import SourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from braid.models.enums_and_scalars import TenantId
    from braid.models.records import Record


def earliest(moments: Iterable[datetime | None]) -> datetime | None:
    """Return the earliest time; None stands for never."""
    return min([moment for moment in moments if moment is not None], default=None)


class Hit(Frozen):
    """A ranked record from one source."""

    id: RecordId
    score: Score
    rank: Annotated[int, Field(ge=1)]
    part_start: Annotated[int, Field(ge=0, exclude_if=lambda start: not start)] = 0
    """Of a vector hit: character offset, in the record's text, of the part that is nearest to the question."""


class EntityLink(Frozen):
    """A name in the question that is an entity's name or alias."""

    entity_id: RecordId
    name: Name
    entity_type: Label
    phrase: str
    """The words of the question that matched."""
    score: Score
    certainty: Score = 1.0
    """Certainty that the words are a name, by their spelling in the question."""
    misspelt: Annotated[bool, Field(exclude_if=lambda misspelt: not misspelt)] = False
    """Whether the phrase matches only with a letter corrected. Serialised only if True."""
    names: Annotated[SkipJsonSchema[tuple[str, ...]], Field(exclude=True)] = ()
    """Of a match by a key of misspellings: the entity's names that have such keys
    (:func:`~braid.understanding.misspelling_keys.names_with_keys`), one of which matched. Never serialised."""
    has_record: bool = False
    """Whether the search index holds a record of the entity, so that it can be an answer."""
    invalid_at: Timestamp | None = None
    """When the entity ceases to be valid; None when it does not."""


class Path(Frozen):
    """A path in the graph: the ids of its vertices from start to end, and the types of the edges between them."""

    ids: tuple[RecordId, ...]
    types: tuple[Label, ...]
    names: tuple[str, ...] = ()
    """The name of each vertex; its id where it has no name."""
    inward: tuple[bool, ...] = ()
    """Whether each edge was walked against its direction, from target to source."""
    evidence: tuple[RecordId | None, ...] = ()
    """The record that is the evidence of each edge; empty if no edge has any."""
    predicates: Annotated[tuple[str, ...], Field(exclude_if=lambda predicates: not predicates)] = ()
    """Of a fact: the predicate of each edge, an empty text where it has none."""
    valid_at: Annotated[Timestamp | None, Field(exclude_if=lambda moment: moment is None)] = None
    """Of a fact: the time since which all its edges are valid; None if they always were."""
    invalid_at: Timestamp | None = None
    """When the first of its vertices and edges ceases to be valid; None when none does."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Path:
        if len(self.ids) != len(self.types) + 1:
            raise ValueError(f"a path of {len(self.ids)} ids has {len(self.types)} types")
        if self.names and len(self.names) != len(self.ids):
            raise ValueError(f"a path of {len(self.ids)} ids has {len(self.names)} names")
        if self.inward and len(self.inward) != len(self.types):
            raise ValueError(f"a path of {len(self.types)} edges has {len(self.inward)} directions")
        if self.evidence and len(self.evidence) != len(self.types):
            raise ValueError(f"a path of {len(self.types)} edges has evidence of {len(self.evidence)}")
        return self

    def edges(self, called: Sequence[str] = ()) -> Iterator[tuple[str, Label, str, str]]:
        """Yield (source, type, target, predicate) of each edge, from the start of the path to its end.

        Parameters
        ----------
        called
            Names of the path's vertices, for source and target; their ids when left out.
        """
        names, inward = called or self.ids, self.inward or (False,) * len(self.types)
        predicates = self.predicates or ("",) * len(self.types)
        for place, (kind, turned, predicate) in enumerate(zip(self.types, inward, predicates, strict=True)):
            near, far = names[place], names[place + 1]
            yield (far, kind, near, predicate) if turned else (near, kind, far, predicate)

    def __str__(self) -> str:
        """Return the path as text: the names, and between them arrows with the edges' types."""
        first, *others = self.names or self.ids
        inward = self.inward or (False,) * len(self.types)
        steps = zip(self.types, inward, others, strict=True)
        said = (f" ←{kind}─ {name}" if turned else f" ─{kind}→ {name}" for kind, turned, name in steps)
        return on_one_line(first + "".join(said))

    def onwards(self, further: Path) -> Path:
        """Return this path continued by one that begins at its end; only the further one if it revisits this one.

        Raises ValueError if the further one begins elsewhere.
        """
        if self.ids[-1] != further.ids[0]:
            raise ValueError(f"a path to {self.ids[-1]!r} does not go on from {further.ids[0]!r}")
        if set(self.ids[:-1]) & set(further.ids) or not further.types:
            return further if further.types else self
        sides = (self, further)
        evidence = tuple(one for path in sides for one in path.evidence or (None,) * len(path.types))
        return Path(
            ids=(*self.ids, *further.ids[1:]),
            types=(*self.types, *further.types),
            names=(*(self.names or self.ids), *(further.names or further.ids)[1:]),
            inward=tuple(one for path in sides for one in path.inward or (False,) * len(path.types)),
            evidence=evidence if any(evidence) else (),
            invalid_at=earliest((self.invalid_at, further.invalid_at)),
        )


class GraphHit(Frozen):
    """A vertex reached from a seed by its best path."""

    id: RecordId
    score: Score
    rank: Annotated[int, Field(ge=1)]
    source: Source = Source.GRAPH
    path: Path
    has_record: bool = False
    name: Name | None = None
    entity_type: Label = "Concept"
    timestamp: Timestamp | None = None
    reason: str | None = None
    trusted: Annotated[bool, Field(exclude_if=lambda trusted: trusted)] = True
    """Whether the vertex, and every vertex and edge of its path, is trusted. Serialised only if False."""


class Candidate(NamedTuple):
    """A hit that enters fusion and rerank, with its score and rank in each strand."""

    id: str
    combined_score: float
    vector_score: float | None = None
    part_start: int = 0
    """As of :class:`Hit`."""
    lexical_score: float | None = None
    graph_score: float | None = None
    ranks: Mapping[Source, int] = MappingProxyType({})
    """Rank in each source that found it, from 1."""
    sources: tuple[Source, ...] = ()
    reasons: tuple[str, ...] = ()
    paths: tuple[Path, ...] = ()


class StoredRecord:
    """A record as read from a store: the fields that decide whether it may be a result; the full record on demand.

    Of a hundred candidates of a question ten are shown, and creating a :class:`Record` takes longer than reading it.
    """

    __slots__ = ("_made", "_make", "id", "invalid_at", "schema_version", "supplied_spaces", "tenant_id", "valid_at")

    def __init__(
        self,
        make: Callable[[], Record],
        tenant_id: TenantId,
        record_id: RecordId,
        *,
        schema_version: int,
        valid_at: datetime | None,
        invalid_at: datetime | None,
        supplied_spaces: Collection[str],
    ) -> None:
        self._make = make
        self._made: Record | None = None
        self.tenant_id, self.id, self.schema_version = tenant_id, record_id, schema_version
        self.valid_at, self.invalid_at, self.supplied_spaces = valid_at, invalid_at, supplied_spaces

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return a stored record for a full one."""
        return cls(
            lambda: record,
            record.tenant_id,
            record.id,
            schema_version=record.schema_version,
            valid_at=record.valid_at,
            invalid_at=record.invalid_at,
            supplied_spaces=record.supplied_spaces,
        )

    @property
    def record(self) -> Record:
        """The whole record, without its vectors."""
        if self._made is None:
            self._made = self._make()
        return self._made


Span = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]
"""Half-open range of characters of a text: start and end."""


class Citation(Frozen):
    """The source of a result's text, and the excerpt that has the question's words."""

    type: SourceType
    title: str
    page: int | None = None
    chunk_index: int | None = None
    excerpt: str
    marked: Span | None = None
    """Range, in ``excerpt``, of the sentence that fits the question best; None if none has any of its words."""
    reliability: Score
    """Reliability of the source: the confidence that the record states, else a default of the source's type."""


class Fact(Frozen):
    """A relationship, or a chain of two, as a sentence; or an entity that has no such relationship."""

    text: str
    answer: RecordId
    name: str
    """Name of the answer."""
    entity_type: Label
    path: Path
    """From the entity that the question names to the answer; of an entity without such a relationship, itself alone."""
    confidence: Score
    trusted: bool = True
    citation: Citation | None = None
    """Citation of the record that is its evidence; None without evidence."""


class FactSet(Frozen):
    """The facts that answer a question in one way."""

    asked: Asked
    count: Annotated[int, Field(ge=1)]
    """Number of distinct answers; ``facts`` may show fewer."""
    complete: bool
    """Whether all answers in the graph were read, so that ``count`` is exact."""
    facts: tuple[Fact, ...]


class Result(Frozen):
    """One result of an answer, with its scores and its evidence.

    Scores are in [0, 1], higher is better, and relative to this question: the first result may have a high score even
    if nothing fits. The answer's ``confidence`` is the probability that the question is answered.
    """

    id: RecordId
    rank: Annotated[int, Field(ge=1)]
    kind: Kind
    entity_type: Label | None
    title: str
    content: str
    relevance: Score
    """How well it fits: the combined score, raised by path coherence and lowered by drift, or the reranker's score."""
    recency: Score
    final: Score
    """The score that results are ordered by: relevance, with recency and use according to the ranking profile."""
    combined_score: Score
    """The strands' scores fused, relative to the best result."""
    vector_score: Score | None
    """Cosine of its vector and the question's, where vectors found it."""
    vector_supplied: bool = False
    """Whether the vector that found it came with the record, and so was not made by the model of its space."""
    lexical_score: Score | None
    """Its BM25 score b as b / (b + 10), where words found it."""
    graph_score: Score | None
    """Score of the best walk to it, where the graph found it; 1 of an entity that the question names."""
    rerank_score: Score | None
    fused_rank: Annotated[int, Field(ge=1)]
    """Rank after fusion, before rerank, drift and ranking profile."""
    ranks: dict[Source, int]
    sources: tuple[Source, ...]
    reasons: tuple[str, ...]
    paths: tuple[Path, ...]
    matched_from: Annotated[int, Field(ge=0)] = 0
    """Character offset, in ``content``, of the part that is nearest to the question; 0 of a short text."""
    marked: Span | None = None
    """Range, in ``content``, of the sentence that fits the question best; None if none has any of its words."""
    citation: Citation
    schema_version: int
    needs_transformation: bool = False
    timestamp: datetime | None = None
    aged_from: datetime | None = None
    """Start of its age: when it was last updated, else when it happened, else when it was written."""
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    metadata: dict[str, MetadataValue] = Field(default_factory=dict)
    shortened: bool = False
    """Whether text, metadata or facts were left out to keep the answer short enough to send; the record has them."""
    trusted: bool = True
    """False if the record was written as untrusted: its text should not reach a model that acts on its input."""
    copies: Annotated[tuple[RecordId, ...], Field(exclude_if=lambda copies: not copies)] = ()
    """Ids of records with the same text that were found too, at most 20; they take no place of their own."""
    facts: Annotated[FactSet | None, Field(exclude_if=lambda facts: facts is None)] = None
    """The facts of a result that is relationships of the graph; None of a result that is a record."""

    def __str__(self) -> str:
        """Return score, title, the excerpt of the text, and the id that it is cited by."""
        text = self.citation.excerpt if self.content else ""
        title = "" if self.title == self.id else self.title
        said = " · ".join(part for part in (f"{self.final:.2f}", title, text, f"[{self.id}]") if part)
        return on_one_line(said)


class RelatedEntity(Frozen):
    """An entity that the question names, or that a path to a result passes."""

    id: RecordId
    name: str
    entity_type: Label
    linked: bool
    """Whether the question itself names it."""
    certainty: Score | None = None
    """For an entity that the question names: the certainty that the words are a name, by their spelling."""
    misspelt: Annotated[str | None, Field(exclude_if=lambda phrase: phrase is None)] = None
    """The question's words, if they match this name only with a letter corrected."""


class Considered(Frozen):
    """A runner-up: a candidate among the first of a strand that was not returned."""

    id: RecordId
    title: str
    rank: Annotated[int, Field(ge=1)]
    """Its rank if more results had been asked for."""
    fused_rank: Annotated[int, Field(ge=1)]
    ranks: dict[Source, int]
    final: Score


LIKELY: Final = 0.6
"""Least confidence with which an answer is likely to be among the first results."""
UNLIKELY: Final = 0.3
"""Confidence below which the question is probably not answered."""


def in_words(confidence: float) -> str:
    """Return a confidence in words, as users read it."""
    if confidence >= LIKELY:
        return "likely answered"
    return "unsure whether these answer it" if confidence >= UNLIKELY else "probably not answered"


class Answer(Frozen):
    """The answer to a question: ranked and cited results, and how they came about."""

    trace_id: str
    results: tuple[Result, ...]
    sources: tuple[Citation, ...]
    related_entities: tuple[RelatedEntity, ...]
    considered: tuple[Considered, ...] = ()
    """With ``explain`` the runners-up; else empty."""
    plan: Plan
    weights: Weights
    fusion: Fusion = Fusion.WEIGHTED
    """How the strands were combined in the end."""
    confidence: Score = 1.0
    """Chance that one of the first five results answers the question; 0 without results."""
    counts: dict[str, int]
    """Numbers of candidates by source, after fusion, and read; and of outdated records among them."""
    set_not_answered: Asked | None = None
    """The kind of set that the question asks for, if the graph did not answer with one."""
    superseded: int
    """Records that would have been among the candidates, had they still been valid."""
    truncated: bool
    """Whether the graph's part is incomplete because of a bound, failed look-ups of facts or lack of time."""
    facets: dict[str, tuple[FacetValue, ...]] = Field(default_factory=dict)
    """The most frequent values of each requested field among all records that meet the filters, with their counts."""
    unknown_entity: Name | None = None
    """The graph constraint's entity, when nothing in the tenant's graph has this name or id."""
    degraded: tuple[str, ...]
    """Stages that failed, and other parts that the answer lacks."""
    latency_ms: dict[str, float]
    """Per stage, and ``total``."""
    answered_at: Timestamp
    """The time for which recency, and without ``as_of`` validity, was computed."""
    holds_until: Timestamp | None = None
    """Time until which it may be served from the cache if nothing is written: until then, nothing in it ceases to be
    valid and ageing does not change its order. None if it may not be cached."""
    cached: bool = False
    """Whether it comes from the answer cache; recency is computed for this call nevertheless."""
    rerank_cost_usd: Annotated[float, Field(ge=0)] = 0.0
    """Estimated price of the reranker's call in US dollars; 0 for a local model."""

    @property
    def misspelt(self) -> dict[str, str]:
        """The names that the question misspells, by the question's words."""
        return {entity.misspelt: entity.name for entity in self.related_entities if entity.misspelt}
