"""Seeds of walks and of propagation: the entities that a question names, and the first hits of the text search."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid.ports.knowledge_graph import PropagateRequest
from braid.ranking.fusion import best_scores, weighted_sum
from braid.understanding import names
from braid.understanding.names import SHORTENED, LookupKey, is_form, lookup_keys
from braid.understanding.planning import DEFAULT_PARAMETERS
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from braid.models import EntityLink, FusionParameters, GraphHit, Hit, Query, TenantId
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.retrieval.stages.states import GraphFound, Searched

MAX_LINKS = 10
MAX_LOOKED_UP = 200


@dataclass(frozen=True)
class Budget:
    """Limits of walks and propagation."""

    seeds: int = 10
    limit: int = 50
    fan_out: int = 200
    hub: int = 20
    """Most edges of a vertex that propagation passes through."""
    constraint_fan_out: int = 10_000
    """Fan-out of a constraint, which decides what may be an answer, and so is not cut to its surest edges."""
    parameters: FusionParameters = DEFAULT_PARAMETERS


def linked_names(
    graph: KnowledgeGraph, tenant_id: TenantId, question: str, *, as_of: datetime, trusted_only: bool = False
) -> list[EntityLink]:
    """Return the entities that a question names, the best match first, each once and at most ten.

    One look-up of the graph. ``phrase`` is as the question has it, ``score`` how well it matched: a name 1, an alias
    .9, less for another form of a name. ``certainty`` says how surely the words are meant as a name. A form that
    several names share is left out; so is every form of words that are part of a name found as it is written. What a
    name is shortened to is linked beside a vertex of just that name, unless that has a record of its own.
    """
    asked = lookup_keys(question)
    if not asked:
        return []
    found = graph.link(tenant_id, list(asked), as_of=as_of, limit=MAX_LOOKED_UP, trusted_only=trusted_only)
    exact = [link for link in found if not is_form(link.phrase) and asked[link.phrase].share == 1.0]
    # What was cut off is not known, so that nothing can be said of how many names share a form.
    forms = [] if len(found) == MAX_LOOKED_UP else [link for link in found if link not in exact]
    described = {link.phrase for link in exact if link.has_record}
    beside = [link for link in forms if link.phrase[0] == SHORTENED and asked[link.phrase].phrase not in described]
    others = [link for link in forms if link.phrase[0] != SHORTENED]
    kept = names.longest_match(question, [*exact, *_in_words(_of_one_name(beside, asked), asked)])
    taken = {word for link in kept for word in link.phrase.split()}
    free = [link for link in _in_words(_of_one_name(others, asked), asked) if taken.isdisjoint(link.phrase.split())]
    best: dict[str, EntityLink] = {}
    for link in (*kept, *names.longest_match(question, free)):
        # The best comes first: an entity named twice, by name and by alias, is linked by its name.
        best.setdefault(link.entity_id, link)
    return [
        link.model_copy(update={"certainty": names.name_certainty(question, link.phrase)})
        for link in sorted(best.values(), key=lambda link: -link.score)[:MAX_LINKS]
    ]


def _of_one_name(links: Sequence[EntityLink], asked: dict[str, LookupKey]) -> list[EntityLink]:
    """Keep the links of phrases that only entities of one name are known by."""
    names: dict[str, set[str]] = defaultdict(set)
    for link in links:
        names[asked[link.phrase].phrase].add(normalise(link.name))
    return [link for link in links if len(names[asked[link.phrase].phrase]) == 1]


def _in_words(links: Iterable[EntityLink], asked: dict[str, LookupKey]) -> list[EntityLink]:
    """Return the links with the question's own words and what these make of the score."""
    return [
        link.model_copy(update={"phrase": asked[link.phrase].phrase, "score": link.score * asked[link.phrase].share})
        for link in links
    ]


def walk_seeds(searched: Searched, budget: Budget, share: float) -> dict[str, float]:
    """Return the first text hits and their weights: a share of the better of their vector and word scores.

    Each counts less by the square of how far it is behind the best: one that stands out is what the question is about.
    """
    scores: dict[str, float] = {}
    for hit in (*searched.vector, *searched.lexical):
        scores[hit.id] = max(hit.score, scores.get(hit.id, 0.0))
    first = searched.frontier[: budget.seeds]
    best = max((scores[identity] for identity in first), default=0.0) or 1.0
    return {identity: share * scores[identity] * (scores[identity] / best) ** 2 for identity in first}


def propagation_of(
    query: Query, searched: Searched | None, linked: GraphFound | None, *, as_of: datetime, budget: Budget
) -> PropagateRequest | None:
    """Return the propagation from names and text hits; None without any.

    All hits together count 1, each by the square of its score, so that those which stand out pull more; a name counts
    ``name_weight`` as it matched and as it is written.
    """
    parameters = budget.parameters
    links = linked.links if linked else ()
    names = [(link.entity_id, parameters.name_weight * link.score * link.certainty) for link in links]
    hits = _hits(searched, budget) if searched else []
    if not names and not hits:
        return None
    request = _request(query, names, hits, as_of=as_of, budget=budget)
    texts = _likeness(searched.vector or searched.lexical) if searched else ()
    return request.model_copy(update={"texts": texts, "bridging": parameters.bridging})


def around(
    query: Query, answers: Sequence[GraphHit], searched: Searched | None, *, as_of: datetime, budget: Budget
) -> PropagateRequest | None:
    """Return the propagation from a walk's answers and the text hits; None without answers.

    The best answers together count ``name_weight``, each by the square of its score, and all hits together 1.

    Parameters
    ----------
    answers
        Vertices reached along the question's own relationship types, best first.
    """
    first = [(hit.id, hit.score * hit.score) for hit in answers[: budget.seeds]]
    total = sum(weight for _, weight in first)
    if not total:
        return None
    names = [(identity, budget.parameters.name_weight * weight / total) for identity, weight in first]
    return _request(query, names, _hits(searched, budget) if searched else [], as_of=as_of, budget=budget)


def _request(
    query: Query, names: list[tuple[str, float]], hits: list[tuple[str, float]], *, as_of: datetime, budget: Budget
) -> PropagateRequest:
    return PropagateRequest(
        tenant_id=query.tenant_id,
        names=tuple((identity, weight) for identity, weight in names if weight > 0),
        hits=tuple(hits),
        damping=budget.parameters.damping,
        fan_out=budget.fan_out,
        hub=budget.hub,
        limit=budget.limit,
        as_of=as_of,
        trusted_only=query.filters.trusted_only,
    )


def _hits(searched: Searched, budget: Budget) -> list[tuple[str, float]]:
    """Return the first hits of both text strands by their weighted sum, with their shares of 1."""
    share = budget.parameters.lexical_share
    scores = weighted_sum([(1.0 - share, best_scores(searched.vector)), (share, best_scores(searched.lexical))])
    first = sorted(((-score, identity) for identity, score in scores.items() if score > 0))[: budget.seeds]
    total = sum(score * score for score, _ in first)
    return [(identity, score * score / total) for score, identity in first]


def _likeness(hits: Sequence[Hit]) -> tuple[tuple[str, float], ...]:
    """Return each hit's similarity to the question, relative to the best."""
    scores = {identity: score for identity, score in best_scores(hits).items() if score > 0}
    best = max(scores.values(), default=1.0)
    return tuple((identity, score / best) for identity, score in scores.items())
