"""Questions are answered while everything is embedded again; and a process that is killed loses nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from braid import pipeline, reembedding
from braid.reembedding import Status

from local.dataset import read_dataset
from tests.second_profile import SECOND, TENANT, demo_with_a_second_profile, raise_schema
from tests.stages import DEMO

if TYPE_CHECKING:
    from braid.engines.ports import SearchHits, SearchRequest
    from braid.models import Answer, Query, Record

    from tests.stages import DemoStages

JUDGED = [each for each in read_dataset(DEMO / TENANT, TENANT, judged=True).judged if each.relevant]
FIRST = 10


def recall(answer: Answer, relevant: Any) -> float:
    found = {result.id for result in answer.results[:FIRST]}
    return len(found & set(relevant)) / len(relevant)


def ask(stages: DemoStages, query: Query) -> Answer:
    return pipeline.answer(query.model_copy(update={"top_k": FIRST}), stages)


def mean_recall(stages: DemoStages) -> float:
    return sum(recall(ask(stages, each.query), each.relevant) for each in JUDGED) / len(JUDGED)


def records(stages: DemoStages) -> dict[str, Record]:
    return {record.id: record for record in stages.index.scan(TENANT, with_vectors=True, limit=1000).records}


@pytest.mark.parametrize("profile", [None, SECOND])
def test_questions_are_answered_as_well_as_before_while_everything_is_embedded_again(
    tmp_path: Path, profile: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = demo_with_a_second_profile(tmp_path, reembed_page=10)
    before = mean_recall(stages)
    number = stages.index.stats(TENANT).records
    raise_schema(stages, 4)  # the oldest records are moderately behind: found, and embedded again
    short: list[str] = []
    search = stages.index.search

    def watched(request: SearchRequest) -> SearchHits:
        hits = search(request)
        if request.embedding is not None and len(hits.vector) < min(request.k, 20):
            short.append(f"{request.embedding.space}: {len(hits.vector)} hits")
        return hits

    monkeypatch.setattr(stages.index, "search", watched)
    answers: list[tuple[int, Answer]] = []
    errors: list[Exception] = []
    done = threading.Event()

    def load(first: int) -> None:
        position = first
        while not done.is_set() or len(answers) < 2 * len(JUDGED):
            try:
                answers.append((position, ask(stages, JUDGED[position].query)))
            except Exception as error:  # noqa: BLE001 - whatever it is fails the test
                errors.append(error)
                return
            position = (position + 1) % len(JUDGED)

    threads = [threading.Thread(target=load, args=(start,)) for start in (0, len(JUDGED) // 2)]
    for thread in threads:
        thread.start()
    try:
        tools = stages.reembedding
        job = reembedding.run_to_end(tools, reembedding.plan(tools, profile=profile))
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert job.status is Status.FINISHED
    assert short == []
    assert {answer.degraded for _, answer in answers} == {()}
    models = {answer.plan.model_id for _, answer in answers}
    assert models <= {"all-minilm-l6-v2", "second-model"}
    by_question: dict[int, list[float]] = {}
    for position, answer in answers:
        by_question.setdefault(position, []).append(recall(answer, JUDGED[position].relevant))
    during = sum(sum(each) / len(each) for each in by_question.values()) / len(by_question)
    assert len(by_question) == len(JUDGED)
    assert during >= before - 0.01
    assert mean_recall(stages) >= before - 0.01
    assert len(records(stages)) == number
    stages.store.close()


WORKER = """
import sys
from pathlib import Path
from braid import reembedding
from tests.second_profile import demo_with_a_second_profile

stages = demo_with_a_second_profile(Path(sys.argv[1]), tenants=(), reembed_page=10)
tools = stages.reembedding
job = reembedding.plan(tools, profile=sys.argv[2] or None)
reembedding.run_to_end(tools, job, on_progress=lambda job: print(job.written, flush=True))
"""


@pytest.mark.parametrize("profile", [None, SECOND])
def test_a_process_that_is_killed_is_gone_on_with(tmp_path: Path, profile: str | None) -> None:
    whole = demo_with_a_second_profile(tmp_path / "whole")
    raise_schema(whole, 5)
    reembedding.run_to_end(whole.reembedding, reembedding.plan(whole.reembedding, profile=profile))
    demo_with_a_second_profile(tmp_path / "killed").store.close()
    stages = demo_with_a_second_profile(tmp_path / "killed", tenants=())
    raise_schema(stages, 5)
    with subprocess.Popen(  # noqa: S603 - this interpreter and the text above
        [sys.executable, "-c", WORKER, str(tmp_path / "killed"), profile or ""],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        assert worker.stdout is not None
        acknowledged = [int(worker.stdout.readline()) for _ in range(3)][-1]
        worker.kill()  # SIGKILL, in the middle of a later page
    job = reembedding.plan(stages.reembedding, profile=profile)
    assert job.written >= acknowledged > 0
    job = reembedding.run_to_end(stages.reembedding, job)
    assert job.status is Status.FINISHED
    assert records(stages) == records(whole)
    assert stages.active_profile() == whole.active_profile()
    for each in (stages, whole):
        each.store.close()
