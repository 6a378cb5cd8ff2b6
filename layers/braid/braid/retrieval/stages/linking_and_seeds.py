"""Links a question's names to entities; seeds of walks and of propagation; scores, reasons and ranks of their hits."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid.models import EntityLink, GraphHit, Path, Source
from braid.ports.knowledge_graph import PropagateRequest
from braid.ranking.fusion import DEFAULT_PARAMETERS, adaptive_lexical_share, best_scores, least_scores, sum_of_texts
from braid.ranking.scoring import clamp
from braid.retrieval.stages.states import GraphFound
from braid.understanding import name_forms
from braid.understanding.name_forms import MISSPELT, SHORTENED, LookupKey, is_form, lookup_keys
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import TypeAlias

    from braid.models import FusionParameters, Hit, Query, TenantId
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.retrieval.stages.states import Searched

    UnknownWords: TypeAlias = Callable[[TenantId, Sequence[str]], frozenset[str]]


MAX_LINKS = 10
MAX_LOOKED_UP = 200


@dataclass(frozen=True)
class GraphBudget:
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
    graph: KnowledgeGraph,
    tenant_id: TenantId,
    question: str,
    *,
    as_of: datetime,
    trusted_only: bool = False,
    unknown_words: UnknownWords | None = None,
) -> list[EntityLink]:
    """Return the entities that a question names, the best match first, each once and at most ten.

    One look-up of the graph. ``phrase`` is as the question has it, ``score`` how well it matched: a name 1, an alias
    .9, less for another form of a name. ``certainty`` says how surely the words are meant as a name.

    1. Names and aliases as they are written, the longest first.
    2. Beside them shortened names, such as "Humboldt Peak" for "Humboldt Peak (Colorado)", unless an entity with a
       record is called just so.
    3. Other forms of names, in the words that are left. A form that entities of different names share is left out.
    4. Misspelt names, in words that explain nothing else and of which at least one is in no text.

    Parameters
    ----------
    unknown_words
        Returns which of some words no text of a tenant has; asked only where words may be misspelt. None: all of them.
    """
    keys = lookup_keys(question)
    if not keys:
        return []
    found = graph.link(tenant_id, list(keys), as_of=as_of, limit=MAX_LOOKED_UP, trusted_only=trusted_only)
    exact = [link for link in found if not is_form(link.phrase) and keys[link.phrase].score_factor == 1.0]
    misspelt = [link for link in found if link.phrase[0] == MISSPELT]
    # What was cut off is not known, so that nothing can be said of how many names share a form.
    read = {link.entity_id for link in (*exact, *misspelt)}  # each entity is found once
    forms = [] if len(found) == MAX_LOOKED_UP else [link for link in found if link.entity_id not in read]
    described = {link.phrase for link in exact if link.has_record}
    shortened = [link for link in forms if link.phrase[0] == SHORTENED and keys[link.phrase].phrase not in described]
    other_forms = [link for link in forms if link.phrase[0] != SHORTENED]
    linked = name_forms.longest_match(question, [*exact, *_in_words(_of_one_name(shortened, keys), keys)])
    claimed = {word for link in linked for word in link.phrase.split()}
    further = [
        link for link in _in_words(_of_one_name(other_forms, keys), keys) if claimed.isdisjoint(link.phrase.split())
    ]
    if misspelt and len(found) < MAX_LOOKED_UP:
        explained = {keys[link.phrase].phrase for link in found if link.phrase[0] != MISSPELT}
        misspelt = [
            link.altered(misspelt=True)
            for link in _in_words(_of_one_name(misspelt, keys), keys)
            if link.phrase not in explained and claimed.isdisjoint(link.phrase.split())
        ]
        further += _in_no_text(misspelt, tenant_id, unknown_words)
    best: dict[str, EntityLink] = {}
    for link in (*linked, *name_forms.longest_match(question, further)):
        # The best comes first: an entity named twice, by name and by alias, is linked by its name.
        best.setdefault(link.entity_id, link)
    return [
        link.altered(certainty=name_forms.name_certainty(question, link.phrase))
        for link in sorted(best.values(), key=lambda link: -link.score)[:MAX_LINKS]
    ]


def _in_no_text(
    links: Sequence[EntityLink], tenant_id: TenantId, unknown_words: UnknownWords | None
) -> list[EntityLink]:
    """Keep the links of phrases that have a word which no text of the tenant has."""
    words = list(dict.fromkeys(word for link in links for word in link.phrase.split()))
    unknown = unknown_words(tenant_id, words) if words and unknown_words else frozenset(words)
    return [link for link in links if not unknown.isdisjoint(link.phrase.split())]


def _of_one_name(links: Sequence[EntityLink], keys: dict[str, LookupKey]) -> list[EntityLink]:
    """Keep the links of phrases that only entities of one name are known by."""
    names: dict[str, set[str]] = defaultdict(set)
    for link in links:
        names[keys[link.phrase].phrase].add(normalise(link.name))
    return [link for link in links if len(names[keys[link.phrase].phrase]) == 1]


def _in_words(links: Iterable[EntityLink], keys: dict[str, LookupKey]) -> list[EntityLink]:
    """Return the links with the question's own words and what these make of the score."""
    return [
        link.altered(phrase=keys[link.phrase].phrase, score=link.score * keys[link.phrase].score_factor)
        for link in links
    ]


def walk_seeds(searched: Searched, budget: GraphBudget, hit_weight: float) -> dict[str, float]:
    """Return the first text hits and their weights: ``hit_weight`` times the better of vector and lexical score.

    Each counts less by the square of how far it is behind the best: one that stands out is what the question is about.
    """
    scores = best_scores((*searched.vector, *searched.lexical))
    first = searched.frontier[: budget.seeds]
    best = max((scores[identity] for identity in first), default=0.0) or 1.0
    return {identity: hit_weight * scores[identity] * (scores[identity] / best) ** 2 for identity in first}


def propagation_of(
    query: Query, searched: Searched | None, linked: GraphFound | None, *, as_of: datetime, budget: GraphBudget
) -> PropagateRequest | None:
    """Return the propagation from names and text hits; None without any.

    All hits together count 1, each by the square of its score, so that those which stand out pull more; a name counts
    ``name_weight`` as it matched and as it is written.
    """
    parameters = budget.parameters
    links = linked.links if linked else ()
    names = [(link.entity_id, parameters.name_weight * link.score * link.certainty) for link in links]
    hits = _hit_seeds(searched, budget) if searched else []
    if not names and not hits:
        return None
    request = _request(query, names, hits, as_of=as_of, budget=budget)
    texts = _likeness(searched.vector or searched.lexical) if searched else ()
    return request.altered(texts=texts, bridging=parameters.bridging)


def propagation_around_answers(
    query: Query, answers: Sequence[GraphHit], searched: Searched | None, *, as_of: datetime, budget: GraphBudget
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
    return _request(query, names, _hit_seeds(searched, budget) if searched else [], as_of=as_of, budget=budget)


def _request(
    query: Query, names: list[tuple[str, float]], hits: list[tuple[str, float]], *, as_of: datetime, budget: GraphBudget
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


def _hit_seeds(searched: Searched, budget: GraphBudget) -> list[tuple[str, float]]:
    """Return the best text hits as seeds, with weights that add up to 1: the squares of their scores.

    A score is the weighted sum of vector and word score, less the same sum of the lowest scores of both lists.
    """
    vector, lexical = best_scores(searched.vector), best_scores(searched.lexical)
    lexical_share = adaptive_lexical_share(vector, lexical, budget.parameters.lexical_share)
    vector_least, lexical_least = least_scores(vector, lexical)
    least = (1.0 - lexical_share) * vector_least + lexical_share * lexical_least
    scores = {
        one: score - least for one, score in sum_of_texts(vector, lexical, 1.0 - lexical_share, lexical_share).items()
    }
    first = sorted(((-score, identity) for identity, score in scores.items() if score > 0))[: budget.seeds]
    total = sum(score * score for score, _ in first)
    return [(identity, score * score / total) for score, identity in first]


def _likeness(hits: Sequence[Hit]) -> tuple[tuple[str, float], ...]:
    """Return each hit's similarity to the question, relative to the best."""
    scores = {identity: score for identity, score in best_scores(hits).items() if score > 0}
    best = max(scores.values(), default=1.0)
    return tuple((identity, score / best) for identity, score in scores.items())


ONE_HOP = 0.5
"""Score of a record one hop from a name, as on every other walk: ``1 / (1 + hops)``."""
ONE_HOP_WITH_EVIDENCE = 0.6
"""The same where the mention has evidence: it was read in that record, not guessed."""
START_FACTOR = 0.25
"""Of an entity at which a causal or temporal walk began: it is what the question is about."""
MENTION_OF_START_FACTOR = 0.5
EVIDENCE_FACTOR = 0.5
"""Of the record that is the evidence of a path's last edge."""
NEIGHBOUR_FACTOR = 0.5
"""Of a neighbour of a walk's answers, times its share of what is propagated from them."""

MAX_HITS_BYTES = 56 * 1024
"""Largest hits as JSON. A state may have 256 KiB: names and walks this much each, the search's ids and the question."""


def fit_to_state(hits: Sequence[GraphHit], taken: int = 0) -> tuple[GraphHit, ...]:
    """Return the best hits that fit within :data:`MAX_HITS_BYTES`, of which facts have taken some, in their order."""
    together = GraphFound.unchecked(hits=tuple(hits)).model_dump_json()
    if taken + len(together.encode()) <= MAX_HITS_BYTES:
        return tuple(hits)
    size, kept = taken, set[int]()
    for place in sorted(range(len(hits)), key=lambda place: hits[place].rank):
        size += len(hits[place].model_dump_json().encode()) + 1
        if size > MAX_HITS_BYTES:
            break
        kept.add(place)
    return tuple(hit for place, hit in enumerate(hits) if place in kept)


def scaled_by_seed(hits: Iterable[GraphHit], weights: Mapping[str, float]) -> list[GraphHit]:
    """Scale each hit's score by the weight of its seed, so that nothing outranks the seed that led to it."""
    return [scaled(hit, weights[hit.path.ids[0]]) for hit in hits]


def as_link(hit: GraphHit) -> EntityLink:
    """Return a vertex that was reached as a link, as if the question had named it."""
    name = hit.name or hit.id
    return EntityLink(
        entity_id=hit.id,
        name=name,
        entity_type=hit.entity_type,
        phrase=name,
        score=hit.score,
        invalid_at=hit.path.invalid_at,
    )


def scaled(hit: GraphHit, factor: float) -> GraphHit:
    """Return a hit with its score multiplied."""
    return hit if factor == 1.0 else hit.altered(score=clamp(hit.score * factor))


def entity_hits(links: Iterable[EntityLink], starts: Collection[str]) -> list[GraphHit]:
    """Return the linked entities themselves: an entity that has a record can be an answer.

    One at which a causal or temporal walk began is the question's subject, and so less likely its answer.
    """
    return [
        GraphHit.unchecked(
            id=link.entity_id,
            score=clamp(link.score * (START_FACTOR if link.entity_id in starts else 1.0)),
            rank=1,
            source=Source.KNOWLEDGE,
            path=Path.unchecked(ids=(link.entity_id,), types=(), names=(link.name,), invalid_at=link.invalid_at),
            has_record=link.has_record,
            name=link.name,
            entity_type=link.entity_type,
            reason=f"entity match: {link.name}",
        )
        for link in links
    ]


def mention_hits(hits: Iterable[GraphHit], links: Sequence[EntityLink], starts: Collection[str] = ()) -> list[GraphHit]:
    """Return the records that mention a linked entity, scored by name match and the mention's confidence.

    A mention with evidence counts more, one of the seed of a causal or temporal walk less.
    """
    by_id = {link.entity_id: link for link in links}
    found = []
    for hit in hits:
        link = by_id[hit.path.ids[0]]
        one_hop = ONE_HOP_WITH_EVIDENCE if any(hit.path.evidence) else ONE_HOP
        score = clamp(one_hop * hit.score * link.score * (MENTION_OF_START_FACTOR if link.entity_id in starts else 1.0))
        found.append(hit.altered(score=score, source=Source.KNOWLEDGE, reason=f"entity match: {link.name}"))
    return found


def evidence_hits(hits: Iterable[GraphHit]) -> list[GraphHit]:
    """Return the record that is the evidence of each path's last edge; it counts half of the hit."""
    return [
        GraphHit(
            id=hit.path.evidence[-1],
            score=clamp(EVIDENCE_FACTOR * hit.score),
            rank=1,
            path=hit.path,
            has_record=True,
            reason=f"evidence of: {' → '.join(hit.path.types)}",
        )
        for hit in hits
        if hit.path.evidence and hit.path.evidence[-1]
    ]


def ends_there(hit: GraphHit) -> bool:
    """Whether a hit is the end of its path, rather than evidence of its last edge."""
    return hit.path.ids[-1] == hit.id


def neighbours_of_answers(
    nearby: Iterable[GraphHit], answers: Iterable[GraphHit], known: Collection[str]
) -> list[GraphHit]:
    """Return the neighbours of a walk's answers, each with the walk's path continued to it.

    Parameters
    ----------
    known
        Ids that the walks reached or began at, which have scores already.
    """
    ways = {hit.id: hit.path for hit in answers}
    return [
        hit.model_copy(update={"score": clamp(NEIGHBOUR_FACTOR * hit.score), "path": ways[start].onwards(hit.path)})
        if (start := hit.path.ids[0]) in ways
        else scaled(hit, NEIGHBOUR_FACTOR)
        for hit in nearby
        if hit.id not in known
    ]


def with_reason(hit: GraphHit, **changes: object) -> GraphHit:
    """Return a hit with a reason: its own, or the path that led to it, unless a walk began at it; and other changes."""
    path = f"graph path: {' → '.join(hit.path.types)}" if hit.path.types else "a walk began here"
    return hit.altered(reason=hit.reason or path, **changes)


def ranked(hits: Iterable[GraphHit]) -> tuple[GraphHit, ...]:
    """Return the best hit of each id, ranked."""
    best: dict[str, GraphHit] = {}
    for hit in hits:
        if hit.id not in best or hit.score > best[hit.id].score:
            best[hit.id] = hit
    ordered = sorted(best.values(), key=lambda hit: (-hit.score, hit.id))
    return tuple(with_reason(hit, rank=rank) for rank, hit in enumerate(ordered, start=1))


def sorted_by_time(hits: Iterable[GraphHit]) -> tuple[GraphHit, ...]:
    """List hits by when they happened, those without a time last; their ranks stay those of their scores."""
    return tuple(
        sorted(hits, key=lambda hit: (hit.timestamp is None, hit.timestamp and hit.timestamp.timestamp(), hit.rank))
    )
