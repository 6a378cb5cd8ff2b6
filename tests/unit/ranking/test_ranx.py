"""Fusion by reciprocal ranks and the figures of an evaluation are those of an implementation that is not ours."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from typing import Any

import pytest
from braid.ranking.fusion import reciprocal_rank_fusion

from braid_cli.evaluation.metrics import score

METRICS = ("recall@2", "recall@5", "recall@10", "ndcg@10", "mrr")
ORACLE = """
import json, sys
from ranx import Qrels, Run, evaluate, fuse
to_fuse, to_measure = json.load(sys.stdin)
fused = [
    fuse(runs=[Run({"q": run}) for run in runs], method="rrf", params={"k": 60}, norm=None).to_dict()["q"]
    for runs in to_fuse
]
measured = [
    evaluate(Qrels(qrels), Run(run), metrics, make_comparable=True) for run, qrels, metrics in to_measure
]
print(json.dumps([[dict(one) for one in fused], measured]))
"""
Fusing = list[dict[str, float]]
Measuring = tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]


def _fusing(dice: random.Random) -> Fusing:
    """Return some rankings of some of the same documents."""
    pool = [f"d{number}" for number in range(dice.randint(5, 60))]
    chosen = [dice.sample(pool, dice.randint(1, len(pool))) for _ in range(dice.randint(2, 4))]
    return [{one: 1.0 - place / 100 for place, one in enumerate(run)} for run in chosen]


def _measuring(seed: int) -> Measuring:
    """Return a run and judgements with grades, ties in neither, and questions that the run lacks."""
    chance = random.Random(seed)  # noqa: S311 - test data
    documents = [f"d{number}" for number in range(30)]
    qrels = {f"q{n}": {d: chance.choice((1, 1, 2, 3)) for d in chance.sample(documents, 4)} for n in range(12)}
    run = {
        query: {d: 1.0 / rank for rank, d in enumerate(chance.sample(documents, chance.choice((3, 10))), start=1)}
        for query in list(qrels)[:-2]
    }
    return run, qrels


@pytest.fixture(scope="module")
def cases() -> tuple[list[Fusing], list[Measuring]]:
    dice = random.Random(7)  # noqa: S311 - not for secrets
    return [_fusing(dice) for _ in range(20)], [_measuring(seed) for seed in range(5)]


@pytest.fixture(scope="module")
def theirs(cases: tuple[list[Fusing], list[Measuring]]) -> Any:
    """Return what ranx says of all of them."""
    to_fuse, to_measure = cases
    # One process, as ranx takes ten seconds to begin; and as plain Python, as compiling it takes most of a minute.
    done = subprocess.run(  # noqa: S603 - our own interpreter and script
        [sys.executable, "-W", "ignore", "-c", ORACLE],
        input=json.dumps([to_fuse, [(run, qrels, METRICS) for run, qrels in to_measure]]),
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_reciprocal_rank_fusion_is_that_of_ranx(cases: tuple[list[Fusing], list[Measuring]], theirs: Any) -> None:
    for runs, oracle in zip(cases[0], theirs[0], strict=True):
        ranked = [(1.0, {one: rank for rank, one in enumerate(run, start=1)}) for run in runs]
        assert reciprocal_rank_fusion(ranked) == pytest.approx(oracle, rel=0, abs=1e-9)


def test_every_figure_is_that_of_ranx(cases: tuple[list[Fusing], list[Measuring]], theirs: Any) -> None:
    for (run, qrels), means in zip(cases[1], theirs[1], strict=True):
        assert score(run, qrels).means == pytest.approx(means)
