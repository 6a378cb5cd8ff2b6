"""Hits of the strands, links from names to entities, paths in the graph, and candidates."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from braid.models.enums import Source
from braid.models.scalars import Frozen, Label, Name, RecordId, Score, Timestamp


class Hit(Frozen):
    """A ranked record from one source."""

    id: RecordId
    score: Score
    rank: Annotated[int, Field(ge=1)]


class EntityLink(Frozen):
    """A name in the question that is an entity's name or alias."""

    entity_id: RecordId
    name: Name
    entity_type: Label
    phrase: str
    """The words of the question that matched."""
    score: Score
    certainty: Score = 1.0
    """How certain it is, by their spelling in the question, that the words are meant as a name."""
    has_record: bool = False
    """Whether the search index holds a record of the entity, so that it can be an answer."""


class Path(Frozen):
    """How a walk reached a vertex: ids from the start to the end, and the relationship types between them."""

    ids: tuple[RecordId, ...]
    types: tuple[Label, ...]
    names: tuple[str, ...] = ()
    """What each id is called, for people; the id itself where a vertex has no name."""
    inward: tuple[bool, ...] = ()
    """Whether each edge was walked against its direction, from target to source."""
    evidence: tuple[RecordId | None, ...] = ()
    """The record that each edge is known from; empty where none of them names one."""

    @model_validator(mode="after")
    def _types_stand_between_ids(self) -> Path:
        if len(self.ids) != len(self.types) + 1:
            message = f"a path of {len(self.ids)} ids has {len(self.types)} types"
            raise ValueError(message)
        if self.names and len(self.names) != len(self.ids):
            message = f"a path of {len(self.ids)} ids has {len(self.names)} names"
            raise ValueError(message)
        if self.inward and len(self.inward) != len(self.types):
            message = f"a path of {len(self.types)} edges has {len(self.inward)} directions"
            raise ValueError(message)
        if self.evidence and len(self.evidence) != len(self.types):
            message = f"a path of {len(self.types)} edges has evidence of {len(self.evidence)}"
            raise ValueError(message)
        return self

    def onwards(self, further: Path) -> Path:
        """Return this path continued by one that begins at its end; only the other where it returns to this one.

        Raises
        ------
        ValueError
            If the other one begins elsewhere.
        """
        if self.ids[-1] != further.ids[0]:
            message = f"a path to {self.ids[-1]!r} does not go on from {further.ids[0]!r}"
            raise ValueError(message)
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
    """Whether the vertex, and every vertex and edge of its path, is trusted. Written where False only."""


class Candidate(Frozen):
    """A hit that enters fusion and rerank, with its score and rank in each strand."""

    id: RecordId
    combined_score: Score
    vector_score: Score | None = None
    lexical_score: Score | None = None
    graph_score: Score | None = None
    ranks: dict[Source, int] = Field(default_factory=dict)
    """Rank in each source that found it, from 1."""
    sources: tuple[Source, ...] = ()
    reasons: tuple[str, ...] = ()
    paths: tuple[Path, ...] = ()
