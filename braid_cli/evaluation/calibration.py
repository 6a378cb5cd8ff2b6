"""Measures the calibration of answers' confidence, on answerable and unanswerable questions.

Unanswerable questions are generated: each judged question with its relevant records removed from all hits, and a
question of one of the demo's archives; into every other of these, a name from the judged question is put.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import cycle, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from braid.retrieval import pipeline
from braid.retrieval.stages.confidence import FIRST, Features, features

from braid_cli.datasets.dataset import read_dataset
from braid_cli.evaluation.configurations import undisturbed
from braid_cli.evaluation.recording_stages import RecordingStages

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from braid.app import Application
    from braid.models import GraphHit, Hit, Query, Result
    from braid.retrieval.stages.stage_messages import GraphFound, GraphRequest, Searched, SearchStageRequest

    from braid_cli.datasets.dataset import JudgedQuery

_HIT = TypeVar("_HIT", "Hit", "GraphHit")
DEMO: Final = Path(__file__).resolve().parents[1] / "demo"
ARCHIVES: Final = ("saltmarrow", "pellworth")
BINS: Final = 10
_NAME: Final = re.compile(r"(?<=\w )[A-Z][\w'’-]*(?: [A-Z][\w'’-]*)*")
"""Capitalised words that are not the first of the question."""


@dataclass(frozen=True)
class Asked:
    """One question, the confidence of its answer, and whether it was answered."""

    kind: str
    """``as it is``, ``left out``, ``known name`` or ``other archive``; all but the first are unanswerable."""
    confidence: float
    answered: bool
    """Whether one of the first five results is a relevant record, or a fact whose answer is one."""
    features: Features

    @property
    def weight(self) -> float:
        """Weight by which answerable and unanswerable questions count equally: there are two of the latter for each."""
        return 1.0 if self.kind == "as it is" else 0.5


@dataclass(frozen=True)
class Bin:
    """Answers whose confidence is in one tenth of the scale: their weight, mean confidence, and answered share."""

    weight: float
    confidence: float
    answered: float


class Reliability:
    """Reliability of confidence: its discrimination (AUROC) and its calibration error."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self.asked = tuple(asked)

    @property
    def auroc(self) -> float | None:
        """Chance that an answered question has more confidence than an unanswered one; None if one kind is missing."""
        won = below = answered = 0.0
        for _, group in groupby(sorted(self.asked, key=lambda one: one.confidence), key=lambda one: one.confidence):
            tied = list(group)
            yes = sum(one.weight for one in tied if one.answered)
            no = sum(one.weight for one in tied) - yes
            won += yes * (below + no / 2.0)
            below += no
            answered += yes
        return won / (answered * below) if answered and below else None

    def bins(self) -> list[Bin]:
        """Return the tenths of the scale that have answers."""
        tenths: dict[int, list[Asked]] = {}
        for one in self.asked:
            tenths.setdefault(min(int(one.confidence * BINS), BINS - 1), []).append(one)
        return [_bin(tenths[place]) for place in sorted(tenths)]

    @property
    def calibration_error(self) -> float:
        """Expected calibration error: weighted mean over the bins of the distance of confidence from answered share."""
        bins = self.bins()
        distances = sum(each.weight * abs(each.confidence - each.answered) for each in bins)
        return distances / (sum(each.weight for each in bins) or 1.0)

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        auroc = self.auroc
        return {
            "auroc": None if auroc is None else round(auroc, 4),
            "calibration_error": round(self.calibration_error, 4),
            "bins": [[round(value, 4) for value in (one.confidence, one.answered, one.weight)] for one in self.bins()],
        }


def _bin(asked: Sequence[Asked]) -> Bin:
    weight = sum(one.weight for one in asked)
    return Bin(
        weight,
        sum(one.weight * one.confidence for one in asked) / weight,
        sum(one.weight for one in asked if one.answered) / weight,
    )


class WithoutRecords(RecordingStages):
    """Stages that remove some records from all hits, as if they were not stored."""

    def __init__(self, stages: Application, left_out: Collection[str]) -> None:
        super().__init__(stages)
        self._left_out = left_out

    def vector_search(self, request: SearchStageRequest) -> Searched:
        """Search the index; remove the records and renumber the ranks."""
        found = super().vector_search(request)
        hits = {"vector": self._kept(found.vector), "lexical": self._kept(found.lexical)}
        return found.model_copy(update=hits | {"frontier": self._others(found.frontier)})

    def graph_expand(self, request: GraphRequest) -> GraphFound:
        """Query the graph; remove the records and renumber the ranks."""
        found = super().graph_expand(request)
        links = tuple(link for link in found.links if link.entity_id not in self._left_out)
        hits = self._kept(found.hits)
        facts = tuple(group for group in found.facts if not any(hit.id in self._left_out for hit in group.hits))
        kept = {"links": links, "hits": hits, "facts": facts, "frontier": self._others(found.frontier)}
        return found.model_copy(update=kept)

    def _others(self, ids: Sequence[str]) -> tuple[str, ...]:
        return tuple(identity for identity in ids if identity not in self._left_out)

    def _kept(self, hits: Sequence[_HIT]) -> tuple[_HIT, ...]:
        kept = [hit for hit in hits if hit.id not in self._left_out]
        return tuple(hit.model_copy(update={"rank": rank}) for rank, hit in enumerate(kept, start=1))


def ask(name: str, judged: Sequence[JudgedQuery], application: Application) -> Iterator[Asked]:
    """Ask each judged question as it is, without its relevant records, and with a question of another archive instead.

    Parameters
    ----------
    name
        Name of the dataset; for an archive of the demo, the questions of the other one are used.
    """
    others = cycle(_other_questions(name))
    for number, question in enumerate(judged):
        relevant = frozenset(question.relevant)
        yield _asked("as it is", question.query, RecordingStages(application), relevant)
        yield _asked("left out", question.query, WithoutRecords(application, relevant), frozenset())
        other, known = next(others), _NAME.search(question.query.text)
        about = bool(number % 2 and known and _NAME.search(other))
        text = _NAME.sub(known.group(), other, count=1) if about and known else other
        query = question.query.model_copy(update={"text": text})
        yield _asked("known name" if about else "other archive", query, RecordingStages(application), frozenset())


def _asked(kind: str, query: Query, stages: RecordingStages, relevant: frozenset[str]) -> Asked:
    answer = undisturbed(lambda: pipeline.answer(query, stages))
    answered = any(not relevant.isdisjoint(_given(result)) for result in answer.results[:FIRST])
    searched = stages.fuse_request.searched if stages.fuse_request else None
    return Asked(kind, answer.confidence, answered, features(query, searched, answer.results))


def _given(result: Result) -> list[str]:
    return [result.id, *result.copies, *(fact.answer for fact in (result.facts.facts if result.facts else ()))]


def _other_questions(name: str) -> list[str]:
    archives = [archive for archive in ARCHIVES if archive != name.partition("/")[0]]
    judged = [read_dataset(DEMO / archive, "other", judged=True, questions="judged").judged for archive in archives]
    return [question.query.text for questions in judged for question in questions]
