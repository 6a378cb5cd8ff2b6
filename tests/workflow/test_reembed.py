"""The deployed workflow of embedding again, in the interpreter of this machine, over the embedded engine."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from braid import reembedding
from braid.errors import TransientStoreError
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.reembedding import Status
from braid.reembedding.running_jobs import Progress, Step, StepName, run_step

from braid_cli.state_machine.interpreter import REEMBED_DEFINITION, Workflow, WorkflowFailed, definition
from tests.second_profile import SECOND, TENANT, demo_with_a_second_profile, raise_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.stages import DemoStages


class Steps:
    """The steps over a store, and what is to happen before each."""

    def __init__(self, stages: DemoStages) -> None:
        self.stages = stages
        self.taken: list[StepName] = []
        self.pages = 800
        self.meet: Callable[[Step], None] = lambda _: None

    def take(self, step: Step) -> Progress:
        """Take a step as the deployed function does."""
        self.taken.append(step.step)
        self.meet(step)
        services = self.stages.reembedding
        limits = dataclasses.replace(services.limits, pages=self.pages)
        return run_step(step, dataclasses.replace(services, limits=limits), step_s=0.0)


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Steps]:
    stages = demo_with_a_second_profile(tmp_path, reembed_page=50)
    yield Steps(stages)
    stages.store.close()


@pytest.fixture
def workflow(steps: Steps) -> Iterator[Workflow]:
    asl = definition(REEMBED_DEFINITION)
    for state in (*asl["States"].values(), asl["States"]["Pages"]["ItemProcessor"]["States"]["Page"]):
        for retry in state.get("Retry", ()):
            retry["MaxAttempts"] = 2
    with Workflow({"reembed": stage_handler("reembed", Step, steps.take)}, asl) as opened:
        yield opened


def test_the_schedule_embeds_what_is_outdated_batch_after_batch(steps: Steps, workflow: Workflow) -> None:
    raise_schema(steps.stages, 5)
    run = workflow.run({"scheduled": True})
    report = Progress.model_validate(run.output)
    assert (report.status, report.written) == (Status.FINISHED, report.total)
    assert report.total > 150
    assert steps.taken.count(StepName.PAGE) == -(-report.total // 50)
    assert steps.taken.count(StepName.LIST) > 2
    assert set(reembedding.outdated(steps.stages.reembedding, TENANT).values()) == {0}
    assert run.states()[-1] == "Report"


def test_the_workflow_leaves_what_a_run_in_this_process_leaves(
    steps: Steps, workflow: Workflow, tmp_path: Path
) -> None:
    here = demo_with_a_second_profile(tmp_path / "here", reembed_page=50)
    raise_schema(here, 5)
    reembedding.run_to_end(here.reembedding, reembedding.plan(here.reembedding))
    raise_schema(steps.stages, 5)
    workflow.run({})
    ends, expected = (
        stages.index.scan(TENANT, limit=1000, with_vectors=True).records for stages in (steps.stages, here)
    )
    assert ends == expected
    here.store.close()


def test_a_move_is_filled_verified_and_switched(steps: Steps, workflow: Workflow) -> None:
    run = workflow.run({"profile": SECOND})
    report = Progress.model_validate(run.output)
    assert report.status is Status.FINISHED
    assert report.check is not None
    visited = dict.fromkeys(run.states())
    assert list(visited) == ["Plan", "HowFar", "List", "Pages", "Verify", "Switch", "Report"]
    assert steps.stages.active_profile() == SECOND


def test_a_step_that_fails_is_taken_again_and_an_execution_that_ends_is_gone_on_with(
    steps: Steps, workflow: Workflow
) -> None:
    steps.pages = 1
    raise_schema(steps.stages, 5)
    failures = [1, 0, 1, 1, 1]

    def meet(step: Step) -> None:
        if step.step is StepName.PAGE and failures and failures.pop(0):
            raise TransientStoreError("the store is busy")

    steps.meet = meet
    with pytest.raises(WorkflowFailed, match="pages failed: 1, the first with TransientStoreError"):
        workflow.run({})
    (job,) = reembedding.status(steps.stages.reembedding)
    assert 0 < job.written < job.total
    report = Progress.model_validate(workflow.run({}).output)
    assert (report.status, report.written) == (Status.FINISHED, report.total)


def test_a_job_that_somebody_else_takes_over_ends_without_an_error(steps: Steps, workflow: Workflow) -> None:
    raise_schema(steps.stages, 5)

    def meet(step: Step) -> None:
        if step.step is StepName.PAGE:
            reembedding.plan(steps.stages.reembedding)

    steps.meet = meet
    run = workflow.run({})
    assert run.states()[-1] == "TakenOver"


def test_a_job_paused_by_hand_is_left_alone_by_the_schedule(steps: Steps, workflow: Workflow) -> None:
    raise_schema(steps.stages, 5)
    job = reembedding.plan(steps.stages.reembedding)
    reembedding.pause(steps.stages.reembedding, job.name)
    assert Progress.model_validate(workflow.run({"scheduled": True}).output).status is Status.PAUSED
    assert steps.taken == [StepName.PLAN]


def test_a_move_that_finds_less_ends_in_an_error_and_nothing_is_switched(steps: Steps, workflow: Workflow) -> None:
    def meet(step: Step) -> None:
        if step.step is StepName.VERIFY:
            # Vectors that say nothing, written by somebody into the next profile's space.
            for tenant in steps.stages.migration.tenants():
                page = steps.stages.index.scan(tenant, limit=1000, with_vectors=True)
                steps.stages.index.upsert(
                    [
                        record.model_copy(
                            update={
                                "embeddings": tuple(
                                    each
                                    if each.space == "all_minilm_l6_v2"
                                    else each.model_copy(update={"vector": b"\0\0\x80\x3f" + bytes(511 * 4)})
                                    for each in record.embeddings
                                )
                            }
                        )
                        for record in page.records
                    ]
                )

    steps.meet = meet
    with pytest.raises(WorkflowFailed, match="NotVerified"):
        workflow.run({"profile": SECOND})
    assert steps.stages.active_profile() == "minilm"
