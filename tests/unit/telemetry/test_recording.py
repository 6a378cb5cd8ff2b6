"""Traces go on across a queue and in Lambda, and hold no content."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from braid.engines.aws.sqs import SqsQueue
from braid.engines.opensearch.migration import OpenSearchMigration
from braid.errors import StoreError
from braid.lambda_runtime.fifo_batches import batch_handler
from braid.lambda_runtime.stage_handlers import stage_handler
from braid.models import Frozen
from braid.ports.message_queue import QueueMessage
from braid.settings import Settings
from braid.telemetry import names, recording
from moto import mock_aws

from tests.stages import DemoStages

if TYPE_CHECKING:
    from pathlib import Path

    from tests.recorded import Recorded

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OF_LAMBDA = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=0"
CONTEXT: Any = SimpleNamespace(
    function_name="f", memory_limit_in_mb=512, aws_request_id="r", tenant_id=None, invoked_function_arn="arn:f"
)


class Request(Frozen):
    text: str


def trace_id(traceparent: str) -> int:
    return int(traceparent.split("-")[1], 16)


def test_through_sqs_what_works_a_message_off_belongs_to_the_trace_of_who_sent_it(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    seen: list[str] = []
    with mock_aws():
        client = boto3.client("sqs", region_name="eu-west-1")
        url = client.create_queue(QueueName="work.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        with recording.operation("caller", {}, parent={recording.TRACEPARENT: CALLER}):
            message = QueueMessage(tenant_id="acme", deduplication_id="one", body="a secret")
            SqsQueue(client, url).send([message])  # type: ignore[arg-type] - of boto3's types only the calls are named
        (sent,) = client.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
    attributes = {
        name: {"stringValue": value["StringValue"], "dataType": value["DataType"]}
        for name, value in sent["MessageAttributes"].items()
    }
    record = {
        "messageId": sent["MessageId"], "body": sent["Body"], "messageAttributes": attributes,
        "attributes": {"MessageGroupId": "one"}, "eventSource": "aws:sqs",
    }  # fmt: skip
    batch_handler(seen.append, lambda *_: None)({"Records": [record]}, CONTEXT)
    assert seen == [sent["Body"]]
    assert recorded.traces() == {trace_id(CALLER)}
    assert recorded.children(recorded.span("send queue work.fifo")) == {"process message"}
    assert "secret" not in recorded.text()


@pytest.mark.parametrize(
    ("carrier", "of_lambda", "expected"),
    [
        (CALLER, "", trace_id(CALLER)),
        (CALLER, OF_LAMBDA, trace_id(CALLER)),
        ("3f0c9d6e-1c52-4b52-9c2e-1a5c4a0b8f11", OF_LAMBDA, 0x5759E988BD862E3FE1BE46A994272793),
        (None, OF_LAMBDA, 0x5759E988BD862E3FE1BE46A994272793),
        ({"not": "text"}, "Root=;Parent=", None),
        ("00-" + "0" * 32 + "-" + "0" * 16 + "-01", "", None),
    ],
    ids=["given", "both", "an execution without a caller's trace", "Lambda's own", "neither", "zeros"],
)
def test_a_function_goes_on_with_the_trace_that_it_is_given_else_with_lambdas_own(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, carrier: object, of_lambda: str, expected: int | None
) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", of_lambda)
    handler = stage_handler("plan", Request, lambda request: request)
    assert handler({"text": "a secret", "traceparent": carrier}, CONTEXT) == {"text": "a secret"}
    span = recorded.span("plan")
    assert (span.get_span_context().trace_id == expected) is (expected is not None)
    assert (span.parent is not None) is (expected is not None)
    assert "secret" not in recorded.text()


def test_without_a_span_nothing_is_carried() -> None:
    assert recording.trace_headers() == {}


def test_every_method_of_a_store_is_recorded_and_what_it_returns_is_left_alone(recorded: Recorded) -> None:
    @recording.store_calls("sqlite")
    class Store:
        def read(self, key: str, *, loud: bool = False) -> str:
            """Read."""
            return key.upper() if loud else key

        def fail(self) -> None:
            raise KeyError("a secret")

        def close(self) -> None:
            """Close."""

        def _inner(self) -> None:
            """Do nothing."""

    store = Store()
    assert (store.read("a"), store.read("a", loud=True)) == ("a", "A")
    assert Store.read.__doc__ == "Read."
    with pytest.raises(KeyError):
        store.fail()
    store.close()
    store._inner()
    assert [span.name for span in recorded.spans] == ["read sqlite", "read sqlite", "fail sqlite"]
    assert (names.STORE_DURATION, {names.DB_SYSTEM: "sqlite", names.DB_OPERATION: "read"}) in recorded.points()
    assert "secret" not in recorded.text()


def test_calls_of_a_migration_are_recorded_as_calls_of_its_store(recorded: Recorded, tmp_path: Path) -> None:
    elsewhere = Settings(home=tmp_path, opensearch_endpoint="http://127.0.0.1:9", opensearch_attempts=1)
    migration = OpenSearchMigration.connect(elsewhere, {}).of_tenant("acme")
    with pytest.raises(StoreError):
        migration.serving()
    migration.close()
    opened = DemoStages(Settings(home=tmp_path))
    opened.migration.serving()
    opened.close()
    served = [dict(span.attributes or {}) for span in recorded.spans if span.name.startswith("serving ")]
    assert [(one[names.DB_SYSTEM], one[names.DB_OPERATION]) for one in served] == [
        ("opensearch", "serving"),
        ("sqlite", "serving"),
    ]
    assert not [span.name for span in recorded.spans if span.name.startswith("of_tenant")], "it asks no store"
