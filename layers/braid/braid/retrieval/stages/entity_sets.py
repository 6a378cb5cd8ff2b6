"""Answers questions that name no entity by a set of entities of a type: all, their number, those without an owner.

:mod:`braid.understanding.fact_questions` detects them. Names that were only found in texts are not of the set: several
of them may mean one entity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.models import Asked, Direction
from braid.models.records import FOUND_PREFIX
from braid.ports.graph_query import MAX_FAN_OUT, MAX_LIMIT, GraphQuery, QueryReturn, QueryStart, QueryStep
from braid.understanding.relations import QuestionWords, said_by
from braid.understanding.tokens import word_set

if TYPE_CHECKING:
    from datetime import datetime

    from braid.models import FactQuestion, GraphHit, Query
    from braid.ports.knowledge_graph import KnowledgeGraph

_NOBODY: Final = word_set("nobody none nothing")


def find_entity_set(
    graph: KnowledgeGraph, query: Query, asked: FactQuestion, *, as_of: datetime
) -> list[GraphHit] | None:
    """Return the set of entities that a question asks for; None if there are none of the type, or too many.

    An entity with the relationship is none of those without it, however uncertain the relationship is.
    """
    wanted = query.filters.entity_types
    kinds = tuple(kind for kind in asked.kinds if not wanted or kind in wanted)
    if not kinds:
        return None

    def looked_up(steps: tuple[QueryStep, ...], returns: QueryReturn) -> tuple[GraphHit, ...] | None:
        found = graph.query(
            GraphQuery.unchecked(
                tenant_id=query.tenant_id,
                as_of=as_of,
                start=QueryStart(entity_types=kinds),
                steps=steps,
                returns=returns,
                limit=MAX_LIMIT,
                fan_out=MAX_FAN_OUT,
                trusted_only=query.filters.trusted_only,
                as_facts=True,
            )
        )
        return None if found.truncated or len(found.hits) == MAX_LIMIT else found.hits

    of_type = looked_up((), QueryReturn.NODES)
    related: tuple[GraphHit, ...] | None = ()
    if asked.of_type is Asked.NOT:
        related = looked_up((_step(QuestionWords(query.text), asked),), QueryReturn.PATHS)
    if of_type is None or related is None:
        return None
    given = [hit for hit in of_type if not hit.id.startswith(FOUND_PREFIX)]
    out = {hit.path.ids[0] for hit in related}
    return [hit for hit in given if hit.id not in out] if given else None


def _step(question: QuestionWords, asked: FactQuestion) -> QueryStep:
    """Return the step along the relationships of the question, in the direction that it is said in."""
    noun = min(asked.explained)
    ways = set()
    for label in asked.types:
        for one in said_by(question, label, asked.explained):
            # In "Which services does nobody own?" the services are owned, though they come first.
            nobody = any(token in _NOBODY for token in question.tokens[: min(one.places)])
            ways.add(one.inward(noun) is not nobody)
    direction = Direction.BOTH if len(ways) != 1 else Direction.IN if ways.pop() else Direction.OUT
    return QueryStep(types=asked.types, direction=direction)
