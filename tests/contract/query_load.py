"""Questions that are asked while something else goes on, and what may be said of the answers."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from braid.retrieval import pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest
    from braid.models import Answer, Query, Record
    from braid.ports.search_index import SearchHits, SearchRequest

    from tests.stages import DemoStages

FIRST = 10


class Load:
    """Asks questions on two threads until it is ended, and writes down every answer and every search by vectors."""

    def __init__(self, stages: DemoStages, asked: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers: list[tuple[int, Answer]] = []
        self.searches: list[tuple[SearchRequest, SearchHits]] = []
        self.errors: list[Exception] = []
        self._stages, self._asked = stages, asked
        self._done = threading.Event()
        search = stages.index.search

        def watched(request: SearchRequest) -> SearchHits:
            hits = search(request)
            self.searches.append((request, hits))
            return hits

        monkeypatch.setattr(stages.index, "search", watched)
        starts = (0, len(asked) // 2)
        self._threads = [threading.Thread(target=self._ask_from, args=(start,)) for start in starts]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()

    def _ask_from(self, start: int) -> None:
        position = start
        while not self._done.is_set() or len(self.answers) < 2 * len(self._asked):
            try:
                self.answers.append((position, ask(self._stages, self._asked[position].query)))
            except Exception as error:  # noqa: BLE001 - whatever it is fails the test
                self.errors.append(error)
                return
            position = (position + 1) % len(self._asked)

    def short(self) -> list[str]:
        """Return the searches by vectors that found fewer records than there are."""
        by_vector = [(request, hits) for request, hits in self.searches if request.embedding]
        return [
            f"{request.embedding and request.embedding.space}: {len(hits.vector)}"
            for request, hits in by_vector
            if len(hits.vector) < min(request.k, 20)
        ]

    def mixed(self, known: dict[str, Record]) -> list[str]:
        """Return the hits whose score is not the cosine of question and record by the question's own model."""
        wrong: list[str] = []
        vectors: dict[tuple[str, str], bytes] = {}
        for request, hits in self.searches:
            if request.embedding is None:
                continue
            asked = request.embedding
            encoder = self._stages.encoder_for(self._stages.profiles.model(asked.model_id))
            for hit in hits.vector:
                key = (asked.model_id, hit.id)
                if key not in vectors:
                    vectors[key] = encoder.encode([known[hit.id].text()])[0]
                expected = max(0.0, cosine(asked.vector, vectors[key]))
                if abs((hit.score) - expected) > 0.01:
                    wrong.append(f"{asked.model_id} {hit.id}: {hit.score}, not {expected}")
        return wrong


def cosine(first: bytes, second: bytes) -> float:
    """Return the cosine of two vectors of length 1."""
    return float(sum(a * b for a, b in zip(floats(first), floats(second), strict=True)))


def floats(vector: bytes) -> Sequence[float]:
    return memoryview(vector).cast("f")


def ask(stages: DemoStages, query: Query) -> Answer:
    return pipeline.answer(query.model_copy(update={"top_k": FIRST}), stages)


def recall(answer: Answer, relevant: Any) -> float:
    found = {result.id for result in answer.results[:FIRST]}
    return len(found & set(relevant)) / len(relevant)
