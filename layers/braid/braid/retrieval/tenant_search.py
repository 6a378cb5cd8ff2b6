"""Python interface to one tenant: search, related entities and graph queries.

A search is answered by :meth:`Library.answer`: from the cache, else by the deployed workflow if one is configured, else
by the stages in this process. Related entities and graph queries call the graph directly, which evaluates
queries by :mod:`braid.ranking.graph_queries_and_facts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Protocol

from pydantic import FailFast, Field, TypeAdapter

from braid.errors import InvalidRequest, as_invalid_request
from braid.models import Direction, Frozen, GraphConstraint, Hints, Intent, Label, Query, Strategy, Timestamp
from braid.models.enums_and_scalars import NameOrId, can_be_id, visible
from braid.ports.graph_query import GraphQuery, GraphQuestion
from braid.ports.knowledge_graph import ExpandRequest
from braid.understanding.name_keys import similar_keys
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from braid.models import Answer, EntityLink, FieldCondition, TimeRange
    from braid.ports.graph_query import GraphResult
    from braid.ports.knowledge_graph import Expansion, WritableGraph
    from braid.ports.search_index import SearchIndex

MAX_RELATED: Final = 200
MAX_SUGGESTED: Final = 3
"""Most names that an error suggests."""
_MAX_COMPARED: Final = 512
"""Longest prefix of an unknown name, in characters, for which similar names are looked up."""
_ARGUMENTS: Final = {"top_k": "limit", "filters.entity_types.0": "entity_type"}
"""Arguments of the calls by the fields of a query that they set, for error messages."""
_WALK_ARGUMENTS: Final = {"max_hops": "depth", "seeds.0": "entity"}
"""Arguments of :meth:`TenantQuestions.related` by the fields of a walk that they set."""
_MOMENT: Final[TypeAdapter[datetime]] = TypeAdapter(Timestamp)


class EntityStrategy(NamedTuple):
    """Intent and weights of a search for one entity type."""

    intent: Intent
    vector_weight: float
    graph_weight: float


BY_ENTITY_TYPE: Final = {
    "Event": EntityStrategy(Intent.TEMPORAL, 0.4, 0.6),
    "CodeEntity": EntityStrategy(Intent.LOOKUP, 0.7, 0.3),
    "Document": EntityStrategy(Intent.EXPLORATORY, 0.6, 0.4),
}
ANY_OTHER_TYPE: Final = EntityStrategy(Intent.LOOKUP, 0.5, 0.5)


class RelatedQuestion(Frozen):
    """A question for the entities related to one; its fields are described at :meth:`TenantQuestions.related`."""

    entity: NameOrId
    types: Annotated[tuple[Label, ...], Field(max_length=32), FailFast()] = ()
    direction: Direction = Direction.BOTH
    depth: Annotated[int, Field(strict=True, ge=1, le=3)] = 1
    limit: Annotated[int, Field(strict=True, ge=1, le=MAX_RELATED)] = 50
    as_of: Timestamp | None = None
    trusted_only: Annotated[bool, Field(strict=True)] = False


class UnknownEntity(InvalidRequest):
    """The graph has no entity of this name or id; the message suggests similar names."""

    def __init__(self, entity: str, similar: Sequence[str] = ()) -> None:
        super().__init__(f"entity: nothing in the graph is called {entity!r}{did_you_mean(similar)}", field="entity")
        self.similar = similar


class Library(Protocol):
    """Stages and engines behind the interface; :class:`braid.app.Application` is one."""

    @property
    def index(self) -> SearchIndex:
        """The search index."""

    @property
    def graph(self) -> WritableGraph:
        """The knowledge graph."""

    def answer(self, query: Query) -> Answer:
        """Answer a question."""

    def now(self) -> datetime:
        """Return the present moment."""


class TenantQuestions:
    """Questions to one tenant's records and graph.

    Parameters
    ----------
    library
        Stages and engines, such as :func:`braid.app.application` returns.
    tenant_id
        The tenant; from the verified token, never from a request's body.

    Raises
    ------
    InvalidRequest
        From every method, naming the argument, if one is invalid.
    StoresUnavailable, StoreError
        From every method, if the stores that it needs do not answer.
    """

    def __init__(self, library: Library, tenant_id: str) -> None:
        self._library, self._tenant_id = library, tenant_id

    def search(self, query: str, *, limit: int = 10, **fields: Any) -> Answer:  # noqa: ANN401 - any of a query's fields
        """Answer a question by the strategy that the planner chooses.

        Parameters
        ----------
        query
            The question's text.
        limit
            Most results.
        fields
            Other fields of :class:`braid.models.Query`.
        """
        with as_invalid_request(_ARGUMENTS):
            asked = Query.model_validate({"text": query, "tenant_id": self._tenant_id, "top_k": limit} | fields)
        return self._library.answer(asked)

    def semantic_search(
        self,
        query: str,
        types: Sequence[str] = (),
        time_range: TimeRange | None = None,
        limit: int = 10,
        min_similarity: float | None = None,
        *,
        as_of: datetime | None = None,
        metadata: Sequence[FieldCondition] = (),
    ) -> Answer:
        """Answer by vectors and words alone.

        Parameters
        ----------
        types
            Only records of these entity types; none means any.
        time_range, metadata
            Only records whose timestamp is in the range, whose metadata meet the conditions.
        min_similarity
            Least vector score, in [0, 1]; None for any.
        """
        return self.search(
            query,
            limit=limit,
            filters={"entity_types": tuple(types), "time_range": time_range, "metadata": tuple(metadata)},
            hints={"strategy": Strategy.SEMANTIC, "min_similarity": min_similarity},
            as_of=as_of,
        )

    def hybrid_search(self, query: str, graph_constraint: GraphConstraint | None = None, limit: int = 10) -> Answer:
        """Answer by text and graph; with a constraint, only with records that it reaches."""
        hints = Hints() if graph_constraint else Hints(strategy=Strategy.HYBRID)
        return self.search(query, limit=limit, graph_constraint=graph_constraint, hints=hints)

    def search_by_entity_type(self, query: str, entity_type: str, limit: int = 10) -> Answer:
        """Answer with records of one entity type, by the intent and weights of that type."""
        intent, vector_weight, graph_weight = BY_ENTITY_TYPE.get(entity_type, ANY_OTHER_TYPE)
        return self.search(
            query,
            limit=limit,
            intent=intent,
            vector_weight=vector_weight,
            graph_weight=graph_weight,
            filters={"entity_types": (entity_type,)},
        )

    def related(
        self,
        entity: str,
        types: Sequence[str] = (),
        direction: Direction = Direction.BOTH,
        depth: int = 1,
        *,
        limit: int = 50,
        as_of: datetime | None = None,
        fan_out: int = 200,
        trusted_only: bool = False,
    ) -> Expansion:
        """Return the entities related to one, nearest first, with or without records.

        None are related to an entity that is not valid at the time, and to a record that is not in the graph.

        Raises InvalidRequest also if no entity has this name, and nothing this id.

        Parameters
        ----------
        entity
            Name, alias or id.
        types
            Only these relationship types; none means any.
        depth
            Most hops, 1 to 3.
        limit
            Most entities returned, 1 to 200.
        trusted_only
            Whether entities and edges that are not trusted are neither walked nor returned.
        """
        moment = self._moment(as_of)
        graph = self._library.graph
        links = graph.link(self._tenant_id, [normalise(visible(entity))], as_of=moment, trusted_only=trusted_only)
        request = related_request(
            self._tenant_id,
            entity,
            as_of=moment,
            links=links,
            types=types,
            direction=direction,
            depth=depth,
            limit=limit,
            fan_out=fan_out,
            trusted_only=trusted_only,
        )
        found = graph.expand(request)
        if not links and not found.hits and not self._is_stored(entity, trusted_only=trusted_only):
            raise UnknownEntity(entity, self.similar_names(entity, as_of=moment, trusted_only=trusted_only))
        return found

    def similar_names(self, entity: str, *, as_of: datetime | None = None, trusted_only: bool = False) -> list[str]:
        """Return names of entities as suggestions for one that the graph does not have, the likeliest first."""
        links = self.similar_entities(entity, as_of=as_of, trusted_only=trusted_only)
        return list(dict.fromkeys(link.name for link in links))

    def similar_entities(
        self, entity: str, *, as_of: datetime | None = None, trusted_only: bool = False
    ) -> list[EntityLink]:
        """Return the entities of this or a similar name, the likeliest first."""
        return self._library.graph.link(
            self._tenant_id,
            list(similar_keys(normalise(entity[:_MAX_COMPARED]))),
            as_of=self._moment(as_of),
            limit=MAX_SUGGESTED,
            trusted_only=trusted_only,
        )

    def graph_query(self, question: GraphQuestion | dict[str, Any], *, as_of: datetime | None = None) -> GraphResult:
        """Answer a declarative, read-only graph query, as a :class:`GraphQuestion` or a dictionary of its fields."""
        fields = dict(question) if isinstance(question, GraphQuestion) else question
        with as_invalid_request(known=GraphQuestion.model_fields):
            if not isinstance(question, GraphQuestion):
                fields = dict(GraphQuestion.model_validate(fields))  # a tenant or a moment in it is an unknown field
            asked = GraphQuery(**fields, tenant_id=self._tenant_id, as_of=self._moment(as_of))
        return self._library.graph.query(asked)

    def _moment(self, as_of: datetime | None) -> datetime:
        """Return a question's ``as_of`` in UTC, by default now."""
        if as_of is None:
            return self._library.now()
        with as_invalid_request({"request": "as_of"}):
            return _MOMENT.validate_python(as_of)

    def _is_stored(self, entity: str, *, trusted_only: bool) -> bool:
        """Return whether a vertex or a record has this id, one that is trusted if that is asked."""
        library = self._library
        return any(
            stored.trusted or not trusted_only
            for read in (library.graph.get_many, library.index.get_many)
            for stored in read(self._tenant_id, (entity,))
        )


def related_request(
    tenant_id: str,
    entity: str,
    *,
    as_of: datetime,
    links: Sequence[EntityLink] = (),
    types: Sequence[str] = (),
    direction: Direction = Direction.BOTH,
    depth: int = 1,
    limit: int = 50,
    fan_out: int = 200,
    trusted_only: bool = False,
) -> ExpandRequest:
    """Return the request of a walk to the entities related to one; parameters as of :meth:`TenantQuestions.related`.

    Raises InvalidRequest if an argument is out of its bounds, or ``entity`` has no ``links`` and can be no id; the
    argument is named.

    Parameters
    ----------
    links
        Entities that have the name ``entity``; with none, it is an id.
    """
    if limit > MAX_RELATED:
        raise InvalidRequest.of("limit", f"{limit} is more than {MAX_RELATED}")
    if entity and not (links or can_be_id(entity)):
        raise UnknownEntity(entity)
    seeds = tuple(dict.fromkeys(link.entity_id for link in links)) or (entity,)
    with as_invalid_request(_WALK_ARGUMENTS):
        return ExpandRequest(
            tenant_id=tenant_id,
            seeds=seeds,
            types=tuple(types),
            direction=direction,
            max_hops=depth,
            limit=limit,
            fan_out=fan_out,
            records_only=False,
            as_of=as_of,
            trusted_only=trusted_only,
        )


def did_you_mean(similar: Sequence[str]) -> str:
    """Return the suggestion at the end of an error about an unknown name; empty without similar names."""
    return f"; did you mean {' or '.join(similar)}?" if similar else ""
