"""Embedding again over a real OpenSearch and Gremlin Server: asked, killed and gone on with as the embedded stores."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from braid import reembedding
from braid.engines.opensearch.migration import OpenSearchMigration
from braid.errors import InvalidRequest, StoreError, TakenOver, TransientStoreError
from braid.ingestion.deleting import delete_records
from braid.reembedding import Phase, Place, Status
from braid.reembedding.running_jobs import Step, run_step
from braid.settings import EngineKind, Refresh, Settings

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from tests.contract.query_load import Load, ask, recall
from tests.contract.reembedding import (
    DATASET,
    DEMO,
    JUDGED,
    KILLED,
    TENANT,
    Open,
    ReembeddingContract,
    filled,
    late,
    records,
    written,
)
from tests.deployed_stages import DeployedStages
from tests.second_profile import SECOND, shared_with_a_second_profile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.reembedding import Services

    from tests.stages import DemoStages


@pytest.fixture
def open_stages(opensearch_endpoint: str, gremlin_endpoint: str, tmp_path: Path) -> Iterator[Open]:
    shared = shared_with_a_second_profile(tmp_path / "shared")
    prefix = f"test-{uuid.uuid4().hex}"
    opened: list[DeployedStages] = []

    def open_one(name: str = "store", *, page: int = 40) -> DeployedStages:
        stages = DeployedStages(
            Settings(
                home=tmp_path / name,
                shared_dir=shared,
                reembed_page=page,
                engine=EngineKind.AWS,
                opensearch_endpoint=opensearch_endpoint,
                opensearch_index=f"{prefix}-{name}",
                opensearch_refresh=Refresh.NOW,
                neptune_endpoint=gremlin_endpoint,
                profile_cache_s=0.2,
            )
        )
        if not opened:
            stages.graph._connection.submit(lambda g: g.V().drop())
        opened.append(stages)
        return stages

    yield open_one
    opened[0].index._client.indices.delete(index=f"{prefix}-*", ignore_unavailable=True)
    for stages in opened:
        stages.close()


class TestDeployed(ReembeddingContract):
    judged = JUDGED[::6]

    @pytest.mark.parametrize("place", list(Place))
    def test_questions_are_answered_as_well_as_before_while_a_tenant_is_moved_to_another_index(
        self, open_stages: Open, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stages = open_stages()
        ingest(read_dataset(DEMO / TENANT, TENANT), stages)
        services = replace(stages.reembedding, sleep=lambda _seconds: None)
        monkeypatch.setattr("braid.engines.opensearch.migration.time.sleep", lambda _seconds: None)
        if place is Place.SHARED:
            reembedding.run_to_end(services, reembedding.plan(services, tenant=TENANT, move_tenant=Place.OWN))
            reembedding.drop_previous(services, TENANT)
        stages = open_stages()
        known = records(stages)
        before = [ask(stages, each.query) for each in self.judged]
        notes = [late(f"late-{number}", f"zyx{number} quartzite") for number in range(3)]
        worker, wrote = open_stages(), iter(notes)
        services = replace(worker.reembedding, sleep=lambda _seconds: None)
        with Load(stages, self.judged, monkeypatch) as load:
            job = reembedding.run_to_end(
                services,
                reembedding.plan(services, tenant=TENANT, move_tenant=place),
                on_progress=lambda _: [written(stages, note) for note in [next(wrote, None)] if note],
            )
        assert load.errors == []
        assert (job.name, job.status, job.set_aside) == (f"move:{TENANT}", Status.FINISHED, ())
        assert job.check is not None
        assert job.check.recall_after >= job.check.recall_before
        assert {answer.degraded for _, answer in load.answers} == {()}
        reembedding.drop_previous(services, TENANT)
        later = open_stages()
        after = records(later)
        assert {name: after[name] for name in known} == known, "with every vector"
        assert set(after) - set(known) == {note.id for note in notes}
        for each, answer in zip(self.judged, before, strict=True):
            assert recall(ask(later, each.query), each.relevant) >= recall(answer, each.relevant)

    def test_a_move_of_a_tenant_that_is_cut_off_goes_on_in_steps_of_the_workflow(
        self, open_stages: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stages = filled(open_stages(page=10))
        known = records(stages)
        monkeypatch.setattr("braid.engines.opensearch.migration.time.sleep", lambda _seconds: None)
        asked = {"step": "plan", "asked": {"tenant_id": TENANT, "index": "own"}}
        services = replace(stages.reembedding, sleep=lambda _seconds: None)
        planned = run_step(Step.model_validate(asked), services, step_s=60)
        job = {"job": planned.job, "run": planned.run}
        listed = run_step(Step.model_validate({"step": "list", **job}), services, step_s=60).listed
        assert len(listed.pages) == KILLED // 10
        for page in listed.pages[:4]:
            run_step(Step.model_validate({"step": "page", "page": page.model_dump(), **job}), services, step_s=60)
        other = open_stages()
        written(other, late("gap", "zyx quartzite"))
        delete_records(TENANT, [DATASET.records[1].id], other)
        services = replace(other.reembedding, sleep=lambda _seconds: None)
        progress = run_step(Step.model_validate(asked), services, step_s=60)
        with pytest.raises(TakenOver):
            run_step(Step.model_validate({"step": "list", **job}), services, step_s=60)
        job = {"job": progress.job, "run": progress.run}
        while progress.status is Status.RUNNING:
            if progress.phase in (Phase.VERIFY, Phase.SWITCH):
                progress = run_step(Step.model_validate({"step": progress.phase.value, **job}), services, step_s=60)
                continue
            done = progress.listed.position
            body = {"step": "list", "done": done and done.model_dump(mode="json"), **job}
            progress = run_step(Step.model_validate(body), services, step_s=60)
            for page in progress.listed.pages:
                run_step(Step.model_validate({"step": "page", "page": page.model_dump(), **job}), services, step_s=60)
        assert progress.status is Status.FINISHED
        reembedding.drop_previous(services, TENANT)
        assert set(records(open_stages())) == {*known, "gap"} - {DATASET.records[1].id}

    def test_a_move_back_that_is_abandoned_leaves_nothing_in_the_shared_index_however_it_is_cut_off(
        self, open_stages: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stages, services = apart(open_stages, monkeypatch)
        job = reembedding.plan(services, tenant=TENANT, move_tenant=Place.SHARED)
        assert reembedding.work_one_page(services, job.name, job.run).written
        with monkeypatch.context() as patch:
            patch.setattr(OpenSearchMigration, "_empty_shared", throttled)
            with pytest.raises(StoreError):
                reembedding.rollback(services, TENANT)
        assert in_shared(stages)
        assert reembedding.rollback(services, TENANT).mirrored is None
        assert not in_shared(stages)
        assert len(records(open_stages())) == KILLED

    def test_a_drop_that_a_roll_back_came_too_late_for_is_completed(
        self, open_stages: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("braid.engines.opensearch.migration.time.sleep", lambda _seconds: None)
        stages = filled(open_stages(page=10))
        services = replace(stages.reembedding, sleep=lambda _seconds: None)
        reembedding.run_to_end(services, reembedding.plan(services, tenant=TENANT, move_tenant=Place.OWN))

        def overtaken(own: OpenSearchMigration) -> None:
            patch.setattr(OpenSearchMigration, "_empty_shared", throttled)
            own.drop(())

        with monkeypatch.context() as patch:
            patch.setattr(OpenSearchMigration, "rollback", overtaken)
            with pytest.raises(StoreError):
                reembedding.rollback(services, TENANT)
        assert in_shared(stages)
        assert reembedding.drop_previous(services, TENANT).mirrored is None
        assert not in_shared(stages)
        assert len(records(open_stages())) == KILLED

    def test_the_index_that_a_move_of_all_tenants_makes_for_one_is_removed_and_rolled_back_with_all_others(
        self, open_stages: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _, services = apart(open_stages, monkeypatch)
        job = reembedding.plan(services, profile=SECOND)
        for end in (reembedding.drop_previous, reembedding.rollback):
            with pytest.raises(InvalidRequest, match="a move of all tenants is open"):
                end(services, TENANT)
        assert reembedding.run_to_end(services, job).status is Status.FINISHED
        for end in (reembedding.drop_previous, reembedding.rollback):
            with pytest.raises(InvalidRequest, match="minilm is kept"):
                end(services, TENANT)
        assert reembedding.rollback(services).active == "minilm"
        assert len(records(open_stages())) == KILLED

    def test_what_a_move_of_a_tenant_fills_is_not_dropped_as_the_previous_index(self, open_stages: Open) -> None:
        stages = filled(open_stages(page=10))
        services = replace(stages.reembedding, sleep=lambda _seconds: None)
        job = reembedding.plan(services, tenant=TENANT, move_tenant=Place.OWN)
        reembedding.work_one_page(services, job.name, job.run)
        with pytest.raises(InvalidRequest, match="no previous index"):
            reembedding.drop_previous(services, TENANT)
        with pytest.raises(InvalidRequest, match="move to the index own is open"):
            reembedding.plan(services, tenant=TENANT, move_tenant=Place.SHARED)
        services.moving(TENANT).migration.drop(())  # as by hand
        job = reembedding.plan(services, tenant=TENANT, move_tenant=Place.OWN)
        assert reembedding.run_to_end(services, job).status is Status.FINISHED
        assert len(records(open_stages())) == KILLED


def apart(open_stages: Open, monkeypatch: pytest.MonkeyPatch) -> tuple[DemoStages, Services]:
    """Return stages that opened after the tenant was moved to an index of its own, and services that never wait."""
    monkeypatch.setattr("braid.engines.opensearch.migration.time.sleep", lambda _seconds: None)
    services = replace(filled(open_stages(page=10)).reembedding, sleep=lambda _seconds: None)
    reembedding.run_to_end(services, reembedding.plan(services, tenant=TENANT, move_tenant=Place.OWN))
    reembedding.drop_previous(services, TENANT)
    stages = open_stages(page=10)
    return stages, replace(stages.reembedding, sleep=lambda _seconds: None)


def in_shared(stages: DemoStages) -> int:
    """Return how many documents the shared index has."""
    client, shared = stages.index._client, stages.settings.opensearch_index
    client.indices.refresh(index=shared)
    return int(client.count(index=shared)["count"])


def throttled(*_: object) -> None:
    raise TransientStoreError("throttled")
