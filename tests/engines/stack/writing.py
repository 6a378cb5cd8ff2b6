"""The stack as tests that write see it."""

from __future__ import annotations

import json
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from braid.app import Application
from braid.ingestion.writing import WriteRequest, require_written, write
from braid.models import Record
from braid.ports.schema_registry import SchemaVersion

from tests.engines.stack.deployed import close, question, until
from tests.fakes import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.engines.stack.deployed import Deployed

SCHEMA = 5
"""Versions that are registered: what was written at the first is then to be embedded again."""


@dataclass(frozen=True)
class Writing:
    """The stack, and stages in this process over the same stores; a tenant of the test's own."""

    deployed: Deployed
    stages: Application
    tenant: str

    def put(self, rows: list[Any]) -> str:
        """Put an object into the tenant's inbox, and return the execution that writes it."""
        key = f"inbox/{uuid.uuid4().hex}.jsonl"
        self.put_at(key, rows)
        return until(lambda: self.started_for(key), f"a workflow is started for {key}")

    def put_at(self, key: str, rows: list[Any]) -> None:
        text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
        self.stages.objects.put(self.tenant, key, text.encode())

    def started_for(self, key: str, but: str = "") -> str | None:
        """Return an execution whose input names a key."""
        client = self.deployed.localstack.client("stepfunctions")
        listed = client.list_executions(stateMachineArn=self.deployed.outputs["IngestStateMachineArn"])["executions"]
        for execution in listed:
            arn: str = execution["executionArn"]
            if arn != but and f"{self.tenant}/{key}" in client.describe_execution(executionArn=arn)["input"]:
                return arn
        return None

    def stored(self) -> dict[str, Record]:
        """Return the tenant's records with their vectors."""
        page = self.stages.index.scan(self.tenant, limit=1000, with_vectors=True)
        return {record.id: record for record in page.records}

    def send(self, queue: str, body: object, group: str) -> None:
        """Send a message, by the output that names its queue."""
        text = body if isinstance(body, str) else json.dumps(body)
        self.deployed.localstack.client("sqs").send_message(
            QueueUrl=self.deployed.outputs[queue],
            MessageBody=text,
            MessageGroupId=group,
            MessageDeduplicationId=str(uuid.uuid4()),
        )

    def answered(self, text: str) -> list[str]:
        """Return the ids of an answer of the deployed workflow."""
        return [result.id for result in self.deployed.answer(question(text, tenant_id=self.tenant)).results]

    def left_in(self, queue: str) -> int:
        """Return how many messages a queue holds, those that are being worked off too."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.deployed.localstack.client("sqs").get_queue_attributes(
            QueueUrl=self.deployed.outputs[queue], AttributeNames=names
        )
        return sum(map(int, answer["Attributes"].values()))

    def outdated(self) -> Writing:
        """Write sixty records and raise the tenant's schema far above theirs."""
        records = tuple(Record(id=f"r{at}", tenant_id=self.tenant, content=f"the fee number {at}") for at in range(60))
        require_written(write(WriteRequest(tenant_id=self.tenant, records=records), self.stages))
        for version in range(self.stages.schemas.current(self.tenant) + 1, SCHEMA + 1):
            self.stages.schemas.register(SchemaVersion(tenant_id=self.tenant, version=version, created_at=NOW))
        return self

    def other(self) -> Writing:
        """Return another tenant of the same stores."""
        return Writing(self.deployed, self.stages, f"tenant-{uuid.uuid4().hex}")


@contextmanager
def writing_over(deployed: Deployed, home: Path) -> Iterator[Writing]:
    """Have the functions that embed again take their time where a test has to step in."""
    settings = deployed.stages.settings.model_copy(
        update={
            "home": home,
            "objects_bucket": deployed.outputs["ObjectsBucketName"],
            "models_dir": deployed.stages.settings.models_path(),
        }
    )
    common = {"BRAID_OPENSEARCH_REFRESH": "true"}
    # Three seconds for sixty records, in twelve pages one after another.
    slow = {"BRAID_REEMBED_PAGE": "5", "BRAID_REEMBED_TEXTS_PER_S": "20", "BRAID_INGEST_WRITERS": "1"}
    with ExitStack() as stack:
        stack.enter_context(deployed.changed("Ingest", **common))
        stack.enter_context(deployed.changed("Reembed", **common, **slow))
        stages = Application(settings)
        stack.callback(close, stages)
        yield Writing(deployed, stages, "")
