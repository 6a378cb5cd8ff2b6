"""Writing an object of many lines by the deployed state machine, run by moto over the embedded stores."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import InvalidRequest, ObjectChanged, ObjectMissing, QueueFull, StoreError, TransientStoreError
from braid.ingestion.bulk import import_steps, manifest
from braid.ingestion.bulk.step_messages import Batch, Finish, Phase, Split, Task
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.ports.object_store import read_object
from braid.settings import Settings

from braid_cli.state_machine.interpreter import INGEST_DEFINITION, Workflow, WorkflowFailed, definition
from tests.contract.shapes import ACME
from tests.contract.writes import found, stored
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from braid.ingestion.bulk.step_messages import TaskResult

LINES = 23


class Steps:
    """The steps over one store, each call of which can be met before it is done."""

    def __init__(self, store: DemoStages) -> None:
        self.store = store
        self.calls: list[Task] = []
        self.meet: Callable[[Task], None] = lambda _: None

    def run(self, request: Task) -> TaskResult:
        """Run a step as the deployed function does."""
        self.calls.append(request)
        self.meet(request)
        return import_steps.run(request, self.store)

    def read(self, key: str) -> bytes:
        """Return an object as the bucket has it."""
        return read_object(self.store.objects, *key.split("/", 1))


@pytest.fixture(scope="module")
def _machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Steps, Workflow]]:
    steps = Steps(DemoStages(Settings(home=tmp_path_factory.mktemp("unused"))))
    handlers = {"ingest": stage_handler("ingest", Task, steps.run)}
    with Workflow(handlers, definition(INGEST_DEFINITION), steps.read) as workflow:
        yield steps, workflow
    steps.store.close()


@pytest.fixture
def steps(_machine: tuple[Steps, Workflow], tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Return the steps over an empty store, in batches of five lines and pages of two batches."""
    monkeypatch.setattr(import_steps, "BATCH_LINES", 5)
    monkeypatch.setattr(manifest, "PAGE_BATCHES", 2)
    steps = _machine[0]
    steps.store.close()
    steps.store, steps.calls, steps.meet = DemoStages(Settings(home=tmp_path)), [], lambda _: None
    return steps


@pytest.fixture
def workflow(_machine: tuple[Steps, Workflow]) -> Workflow:
    return _machine[1]


def lines() -> list[dict[str, Any]]:
    """Return edges before what they lead to, a chain of facts of which each supersedes the next, and a corpus line."""
    edges = [{"relationship": {"source": "hub", "type": "MENTIONS", "target": f"f{at}"}} for at in range(8)]
    facts = [
        {
            "record": {
                "id": f"f{at}",
                "kind": "fact",
                "content": f"the fee number {at}",
                "valid_at": f"2025-05-{20 - at:02}",
                "supersedes": [f"f{at + 1}"] if at < 7 else [],
            }
        }
        for at in range(8)
    ]
    chunks = [{"_id": f"c{at}", "text": f"a chunk {at}", "title": "Guide"} for at in range(6)]
    return [*edges, *facts, *chunks, {"entity": {"id": "hub", "name": "Hub"}}]


def put(steps: Steps, rows: list[Any], key: str = "inbox/a.jsonl") -> dict[str, Any]:
    """Write an object, the last line without its feed, and return EventBridge's event of it."""
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    info = steps.store.objects.put(ACME, key, text.encode())
    return {"detail": {"bucket": {"name": "b"}, "object": {"key": f"{ACME}/{key}", "etag": info.version.strip('"')}}}


def test_every_line_is_written_whatever_their_order_and_the_state_carries_none(
    steps: Steps, workflow: Workflow
) -> None:
    execution = workflow.run(put(steps, lines()))
    report = execution.output
    assert (report["status"], report["written"], report["errors"]) == ("written", 14, 0)
    assert (report["relationships"], report["superseded"]) == (15, 7)
    assert (report["job"]["lines"], report["job"]["batches"]) == (LINES, 5)
    assert found(steps.store, "fee") == ["f0"]
    assert len(found(steps.store, "chunk")) == 6
    assert stored(steps.store, "f3").invalid_at == stored(steps.store, "f2").valid_at
    assert steps.store.graph.stats(ACME).edges == 15 + 6, "those of the lines, and each chunk's mention of its title"
    assert "the fee number" not in json.dumps(execution.events, default=str)


def test_the_same_object_again_writes_nothing_and_embeds_nothing(steps: Steps, workflow: Workflow) -> None:
    workflow.run(put(steps, lines()))
    before = steps.store.index.scan(ACME, with_vectors=True)
    report = workflow.run({"tenant_id": ACME, "key": "inbox/a.jsonl"}).output
    assert (report["written"], report["unchanged"], report["embedded"], report["superseded"]) == (0, 14, 0, 0)
    assert steps.store.index.scan(ACME, with_vectors=True) == before


def test_what_is_wrong_is_reported_by_line_and_the_rest_is_written(steps: Steps, workflow: Workflow) -> None:
    rows: list[Any] = lines()
    rows[9:9] = [
        "not json",
        '{"id": "n", "content": "x", "confidence": NaN}',
        '{"id": "z", "content": "a\\u0000b"}',
        "",
    ]
    rows.append({"relationship": {"source": "hub", "type": "CAUSES", "target": "nobody"}})
    rows.append({"record": {"id": "new", "content": "from tomorrow", "schema_version": 9}})
    report = workflow.run(put(steps, rows)).output
    assert (report["status"], report["written"], report["errors"]) == ("with_errors", 14, 5)
    noted = [json.loads(line) for line in steps.store.objects.open(ACME, report["report_key"])]
    assert [(one["place"], one["field"]) for one in noted] == [
        ("line 10", None),
        ("line 11", None),
        ("line 12", "content"),
        ("line 29", "schema_version"),
        ("line 28", "target"),
    ]
    assert "'nobody'" in noted[-1]["message"]
    assert "'hub'" in noted[-1]["message"]


def test_edges_to_nothing_become_stubs_when_asked(steps: Steps, workflow: Workflow) -> None:
    put(steps, [{"relationship": {"source": "a", "type": "CAUSES", "target": "b"}}])
    report = workflow.run({"tenant_id": ACME, "key": "inbox/a.jsonl", "missing": "stub"}).output
    assert (report["status"], report["relationships"]) == ("written", 1)


def test_an_empty_object_is_written_at_once(steps: Steps, workflow: Workflow) -> None:
    report = workflow.run(put(steps, [])).output
    assert (report["status"], report["written"], report["job"]["batches"]) == ("written", 0, 0)


def test_an_object_that_changes_while_it_is_written_fails_and_says_so(steps: Steps, workflow: Workflow) -> None:
    event = put(steps, lines())

    def change(request: Task) -> None:
        if isinstance(request.task, Batch) and request.task.batch.number == 2 and request.task.phase is Phase.ITEMS:
            steps.store.objects.put(ACME, "inbox/a.jsonl", b'{"_id": "other", "text": "another object"}')

    steps.meet = change
    with pytest.raises(ObjectChanged):
        workflow.run(event)
    assert found(steps.store, "another") == []
    steps.meet = lambda _: None
    assert workflow.run({"tenant_id": ACME, "key": "inbox/a.jsonl"}).output["written"] == 1


def test_an_object_that_changed_since_it_was_announced_is_not_begun(steps: Steps, workflow: Workflow) -> None:
    event = put(steps, lines())
    put(steps, [{"_id": "other", "text": "another object"}])
    with pytest.raises(ObjectChanged, match="was replaced; the new version"):
        workflow.run(event)
    assert steps.store.index.stats(ACME).records == 0


def test_a_missing_object_and_an_event_of_none_are_named(steps: Steps, workflow: Workflow) -> None:  # noqa: ARG001
    with pytest.raises(ObjectMissing, match=r"inbox/b\.jsonl"):
        workflow.run({"tenant_id": ACME, "key": "inbox/b.jsonl"})
    with pytest.raises(InvalidRequest, match="key: missing"):
        workflow.run({"tenant_id": ACME})


def test_a_store_that_is_throttled_is_asked_again(steps: Steps, workflow: Workflow) -> None:
    failures = [1, 2]

    def throttle(request: Task) -> None:
        if isinstance(request.task, Batch) and request.task.batch.number == 1 and failures:
            failures.pop()
            message = "throttled"
            raise TransientStoreError(message)

    steps.meet = throttle
    assert workflow.run(put(steps, lines())).output["status"] == "written"


@pytest.mark.parametrize("step", [Split, Batch, Finish])
def test_a_step_that_finds_as_many_running_as_may_be_waits_for_its_turn(
    steps: Steps, workflow: Workflow, step: type
) -> None:
    busy = ["1"]

    def refuse(request: Task) -> None:
        if isinstance(request.task, step) and busy:
            busy.pop()
            message = "busy"
            raise QueueFull(message, retry_after_s=1)

    steps.meet = refuse
    assert workflow.run(put(steps, lines())).output["status"] == "written"
    assert not busy


def test_a_batch_that_fails_for_good_is_named_by_its_lines_and_the_others_are_written(
    steps: Steps, workflow: Workflow
) -> None:
    def fail(request: Task) -> None:
        if isinstance(request.task, Batch) and request.task.batch.number == 3:
            message = "refused"
            raise StoreError(message)

    steps.meet = fail
    with pytest.raises(WorkflowFailed, match="IngestIncomplete"):
        workflow.run(put(steps, lines()))
    (report,) = [info.key for info in steps.store.objects.list(ACME, "ingest/") if info.key.endswith("errors.jsonl")]
    noted = [json.loads(line) for line in steps.store.objects.open(ACME, report)]
    assert noted[-1]["place"] == "lines 16 to 20"
    assert "StoreError" in noted[-1]["message"]
    assert len(found(steps.store, "chunk")) < 6
    steps.meet = lambda _: None
    assert workflow.run({"tenant_id": ACME, "key": "inbox/a.jsonl"}).output["status"] == "written"
    assert len(found(steps.store, "chunk")) == 6


def test_what_the_steps_noted_is_gone_at_the_end_and_the_report_stays(steps: Steps, workflow: Workflow) -> None:
    workflow.run(put(steps, lines()))
    kept = [info.key.rsplit("/", 1)[-1] for info in steps.store.objects.list(ACME, "ingest/")]
    assert kept == ["errors.jsonl", "report.json"]


def test_finishing_again_tells_the_same(steps: Steps, workflow: Workflow) -> None:
    report = workflow.run(put(steps, lines())).output
    last = steps.calls[-1]
    assert import_steps.run(last, steps.store).model_dump(mode="json") == report
