"""Makes results of facts, the relationships that answer a question, with their sentences and the evidence they cite.

Also tells whether having no such relationship is what the graph answers (``none_of_a_set``, ``not_related``).

:mod:`braid.retrieval.stages.fact_lookup` looks them up. ``sentence`` in :mod:`braid.understanding.question_relations`
writes an edge as a sentence. The graph leaves out relationships that are not valid; ``_allowed`` drops facts whose
evidence is not.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from braid.models import Asked, Citation, Fact, FactQuestion, FactSet, Kind, Result, Source, SourceType
from braid.models.enums_and_scalars import can_be_id
from braid.ranking.scoring import final_score, recency
from braid.retrieval.stages.candidates import meets, valid
from braid.retrieval.stages.conditions_by_name import has_conjunction, is_end, says_more, who_is_in
from braid.retrieval.stages.fact_lookup import LEAST_CERTAINTY, places_of_name
from braid.retrieval.stages.results_and_citations import cite
from braid.understanding.multi_hop import label_words
from braid.understanding.question_relations import AUXILIARY, QuestionWords, said_by, sentence
from braid.understanding.tokens import STOP_WORDS, words

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from braid.models import Filters, GraphHit, Label, Path, Query, Record
    from braid.retrieval.stages.stage_messages import FactGroup, GraphFound

GRAPH: Final = "knowledge graph"
"""Title of the citation of facts without evidence."""


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
        if len({hit.path.ids[0] for hit in group.hits}) > 1:  # of several names: an answer is related to each
            left_out = {hit.id for hit in group.hits if hit not in kept}
            kept = [hit for hit in kept if hit.id not in left_out]
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
    entities, or names one and has no further words to be explained, nor relationships in turn. Its names are ends of
    relationships, and nothing is joined: what answers "Who owns Fern and who works on it?" is not known. The edges of
    these entities were read.
    """
    if question is None or question.asked is not Asked.ONE or not question.types:
        return False
    if found is None or found.facts or found.truncated:
        return False
    asked = QuestionWords(text, frozenset(question.kind_words))
    phrases = {link.phrase for link in found.links if link.certainty >= LEAST_CERTAINTY}
    names = [places_of_name(asked.tokens, words(phrase)) for phrase in phrases]
    places = frozenset[int]().union(*names)
    skipped = {*question.explained, *places}
    occurring = [
        (label, one) for label in question.types for one in said_by(asked, label, skipped) if asked.is_in_words(one)
    ]
    if not all(name and is_end(asked.tokens, name, occurring) for name in names):
        return False
    said = {place for _, one in occurring for place in one.places}
    if has_conjunction(asked.tokens, places) or says_more(asked.tokens, names, said, question.explained, denied=False):
        return False
    if who_is_in(asked.tokens) or len({min(one.places) for _, one in occurring}) > 1:
        return False
    if len(names) > 1:
        return len(names) == 2 and AUXILIARY.issuperset(asked.tokens[:1])  # noqa: PLR2004 - the ends of one relationship
    if places and _has_nouns(asked, places, {*question.explained} - said):
        return False
    return bool(places and said) and not asked.content(skipped | said)


def _has_nouns(question: QuestionWords, name: Collection[int], nouns: Collection[int]) -> bool:
    """Return whether something of the name is asked about, and not the name: "Ada's services"."""
    after = max(name) + 1
    return after in nouns and question.tokens[after] not in STOP_WORDS and question.is_possessed(after)


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
    lacked = " or ".join(f"“{' '.join(label_words(label))}”" for label in _best_said(query.text, question))
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


def _best_said(text: str, question: FactQuestion) -> list[Label]:
    """Return the relationship types that a question says best: OWNS by "own", and not its synonym BELONGS_TO."""
    asked = QuestionWords(text, frozenset(question.kind_words))
    quality = {
        label: max((one.quality for one in said_by(asked, label, question.explained)), default=0.0)
        for label in question.types
    }
    return [label for label in question.types if quality[label] == max(quality.values())]


def _title_and_content(found: FactSet, without: str) -> tuple[str, str]:
    """Return the title and text of a result: the facts as sentences, or the names of a set of entities.

    Parameters
    ----------
    without
        What the entities of the set lack, in words; empty if they are not a set of those without a relationship.
    """
    sentences = list(dict.fromkeys(fact.text for fact in found.facts))
    related = bool(found.facts[0].path.types)
    of_several_names = len({fact.path.ids[0] for fact in found.facts}) > 1
    title = ", and ".join(sentences) if of_several_names else sentences[0]
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
