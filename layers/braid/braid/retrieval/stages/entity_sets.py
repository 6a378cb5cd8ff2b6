"""Answers questions that name no entity by a set of entities of a type: all, their number, those without an owner.

:mod:`braid.understanding.fact_questions` detects them. Names that were only found in texts are not of the set: several
of them may mean one entity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.models import Asked, Direction
from braid.models.records import FOUND_PREFIX
from braid.ports.graph_query import MAX_FAN_OUT, MAX_LIMIT, GraphQuery, QueryReturn, QueryStart, QueryStep
from braid.understanding.fact_questions import is_named_by, other_end
from braid.understanding.multi_hop import BEING, label_words
from braid.understanding.question_relations import QuestionWords, base_form, said_by
from braid.understanding.tokens import word_set

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from braid.models import FactQuestion, GraphHit, Label, Query
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.understanding.question_relations import Occurrence

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
    given = [hit for hit in of_type or () if not hit.id.startswith(FOUND_PREFIX)]
    if not given or asked.of_type is not Asked.NOT:
        return given or None
    related = looked_up((QueryStep(types=asked.types, direction=Direction.BOTH),), QueryReturn.PATHS)
    out = None if related is None else _related(related, QuestionWords(query.text, frozenset(asked.kind_words)), asked)
    if out is not None and len(kinds) > 1:
        # "Who works on nothing?" means those that could, people and not also teams.
        types = {hit.entity_type for hit in given if hit.id in out}
        given = [hit for hit in given if hit.entity_type in types]
    return [hit for hit in given if hit.id not in out] if given and out is not None else None


def _related(paths: Sequence[GraphHit], question: QuestionWords, asked: FactQuestion) -> set[str] | None:
    """Return the entities that stand in the relationship, on the side that the question says.

    None if all those in it are on the other side: the words are then more likely misread than meant.
    """
    other = other_end(question, asked.explained)
    ways = {
        _is_inward(question, label, one, other)
        for label in asked.types
        for one in said_by(question, label, asked.explained)
    }
    if other is not None:
        paths = [hit for hit in paths if is_named_by(hit.entity_type, question.tokens[other])]
        if not paths:
            return None
    sides = {inward: {hit.path.ids[0] for hit in paths if hit.path.inward[0] is inward} for inward in (False, True)}
    meant = set().union(*(sides[inward] for inward in ways))
    return meant if meant or not paths else None


def _is_inward(question: QuestionWords, label: Label, one: Occurrence, other: int | None) -> bool:
    """Return whether an edge leads to the noun that is asked for, and not from it.

    It does if nobody does something to it ("Which services does nobody own?", "… does no team own?") and if nothing is
    done to it ("… are not owned"), though the noun comes first.

    Parameters
    ----------
    other
        Position of the noun of the other end; None if the question has none.
    """
    place = min(one.places)
    before, verb = question.tokens[:place], question.tokens[place]
    nobody = [at for at, token in enumerate(before) if token in _NOBODY or (at == other and before[at - 1] == "no")]
    if "by" not in question.tokens[place + 1 :] and nobody:
        return not one.inward(nobody[0])
    participle = verb.endswith("ed") or base_form(verb) != verb
    suffers = participle and not BEING.isdisjoint(before) and not label_words(label)[0].endswith("ed")
    return ("by" not in question.tokens[place + 1 :] and suffers) or one.inward(0)
