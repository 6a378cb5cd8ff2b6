"""Diagnosis of the worst-answered questions: ranks of relevant records at each stage, and the results instead."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from braid.models import Source
from braid.retrieval import pipeline

from braid_cli.evaluation.configurations import DEFAULT
from braid_cli.evaluation.recording_stages import RecordingStages

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.app import Application
    from braid.models import Answer, Query
    from braid.retrieval.stages.stage_messages import FuseRequest, GraphFound

    from braid_cli.datasets.dataset import JudgedQuery
    from braid_cli.evaluation.run import Evaluation

MAX_RANK = 25
"""Ranks of the answer in which relevant records are looked up; as many candidates are retrieved as for ten results."""
FIRST_CHARACTERS = 160
INSTEAD = 5


@dataclass(frozen=True)
class RelevantRecord:
    """A relevant record with its ranks in the strands, after fusion and in the answer."""

    id: str
    title: str
    beginning: str
    """The first words of its text; empty if the index does not have it."""
    strands: dict[Source, int]
    """Rank in each strand that found it."""
    fused_rank: int | None
    """Rank after fusion; None if it is not among the first 25 of the answer."""
    final_rank: int | None

    @property
    def verdict(self) -> str:
        """Reason why it is not among the first results, in a few words."""
        if not self.beginning:
            return "not in the index"
        if not self.strands:
            return "no strand found it"
        if self.final_rank is None:
            return f"found, but not among the first {MAX_RANK}"
        if self.final_rank <= INSTEAD:
            return "answered"
        return "found, but others came first"


@dataclass(frozen=True)
class Failure:
    """A question whose first five results lack a relevant record."""

    question: JudgedQuery
    ndcg: float
    recall: float
    """Recall at 5."""
    relevant: tuple[RelevantRecord, ...]
    answer: Answer

    def as_json(self) -> dict[str, Any]:
        """Return the failure as JSON values."""
        return {
            "id": self.question.id,
            "query": self.question.query.text,
            "ndcg@10": round(self.ndcg, 4),
            "recall@5": round(self.recall, 4),
            "plan": {"strategy": self.answer.plan.strategy, "intent": self.answer.plan.intent},
            "relevant": [
                {
                    "id": one.id,
                    "title": one.title,
                    "ranks": {source.value: rank for source, rank in one.strands.items()},
                    "fused_rank": one.fused_rank,
                    "rank": one.final_rank,
                    "verdict": one.verdict,
                }
                for one in self.relevant
            ],
            "instead": [
                {
                    "id": result.id,
                    "title": result.title,
                    "score": round(result.final, 4),
                    "ranks": {source.value: rank for source, rank in result.ranks.items()},
                    "reasons": list(result.reasons),
                    "relevant": result.id in self.question.relevant,
                }
                for result in self.answer.results[:INSTEAD]
            ],
        }


def failures(evaluation: Evaluation, application: Application, *, at_most: int) -> list[Failure]:
    """Return the questions that the default answered worst: a relevant record is missing from the first five.

    Parameters
    ----------
    evaluation
        The scores by question.
    application
        Engines with the dataset; the questions are asked once more.
    at_most
        Maximum of failures to return, worst first.
    """
    figures = evaluation.row(DEFAULT).figures.per_query
    missed = [one for one in evaluation.questions if figures["recall@5"][one.id] < 1.0]
    missed.sort(key=lambda one: (figures["ndcg@10"][one.id], figures["recall@5"][one.id], one.id))
    return [
        diagnose(one, application, ndcg=figures["ndcg@10"][one.id], recall=figures["recall@5"][one.id])
        for one in missed[:at_most]
    ]


def diagnose(question: JudgedQuery, application: Application, *, ndcg: float, recall: float) -> Failure:
    """Ask a question again, and look up its relevant records in the output of each stage."""
    recording = RecordingStages(application)
    query: Query = question.query.model_copy(update={"top_k": MAX_RANK})
    answer = pipeline.answer(query, recording)
    strands = _ranks(recording.fuse_request)
    results = {one: result for result in answer.results for one in (result.id, *result.copies)}
    records = {record.id: record for record in application.index.get_many(query.tenant_id, sorted(question.relevant))}
    relevant = []
    for identity in sorted(question.relevant, key=lambda one: (-question.relevant[one], one)):
        record, result = records.get(identity), results.get(identity)
        relevant.append(
            RelevantRecord(
                id=identity,
                title=(record.name or record.source.title or identity) if record else identity,
                beginning=shorten(record.content, FIRST_CHARACTERS, placeholder=" …") if record else "",
                strands=strands.get(identity, {}),
                fused_rank=result.fused_rank if result else None,
                final_rank=result.rank if result else None,
            )
        )
    return Failure(question, ndcg, recall, tuple(relevant), answer)


def _ranks(found: FuseRequest | None) -> dict[str, dict[Source, int]]:
    """Return each record's best rank in each strand."""
    ranks: dict[str, dict[Source, int]] = {}

    def note(identity: str, source: Source, rank: int) -> None:
        of_one = ranks.setdefault(identity, {})
        of_one[source] = min(rank, of_one.get(source, rank))

    if found and found.searched:
        for source, text_hits in ((Source.VECTOR, found.searched.vector), (Source.LEXICAL, found.searched.lexical)):
            for hit in text_hits:
                note(hit.id, source, hit.rank)
    graph_hits: Sequence[GraphFound | None] = (found.linked, found.expanded) if found else ()
    for piece in graph_hits:
        for walked in piece.hits if piece else ():
            note(walked.id, walked.source, walked.rank)
    return ranks
