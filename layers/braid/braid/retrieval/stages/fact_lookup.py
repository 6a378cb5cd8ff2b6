"""Looks up relationships that answer a question (facts), from the names in it.

"Who maintains the ledger?" asks for a relationship; :mod:`braid.understanding.fact_questions` detects which.
At most three bounded graph queries are sent: along two or three relationships if the question names so many in turn,
else along one; and for all entities of a type if it asks which are *not* in the relationship. Questions that name no
entity are looked up by :mod:`braid.retrieval.stages.entity_sets`; :mod:`braid.retrieval.stages.fact_results` makes
results of what is found.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from braid.models import Asked, Direction, Filters, Kind
from braid.models.records import DEFAULT_ENTITY_TYPE
from braid.ports.graph_query import MAX_FAN_OUT, MAX_LIMIT, GraphQuery, QueryReturn, QueryStart, QueryStep
from braid.ranking.graph_queries_and_facts import LEAST_FACT_SCORE, RankedFacts, rank_facts
from braid.retrieval.stages.conditions_by_name import ARTICLES, DENYING, is_end, read_conditions, says_more, who_is_in
from braid.retrieval.stages.entity_sets import find_entity_set
from braid.retrieval.stages.joined_names import Join, by_name, facts_of_all, facts_of_joined, joined_names
from braid.retrieval.stages.stage_messages import FactGroup
from braid.understanding.fact_questions import is_named_by
from braid.understanding.multi_hop import label_words
from braid.understanding.question_relations import (
    EMPTY,
    Anchor,
    QuestionWords,
    explain,
    said_by,
    said_by_preposition,
    tells_direction,
    without_kind,
)
from braid.understanding.tokens import STOP_WORDS, occurrences, words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from braid.models import EntityLink, FactQuestion, GraphHit, Label, Query
    from braid.ports.graph_query import GraphResult
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.retrieval.stages.conditions_by_name import Condition
    from braid.understanding.question_relations import Explained, Occurrence

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
_BESIDE_CONDITIONS: Final = frozenset({"without", "being", "both", "anyone", "anybody"})
_JOINING: Final = frozenset({"and", "or"})
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
            if (places := places_of_name(self.question.tokens, words(link.phrase)))
        ]
        self.weights = {anchor.id: anchor.weight for anchor in self.anchors}
        self.name_places = {place for anchor in self.anchors for place in anchor.places}
        """Positions of the words of the names."""
        self.names = {anchor.places for anchor in self.anchors}
        """The positions of the words of each name."""
        self.joined = joined_names(self.question.tokens, self.names, asked.asked) if len(self.names) > 1 else None
        self.named_beside = {
            start: {
                anchor.id: anchor
                for anchor in self.anchors
                if self.joined is None or start in self._ids_of(anchor.places)
            }
            for start in self.weights
        }
        """The names that a path may explain, by the id of its start: of joined names, only its own."""
        self.asking_places = _asking_places(asked, self.question, self.name_places)
        """Positions of the words that say what is asked for, and no relationship, with those of joined names."""
        if self.joined:
            self.asking_places |= self.joined.places
        self.skipped = self.name_places | self.asking_places
        self.around = who_is_in(self.question.tokens)
        """Nouns for what is around those who are asked for."""
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
        if self._says_more(relations):
            return ()
        if not self.asked.narrowed and (meeting := self._meeting_conditions(by_place)):
            return _shown([meeting], complete=True)
        chain = self._chain(by_place)
        found, ranked = self._look_up(self._steps(chain, by_place), chain)
        if not ranked:
            found, ranked = self._look_up(self._one_step(relations), chain)
        if found is None:
            return ()
        complete = not found.truncated and len(found.hits) < MAX_LIMIT
        if self.joined and self.joined.join is Join.WITHOUT:
            return _shown(ranked, complete=True) if complete and not self.asked.narrowed else ()
        if self.asked.asked is Asked.NOT:
            is_clear = complete and relations and (not chain or (ranked and self._is_denied_as_a_whole(chain)))
            left = self._others(found, ranked, relations) if is_clear else ()
            return () if self.asked.narrowed and any(group.count for group in left) else left
        if not ranked and complete and not chain and self._is_empty_set(found, relations):
            return _set_of((), self._score_said(relations))
        if self.asked.narrowed and not self._is_one(ranked):
            return ()
        return _shown(ranked, complete=complete)

    def _says_more(self, relations: Sequence[tuple[Label, Occurrence]]) -> bool:
        """Return whether the question says what no relationship of its names expresses."""
        names = [self.joined.places] if self.joined else self.names
        said = {place for _, one in relations for place in one.places}
        denied = self.asked.asked is Asked.NOT
        return says_more(self.question.tokens, names, said, self.asked.explained, denied=denied)

    def no_answers(self) -> tuple[FactGroup, ...]:
        """Return a group without hits if relationships of the question's only name were read that do not answer it."""
        is_marked = self.is_related and len(self.names) == 1
        return (FactGroup(score=0.0, count=1, complete=False, hits=()),) if is_marked else ()

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
        labels = {label for label, _ in relations}
        doubtful = {
            label for label in labels if not tells_direction(without_kind(label_words(label), self.question.kind_words))
        }
        needs_all = self.joined is not None and self.joined.join is Join.BOTH
        related = any(
            not doubtful.isdisjoint(hit.path.types) or (not needs_all and self._explained(hit)) for hit in found.hits
        )
        return not related and self._score_said(relations) >= LEAST_FACT_SCORE

    def _ranked(self, found: GraphResult, chain: Sequence[int]) -> list[RankedFacts]:
        scored = []
        all_explained = [(hit, self._explained(hit)) for hit in found.hits]
        for hit, explained in all_explained:
            self.is_related |= explained is not None
            if not self._may_answer(hit):
                continue
            if explained is not None and explained.places.issuperset(chain):
                scored.append((hit, explained.score, explained.wording))
            elif explained is None and self.asked.anything and len(hit.path.types) == 1:
                scored.append((hit, UNASKED_SCORE, hit.path.predicates))
        if self.joined is None:
            return self._grouped(scored)
        of_each = [
            self._grouped(one for one in scored if one[0].path.ids[0] in ids)
            for ids in map(self._ids_of, self.joined.names)
        ]
        if self.joined.join is Join.OR and not all(of_each):
            given = {hit.id in self.weights for groups in of_each for group in groups for hit in group.hits}
            if len(given) > 1:
                return []  # "Who owns Atlas, Ada or Bob?" may ask for one of the names
        first = self._ids_of(self.joined.names[0])
        others = {hit.id for hit, explained in all_explained if explained and hit.path.ids[0] not in first}
        return facts_of_joined(self.joined.join, of_each, others, counted=self.asked.asked is Asked.COUNT)

    def _grouped(self, scored: Iterable[tuple[GraphHit, float, tuple[str, ...]]]) -> list[RankedFacts]:
        return rank_facts(scored, weights=self.weights, kinds=self.asked.kinds)

    def _may_answer(self, hit: GraphHit) -> bool:
        """Return whether an entity is of a type that the question and its filters allow."""
        wanted, kinds = self.query.filters.entity_types, self.asked.kinds
        if wanted and hit.entity_type not in wanted:
            return False
        if any(is_named_by(hit.entity_type, noun) for noun in self.around):
            return False
        # An entity of another type may be the one that is asked for, but is not counted among those of this type.
        if self.asked.asked is not Asked.ONE and kinds and hit.entity_type not in kinds:
            return False
        # Of relationships in turn, the last entity may only be what those that are asked for are related to.
        only_kinds = self.only_kinds or (kinds and len(hit.path.types) > 1)
        return not only_kinds or hit.entity_type in (*kinds, DEFAULT_ENTITY_TYPE)

    def _meeting_conditions(self, by_place: Mapping[int, list[tuple[Label, Occurrence]]]) -> RankedFacts | None:
        """Return the facts of the entities that meet the conditions that the question sets by its names.

        None if it sets none, if no entity meets all of them, or if there are too many paths to know.
        """
        if len(self.names) == 1 or self.joined:
            return None
        said = {place: frozenset[int]().union(*(one.places for _, one in found)) for place, found in by_place.items()}
        conditions = read_conditions(self.question.tokens, self.names, said)
        if not conditions:
            return None
        labels = dict.fromkeys(label for found in by_place.values() for label, _ in found)
        if not all(condition.said for condition in conditions):
            labels |= dict.fromkeys(
                label
                for label in (*self.asked.types, *self.asked.others)
                if said_by_preposition(self.question, label_words(label))
            )
        found = self._paths((QueryStep(types=tuple(labels), direction=Direction.BOTH),))
        if found.truncated or len(found.hits) == MAX_LIMIT:
            return None
        beside = {place for place, word in enumerate(self.question.tokens) if word in _BESIDE_CONDITIONS}
        share = self.question.share_of(beside.union(*said.values()), self.skipped)
        if share < 1:
            return None
        groups, left_out = [], set[str]()
        for condition in conditions:
            ranked = self._meeting(condition, found)
            if condition.denied:
                left_out |= {hit.id for group in ranked for hit in group.hits}
            elif ranked:
                groups.append(ranked[0])
            else:
                return None
        return facts_of_all(groups, left_out)

    def _meeting(self, condition: Condition, found: GraphResult) -> list[RankedFacts]:
        """Return the facts that meet one condition, by the words for its relationship alone."""
        skipped = frozenset(range(len(self.question.tokens))) - condition.said
        anchors = {anchor.id: anchor for anchor in self.anchors if anchor.places == condition.name}
        return self._grouped(
            (hit, explained.score, explained.wording)
            for hit in filter(self._may_answer, found.hits)
            if hit.path.ids[0] in anchors and (explained := explain(self.question, skipped, anchors, hit))
        )

    def _ids_of(self, name: frozenset[int]) -> set[str]:
        """Return the ids of the entities that a name means, by the positions of its words."""
        return {anchor.id for anchor in self.anchors if anchor.places == name}

    def _explained(self, hit: GraphHit) -> Explained | None:
        """Return how well a path answers the question; of joined names, as if its own were the only one."""
        return explain(self.question, self.asking_places, self.named_beside[hit.path.ids[0]], hit)

    def _chain(self, by_place: Mapping[int, list[tuple[Label, Occurrence]]]) -> list[int]:
        """Return the positions of the relationships that are expressed in turn, that of the question's only name first.

        Empty if the question has several names, or does not express at least two relationships in turn. Entities that
        one name means, such as a team and a text with its name as a title, are looked up together.
        """
        if len(self.names) != 1 or self._are_joined(sorted(by_place)):
            return []
        chain: list[int] = []
        for place in self._from_name(by_place):
            if not chain or not self._is_again(place, chain[-1], by_place):
                chain.append(place)
        return chain if len(chain) > 1 else []

    def _is_again(self, place: int, before: int, by_place: Mapping[int, list[tuple[Label, Occurrence]]]) -> bool:
        """Return whether two words express one relationship: "the *parts* that it *contains*".

        "Who *manages* the *leader* of …" and "… *reports* to the *leader* of …" express two: one is the other's object.
        """
        tokens, keys = self.question.tokens, self.question.keys
        between = tokens[min(place, before) + 1 : max(place, before)]
        if keys[place] == keys[before] or (EMPTY.issuperset(between) and not ARTICLES.isdisjoint(between)):
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
        found = self._paths(steps)
        return found, self._ranked(found, chain)

    def _paths(self, steps: tuple[QueryStep, ...]) -> GraphResult:
        """Return the paths from the names along some steps."""
        start = QueryStart.unchecked(ids=tuple(anchor.id for anchor in self.anchors))
        return self._query(start, steps, QueryReturn.PATHS)

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
        labels = {label for label, _ in relations}
        standing = [hit for hit in found.hits if labels.issuperset(hit.path.types) and self._explained(hit)]
        if self.question.tokens[:1] == ["who"] and standing and all(hit.entity_type not in kinds for hit in standing):
            return ()  # doctors treat, and "Who does not treat Paul?" does not ask which suppliers do not
        if len(kinds) > 1:
            # "Who does not supply Atlas?" and "Which vendors …?" mean those that could, not also people and teams.
            related = {hit.entity_type for group in ranked for hit in group.hits}
            kinds = tuple(kind for kind in kinds if kind in related)
        if score < LEAST_FACT_SCORE or not kinds or not self._are_ends(relations):
            return ()
        everything = self._query(QueryStart(entity_types=kinds), (), QueryReturn.NODES)
        if everything.truncated or len(everything.hits) == MAX_LIMIT:
            return ()
        out = {hit.id for group in ranked for hit in group.hits} | {anchor.id for anchor in self.anchors}
        out |= {hit.id for hit in standing}
        left = [hit for hit in everything.hits if hit.id not in out]
        return _set_of(left, score)

    def _is_denied_as_a_whole(self, chain: Sequence[int]) -> bool:
        """Return whether no relationship stands before the denying word: "depend on services that are *not* owned"."""
        return not DENYING.union({"no"}).isdisjoint(self.question.tokens[: min(chain)])

    def _are_ends(self, relations: Sequence[tuple[Label, Occurrence]]) -> bool:
        return all(is_end(self.question.tokens, anchor.places, relations) for anchor in self.anchors)

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
    found = sorted(hits, key=by_name)
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


def places_of_name(tokens: Sequence[str], phrase: Sequence[str]) -> frozenset[int]:
    """Return the positions of the words of a name's first occurrence in a question."""
    begins = occurrences(phrase, tokens) if phrase else []
    return frozenset(range(begins[0], begins[0] + len(phrase))) if begins else frozenset()
