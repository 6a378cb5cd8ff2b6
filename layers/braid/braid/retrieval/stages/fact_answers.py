"""Relationships as answers (facts): looks them up from the question's names, and makes results with their evidence.

"Who maintains the ledger?" asks for a relationship; :mod:`braid.understanding.fact_questions` detects which.
At most three bounded graph queries are sent: along two or three relationships if the question names so many in turn,
else along one; and for all entities of a type if it asks which are *not* in the relationship. Questions that name no
entity are looked up by :mod:`braid.retrieval.stages.entity_sets`. ``sentence`` in
:mod:`braid.understanding.question_relations` writes an edge as a sentence. The graph leaves out relationships that are
not valid; ``_allowed`` drops facts whose evidence is not.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from braid.models import (
    Asked,
    Citation,
    Direction,
    Fact,
    FactQuestion,
    FactSet,
    Filters,
    GraphHit,
    Kind,
    Path,
    Result,
    Source,
    SourceType,
)
from braid.models.enums_and_scalars import can_be_id
from braid.models.records import DEFAULT_ENTITY_TYPE
from braid.ports.graph_query import MAX_FAN_OUT, MAX_LIMIT, GraphQuery, QueryReturn, QueryStart, QueryStep
from braid.ranking.graph_queries_and_facts import LEAST_FACT_SCORE, RankedFacts, rank_facts
from braid.ranking.scoring import final_score, recency
from braid.retrieval.stages.candidates import meets, valid
from braid.retrieval.stages.entity_sets import find_entity_set
from braid.retrieval.stages.results_and_citations import cite
from braid.retrieval.stages.stage_messages import FactGroup
from braid.understanding.multi_hop import label_words
from braid.understanding.question_relations import (
    AUXILIARY,
    EMPTY,
    Anchor,
    QuestionWords,
    explain,
    said_by,
    sentence,
    tells_direction,
    without_kind,
)
from braid.understanding.tokens import STOP_WORDS, occurrences, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from braid.models import EntityLink, Label, Query, Record
    from braid.ports.graph_query import GraphResult
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.retrieval.stages.stage_messages import GraphFound
    from braid.understanding.question_relations import Occurrence

LEAST_CERTAINTY: Final = 0.5
"""Certainty below which a name is not looked up if another name of the question reaches it."""
UNCERTAIN_FACTOR: Final = 0.95
"""Score factor of facts about a name that its spelling does not distinguish from common words."""
LEAST_WEIGHT: Final = 0.7
"""Least weight of a name that is not misspelt: "Dele" for Dele Okonjo with a synonym of the relationship answers."""
UNASKED_SCORE: Final = 0.7
"""Score of a named entity's relationship that no word of the question expresses, in a graph without texts."""
MAX_HOPS: Final = 3
"""Most relationships of a question that are followed one after another."""
MAX_UNEXPLAINED: Final = 4
"""Most words that no relationship type explains; if there are more, no predicates are searched."""
_NARROWING: Final = frozenset({"in", "of", "at", "for"})
_ARTICLES: Final = frozenset({"a", "an", "the"})
_JOINING: Final = frozenset({"and", "or"})
GRAPH: Final = "knowledge graph"
"""Title of the citation of facts without evidence."""
MAX_SHOWN: Final = 50
"""Most facts that an answer shows; it counts all."""
MAX_FACTS_BYTES: Final = 16 * 1024
"""Largest size of the facts in the workflow's state, as JSON."""


def find_facts(
    graph: KnowledgeGraph, query: Query, asked: FactQuestion | None, links: Sequence[EntityLink], *, as_of: datetime
) -> tuple[FactGroup, ...]:
    """Return the facts that answer a question, in groups, best first; empty if it asks for none.

    A question that names no entity is answered only if it asks for a set of all entities of a type. If there are only
    relationships that the question says and that do not answer it, the group has no hits.
    """
    kinds = query.filters.kinds
    if asked is None or (kinds and Kind.FACT not in kinds):
        return ()
    lookup = _Lookup(graph, query, asked, links, as_of)
    if lookup.anchors:
        return lookup.groups() or lookup.no_answers()
    found = find_entity_set(graph, query, asked, as_of=as_of) if asked.of_type else None
    return () if found is None else _set_of(found, 1.0)


class _Lookup:
    """Looks up the relationships of the entities that one question names."""

    def __init__(
        self, graph: KnowledgeGraph, query: Query, asked: FactQuestion, links: Sequence[EntityLink], as_of: datetime
    ) -> None:
        self.graph, self.query, self.asked, self.as_of = graph, query, asked, as_of
        self.question = QuestionWords(query.text, frozenset(asked.kind_words))
        certain = [link for link in links if link.certainty >= LEAST_CERTAINTY]
        self.anchors = [
            Anchor(link.entity_id, places, _weight(link) if certain else link.score * UNCERTAIN_FACTOR)
            for link in certain or links
            if (places := _places(self.question.tokens, words(link.phrase)))
        ]
        self.name_places = {place for anchor in self.anchors for place in anchor.places}
        """Positions of the words of the names."""
        self.asking_places = _asking_places(asked, self.question, self.name_places)
        """Positions of the words that say what is asked for, and no relationship."""
        self.skipped = self.name_places | self.asking_places
        self.only_kinds = asked.only_kinds and self.asking_places.issuperset(asked.explained)
        """Whether the noun for what is asked, which no relationship is compared with, excludes other types."""
        self.is_related = False
        """Whether a relationship that the question says was read, also one that is no answer to it."""

    def groups(self) -> tuple[FactGroup, ...]:
        """Return the paths along all relationships that the question expresses in turn; if there are none, along one.

        A path that leaves one of these relationships out answers another question, and is no fact.
        """
        relations = [(label, one) for label in self.asked.types for one in said_by(self.question, label, self.skipped)]
        by_place: dict[int, list[tuple[Label, Occurrence]]] = {}
        for label, one in relations:
            by_place.setdefault(min(one.places), []).append((label, one))
        chain = self._chain(by_place)
        found, ranked = self._look_up(self._steps(chain, by_place), chain)
        if not ranked:
            found, ranked = self._look_up(self._one_step(relations), chain)
        if found is None:
            return ()
        complete = not found.truncated and len(found.hits) < MAX_LIMIT
        if self.asked.asked is Asked.NOT:
            left = self._others(found, ranked, relations) if complete and relations and (ranked or not chain) else ()
            return () if self.asked.narrowed and not none_of_a_set(left) else left
        if not ranked and complete and not chain and self._is_empty_set(found, relations):
            return _set_of((), self._score_said(relations))
        if self.asked.narrowed and not self._is_one(ranked):
            return ()
        return _shown(ranked, complete=complete)

    def no_answers(self) -> tuple[FactGroup, ...]:
        """Return a group without hits if relationships of the question's only name were read that do not answer it."""
        one_name = len({anchor.places for anchor in self.anchors}) == 1
        return (FactGroup(score=0.0, count=1, complete=False, hits=()),) if self.is_related and one_name else ()

    def _is_one(self, ranked: Sequence[RankedFacts]) -> bool:
        """Return whether one entity is asked for and one is found, so that no word before the noun can leave it out."""
        return self.asked.asked is Asked.ONE and len({hit.id for group in ranked for hit in group.hits}) == 1

    def _is_empty_set(self, found: GraphResult, relations: Sequence[tuple[Label, Occurrence]]) -> bool:
        """Return whether a question asks for all or how many are related to its names, and none of any type is.

        Only if a word expresses a relationship that explains the question, the requested type is one of the graph, and
        no filter may have left entities out; nor are there relationships of a type whose direction is in doubt.
        """
        relations = [(label, one) for label, one in relations if self.question.is_in_words(one)]
        asked, filters = self.asked, self.query.filters
        if asked.asked is Asked.ONE or not asked.kinds or filters != Filters(trusted_only=filters.trusted_only):
            return False
        anchors = {anchor.id: anchor for anchor in self.anchors}
        labels = {label for label, _ in relations}
        doubtful = {
            label for label in labels if not tells_direction(without_kind(label_words(label), self.question.kind_words))
        }
        related = any(
            not doubtful.isdisjoint(hit.path.types) or explain(self.question, self.asking_places, anchors, hit)
            for hit in found.hits
        )
        return not related and self._score_said(relations) >= LEAST_FACT_SCORE

    def _ranked(self, found: GraphResult, chain: Sequence[int]) -> list[RankedFacts]:
        wanted = self.query.filters.entity_types
        anchors = {anchor.id: anchor for anchor in self.anchors}
        scored = []
        for hit in found.hits:
            explained = explain(self.question, self.asking_places, anchors, hit)
            self.is_related |= explained is not None
            if wanted and hit.entity_type not in wanted:
                continue
            # An entity of another type may be the one that is asked for, but is not counted among those of this type.
            if self.asked.asked is not Asked.ONE and self.asked.kinds and hit.entity_type not in self.asked.kinds:
                continue
            if self.only_kinds and hit.entity_type not in (*self.asked.kinds, DEFAULT_ENTITY_TYPE):
                continue
            if explained is not None and explained.places.issuperset(chain):
                scored.append((hit, explained.score, explained.wording))
            elif explained is None and self.asked.anything and len(hit.path.types) == 1:
                scored.append((hit, UNASKED_SCORE, hit.path.predicates))
        weights = {anchor.id: anchor.weight for anchor in self.anchors}
        return rank_facts(scored, weights=weights, kinds=self.asked.kinds)

    def _chain(self, by_place: Mapping[int, list[tuple[Label, Occurrence]]]) -> list[int]:
        """Return the positions of the relationships that are expressed in turn, that of the question's only name first.

        Empty if the question has several names, or does not express at least two relationships in turn. Entities that
        one name means, such as a team and a text with its name as a title, are looked up together.
        """
        if len({anchor.places for anchor in self.anchors}) != 1 or self._are_joined(sorted(by_place)):
            return []
        chain: list[int] = []
        for place in self._from_name(by_place):
            if not chain or not self._is_again(place, chain[-1], by_place):
                chain.append(place)
        return chain if len(chain) > 1 else []

    def _is_again(self, place: int, before: int, by_place: Mapping[int, list[tuple[Label, Occurrence]]]) -> bool:
        """Return whether two words express one relationship: "the *parts* that it *contains*".

        "Who *manages* the *leader* of …" expresses two: one is the other's object.
        """
        tokens, keys = self.question.tokens, self.question.keys
        between = tokens[min(place, before) + 1 : max(place, before)]
        if keys[place] == keys[before] or (between and _ARTICLES.issuperset(between)):
            return False
        return _best_labels(by_place[place]) <= _best_labels(by_place[before])

    def _steps(
        self, chain: Sequence[int], by_place: Mapping[int, list[tuple[Label, Occurrence]]]
    ) -> tuple[QueryStep, ...]:
        """Return one step along each relationship of a chain; empty if there are more than :data:`MAX_HOPS`."""
        steps = []
        for place, before in zip(chain, (min(self.name_places), *chain), strict=False):
            ways = {one.inward(before) for _, one in by_place[place]}
            direction = Direction.BOTH if len(ways) > 1 else (Direction.IN if ways.pop() else Direction.OUT)
            labels = tuple(dict.fromkeys(label for label, _ in by_place[place]))
            steps.append(QueryStep(types=labels, direction=direction))
        return tuple(steps) if len(steps) <= MAX_HOPS else ()

    def _are_joined(self, places: Sequence[int]) -> bool:
        """Return whether "and" or "or" joins two words, with only prepositions in between: "owns or works on"."""
        return any(
            not _JOINING.isdisjoint(between) and _JOINING.union({"on", "in", "to"}).issuperset(between)
            for first, last in pairwise(places)
            if (between := self.question.tokens[first + 1 : last])
        )

    def _from_name(self, places: Iterable[int]) -> list[int]:
        """Return positions of words, the nearest to the name first: content words between, words before it first.

        In "Which team does the person who works on Atlas belong to?" *works on* is nearer to Atlas than *belong to*. A
        word after the name is the last if one just before has the name as its object, so that in "Where does the leader
        of the team that owns Atlas live?" *live* comes after *leader*.
        """
        first, last = min(self.name_places), max(self.name_places)

        def distance(place: int) -> int:
            tokens = self.question.tokens
            between = tokens[place + 1 : first] if place < first else tokens[last + 1 : place]
            return sum(token not in EMPTY for token in between)

        is_object = any(place < first and not distance(place) for place in places)
        return sorted(places, key=lambda place: (is_object and place > last, distance(place), place > last))

    def _one_step(self, relations: list[tuple[Label, Occurrence]]) -> tuple[QueryStep, ...]:
        """Return one step along the relationships that the question expresses; empty if there are none.

        The step also follows the other relationships if the question asks for any, or if few of its words are left
        unexplained: one of the others may express these.
        """
        types = tuple(dict.fromkeys(label for label, _ in relations))
        unexplained = self.question.content(self.skipped) - {place for _, one in relations for place in one.places}
        if self.asked.anything or 0 < len(unexplained) <= MAX_UNEXPLAINED:
            types += tuple(label for label in (*self.asked.types, *self.asked.others) if label not in types)
        return (QueryStep(types=types, direction=Direction.BOTH),) if types else ()

    def _look_up(
        self, steps: tuple[QueryStep, ...], chain: Sequence[int]
    ) -> tuple[GraphResult | None, list[RankedFacts]]:
        """Return the paths from the names along some steps, and the best groups of them; None if there are no steps.

        Parameters
        ----------
        chain
            Positions of the words that each path has to explain.
        """
        if not steps:
            return None, []
        start = QueryStart.unchecked(ids=tuple(anchor.id for anchor in self.anchors))
        found = self._query(start, steps, QueryReturn.PATHS)
        return found, self._ranked(found, chain)

    def _query(self, start: QueryStart, steps: tuple[QueryStep, ...], returns: QueryReturn) -> GraphResult:
        return self.graph.query(
            GraphQuery.unchecked(
                tenant_id=self.query.tenant_id,
                as_of=self.as_of,
                start=start,
                steps=steps,
                returns=returns,
                limit=MAX_LIMIT,
                fan_out=MAX_FAN_OUT,
                trusted_only=self.query.filters.trusted_only,
                as_facts=True,
            )
        )

    def _others(
        self, found: GraphResult, ranked: Sequence[RankedFacts], relations: Sequence[tuple[Label, Occurrence]]
    ) -> tuple[FactGroup, ...]:
        """Return the entities of the requested types that have none of these relationships, except the named ones.

        An entity that has one is excluded however uncertain the relationship is. Empty if a bound was reached, or if
        the relationships explain too little of the question for their facts to be answers. If the question's noun means
        several types, only those of which an entity has the relationship count.
        """
        score = ranked[0].score if ranked else self._score_said(relations)
        wanted = self.query.filters.entity_types
        kinds = tuple(kind for kind in self.asked.kinds if not wanted or kind in wanted)
        if len(kinds) > 1:
            # "Who does not supply Atlas?" and "Which vendors …?" mean those that could, not also people and teams.
            related = {hit.entity_type for group in ranked for hit in group.hits}
            kinds = tuple(kind for kind in kinds if kind in related)
        if score < LEAST_FACT_SCORE or not kinds or not all(self._is_end(anchor, relations) for anchor in self.anchors):
            return ()
        everything = self._query(QueryStart(entity_types=kinds), (), QueryReturn.NODES)
        if everything.truncated or len(everything.hits) == MAX_LIMIT:
            return ()
        anchors, labels = {anchor.id: anchor for anchor in self.anchors}, {label for label, _ in relations}
        out = {hit.id for group in ranked for hit in group.hits} | anchors.keys()
        out |= {
            hit.id
            for hit in found.hits
            if labels.issuperset(hit.path.types) and explain(self.question, self.asking_places, anchors, hit)
        }
        left = [hit for hit in everything.hits if hit.id not in out]
        return _set_of(left, score)

    def _is_end(self, anchor: Anchor, relations: Sequence[tuple[Label, Occurrence]]) -> bool:
        """Return whether a name is one end of a relationship, and not what narrows the set: "no owner in Beacon"."""
        place = min(anchor.places) - 1
        while place > 0 and self.question.tokens[place] in _ARTICLES:
            place -= 1
        before = self.question.tokens[place] if place > 0 else ""
        return before not in _NARROWING or any(
            before in label_words(label) or place in one.places or (before == "of" and place - 1 in one.places)
            for label, one in relations
        )

    def _score_said(self, relations: Iterable[tuple[Label, Occurrence]]) -> float:
        """Return the score that the best certain fact of one of these relations would have, in [0, 1]."""
        scores = [0.0]
        for anchor in self.anchors:
            skipped = self.asking_places | anchor.places
            scores += [
                anchor.weight * one.quality * self.question.share_of(one.places, skipped) for _, one in relations
            ]
        return max(scores)


def _weight(link: EntityLink) -> float:
    """Return the score of a link, which is at least :data:`LEAST_WEIGHT` unless the name is misspelt."""
    return link.score if link.misspelt else max(link.score, LEAST_WEIGHT)


def _best_labels(said: Sequence[tuple[Label, Occurrence]]) -> set[Label]:
    """Return the relationship types that a word expresses best: DEPENDS_ON, and not its synonym USES, by "depends"."""
    best = max(one.quality for _, one in said)
    return {label for label, one in said if one.quality == best}


def _set_of(hits: Iterable[GraphHit], score: float) -> tuple[FactGroup, ...]:
    """Return a complete set of entities as a group, with the first ones by name as far as the bounds allow."""
    found = sorted(hits, key=lambda hit: (hit.name or hit.id, hit.id))
    if not found:
        return (FactGroup(score=score, count=0, complete=True, hits=()),)
    return _shown([RankedFacts(score, found)], complete=True)


def _shown(ranked: Iterable[RankedFacts], *, complete: bool) -> tuple[FactGroup, ...]:
    """Return groups of facts with their counts, each with its first ones as far as the bounds of an answer allow."""
    groups, room, size = [], MAX_SHOWN, 0
    for group in ranked:
        kept = []
        for hit in group.hits[:room]:
            size += len(hit.model_dump_json().encode())
            if size > MAX_FACTS_BYTES:
                break
            kept.append(hit)
        room -= len(kept)
        if kept:
            count = len({hit.id for hit in group.hits})
            groups.append(FactGroup(score=group.score, count=count, complete=complete, hits=tuple(kept)))
    return tuple(groups)


def _asking_places(asked: FactQuestion, question: QuestionWords, name_places: set[int]) -> set[int]:
    """Return the positions of the words that express the requested type and no relationship."""
    asking = set(asked.explained)
    if asked.types or question.content(name_places | asking):
        return asking
    # In "How many members does it have?" the noun also expresses the relationship, so it may be matched with one.
    return {place for place in asking if question.tokens[place] in STOP_WORDS}


def _places(tokens: Sequence[str], phrase: Sequence[str]) -> frozenset[int]:
    """Return the positions of the words of a name's first occurrence in a question."""
    begins = occurrences(phrase, tokens) if phrase else []
    return frozenset(range(begins[0], begins[0] + len(phrase))) if begins else frozenset()


def evidence_of(groups: Iterable[FactGroup]) -> list[str]:
    """Return the distinct ids of the records that are evidence of facts."""
    return list(dict.fromkeys(one for group in groups for hit in group.hits for one in hit.path.evidence if one))


def fact_results(
    groups: Sequence[FactGroup],
    query: Query,
    question: FactQuestion | None,
    records: Mapping[str, Record],
    *,
    now: datetime,
) -> list[Result]:
    """Return groups of facts as results, not ranked yet; facts whose evidence is not admissible are left out.

    Parameters
    ----------
    records
        The records that are evidence of facts, by id, as far as they could be read.
    """
    as_of = query.as_of or now
    conditions = _of_evidence(query)
    results = []
    for group in groups:
        kept = [hit for hit in group.hits if _allowed(hit, conditions, records, as_of)]
        if kept:
            unread, count = group.count - len({hit.id for hit in group.hits}), len({hit.id for hit in kept})
            # Facts that are counted but not read may have evidence that does not meet the conditions.
            exact = not unread or (len(kept) == len(group.hits) and not conditions.restrict)
            counted = {"count": count + unread} if exact else {"count": count, "complete": False}
            left = group.altered(hits=tuple(kept), **counted)
            results.append(_result(left, query, question or FactQuestion(), records, now))
    return results


def set_not_answered(
    question: FactQuestion | None, groups: Iterable[FactGroup], results: Iterable[Result]
) -> Asked | None:
    """Return the kind of set (all, count, not) that a question asks for, if no resulting fact answers it; else None."""
    if question is None or question.asked is Asked.ONE or any(result.facts for result in results):
        return None
    return None if none_of_a_set(groups) else question.asked


def none_of_a_set(groups: Iterable[FactGroup]) -> bool:
    """Return whether a group counts no entity: "How many own Atlas?" where nobody does."""
    return any(not group.count for group in groups)


def not_related(text: str, question: FactQuestion | None, found: GraphFound | None) -> bool:
    """Return whether no relationship of the graph answers "Does Fern depend on Quillon?", or "Who owns Fern?".

    Such a question expresses a relationship type of the graph, and either begins with an auxiliary and names two
    entities, or names one and has no further words to be explained. The edges of these entities were read.
    """
    if question is None or question.asked is not Asked.ONE or not question.types:
        return False
    if found is None or found.facts or found.truncated:
        return False
    named = {link.phrase for link in found.links if link.certainty >= LEAST_CERTAINTY}
    asked = QuestionWords(text, frozenset(question.kind_words))
    if len(named) > 1:
        return AUXILIARY.issuperset(asked.tokens[:1])
    name_places = {place for phrase in named for place in _places(asked.tokens, words(phrase))}
    skipped = {*question.explained, *name_places}
    occurring = [one for label in question.types for one in said_by(asked, label, skipped) if asked.is_in_words(one)]
    said = {place for one in occurring for place in one.places}
    if name_places and _is_owner(asked, name_places, {*question.explained} - said):
        return False
    in_turn = len({min(one.places) for one in occurring})
    return bool(named and said) and in_turn <= MAX_HOPS and not asked.content(skipped | said)


def _is_owner(question: QuestionWords, name: set[int], nouns: set[int]) -> bool:
    """Return whether something of the name is asked about, and not the name: "services of Ada", "Ada's services"."""
    tokens, before, after = question.tokens, min(name) - 1, max(name) + 1
    while before > 0 and tokens[before] in _ARTICLES:
        before -= 1
    is_of = before > 0 and tokens[before] == "of" and tokens[before - 1] not in STOP_WORDS
    return (is_of and before - 1 in nouns) or (after in nouns and question.is_possessed(after))


def _of_evidence(query: Query) -> Filters:
    """Return the filters that a fact's evidence has to meet: the question's, without kinds and entity types."""
    return query.filters.altered(kinds=(), entity_types=())


def _allowed(hit: GraphHit, conditions: Filters, records: Mapping[str, Record], as_of: datetime) -> bool:
    """Whether all of a fact's evidence is valid and meets the filters; if it has none, whether no filters need it."""
    known = [records[one] for one in hit.path.evidence if one is not None and one in records]
    if not known and (conditions.time_range or conditions.task_id or conditions.tool_name or conditions.metadata):
        return False
    return all(valid(record, as_of) and meets(record, conditions) for record in known)


def _result(
    group: FactGroup, query: Query, question: FactQuestion, records: Mapping[str, Record], now: datetime
) -> Result:
    asked = question.asked if group.hits[0].path.types else question.of_type or question.asked
    facts = FactSet(
        asked=asked,
        count=group.count,
        complete=group.complete,
        facts=tuple(_fact(hit, records) for hit in group.hits),
    )
    first, best = group.hits[0], facts.facts[0]
    without = f"without {' or '.join(question.types)}" if asked is Asked.NOT and not first.path.types else ""
    lacked = " or ".join(f"“{' '.join(label_words(label))}”" for label in question.types)
    title, content = _title_and_content(facts, f"without a relationship {lacked}" if without else "")
    read = [record for hit in group.hits for one in hit.path.evidence if one and (record := records.get(one))]
    at = read[0].timestamp or read[0].created_at if read else None
    ends = {hit.entity_type for hit in group.hits}
    return Result(
        id=_identity(first),
        rank=1,
        kind=Kind.FACT,
        entity_type=ends.pop() if len(ends) == 1 else None,
        title=title[:500],
        content=content,
        relevance=group.score,
        recency=recency(at, now),
        final=final_score(query.ranking, relevance=group.score, kind=Kind.FACT.value, at=at, now=now),
        combined_score=group.score,
        vector_score=None,
        lexical_score=None,
        graph_score=group.score,
        rerank_score=None,
        fused_rank=1,
        ranks={Source.GRAPH: 1},
        sources=(Source.GRAPH,),
        reasons=(f"fact: {' → '.join(first.path.types) or without or 'is of the type that is asked for'}",),
        paths=tuple(hit.path for hit in group.hits[:3] if hit.path.types),
        citation=next((fact.citation for fact in facts.facts if fact.citation), None)
        or Citation(type=SourceType.DOCUMENT, title=GRAPH, excerpt=best.text, reliability=best.confidence),
        schema_version=1,
        aged_from=at,
        valid_at=first.path.valid_at if len(facts.facts) == 1 else None,
        invalid_at=first.path.invalid_at if len(facts.facts) == 1 else None,
        trusted=all(fact.trusted for fact in facts.facts),
        facts=facts,
    )


def _title_and_content(found: FactSet, without: str) -> tuple[str, str]:
    """Return the title and text of a result: the facts as sentences, or the names of a set of entities.

    Parameters
    ----------
    without
        What the entities of the set lack, in words; empty if they are not a set of those without a relationship.
    """
    sentences = list(dict.fromkeys(fact.text for fact in found.facts))
    related = bool(found.facts[0].path.types)
    title = sentences[0]
    if found.asked is not Asked.ONE or found.count > 1 or not related:
        counted = f"{'' if found.complete else 'at least '}{found.count} {without}".rstrip()
        names = ", ".join(dict.fromkeys(fact.name for fact in found.facts))
        title = f"{counted} in the graph: {names}"
    lines = [f"{text}." for text in sentences] if related else [title]
    more = found.count - len({fact.answer for fact in found.facts})
    return title, "\n".join([*lines, *([f"… and {more} more."] if more > 0 else [])])


def _fact(hit: GraphHit, records: Mapping[str, Record]) -> Fact:
    path, name = hit.path, hit.name or hit.id
    record = next((records[one] for one in path.evidence if one is not None and one in records), None)
    return Fact(
        text=_sentence(path) or name,
        answer=hit.id,
        name=name,
        entity_type=hit.entity_type,
        path=path,
        confidence=hit.score,
        trusted=hit.trusted and (record is None or record.trusted),
        citation=cite(record) if record else None,
    )


def _sentence(path: Path) -> str:
    """Return a path's relationships as one sentence, the last first, each from its source to its target."""
    clauses = [sentence(*edge) for edge in path.edges(path.names)]
    return ", and ".join(reversed(clauses))


def _identity(hit: GraphHit) -> str:
    """Return the id of a group of facts, by its entity and steps: stable for the same question and graph."""
    path = hit.path
    steps = [f"{'<' if inward else '>'}{kind}" for kind, inward in zip(path.types, path.inward, strict=True)]
    identity = "|".join((f"fact:{path.ids[0]}", *steps))
    return identity if can_be_id(identity) else f"fact:{hashlib.sha256(identity.encode()).hexdigest()[:40]}"
