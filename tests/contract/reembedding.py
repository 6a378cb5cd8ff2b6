"""What every pair of stores keeps while records are embedded again, however it is cut off and whoever writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pytest
from braid import reembedding
from braid.errors import InvalidRequest
from braid.ingestion.deleting import delete_records
from braid.ingestion.writing import WriteRequest, write
from braid.models import Embedding
from braid.ports.search_index import SearchRequest
from braid.reembedding import Phase, Status

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from tests.contract.query_load import Load, ask, recall
from tests.contract.shapes import record
from tests.second_profile import SECOND, SECOND_MODEL, TENANT, raise_schema
from tests.stages import DEMO, NOW

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import Record
    from braid.reembedding import ReembeddingJob

    from tests.stages import DemoStages

FIRST_MODEL = "all-minilm-l6-v2"
BOTH = {FIRST_MODEL, SECOND_MODEL}
DATASET = read_dataset(DEMO / TENANT, TENANT, judged=True)
JUDGED = [each for each in DATASET.judged if each.relevant]
KILLED = 100
"""Records of the jobs that are killed."""


class Open(Protocol):
    """Opens the stages over one store by its name, as a process of its own would."""

    def __call__(self, name: str = "store", *, page: int = 40) -> DemoStages: ...


class Killed(BaseException):
    """As if the process had died."""


def embedded(stages: DemoStages, records: Sequence[Record], *models: str) -> list[Record]:
    """Return records with vectors of these models, those of the active profile when none is named."""
    made = [stages.encoder_for(stages.profiles.model(name)) for name in models or (FIRST_MODEL,)]
    return [
        each.model_copy(
            update={
                "embeddings": tuple(
                    Embedding(space=one.space, model_id=one.model_id, vector=one.encode([each.text()])[0])
                    for one in made
                )
            }
        )
        for each in records
    ]


def filled(stages: DemoStages) -> DemoStages:
    """Write some records of the demo, without a graph, which embedding again does not touch."""
    stages.index.upsert(embedded(stages, DATASET.records[:KILLED]))
    return stages


def records(stages: DemoStages) -> dict[str, Record]:
    """Return every record with its vectors."""
    return {each.id: each for each in stages.index.scan(TENANT, with_vectors=True, limit=1000).records}


def models_of(stages: DemoStages) -> dict[str, set[str]]:
    """Return the models that each record has a vector of."""
    return {name: {one.model_id for one in each.embeddings} for name, each in records(stages).items()}


def written(stages: DemoStages, *items: Record) -> None:
    assert write(WriteRequest(tenant_id=TENANT, records=items), stages).errors == ()


def late(name: str, content: str) -> Record:
    return record(name, content, tenant_id=TENANT)


def nearest(stages: DemoStages, text: str, model: str) -> str:
    """Return the record whose vector of this model is nearest to a text's."""
    encoder = stages.encoder_for(stages.profiles.model(model))
    asked = Embedding(space=encoder.space, model_id=model, vector=encoder.encode([text])[0])
    hits = stages.index.search(SearchRequest(tenant_id=TENANT, embedding=asked, k=1, as_of=NOW))
    return hits.vector[0].id


def until(stages: DemoStages, phase: Phase) -> ReembeddingJob:
    """Begin a move and work on it until it is in this phase."""
    services = stages.reembedding
    job = reembedding.plan(services, profile=SECOND)
    while job.phase is not phase:
        if job.phase is Phase.VERIFY:
            job = reembedding.verify(services, job.name, job.run)
        else:
            job = reembedding.work_one_page(services, job.name, job.run)
    return job


def moved(stages: DemoStages) -> ReembeddingJob:
    return reembedding.run_to_end(stages.reembedding, reembedding.plan(stages.reembedding, profile=SECOND))


WORKER = """
import json, os, signal, sys
from braid import reembedding
from braid.settings import EngineKind, Settings
from tests.deployed_stages import DeployedStages
from tests.second_profile import TENANT
from tests.stages import DemoStages, WordEncoder

settings, profile, share, moment = Settings(**json.loads(sys.argv[1])), sys.argv[2] or None, sys.argv[3], sys.argv[4]
stages = (DeployedStages if settings.engine is EngineKind.AWS else DemoStages)(settings)
services = stages.reembedding
job = reembedding.plan(services, profile=profile)
print(job.written, job.total, flush=True)
left = [int(float(share) * job.total) - job.written]
encode, put = WordEncoder.encode, type(stages.jobs).put

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def counted(encoder, texts, *, instruction=""):
    left[0] -= len(texts)
    if left[0] < 0 and moment == "embedding":
        die()
    return encode(encoder, texts, instruction=instruction)

def noted(jobs, record):
    if left[0] <= 0 and moment == "written":
        die()  # what this would have noted is written already
    return put(jobs, record)

WordEncoder.encode, type(stages.jobs).put = counted, noted
reembedding.run_to_end(services, job)
"""


class Kill(NamedTuple):
    """When a worker dies."""

    share: float
    moment: str


KILLS = (Kill(0.1, "embedding"), Kill(0.5, "embedding"), Kill(0.9, "written"))


def killed(stages: DemoStages, profile: str | None, kill: Kill) -> tuple[int, int]:
    """Go on with the job in a process that is killed; return what was written before it, and the total."""
    settings = stages.settings.model_dump_json(exclude_unset=True)
    worker = subprocess.run(  # noqa: S603 - this interpreter and the text above
        [sys.executable, "-c", WORKER, settings, profile or "", str(kill.share), kill.moment],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert worker.returncode == -9, worker.stderr[-2000:]
    before, total = worker.stdout.split()
    return int(before), int(total)


class ReembeddingContract:
    """Subclass this and provide ``open_stages``; :attr:`judged` are the questions that are asked."""

    judged: Sequence[Any] = JUDGED

    @pytest.mark.parametrize("profile", [None, SECOND])
    def test_questions_are_answered_as_well_as_before_while_everything_is_embedded_again(
        self, open_stages: Open, profile: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stages = open_stages()
        ingest(read_dataset(DEMO / TENANT, TENANT), stages)
        known = records(stages)
        asked = self.judged
        before = sum(recall(ask(stages, each.query), each.relevant) for each in asked) / len(asked)
        raise_schema(stages, 4)  # the oldest records are moderately behind: found, and embedded again
        notes = [late(f"late-{number}", f"zyx{number} quartzite") for number in range(3)]
        worker = open_stages()
        with Load(stages, asked, monkeypatch) as load:
            services, wrote = worker.reembedding, iter(notes)
            job = reembedding.run_to_end(
                services,
                reembedding.plan(services, profile=profile),
                on_progress=lambda _: [written(stages, note) for note in [next(wrote, None)] if note],
            )
        assert load.errors == []
        assert (job.status, stages.active_profile()) == (Status.FINISHED, profile or "minilm")
        after = records(stages)
        assert set(after) == {*known, *(note.id for note in notes)}
        assert {answer.degraded for _, answer in load.answers} == {()}
        assert load.short() == []
        assert load.mixed(after) == []
        by_question: dict[int, list[float]] = {}
        for position, answer in load.answers:
            by_question.setdefault(position, []).append(recall(answer, asked[position].relevant))
        during = sum(sum(each) / len(each) for each in by_question.values()) / len(by_question)
        assert len(by_question) == len(asked)
        assert during >= before - 0.01
        assert sum(recall(ask(stages, each.query), each.relevant) for each in asked) / len(asked) >= before - 0.01
        if profile:
            assert set(map(frozenset, models_of(stages).values())) == {frozenset(BOTH)}
            assert [nearest(stages, note.text(), SECOND_MODEL) for note in notes] == [note.id for note in notes]

    @pytest.mark.parametrize("profile", [None, SECOND])
    def test_a_job_whose_process_is_killed_again_and_again_ends_as_an_uninterrupted_one(
        self, open_stages: Open, profile: str | None
    ) -> None:
        ended: list[Any] = []
        for name in ("whole", "killed"):
            stages = filled(open_stages(name, page=KILLED // 10))
            raise_schema(stages, 5)
            if name == "killed":
                done = [killed(stages, profile, kill) for kill in KILLS]
                assert done == [(0, KILLED), (KILLED // 10, KILLED), (KILLED // 2, KILLED)]
                assert stages.migration.serving().active != SECOND
            job = reembedding.plan(stages.reembedding, profile=profile)
            job = reembedding.run_to_end(stages.reembedding, job)
            assert job.status is Status.FINISHED
            ended.append((records(stages), stages.migration.serving(), job.phase))
        assert ended[0] == ended[1]

    # --- between a switch's or a roll-back's parts ---

    def _write_in_the_gap(self, open_stages: Open) -> None:
        """Add, change and remove records as two processes would: one that knows of the move and one that does not."""
        knows = open_stages()
        changed, removed = DATASET.records[0], DATASET.records[1]
        written(knows, late("gap", "zyx quartzite"), changed.model_copy(update={"content": "basalt", "supersedes": ()}))
        delete_records(TENANT, [removed.id], knows)
        knows.index.upsert(embedded(knows, [late("stale", "obsidian")], FIRST_MODEL))

    def _all_is_there(self, stages: DemoStages, *models: str) -> None:
        there = models_of(stages)
        expected = {each.id for each in DATASET.records[:KILLED]} - {DATASET.records[1].id} | {"gap", "stale"}
        assert set(there) == expected
        assert records(stages)[DATASET.records[0].id].content == "basalt"
        for model in models:
            assert [name for name, held in there.items() if model not in held] == []
            assert nearest(stages, "zyx quartzite", model) == "gap"
            assert nearest(stages, "obsidian", model) == "stale"

    def test_nothing_is_lost_when_a_move_dies_between_its_verification_and_its_switch(self, open_stages: Open) -> None:
        until(filled(open_stages()), Phase.SWITCH)
        self._write_in_the_gap(open_stages)
        stages = open_stages()
        assert moved(stages).status is Status.FINISHED
        assert stages.migration.serving().active == SECOND
        self._all_is_there(stages, *BOTH)

    def test_nothing_is_lost_when_a_move_dies_between_its_switch_and_noting_it(
        self, open_stages: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stages = filled(open_stages())
        job = until(stages, Phase.SWITCH)
        switch = stages.migration.switch

        def dying() -> None:
            switch()
            raise Killed

        monkeypatch.setattr(stages.migration, "switch", dying)
        with pytest.raises(Killed):
            reembedding.switch(stages.reembedding, job.name, job.run)
        self._write_in_the_gap(open_stages)
        stages = open_stages()
        assert moved(stages).status is Status.FINISHED
        self._all_is_there(stages, *BOTH)

    def test_nothing_is_lost_when_a_roll_back_dies_between_noting_that_it_begins_and_going_back(
        self, open_stages: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stages = filled(open_stages())
        moved(stages)
        with monkeypatch.context() as patch:
            patch.setattr(stages.migration, "rollback", dies)
            with pytest.raises(Killed):
                reembedding.rollback(stages.reembedding)
        between = open_stages()
        assert {model.id for model in between.models()} == BOTH
        self._write_in_the_gap(open_stages)
        # Whoever goes by either profile finds what was written.
        for model in BOTH:
            assert nearest(between, "zyx quartzite", model) == "gap"
        with pytest.raises(InvalidRequest):
            reembedding.plan(between.reembedding, profile=SECOND)
        with pytest.raises(InvalidRequest, match="a roll-back is under way"):
            reembedding.drop_previous(between.reembedding)
        after = open_stages()
        assert reembedding.rollback(after.reembedding).active == "minilm"
        assert after.migration.serving().next == SECOND
        self._all_is_there(after, FIRST_MODEL)
        assert [job.status for job in reembedding.status(after.reembedding)] == [Status.ROLLED_BACK]
        assert moved(after).status is Status.FINISHED
        self._all_is_there(after, *BOTH)

    def test_a_roll_back_that_dies_before_it_is_noted_is_finished_and_not_taken_for_giving_up(
        self, open_stages: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stages = filled(open_stages())
        moved(stages)
        back = stages.migration.rollback

        def dying() -> None:
            back()
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(stages.migration, "rollback", dying)
            with pytest.raises(Killed):
                reembedding.rollback(stages.reembedding)
        self._write_in_the_gap(open_stages)
        after = open_stages()
        serving = reembedding.rollback(after.reembedding)
        assert (serving.active, serving.next) == ("minilm", SECOND)
        self._all_is_there(after, FIRST_MODEL)
        assert moved(after).status is Status.FINISHED
        self._all_is_there(after, *BOTH)

    def test_a_move_that_dies_while_it_is_given_up_is_given_up_by_saying_so_again(
        self, open_stages: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stages = filled(open_stages())
        until(stages, Phase.RECONCILE)
        with monkeypatch.context() as patch:
            patch.setattr(stages.migration, "drop", dies)
            with pytest.raises(Killed):
                reembedding.rollback(stages.reembedding)
        self._write_in_the_gap(open_stages)
        after = open_stages()
        assert reembedding.rollback(after.reembedding).next is None
        self._all_is_there(after, FIRST_MODEL)
        assert moved(after).status is Status.FINISHED
        self._all_is_there(after, *BOTH)

    def test_a_move_whose_index_is_gone_begins_again(self, open_stages: Open) -> None:
        stages = filled(open_stages())
        until(stages, Phase.VERIFY)
        stages.migration.drop(stages.reembedding.spaces_of(SECOND))
        assert moved(stages).status is Status.FINISHED
        assert set(map(frozenset, models_of(stages).values())) == {frozenset(BOTH)}


def dies(*_: object) -> Any:
    raise Killed
