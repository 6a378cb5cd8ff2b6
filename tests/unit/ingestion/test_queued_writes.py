"""Late writes from a queue: what is right lands, what is not is set aside, and a second delivery writes nothing."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import pytest
from braid import app
from braid.errors import InvalidRequest, TransientStoreError
from braid.ingestion.inline_writes import write_message
from braid.settings import Settings
from moto import mock_aws

from braid_cli.state_machine.invoke_endpoint import FUNCTIONS, LocalContext
from tests.contract.shapes import ACME
from tests.contract.writes import found
from tests.stages import DemoStages, WordEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

REGION = "us-east-1"
MAX_RECEIVES = 3


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path))
    yield stages
    stages.close()


@pytest.fixture
def handler(store: DemoStages, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Return the handler of ``functions/ingest/app.py`` over the store."""
    monkeypatch.setattr(app, "application", lambda: store)
    spec = importlib.util.spec_from_file_location("app_of_ingest", FUNCTIONS / "ingest" / "app.py")
    assert spec
    assert spec.loader
    function = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(function)
    return lambda event: function.handler(event, LocalContext("ingest"))


class Queue:
    """A FIFO queue with its dead-letter queue in moto, emptied as an event source mapping does."""

    def __init__(self) -> None:
        self.client = boto3.client(
            "sqs",
            region_name=REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - nobody checks it
        )
        self.dead = self.client.create_queue(QueueName="dead.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        arn = self.client.get_queue_attributes(QueueUrl=self.dead, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": MAX_RECEIVES})
        attributes = {"FifoQueue": "true", "RedrivePolicy": policy}
        self.url = self.client.create_queue(QueueName="writes.fifo", Attributes=attributes)["QueueUrl"]

    def send(self, body: object, group: str) -> None:
        text = body if isinstance(body, str) else json.dumps(body)
        self.client.send_message(
            QueueUrl=self.url, MessageBody=text, MessageGroupId=group, MessageDeduplicationId=str(uuid4())
        )

    def work(self, handler: Callable[..., dict[str, Any]]) -> list[list[str]]:
        """Hand out batches until nothing is left; return which bodies each batch left in the queue."""
        failed: list[list[str]] = []
        for _ in range(3 * MAX_RECEIVES):
            received = self.client.receive_message(
                QueueUrl=self.url, MaxNumberOfMessages=10, AttributeNames=["All"], VisibilityTimeout=60
            ).get("Messages", [])
            if not received:
                return failed
            answer = handler({"Records": [self._record(message) for message in received]})
            kept = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
            failed.append([message["Body"] for message in received if message["MessageId"] in kept])
            for message in received:
                if message["MessageId"] in kept:
                    self.client.change_message_visibility(
                        QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                    )
                else:
                    self.client.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        message = "the queue never became empty"
        raise AssertionError(message)

    def set_aside(self) -> list[str]:
        received = self.client.receive_message(QueueUrl=self.dead, MaxNumberOfMessages=10).get("Messages", [])
        return [message["Body"] for message in received]

    @staticmethod
    def _record(message: dict[str, Any]) -> dict[str, Any]:
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{REGION}:123456789012:writes.fifo",
            "awsRegion": REGION,
        }


@pytest.fixture
def queue() -> Iterator[Queue]:
    with mock_aws():
        yield Queue()


def late(name: str, text: str = "a turbine") -> dict[str, Any]:
    return {"tenant_id": ACME, "records": [{"id": name, "content": text}]}


@pytest.mark.parametrize(
    "poison",
    [
        "not json",
        '{"records": []}',
        json.dumps({"tenant_id": ACME}),
        json.dumps(late("x\x00y")),
        json.dumps({"tenant_id": "../globex", "records": [{"id": "a", "content": "b"}]}),
        json.dumps({"tenant_id": ACME, "relationships": [{"source": "a", "type": "CAUSES", "target": "b"}]}),
    ],
)
def test_one_poisoned_message_of_ten_is_set_aside_and_nine_land(
    store: DemoStages, handler: Callable[..., dict[str, Any]], queue: Queue, poison: str
) -> None:
    for number in range(9):
        queue.send(late(f"r{number}"), f"r{number}")
        if number == 4:
            queue.send(poison, "poison")
    assert queue.work(handler) == [[poison]] * MAX_RECEIVES
    assert queue.set_aside() == [poison]
    assert found(store, "turbine") == [f"r{number}" for number in range(9)]


def test_a_message_that_is_delivered_twice_writes_once(
    store: DemoStages, handler: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"messageId": "1", "body": json.dumps(late("r")), "attributes": {"MessageGroupId": "r"}}
    event = {"Records": [record | {"eventSource": "aws:sqs"}]}
    assert handler(event) == {"batchItemFailures": []}
    before = store.index.scan(ACME, with_vectors=True)
    monkeypatch.setattr(WordEncoder, "encode", None)  # embedding again would fail
    assert handler(event) == {"batchItemFailures": []}
    assert store.index.scan(ACME, with_vectors=True) == before


def test_of_one_group_nothing_overtakes_what_failed(store: DemoStages, handler: Callable[..., dict[str, Any]]) -> None:
    bodies = ["broken", json.dumps(late("r", "a newer turbine"))]
    records = [
        {"messageId": str(at), "body": body, "attributes": {"MessageGroupId": "r"}, "eventSource": "aws:sqs"}
        for at, body in enumerate(bodies)
    ]
    failures = handler({"Records": records})["batchItemFailures"]
    assert [one["itemIdentifier"] for one in failures] == ["0", "1"]
    assert found(store, "turbine") == []


def test_a_store_that_does_not_answer_leaves_the_message_in_the_queue(
    store: DemoStages, handler: Callable[..., dict[str, Any]], queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert, failures = store.index.upsert, [1]

    def throttled(records: Any) -> None:
        if failures:
            failures.pop()
            message = "throttled"
            raise TransientStoreError(message)
        upsert(records)

    monkeypatch.setattr(store.index, "upsert", throttled)
    queue.send(late("r"), "r")
    assert len(queue.work(handler)) == 2
    assert found(store, "turbine") == ["r"]
    assert queue.set_aside() == []


def test_the_reason_is_logged_without_what_was_sent(
    handler: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"messageId": "m-1", "body": json.dumps(late("secret\x00id")), "attributes": {"MessageGroupId": "r"}}
    handler({"Records": [record | {"eventSource": "aws:sqs"}]})
    logged = capsys.readouterr().err
    assert "m-1" in logged
    assert "InvalidRequest" in logged
    assert "secret" not in logged


@pytest.mark.parametrize("text", ["[]", "{}", "[" * 100_000, '{"tenant_id": 3}'])
def test_a_message_that_is_no_write_names_what_is_missing(store: DemoStages, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        write_message(text, store)
    assert caught.value.field in {"body", "tenant_id"}
