"""Parts of an answer: results without copies of a text, citations, related entities, runners-up; slow ones' log."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Final

from braid.models import Citation, Considered, Kind, RelatedEntity, Result, SourceType, Strategy
from braid.ranking.scoring import Drift
from braid.retrieval.stages.excerpts import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.models import Answer, Record
    from braid.retrieval.stages.candidates import Ranked
    from braid.retrieval.stages.excerpts import Excerpt, Excerpts
    from braid.retrieval.stages.stage_messages import FuseRequest


MAX_COPIES: Final = 20
"""Most copies of a result that it names."""
TELLING_CHARACTERS: Final = 200
"""Fewest characters of a text that is a copy whatever its title."""
RUNNERS_UP_FROM: Final = 5
"""Worst rank in a strand with which a candidate that was not returned is a runner-up."""


def first_distinct(
    scored: Sequence[tuple[float, Ranked | Result]], most: int
) -> tuple[list[tuple[float, Ranked | Result]], dict[str, list[str]], int]:
    """Return the first ``most`` scored candidates that are no copies of one before, the ids of copies, and the cut.

    A chunk is a copy if it has the same text; a short one only with the same title and heading too, as many documents
    have a section "Contact" of the same words.

    Parameters
    ----------
    scored
        Scores with candidates or facts, best first.

    Returns
    -------
    tuple
        The first ones; the ids of at most :data:`MAX_COPIES` copies of each, by its id; and the number of candidates
        that were looked at.
    """
    shown: list[tuple[float, Ranked | Result]] = []
    originals: dict[object, str] = {}
    copies: dict[str, list[str]] = {}
    for place, (final, item) in enumerate(scored):
        if len(shown) == most:
            return shown, copies, place
        if not isinstance(item, Result) and item.record.kind is Kind.CHUNK and item.record.content:
            original = originals.setdefault(_said(item.record), item.record.id)
            if original != item.record.id:
                if len(known := copies.setdefault(original, [])) < MAX_COPIES:
                    known.append(item.record.id)
                continue
        shown.append((final, item))
    return shown, copies, len(scored)


def _said(record: Record) -> object:
    """Return what two chunks have in common if one is a copy of the other."""
    text = record.content.strip()
    if len(text) >= TELLING_CHARACTERS:
        return text, record.trusted
    return text, record.trusted, record.name or record.id, str(record.metadata.get("heading"))


def result_of(
    item: Ranked, excerpts: Excerpts, *, rank: int, fresh: float, final: float, copies: Sequence[str] = ()
) -> Result:
    """Return a candidate as a result, with excerpt and citation.

    Parameters
    ----------
    fresh
        Its recency, in [0, 1].
    final
        Its score by the ranking profile.
    copies
        Ids of the candidates that are copies of it.
    """
    record, candidate = item.record, item.candidate
    matched_from = record.content_from(candidate.part_start)
    sentence = excerpts.sentence(record, matched_from)
    words = excerpts.within(record.content, sentence) if sentence else ()
    citation = cite(record, excerpt(record.content, sentence, words, start=matched_from))
    return Result.unchecked(
        id=record.id,
        rank=rank,
        kind=record.kind,
        entity_type=record.entity_type,
        title=record.name or citation.title,
        content=record.content,
        relevance=item.relevance,
        recency=fresh,
        final=final,
        combined_score=candidate.combined_score,
        vector_score=candidate.vector_score,
        vector_supplied=item.vector_supplied,
        lexical_score=candidate.lexical_score,
        graph_score=candidate.graph_score,
        rerank_score=item.rerank_score,
        fused_rank=item.fused_rank,
        ranks=candidate.ranks,
        sources=candidate.sources,
        reasons=candidate.reasons,
        paths=candidate.paths,
        copies=tuple(copies),
        matched_from=matched_from,
        marked=sentence,
        citation=citation,
        schema_version=record.schema_version,
        needs_transformation=item.drift is Drift.MODERATE,
        timestamp=record.timestamp,
        aged_from=item.aged_from,
        valid_at=record.valid_at,
        invalid_at=record.invalid_at,
        metadata=record.metadata,
        trusted=record.trusted,
    )


def related_entities(request: FuseRequest, results: Sequence[Result]) -> tuple[RelatedEntity, ...]:
    """Return the entities that the question names, that multi-hop steps reached, and that are on the results' paths."""
    named = {link.entity_id: link for link in request.linked.links} if request.linked else {}
    if request.expanded:
        named |= {link.entity_id: link for link in request.expanded.links}
    related = {
        identity: RelatedEntity.unchecked(
            id=identity,
            name=link.name,
            entity_type=link.entity_type,
            linked=True,
            certainty=link.certainty,
            misspelt=link.phrase if link.misspelt else None,
        )
        for identity, link in named.items()
    }
    if request.plan.strategy is Strategy.MULTI_HOP and request.linked is None and request.expanded:
        # Vertices that the steps reached are answers even without a record.
        for hit in request.expanded.hits:
            if not hit.has_record and hit.id not in related:
                related[hit.id] = RelatedEntity(
                    id=hit.id, name=hit.name or hit.id, entity_type=hit.entity_type, linked=False
                )
    shown = {result.id for result in results}
    found = [one for one in (request.linked, request.expanded) if one]
    facts = (hit for one in found for group in one.facts for hit in group.hits)
    types = {hit.id: hit.entity_type for hit in chain(facts, *(one.hits for one in found))}
    for result in results:
        for path in result.paths:
            names = path.names or path.ids
            for identity, name in zip(path.ids, names, strict=True):
                if identity not in related and identity not in shown and result.kind is not Kind.MESSAGE:
                    related[identity] = RelatedEntity.unchecked(
                        id=identity, name=name, entity_type=types.get(identity, "Concept"), linked=False
                    )
    return tuple(related.values())


def runners_up(left: Iterable[tuple[float, Ranked]], *, shown: int) -> tuple[Considered, ...]:
    """Return the runners-up, in order: candidates that some strand ranks at :data:`RUNNERS_UP_FROM` or better.

    Parameters
    ----------
    left
        The candidates that were not returned with their final scores, best first.
    shown
        Number of results before them.
    """
    return tuple(
        Considered(
            id=item.record.id,
            title=item.record.name or cite(item.record).title,
            rank=rank,
            fused_rank=item.fused_rank,
            ranks=item.candidate.ranks,
            final=final,
        )
        for rank, (final, item) in enumerate(left, start=shown + 1)
        if min(item.candidate.ranks.values()) <= RUNNERS_UP_FROM
    )


RELIABILITY: Final = {SourceType.QA: 0.95, SourceType.CHAT: 0.90, SourceType.DOCUMENT: 0.85}

_CHUNK = re.compile(r"^(?P<file>.+?)#chunk-(?P<index>\d{1,9})$")
_PAGE = re.compile(r"\bpage (?P<page>\d{1,9})\b", re.IGNORECASE)
_QA = re.compile(r"^qa-response-")
_CHAT = re.compile(r"^chat-fact-")


def cite(record: Record, shown: Excerpt | None = None) -> Citation:
    """Return the citation of a record: source, page and chunk, with an excerpt, by default the beginning of its text.

    Fields of the record's source win. Missing ones are parsed from its name, else its id, of the forms
    ``file.pdf#chunk-7``, ``qa-response-…`` and ``chat-fact-…``, and from a description that contains ``Page 5``.
    """
    source, name = record.source, record.name or ""
    named_chunk = _CHUNK.match(name)
    chunk = named_chunk or _CHUNK.match(record.id)
    page = _PAGE.search(source.description or "")
    kind = source.type or _type_of(name) or _type_of(record.id) or SourceType.DOCUMENT
    title = source.title or (named_chunk["file"] if named_chunk else name) or (chunk["file"] if chunk else record.id)
    shown = shown or excerpt(record.content)
    chunk_index = source.chunk_index
    if chunk_index is None and chunk:
        chunk_index = int(chunk["index"])
    page_number = source.page
    if page_number is None and page:
        page_number = int(page["page"])
    return Citation.unchecked(
        type=kind,
        title=title,
        page=page_number,
        chunk_index=chunk_index,
        excerpt=shown.text or excerpt(title).text,
        marked=shown.marked,
        reliability=RELIABILITY[kind] if record.confidence is None else record.confidence,
    )


def _type_of(identity: str) -> SourceType | None:
    if _QA.match(identity):
        return SourceType.QA
    return SourceType.CHAT if _CHAT.match(identity) else None


def slow_answer_fields(answer: Answer, limit_ms: float, *, with_text: bool) -> dict[str, object] | None:
    """Return the trace id, stage times and plan of a slow answer, as JSON values for a log; None if it was not slow.

    Parameters
    ----------
    limit_ms
        Total milliseconds above which an answer is slow.
    with_text
        Whether quotations of the question in the plan are included.
    """
    if answer.latency_ms["total"] <= limit_ms:
        return None
    return {
        "trace_id": answer.trace_id,
        "total_ms": answer.latency_ms["total"],
        "limit_ms": limit_ms,
        "stages_ms": {stage: took for stage, took in answer.latency_ms.items() if stage != "total"},
        "degraded": list(answer.degraded),
        "plan": (answer.plan if with_text else answer.plan.without_quotes()).model_dump(mode="json"),
    }
