"""Embedding again: what is outdated, a move to another profile, and what happens when either is cut off."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from braid import reembedding
from braid.errors import ConfigurationError, InvalidRequest, ModelError, QueueFull, TakenOver
from braid.ingestion.writer_slots import writing_in_bulk
from braid.ingestion.writing import WriteRequest, write
from braid.models import Query
from braid.reembedding import JobKind, Phase, RecallQuestion, ReembeddingJob, RunBudget, Status
from braid.reembedding.job_pages import MAX_SET_ASIDE, Done
from braid.reembedding.job_services import READ_AT_ONCE
from braid.reembedding.jobs import SetAside
from braid.reembedding.queue_from_answers import Reason, ReembedMessage
from braid.reembedding.running_jobs import Step, StepName, run_step
from braid.retrieval import pipeline

from tests.contract import shapes
from tests.second_profile import SECOND, SECOND_MODEL, TENANT, demo_with_a_second_profile, raise_schema
from tests.stages import WordEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from braid.models import Record
    from braid.models.embedding_models import ModelConfig
    from braid.reembedding import Services
    from braid.reembedding.job_pages import IdRange, Listed, Position

    from tests.stages import DemoStages

MODEL = "all-minilm-l6-v2"
FIRST_SPACE, SECOND_SPACE = "all_minilm_l6_v2", "second_model"


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[DemoStages]:
    made = demo_with_a_second_profile(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def services(stages: DemoStages) -> Services:
    return stages.reembedding


def records(stages: DemoStages) -> dict[str, Record]:
    """Return every record with its vectors."""
    found: dict[str, Record] = {}
    after: str | None = None
    while True:
        page = stages.index.scan(TENANT, after=after, with_vectors=True)
        found |= {record.id: record for record in page.records}
        if page.cursor is None:
            return found
        after = page.cursor


def spaces(stages: DemoStages) -> set[frozenset[str]]:
    """Return in which spaces records have vectors, each combination once."""
    return {frozenset(each.space for each in record.embeddings) for record in records(stages).values()}


def finish(services: Services, **asked: Any) -> ReembeddingJob:
    return reembedding.run_to_end(services, reembedding.plan(services, **asked))


class Killed(BaseException):
    """As if the process had died."""


def killing(services: Services, after_texts: int) -> Services:
    """Return the same services, but the process dies once so many texts were embedded."""
    left = [after_texts]

    class Dying:
        def __init__(self, encoder: WordEncoder) -> None:
            self._encoder = encoder
            self.model_id, self.space, self.dimension = encoder.model_id, encoder.space, encoder.dimension
            self.max_tokens, self.token_ends = encoder.max_tokens, encoder.token_ends

        def encode(self, texts: list[str], *, instruction: str = "") -> list[bytes]:
            left[0] -= len(texts)
            if left[0] < 0:
                raise Killed
            return self._encoder.encode(texts, instruction=instruction)

    def encoder_for(model: ModelConfig) -> Any:
        return Dying(services.encoder_for(model))  # type: ignore[arg-type]

    return dataclasses.replace(services, encoder_for=encoder_for)


def test_nothing_is_outdated_after_an_ingest(services: Services) -> None:
    assert set(reembedding.outdated(services, TENANT).values()) == {0}
    job = finish(services)
    assert (job.status, job.written, job.total) == (Status.FINISHED, 0, 0)


def test_records_that_are_too_far_behind_are_embedded_and_raised(stages: DemoStages, services: Services) -> None:
    before = records(stages)
    raise_schema(stages, 5)
    behind = [record for record in before.values() if record.schema_version <= 3]
    assert len(behind) == len(before) > 150
    assert reembedding.outdated(services, TENANT)["schema"] == len(behind)
    generation = stages.cache.generation(TENANT)
    job = finish(services)
    assert (job.status, job.written, job.total, job.lost) == (Status.FINISHED, len(behind), len(behind), 0)
    after = records(stages)
    assert {record.schema_version for record in after.values()} == {5}
    assert {name: record.embeddings for name, record in after.items()} == {
        name: record.embeddings for name, record in before.items()
    }
    assert (stages.cache.generation(TENANT) or 0) > (generation or 0)


def test_a_record_one_version_behind_is_left_and_two_behind_is_not(stages: DemoStages, services: Services) -> None:
    raise_schema(stages, 3)
    counts = dict.fromkeys((1, 2), 0)
    for record in records(stages).values():
        counts[record.schema_version] += 1
    assert finish(services).written == counts[1]
    assert {record.schema_version for record in records(stages).values()} == ({2, 3} if counts[2] else {3})


def test_a_record_without_a_vector_of_the_model_gets_one(stages: DemoStages, services: Services) -> None:
    some = list(records(stages).values())[:30]
    stages.index.upsert([record.model_copy(update={"embeddings": ()}) for record in some])
    assert reembedding.outdated(services, TENANT)[MODEL] == 30
    assert finish(services).written == 30
    assert reembedding.outdated(services, TENANT)[MODEL] == 0


def test_a_transformation_changes_the_text_that_is_embedded(stages: DemoStages, services: Services) -> None:
    raise_schema(stages, 4)

    def renamed(record: Record, current: int) -> Record:
        return record.model_copy(update={"schema_version": current, "content": f"Quillfeather {record.content}"})

    finish(dataclasses.replace(services, transform=renamed))
    record = next(iter(records(stages).values()))
    assert record.content.startswith("Quillfeather")
    encoder = stages.encoder_for(stages.profiles.model(MODEL))
    assert record.embeddings[0].vector == encoder.encode([record.text()])[0]


def test_a_record_written_while_it_is_embedded_keeps_what_was_written(stages: DemoStages, services: Services) -> None:
    raise_schema(stages, 4)
    (victim, *_) = records(stages).values()
    newer = victim.model_copy(update={"content": "written meanwhile", "schema_version": 4})

    def encoder_for(model: ModelConfig) -> WordEncoder:
        stages.index.upsert([newer])
        return stages.encoder_for(model)

    job = finish(dataclasses.replace(services, encoder_for=encoder_for))
    assert (job.lost, job.status) == (1, Status.FINISHED)
    assert records(stages)[victim.id].content == "written meanwhile"


def test_a_message_of_the_queue_is_worked_off_once_and_a_bad_one_stays(stages: DemoStages, services: Services) -> None:
    raise_schema(stages, 5)
    ids = tuple(sorted(records(stages)))[:12]
    asked = ReembedMessage(tenant_id=TENANT, record_ids=(*ids, "gone"), reason=Reason.SCHEMA, target_schema_version=5)
    bad = asked.message().model_copy(update={"body": "{}", "deduplication_id": "bad"})
    stages.queue.send([bad, asked.message()])
    with pytest.raises(InvalidRequest, match="record_ids"):
        reembedding.drain(services, stages.queue)
    assert stages.queue.depth() == 1
    assert {name for name, record in records(stages).items() if record.schema_version == 5} == set(ids)
    assert reembedding.reembed(services, asked).written == 0


def test_a_run_ends_with_its_budget_and_the_next_goes_on(stages: DemoStages, services: Services) -> None:
    raise_schema(stages, 5)
    job = reembedding.plan(services)
    assert (job.kind, job.phase, job.eta_s) == (JobKind.REFRESH, Phase.FILL, None)
    for texts, expected in ((1, 20), (30, 60), (None, job.total)):
        job = reembedding.run_to_end(services, job, budget=RunBudget(texts=texts))
        assert job.written == expected
        if job.open:
            assert job.rate is not None
            assert job.eta_s == pytest.approx((job.total - job.written) / job.rate)
    assert (job.status, job.phase) == (Status.FINISHED, Phase.DONE)


def test_a_job_of_more_tenants_than_can_be_counted_in_a_minute_begins_all_the_same(
    stages: DemoStages, services: Services
) -> None:
    raise_schema(stages, 5)
    whole = reembedding.plan(services).total
    minutes = iter(range(1_000))
    slow = dataclasses.replace(services, seconds=lambda: 61.0 * next(minutes))
    finish(services)
    raise_schema(stages, 9)
    job = reembedding.plan(slow)
    assert (job.status, job.total) == (Status.RUNNING, 0)
    assert reembedding.run_to_end(services, job).written == whole > 0


def test_whoever_takes_a_job_over_goes_on_and_the_other_one_stops(stages: DemoStages, services: Services) -> None:
    raise_schema(stages, 5)
    first = reembedding.plan(services)
    reembedding.work_one_page(services, first.name, first.run)
    second = reembedding.plan(services)
    assert (second.run, second.written) == (first.run + 1, 20)
    with pytest.raises(TakenOver):
        reembedding.work_one_page(services, first.name, first.run)
    assert reembedding.run_to_end(services, second).status is Status.FINISHED


def test_a_paused_job_rests_until_it_is_resumed_by_hand(stages: DemoStages, services: Services) -> None:
    raise_schema(stages, 5)
    job = reembedding.plan(services)
    job = reembedding.work_one_page(services, job.name, job.run)
    reembedding.pause(services, job.name)
    assert reembedding.work_one_page(services, job.name, job.run).status is Status.PAUSED
    assert reembedding.plan(services, resume_paused=False).status is Status.PAUSED
    assert [each.status for each in reembedding.status(services)] == [Status.PAUSED]
    assert finish(services).status is Status.FINISHED
    with pytest.raises(InvalidRequest, match="finished, not running"):
        reembedding.pause(services, job.name)


def test_a_throttled_job_embeds_no_more_than_its_rate(stages: DemoStages, services: Services) -> None:
    raise_schema(stages, 5)
    slept: list[float] = []
    limits = dataclasses.replace(services.limits, texts_per_s=10.0)
    slow = dataclasses.replace(services, limits=limits, sleep=slept.append, seconds=lambda: 0.0)
    job = finish(slow)
    assert sum(slept) == pytest.approx(job.written / 10, abs=2.0)


def listed(services: Services, job: ReembeddingJob, done: Position | None = None) -> Listed:
    """Return the pages that the workflow would embed next."""
    step = Step(step=StepName.LIST, job=job.name, run=job.run, done=done)
    return run_step(step, services, step_s=60).listed


def embed(services: Services, job: ReembeddingJob, page: IdRange) -> None:
    run_step(Step(step=StepName.PAGE, job=job.name, run=job.run, page=page), services, step_s=60)


def test_pages_are_embedded_beside_each_other_and_those_that_are_left_are_listed_again(
    stages: DemoStages, services: Services
) -> None:
    raise_schema(stages, 5)
    job = reembedding.plan(services)
    first, *others = listed(services, job).pages
    assert len(others) == -(-job.total // 20) - 1 > 5
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda page: embed(services, job, page), others))
    again = reembedding.plan(services)
    with pytest.raises(TakenOver):
        embed(services, job, first)
    left = listed(services, again)
    assert [page.until for page in left.pages] == [first.until]
    embed(services, again, left.pages[0])
    assert listed(services, again, left.position).pages == ()
    (ended,) = reembedding.status(services)
    assert (ended.status, ended.written) == (Status.FINISHED, job.total)
    assert {record.schema_version for record in records(stages).values()} == {5}


def test_a_page_that_was_listed_for_a_model_which_is_no_longer_active_is_left_out(
    stages: DemoStages, services: Services
) -> None:
    raise_schema(stages, 5)
    job = reembedding.plan(services)
    page = listed(services, job).pages[0].model_copy(update={"scan": "a-model-of-before"})
    embed(services, job, page)
    assert reembedding.status(services)[0].seen == 0


def test_a_list_that_is_asked_for_twice_ends_its_phase_once(services: Services) -> None:
    job = reembedding.plan(services, profile=SECOND)
    pages = listed(services, job)
    for page in pages.pages:
        embed(services, job, page)
    for _ in range(2):
        assert listed(services, job, pages.position).pages
        assert reembedding.status(services)[0].phase is Phase.RECONCILE


def test_a_page_waits_where_as_many_write_in_bulk_as_may(stages: DemoStages) -> None:
    raise_schema(stages, 5)
    stages.settings = stages.settings.model_copy(update={"ingest_writers": 1})
    services = stages.reembedding
    job = reembedding.plan(services)
    pages = listed(services, job)
    assert pages.writers == 1
    with services.writer(None), pytest.raises(QueueFull):
        embed(services, job, pages.pages[0])
    embed(services, job, pages.pages[0])
    assert reembedding.status(services)[0].written == 20


def test_pages_and_batches_of_one_tenant_leave_places_to_the_others(stages: DemoStages) -> None:
    raise_schema(stages, 5)
    stages.settings = stages.settings.model_copy(update={"ingest_writers": 3})
    services = stages.reembedding
    job = reembedding.plan(services, tenant=TENANT)
    pages = listed(services, job)
    assert pages.writers == 2
    with services.writer(TENANT), writing_in_bulk(stages.cache, 3, tenant_id=TENANT):
        with pytest.raises(QueueFull):
            embed(services, job, pages.pages[0])
        with services.writer("all-tenants"), pytest.raises(QueueFull), services.writer(None):
            pass
    embed(services, job, pages.pages[0])


def failing_for(services: Services, wrong: Callable[[str], bool]) -> Services:
    """Return the same services, whose models cannot embed some texts."""

    class Failing:
        def __init__(self, encoder: WordEncoder) -> None:
            self._encoder = encoder
            self.model_id, self.space, self.dimension = encoder.model_id, encoder.space, encoder.dimension
            self.max_tokens, self.token_ends = encoder.max_tokens, encoder.token_ends

        def encode(self, texts: list[str], *, instruction: str = "") -> list[bytes]:
            if any(wrong(text) for text in texts):
                raise ModelError("a token that the model does not have")
            return self._encoder.encode(texts, instruction=instruction)

    def encoder_for(model: ModelConfig) -> Any:
        return Failing(services.encoder_for(model))  # type: ignore[arg-type]

    return dataclasses.replace(services, encoder_for=encoder_for)


def test_a_record_that_cannot_be_embedded_is_set_aside_and_the_others_go_on(
    stages: DemoStages, services: Services
) -> None:
    raise_schema(stages, 5)
    poison = records(stages)[sorted(records(stages))[30]]
    wrong = failing_for(services, lambda text: text == poison.text())
    job = finish(wrong)
    assert (job.status, job.written) == (Status.FINISHED, job.total - len(job.set_aside))
    assert poison.id in {each.record_id for each in job.set_aside}
    assert {each.error for each in job.set_aside} == {"ModelError: a token that the model does not have"}
    again = finish(services)
    assert (again.written, again.set_aside) == (len(job.set_aside), ())


def test_pages_beside_each_other_do_not_make_a_job_too_long_to_be_stored() -> None:
    job = ReembeddingJob(name="refresh", kind=JobKind.REFRESH, started_at=shapes.AS_OF, updated_at=shapes.AS_OF)
    for page in range(24):
        aside = [SetAside(tenant=TENANT, record_id=f"{page}-{at}" + "x" * 240, error="e" * 300) for at in range(100)]
        job = job.altered(**Done(set_aside=tuple(aside)).added_to(job))
    assert len(job.set_aside) == MAX_SET_ASIDE
    assert len(job.model_dump_json()) < 400_000  # what an item of DynamoDB may have


def test_a_move_is_not_switched_while_a_record_is_set_aside_and_says_which(
    stages: DemoStages, services: Services
) -> None:
    poison = next(iter(records(stages).values()))
    job = finish(failing_for(services, lambda text: text == poison.text()), profile=SECOND)
    assert (job.status, job.phase) == (Status.FAILED, Phase.VERIFY)
    assert f"{TENANT}/{poison.id}: ModelError" in job.message
    assert stages.active_profile() == "minilm"
    assert finish(services, profile=SECOND).status is Status.FINISHED


def test_no_step_reads_more_than_a_few_texts_at_once(
    stages: DemoStages, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text of 1 MB takes up to 8 MB while it is read, and a page of them would end the job of all tenants."""
    read: list[int] = []

    def noting(name: str, most: Callable[..., int]) -> None:
        method = getattr(type(stages.index), name)

        def noted(*given: Any, **named: Any) -> Any:
            read.append(most(*given, **named))
            return method(*given, **named)

        monkeypatch.setattr(type(stages.index), name, noted)

    noting("get_many", lambda _self, _tenant, ids, **_: len(ids))
    noting("scan", lambda _self, _tenant, *, limit=500, **_: limit)
    monkeypatch.setattr(
        type(services.migration), "reconcile", lambda _self, _tenant, ids: read.append(len(ids)) or 0, raising=False
    )
    services = dataclasses.replace(services, limits=dataclasses.replace(services.limits, page=100))
    raise_schema(stages, 5)
    read.clear()
    assert finish(services).written > 2 * READ_AT_ONCE
    assert max(read) == READ_AT_ONCE
    read.clear()
    assert finish(services, profile=SECOND).status is Status.FINISHED
    assert max(read) == READ_AT_ONCE


def test_a_model_that_fails_for_every_record_ends_the_run(stages: DemoStages, services: Services) -> None:
    raise_schema(stages, 5)
    with pytest.raises(ModelError):
        finish(failing_for(services, lambda _: True))
    (job,) = reembedding.status(services)
    assert (job.written, len(job.set_aside)) == (0, 100)
    assert finish(services).written == job.total


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("profile", [None, SECOND])
def test_a_killed_job_resumes_and_ends_as_if_it_had_not_been(tmp_path: Path, share: float, profile: str | None) -> None:
    ended: list[dict[str, Record]] = []
    for kill in (False, True):
        stages = demo_with_a_second_profile(tmp_path / str(kill))
        raise_schema(stages, 5)
        services = stages.reembedding
        job = reembedding.plan(services, profile=profile)
        if kill:
            with pytest.raises(Killed):
                reembedding.run_to_end(killing(services, int(share * job.total)), job)
            before = reembedding.status(services)[0]
            assert share - 0.1 <= before.written / job.total <= share
            job = reembedding.plan(services, profile=profile)
            assert job.written == before.written
        job = reembedding.run_to_end(services, job)
        assert (job.status, job.written) == (Status.FINISHED, job.total)
        assert stages.active_profile() == (profile or "minilm")
        ended.append(records(stages))
        stages.store.close()
    assert ended[0] == ended[1]


def test_a_move_ends_with_every_record_in_the_new_space_and_questions_embedded_by_the_new_model(
    stages: DemoStages, services: Services
) -> None:
    seen: list[ReembeddingJob] = []
    job = reembedding.run_to_end(services, reembedding.plan(services, profile=SECOND), on_progress=seen.append)
    assert (job.status, job.phase, job.kind) == (Status.FINISHED, Phase.DONE, JobKind.MOVE)
    assert {phase for phase in Phase if phase in {each.phase for each in seen}} == set(Phase)
    assert job.check is not None
    assert job.check.asked == 100
    assert job.check.recall_after >= job.check.recall_before - 0.01
    assert stages.active_profile() == SECOND
    assert {model.id for model in stages.models()} == {MODEL, SECOND_MODEL}
    assert all(
        {each.space for each in record.embeddings} == {FIRST_SPACE, SECOND_SPACE} for record in records(stages).values()
    )
    answer = pipeline.answer(Query(text="What does Wharfinger do?", tenant_id=TENANT), stages)
    assert answer.plan.model_id == SECOND_MODEL
    assert answer.degraded == ()


def test_a_roll_back_restores_the_profile_and_a_second_one_gives_the_move_up(
    stages: DemoStages, services: Services
) -> None:
    finish(services, profile=SECOND)
    assert reembedding.rollback(services).active == "minilm"
    assert stages.active_profile() == "minilm"
    assert reembedding.status(services)[0].status is Status.ROLLED_BACK
    assert finish(services, profile=SECOND).status is Status.FINISHED
    assert stages.active_profile() == SECOND
    reembedding.rollback(services)
    assert reembedding.rollback(services).mirrored is None
    assert spaces(stages) == {frozenset({FIRST_SPACE})}
    with pytest.raises(InvalidRequest, match="no previous index"):
        reembedding.rollback(services)


def test_dropping_the_previous_profile_removes_its_vectors(stages: DemoStages, services: Services) -> None:
    with pytest.raises(InvalidRequest, match="no previous index"):
        reembedding.drop_previous(services)
    finish(services, profile=SECOND)
    assert reembedding.drop_previous(services).active == SECOND
    assert spaces(stages) == {frozenset({SECOND_SPACE})}
    assert {model.id for model in stages.models()} == {SECOND_MODEL}


def test_a_move_whose_recall_falls_is_not_switched_and_can_be_tried_again(
    stages: DemoStages, services: Services
) -> None:
    class Blind:
        model_id, space, dimension, max_tokens = SECOND_MODEL, SECOND_SPACE, 512, 512

        def encode(self, texts: list[str], *, instruction: str = "") -> list[bytes]:
            del instruction
            return stages.encoder_for(stages.profiles.model(SECOND_MODEL)).encode(["the same"] * len(texts))

        def token_ends(self, text: str) -> list[int]:
            return [len(text)]

    def encoder_for(model: ModelConfig) -> Any:
        return Blind() if model.id == SECOND_MODEL else stages.encoder_for(model)

    job = finish(dataclasses.replace(services, encoder_for=encoder_for), profile=SECOND)
    assert (job.status, job.phase) == (Status.FAILED, Phase.VERIFY)
    assert "recall of 100 questions fell" in job.message
    assert stages.active_profile() == "minilm"
    again = reembedding.plan(services, profile=SECOND)
    assert reembedding.run_to_end(services, again, tolerance=1.0).status is Status.FINISHED


def test_a_move_is_verified_by_judged_questions_where_there_are_any(services: Services) -> None:
    questions = [RecallQuestion(tenant_id=TENANT, text="Wharfinger", relevant=("no such record",))]
    job = reembedding.run_to_end(services, reembedding.plan(services, profile=SECOND), questions=questions)
    assert job.check is not None
    assert (job.check.judged, job.check.asked, job.check.recall_before) == (True, 1, 0.0)


def test_what_is_written_without_the_new_vectors_is_found_before_the_switch(
    stages: DemoStages, services: Services
) -> None:
    job = reembedding.plan(services, profile=SECOND)
    late = next(iter(records(stages).values())).model_copy(update={"content": "late"})
    while job.phase is not Phase.VERIFY:
        job = reembedding.work_one_page(services, job.name, job.run)
    stages.index.upsert([late])
    job = reembedding.verify(services, job.name, job.run)
    assert (job.phase, job.rounds) == (Phase.FILL, 1)
    assert reembedding.run_to_end(services, job).status is Status.FINISHED
    assert {each.space for each in records(stages)[late.id].embeddings} == {FIRST_SPACE, SECOND_SPACE}


class Busy:
    """A migration of two indexes, of whose records a tenant is always writing some: each is in both a little later."""

    grace_s = 5.0

    def __init__(self, migration: Any) -> None:
        self._migration = migration
        self.looked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._migration, name)

    def count_pending(self, tenants: Sequence[str], spaces: Sequence[str]) -> int:
        return self._migration.count_pending(tenants, spaces) + len(tenants)

    def differing(self, tenant: str, spaces: Sequence[str], ids: Sequence[str] | None = None) -> list[str]:
        self.looked += 1
        return self._migration.differing(tenant, spaces, ids) + ([] if ids else [f"written just now {self.looked}"])


def test_a_tenant_that_goes_on_writing_keeps_no_move_from_being_verified(services: Services) -> None:
    waited: list[float] = []
    busy = Busy(services.migration)
    services = dataclasses.replace(services, migration=busy, sleep=waited.append)  # type: ignore[arg-type]
    job = finish(services, profile=SECOND)
    assert (job.status, job.rounds) == (Status.FINISHED, 0)
    assert services.active_profile() == SECOND
    assert sum(waited) < 60


def test_a_move_that_cannot_be_begun_says_why(stages: DemoStages, services: Services) -> None:
    with pytest.raises(InvalidRequest, match="minilm is the active profile already"):
        reembedding.plan(services, profile="minilm")
    with pytest.raises(ConfigurationError, match="unknown profile 'nothing'"):
        reembedding.plan(services, profile="nothing")
    with pytest.raises(InvalidRequest, match="moves all tenants"):
        reembedding.plan(services, profile=SECOND, tenant=TENANT)
    with pytest.raises(ConfigurationError, match="BRAID_EMBEDDING_MODEL"):
        reembedding.plan(dataclasses.replace(services, forced_model=MODEL), profile=SECOND)

    def missing(model: ModelConfig) -> Any:
        raise ModelError(f"no folder {model.id}")

    with pytest.raises(ModelError):
        reembedding.plan(dataclasses.replace(services, encoder_for=missing), profile=SECOND)
    assert stages.migration.serving().next is None
    assert reembedding.status(services) == []


def test_a_tenant_is_moved_by_its_name_alone_and_only_where_tenants_share_an_index(stages: DemoStages) -> None:
    services = stages.reembedding
    with pytest.raises(InvalidRequest, match="every tenant has an index of its own"):
        reembedding.plan(services, tenant=TENANT, move_tenant=reembedding.Place.OWN)
    with pytest.raises(InvalidRequest, match="name the tenant to move"):
        reembedding.plan(services, move_tenant=reembedding.Place.OWN)
    with pytest.raises(InvalidRequest, match="and no profile"):
        reembedding.plan(services, tenant=TENANT, profile=SECOND, move_tenant=reembedding.Place.OWN)
    assert reembedding.status(services) == []


@pytest.mark.parametrize("tenant", [TENANT, "newcomer"])
def test_a_write_that_is_embedded_while_a_move_is_made_has_the_vectors_of_the_new_profile(
    stages: DemoStages, services: Services, monkeypatch: pytest.MonkeyPatch, tenant: str
) -> None:
    encode = WordEncoder.encode

    def slowly(self: WordEncoder, texts: Sequence[str], **how: Any) -> list[bytes]:
        monkeypatch.setattr(WordEncoder, "encode", encode)
        made = self.encode(texts, **how)
        assert finish(services, profile=SECOND).status is Status.FINISHED
        return made

    monkeypatch.setattr(WordEncoder, "encode", slowly)
    late = shapes.record("late", "the late turbine hums", tenant_id=tenant)
    assert write(WriteRequest(tenant_id=tenant, records=(late,)), stages).written == 1
    (stored,) = stages.index.get_many(tenant, ["late"], with_vectors=True)
    assert {each.model_id for each in stored.embeddings} == {MODEL, SECOND_MODEL}
