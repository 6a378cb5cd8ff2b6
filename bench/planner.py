"""Measures when graph-first beats search-first within a graph constraint, and which of them the planner chooses."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from braid.app import Application
from braid.models import Direction, Embedding, GraphConstraint, Hints, Query, Relationship, Strategy
from braid.retrieval import pipeline
from braid.retrieval.stages.stage_messages import Embedded
from braid.settings import Settings

from bench.synthetic import MODEL, SPACE, TENANT, Synthetic

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.retrieval.stages.stage_messages import EmbedRequest

SIZE = 22_000
REACHES = (10, 20, 50, 100, 150, 200, 300, 400, 600, 800, 1_000, 1_500, 3_000, 6_000, 9_900)
ROOTS = 3
"""Entities of each reach; the planner knows their mean alone, and they differ by up to a fifth."""
REPEATS = 5
_SPREAD = (0.8, 1.0, 1.2)


@dataclass(frozen=True)
class Case:
    """One constraint, answered in both orders."""

    reach: int
    share: float
    graph_first_ms: float
    vector_first_ms: float
    planned: str
    right: bool


class Prepared(Application):
    """Real stages over embedded engines; the question's vector is given, as encoding it costs the same either way."""

    vector = b""

    def embed(self, request: EmbedRequest) -> Embedded:  # noqa: ARG002 - the stage's
        """Return the vector that was given."""
        return Embedded(embedding=Embedding(space=SPACE, model_id=MODEL, vector=self.vector), took_ms=0)


def measure(_folders: Sequence[Path] = ()) -> list[Case]:
    """Fill a store, and answer inside constraints of every reach in both orders."""
    corpus = Synthetic(SIZE)
    edges, roots = _edges(corpus)
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home), cache_result_s=0, cache_context_s=0, cache_graph_entries=0)
        application = Prepared(settings)
        application.index.upsert(list(corpus.records()))
        application.graph.upsert(corpus.vertices(), edges)
        ask = corpus.ask(1)
        application.vector = ask.vectors[0].tobytes()
        cases = [_case(application, ask.texts[0], root, kind, reach) for root, kind, reach in roots]
        application.close()
    return cases


def _edges(corpus: Synthetic) -> tuple[list[Relationship], list[tuple[str, str, int]]]:
    random = np.random.default_rng(7)
    edges: list[Relationship] = []
    roots: list[tuple[str, str, int]] = []
    for place, mean in enumerate(REACHES):
        for number, spread in enumerate(_SPREAD[:ROOTS]):
            reach, root = min(9_990, int(mean * spread)), place * ROOTS + number
            kind = f"REACH_{mean}"
            targets = random.choice(np.arange(100, corpus.of_tenant), size=reach, replace=False)
            edges.extend(
                Relationship(tenant_id=TENANT, source=f"r{root:07d}", type=kind, target=f"r{int(target):07d}")
                for target in targets
            )
            roots.append((f"r{root:07d}", kind, reach))
    return edges, roots


def _case(application: Prepared, text: str, root: str, kind: str, reach: int) -> Case:
    constraint = GraphConstraint(entity=root, types=(kind,), direction=Direction.OUT)
    query = Query(text=text, tenant_id=TENANT, graph_constraint=constraint)
    took = {
        strategy: _median_ms(application, query.model_copy(update={"hints": Hints(strategy=strategy)}))
        for strategy in (Strategy.GRAPH_FIRST, Strategy.VECTOR_FIRST)
    }
    planned = pipeline.answer(query, application).plan.strategy
    cheaper = min(took, key=lambda strategy: took[strategy])
    return Case(
        reach,
        reach / (SIZE * 0.9),
        round(took[Strategy.GRAPH_FIRST], 2),
        round(took[Strategy.VECTOR_FIRST], 2),
        planned.value,
        planned is cheaper,
    )


def _median_ms(application: Prepared, query: Query) -> float:
    pipeline.answer(query, application)
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        pipeline.answer(query, application)
        times.append((time.perf_counter() - began) * 1000.0)
    return statistics.median(times)


def as_markdown(cases: list[Case]) -> str:
    """Return the figures as a page."""
    right = sum(case.right for case in cases)
    lines = [
        "# Walking first or searching first",
        "",
        f"{SIZE:,} synthetic records, embedded engine, one constraint a row; medians of {REPEATS} in milliseconds.",
        "The planner knows the mean reach of a relationship type, not that of the entity.",
        f"It picked the cheaper order in {right} of {len(cases)} cases ({right / len(cases):.0%}).",
        "",
        "| reach | share | graph first | vector first | planned | cheaper |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {case.reach:,} | {case.share:.1%} | {case.graph_first_ms:.1f} | {case.vector_first_ms:.1f} "
        f"| {case.planned} | {'yes' if case.right else 'no'} |"
        for case in cases
    ]
    return "\n".join(lines) + "\n"
