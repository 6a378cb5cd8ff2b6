"""The template's stack on LocalStack writes and embeds again, over the real stores.

S3, EventBridge, SQS with what hands its messages out, Step Functions, Lambda and Scheduler are LocalStack's. The same
workflows over the embedded engine are tried in ``tests/workflow``.
"""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from braid import reembedding
from braid.app import Application
from braid.models import Query
from braid.reembedding import Status
from braid.reembedding.queue_from_answers import Reason, ReembedMessage
from braid.reembedding.running_jobs import Progress
from braid.retrieval import pipeline
from braid.settings import Settings

from tests.contract.imports import DOCUMENTS_QUESTION, Stored, ingested_folder
from tests.engines.stack.deployed import until
from tests.engines.stack.writing import SCHEMA, Writing, writing_over

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.models import Record
    from braid.reembedding import ReembeddingJob

    from tests.engines.stack.deployed import Deployed


@pytest.fixture(scope="module")
def over(deployed: Deployed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writing]:
    # What failed is handed out again after two seconds, and not after an hour and a half.
    for queue in ("WritesQueueUrl", "ReembedQueueUrl"):
        deployed.localstack.client("sqs").set_queue_attributes(
            QueueUrl=deployed.outputs[queue], Attributes={"VisibilityTimeout": "2"}
        )
    with writing_over(deployed, tmp_path_factory.mktemp("written")) as writing:
        yield writing


@pytest.fixture
def writing(over: Writing) -> Writing:
    """Return the stack with an empty tenant."""
    return over.other()


def lines() -> list[Any]:
    """Return an edge before what it leads to, facts of which each supersedes the next, and lines that are wrong."""
    facts = [
        {
            "record": {
                "id": f"f{at}",
                "kind": "fact",
                "content": f"the harbour fee number {at}",
                "valid_at": f"2025-05-{20 - at:02}",
                "supersedes": [f"f{at + 1}"] if at < 3 else [],
            }
        }
        for at in range(4)
    ]
    return [
        {"relationship": {"source": "hub", "type": "MENTIONS", "target": "f0"}},
        "not json",
        *facts,
        '{"id": "n", "content": "x", "confidence": NaN}',
        {"relationship": {"source": "hub", "type": "CAUSES", "target": "nobody"}},
        {"entity": {"id": "hub", "name": "Hub"}},
    ]


def test_an_object_in_the_inbox_is_written_its_answers_are_found_and_what_is_wrong_is_reported_by_line(
    writing: Writing,
) -> None:
    report = writing.deployed.output(writing.put(lines()))
    assert (report["status"], report["written"], report["errors"]) == ("with_errors", 4, 3)
    assert (report["relationships"], report["superseded"]) == (4, 3)
    noted = [json.loads(line) for line in writing.stages.objects.open(writing.tenant, report["report_key"])]
    assert [(one["place"], one["field"]) for one in noted] == [
        ("line 2", None),
        ("line 7", None),
        ("line 8", "target"),
    ]
    assert "'nobody'" in noted[-1]["message"]
    assert writing.answered("the harbour fee number")[0] == "f0"
    assert writing.stages.graph.stats(writing.tenant).edges == 4


def test_documents_give_the_chunks_names_and_answers_that_a_laptop_has(writing: Writing, tmp_path: Path) -> None:
    models = writing.stages.settings.models_path()
    with closing(Application(Settings(home=tmp_path / "home", models_dir=models))) as laptop:
        for name, content in ingested_folder(tmp_path, laptop, writing.tenant).items():
            key = f"documents/{name}"
            writing.stages.objects.put(writing.tenant, key, content)
            started = until(lambda key=key: writing.started_for(key), f"a workflow is started for {key}")
            assert writing.deployed.output(started)["status"] == "written"
        assert Stored.of(writing.tenant, writing.stages) == Stored.of(writing.tenant, laptop)
        expected = pipeline.answer(Query(text=DOCUMENTS_QUESTION, tenant_id=writing.tenant), laptop)
        here, there = writing.answered(DOCUMENTS_QUESTION), [result.id for result in expected.results]
        # What says the same sentence is as good, and both engines' scores of words differ in their last places.
        assert (here[0], sorted(here)) == (there[0], sorted(there))


def test_the_same_object_again_writes_nothing_and_embeds_nothing(writing: Writing) -> None:
    report = writing.deployed.output(writing.put(lines()))
    before = writing.stored()
    asked = {"tenant_id": writing.tenant, "key": report["job"]["object"]["key"]}
    again = writing.deployed.output(writing.deployed.start("Ingest", asked))
    assert (again["written"], again["unchanged"], again["embedded"], again["superseded"]) == (0, 4, 0, 0)
    assert writing.stored() == before


def test_an_object_that_changes_while_it_is_written_fails_and_what_it_is_now_is_written(writing: Writing) -> None:
    # The first batch is read once more for its edge, after all records have been embedded.
    rows = [{"relationship": {"source": "c0", "type": "MENTIONS", "target": "c1"}}]
    rows += [{"_id": f"c{at}", "text": "a"} for at in range(520)]
    execution = writing.put(rows)
    client = writing.deployed.localstack.client("stepfunctions")

    def split() -> str | None:
        events = client.get_execution_history(executionArn=execution)["events"]
        found = [event["stateExitedEventDetails"] for event in events if event["type"] == "TaskStateExited"]
        return found[0]["output"] if found else None

    key = json.loads(until(split, "the object is split"))["job"]["object"]["key"]
    writing.put_at(key, [{"_id": "other", "text": "another object"}])
    ended = writing.deployed.ended(execution)
    assert (ended["status"], ended["error"]) == ("FAILED", "ObjectChanged")
    following = until(lambda: writing.started_for(key, but=execution), "the new version starts a workflow")
    assert writing.deployed.output(following)["written"] == 1
    assert "other" in writing.stored()


def late(writing: Writing, at: int) -> dict[str, Any]:
    """Return the body of one message; the fourth is poison."""
    body: dict[str, Any] = {"tenant_id": writing.tenant, "records": [{"id": f"m{at}", "content": f"a turbine {at}"}]}
    if at == 3:
        body["relationships"] = [{"source": "m3", "type": "CAUSES", "target": "nobody"}]
    return body


def test_of_ten_messages_the_poison_is_set_aside_and_nine_land(writing: Writing) -> None:
    for at in range(10):
        writing.send("WritesQueueUrl", late(writing, at), group=f"m{at}")
    sqs, dead = writing.deployed.localstack.client("sqs"), writing.deployed.outputs["WritesDeadLettersUrl"]
    (aside,) = until(lambda: sqs.receive_message(QueueUrl=dead).get("Messages"), "a message is set aside")
    assert json.loads(aside["Body"]) == late(writing, 3)
    sqs.delete_message(QueueUrl=dead, ReceiptHandle=aside["ReceiptHandle"])
    assert set(writing.stored()) == {f"m{at}" for at in range(10) if at != 3}
    assert (writing.left_in("WritesQueueUrl"), writing.left_in("WritesDeadLettersUrl")) == (0, 0)


def test_of_ten_messages_handed_out_at_once_the_function_gives_back_the_poison(writing: Writing) -> None:
    # LocalStack hands out each group by itself, AWS all of a batch together.
    records = [
        {
            "messageId": f"id-{at}",
            "body": json.dumps(late(writing, at)),
            "attributes": {"MessageGroupId": f"m{at}"},
            "eventSource": "aws:sqs",
        }
        for at in range(10)
    ]
    answer = writing.deployed.localstack.client("lambda").invoke(
        FunctionName=writing.deployed.name_of("IngestFunction"), Payload=json.dumps({"Records": records}).encode()
    )
    assert json.load(answer["Payload"]) == {"batchItemFailures": [{"itemIdentifier": "id-3"}]}
    assert len(writing.stored()) == 9


def test_a_message_that_is_delivered_twice_writes_once(writing: Writing) -> None:
    written = []
    for _ in range(2):
        writing.send("WritesQueueUrl", late(writing, 1), "m1")
        until(lambda: not writing.left_in("WritesQueueUrl"), "the queue is worked off")
        written.append(writing.stored())
    assert set(written[0]) == {"m1"}
    assert written[0] == written[1]


def test_what_the_schedule_starts_embeds_all_that_is_outdated_as_a_run_in_this_process_does(writing: Writing) -> None:
    here = writing.other().outdated()
    services = here.stages.reembedding
    reembedding.run_to_end(services, reembedding.plan(services, tenant=here.tenant))
    writing.outdated()
    scheduler = writing.deployed.localstack.client("scheduler")
    target = scheduler.get_schedule(Name=writing.deployed.name_of("ReembedNightly"))["Target"]
    assert target["Arn"] == writing.deployed.outputs["ReembedStateMachineArn"]
    report = Progress.model_validate(writing.deployed.output(writing.deployed.start("Reembed", target["Input"])))
    assert (report.status, report.written) == (Status.FINISHED, report.total)
    ends, expected = writing.stored(), here.stored()
    assert set(ends) == set(expected)
    for name, record in ends.items():
        assert record.schema_version == expected[name].schema_version == SCHEMA
        assert record.content == expected[name].content
        for model, vector in vectors(expected[name]).items():
            assert vectors(record)[model] == pytest.approx(vector, abs=1e-4)


def test_a_stopped_execution_is_gone_on_with_by_the_next_one(writing: Writing) -> None:
    writing.outdated()
    first = writing.deployed.start("Reembed", {"tenant_id": writing.tenant})
    services = writing.stages.reembedding

    def begun() -> list[ReembeddingJob]:
        return [job for job in reembedding.status(services) if job.status is Status.RUNNING and job.written]

    until(begun, "some records are embedded again")
    writing.deployed.localstack.client("stepfunctions").stop_execution(executionArn=first)
    assert writing.deployed.ended(first)["status"] == "ABORTED"
    (stopped,) = (job for job in reembedding.status(services) if job.status is Status.RUNNING)
    assert 0 < stopped.written < stopped.total == 60
    second = writing.deployed.start("Reembed", {"tenant_id": writing.tenant})
    report = Progress.model_validate(writing.deployed.output(second))
    assert (report.job, report.status, report.written) == (stopped.name, Status.FINISHED, 60)
    assert report.run > stopped.run
    assert {record.schema_version for record in writing.stored().values()} == {SCHEMA}


def test_a_record_in_the_low_priority_queue_is_embedded_again_and_no_other(writing: Writing) -> None:
    writing.outdated()
    asked = ReembedMessage(
        tenant_id=writing.tenant, record_ids=("r7",), reason=Reason.SCHEMA, target_schema_version=SCHEMA
    ).message()
    writing.send("ReembedQueueUrl", asked.model_dump(mode="json"), asked.deduplication_id)

    def raised() -> set[str]:
        return {name for name, record in writing.stored().items() if record.schema_version == SCHEMA}

    assert until(raised, "the record is embedded again") == {"r7"}


def vectors(record: Record) -> dict[str, list[float]]:
    """Return a record's vectors by model."""
    return {each.model_id: memoryview(each.vector).cast("f").tolist() for each in record.embeddings}
