"""Parts of an answer: results, citations, related entities, runners-up; its largest size, and its slow-query log."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from braid.models import Citation, Considered, Kind, RelatedEntity, Result, SourceType, Strategy
from braid.ranking.scoring import Drift
from braid.retrieval.stages.excerpts import EXCERPT_CHARACTERS, excerpt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import Answer, Record
    from braid.retrieval.stages.candidates import Ranked
    from braid.retrieval.stages.excerpts import Excerpt, Excerpts
    from braid.retrieval.stages.states import FuseRequest


RUNNERS_UP_FROM: Final = 5
"""Worst rank in a strand with which a candidate that was not returned is a runner-up."""
MAX_WORKFLOW_ANSWER_BYTES: Final = 240 * 1024
"""Largest answer as JSON. A workflow's task may return 256 KiB, Lambda's own fields included; more fails the execution
without a chance to catch it."""
METADATA_BYTES: Final = 2 * 1024
"""Largest metadata of a result, as JSON, in an answer that has to be shortened."""
_JSON_ESCAPE = 12
"""Most bytes of one character in JSON that is ASCII only."""
_ESCAPED_BYTES = 3
_LAST_WORD = 100
"""Most characters dropped so that no word is cut."""


def result_of(item: Ranked, excerpts: Excerpts, *, rank: int, fresh: float, final: float) -> Result:
    """Return a candidate as a result, with excerpt and citation.

    Parameters
    ----------
    fresh
        Its recency, in [0, 1].
    final
        Its score by the ranking profile.
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
    types = {hit.id: hit.entity_type for found in (request.linked, request.expanded) if found for hit in found.hits}
    for result in results:
        for path in result.paths:
            names = path.names or path.ids
            for identity, name in zip(path.ids, names, strict=True):
                if identity not in related and identity not in shown and result.kind is not Kind.MESSAGE:
                    related[identity] = RelatedEntity.unchecked(
                        id=identity, name=name, entity_type=types.get(identity, "Concept"), linked=False
                    )
    return tuple(related.values())


@dataclass(frozen=True)
class Placed:
    """A candidate that was not returned, with its final score."""

    item: Ranked
    final: float


def runners_up(left: Sequence[Placed], *, shown: int) -> tuple[Considered, ...]:
    """Return the runners-up, in order: candidates that some strand ranks at :data:`RUNNERS_UP_FROM` or better.

    Parameters
    ----------
    left
        The candidates that were not returned, best first.
    shown
        Number of results before them.
    """
    return tuple(
        Considered(
            id=placed.item.record.id,
            title=placed.item.record.name or cite(placed.item.record).title,
            rank=rank,
            fused_rank=placed.item.fused_rank,
            ranks=placed.item.candidate.ranks,
            final=placed.final,
        )
        for rank, placed in enumerate(left, start=shown + 1)
        if min(placed.item.candidate.ranks.values()) <= RUNNERS_UP_FROM
    )


def shortened(answer: Answer, most_bytes: int = MAX_WORKFLOW_ANSWER_BYTES) -> Answer:
    """Return the answer, with its longest texts cut to an equal size if it is too large as a whole.

    A text that is cut keeps its beginning or, if that does not contain it, the part that matched the question. If the
    answer is too large even without texts, its last results are dropped.

    Parameters
    ----------
    most_bytes
        Largest size of the answer as JSON with every character beyond ASCII escaped, as Lambda may write it.
    """
    # Escaping makes at most three bytes of each UTF-8 byte, which also covers the spaces after separators.
    if _ESCAPED_BYTES * len(answer.model_dump_json().encode()) <= most_bytes:
        return answer
    if (
        sum(len(result.content) for result in answer.results) <= most_bytes  # a character has at least one byte
        and _size(answer.model_dump(mode="json")) <= most_bytes
    ):
        return answer
    results = [_with_short_metadata(result) for result in answer.results]

    def room(count: int) -> int:
        bare = [result.model_copy(update={"content": ""}) for result in results[:count]]
        return most_bytes - _size(_with_results(answer, bare).model_dump(mode="json"))

    if room(len(results)) < 0:
        results = results[: bisect_right(range(1, len(results)), 0, key=lambda count: -room(count))]
    sizes = [_size(result.content[:most_bytes]) for result in results]
    longest = _level(sizes, room(len(results)))
    shown = [_with_short_text(*each, longest) for each in zip(results, sizes, strict=True)]
    return _with_results(answer, shown)


def _with_results(answer: Answer, results: Sequence[Result]) -> Answer:
    sources = tuple(dict.fromkeys(result.citation for result in results))
    return answer.model_copy(update={"results": tuple(results), "sources": sources})


def _with_short_metadata(result: Result) -> Result:
    if _size(result.metadata) <= METADATA_BYTES:
        return result
    return result.model_copy(update={"metadata": {}, "shortened": True})


def _with_short_text(result: Result, size: int, longest: int) -> Result:
    if size <= longest:
        return result
    shown, matched_from, marked = beginning(result.content, longest), result.matched_from, result.marked
    first, last = marked or (matched_from, matched_from + EXCERPT_CHARACTERS)
    if last > len(shown) and first:  # the beginning does not show the match
        # Begin with the matched part, if the sentence then fits too.
        first = matched_from if matched_from < first and last - matched_from < longest // _JSON_ESCAPE else first
        room, rest = longest - len(json.dumps("…")), result.content[first:]
        shown = "…" + (rest if _size(rest[:longest]) <= room else beginning(rest, room))
        shift = first - 1  # the ellipsis stands in front of what was at ``first``
        matched_from = max(0, matched_from - shift) if first else matched_from
        marked = marked and (marked[0] - shift, min(len(shown), marked[1] - shift))
    return result.model_copy(
        update={"content": shown, "matched_from": matched_from, "marked": marked, "shortened": True}
    )


def beginning(text: str, most_bytes: int) -> str:
    """Return as much of a text's beginning as fits in ``most_bytes`` of JSON, to the end of a word, and an ellipsis."""
    room = most_bytes - len(json.dumps("…"))
    end, unsure = 0, min(len(text), most_bytes)
    while unsure:  # binary search: ``end`` fits, and at most ``unsure`` more characters may
        half = (unsure + 1) // 2
        size = _size(text[end : end + half]) - len('""')
        if size <= room:
            end, room, unsure = end + half, room - size, unsure - half
        else:
            unsure = half - 1
    text = text[:end]
    space = text.rfind(" ", -_LAST_WORD)
    return f"{text[:space] if space > 0 else text}…"


def _level(sizes: Sequence[int], room: int) -> int:
    """Return the largest size to which texts of some sizes may be cut so that they fit ``room`` together."""
    for place, size in enumerate(sorted(sizes)):
        share = room // (len(sizes) - place)
        if size > share:
            return share
        room -= size
    return max(sizes, default=0)


def _size(value: object) -> int:
    return len(json.dumps(value))


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
        Whether what the plan quotes from the question is included.
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
