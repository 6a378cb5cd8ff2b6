"""An answer of AWS that ends before its announced length is a failure, and never an answer that says nothing."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.aws.dynamodb_cache import DynamoCache
from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoJobStore, DynamoMembers, DynamoSchemaRegistry
from braid.engines.aws.s3 import S3ObjectStore
from braid.engines.aws.secret_keys import signing_key
from braid.engines.aws.sqs import SqsQueue
from braid.engines.aws.step_functions import IngestWorkflow, RetrieveWorkflow
from braid.errors import ObjectMissing, TransientStoreError
from braid.models import Query
from braid.settings import Settings
from pydantic import SecretStr

from tests.loopback import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WHOLE = b'{"Item": {"role": {"S": "writer"}, "body": {"S": "'
ARN = "arn:aws:states:eu-west-1:123456789012:stateMachine:one"
SECRET = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:one-AbCdEf"  # noqa: S105 - its name


class Cut(BaseHTTPRequestHandler):
    """Sends the beginning of an answer and ends the connection."""

    protocol_version = "HTTP/1.1"
    status = 200

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's
        pass

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(WHOLE) + 100))
        self.end_headers()
        self.wfile.write(WHOLE)
        self.close_connection = True

    def do_GET(self) -> None:
        self.do_POST()


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with listening(Cut) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        yield Settings(
            members_table="members",
            cache_table="cache",
            schema_table="schemas",
            reembed_table="jobs",
            reembed_queue_url=f"{url}/1/queue.fifo",
            objects_bucket="objects",
            retrieve_state_machine_arn=ARN,
            ingest_state_machine_arn=ARN,
            dynamodb_attempts=1,
            sqs_attempts=1,
            states_attempts=1,
        )


@pytest.mark.parametrize(
    "ask",
    [
        lambda settings: DynamoMembers.connect(settings).role("user:ada", "acme"),
        lambda settings: DynamoCache.connect(settings).get("acme", "deletion/acme", consistent=True),
        lambda settings: DynamoCache.connect(settings).generation("acme"),
        lambda settings: DynamoCache.connect(settings).count("acme", "questions", 1, 60),
        lambda settings: DynamoJobStore.connect(settings).get("refresh"),
        lambda settings: DynamoSchemaRegistry.connect(settings).current("acme"),
        lambda settings: SqsQueue.connect(settings).receive(1, 60),
        lambda settings: list(S3ObjectStore.connect(settings).list("acme")),
        lambda settings: IngestWorkflow.connect(settings).find("acme", "one"),
        lambda settings: RetrieveWorkflow.connect(settings).answer(Query(tenant_id="acme", text="who")),
        lambda _: signing_key(SecretStr(""), SECRET, names=("KEY", "SECRET"), timeout_s=1)(),
    ],
    ids=[
        "membership", "deletion mark", "write generation", "count", "job", "schema", "messages", "objects", "import",
        "question", "signing key",
    ],
)  # fmt: skip
@pytest.mark.parametrize("status", [200, 400])
def test_a_cut_answer_is_worth_trying_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Settings], Any], status: int
) -> None:
    monkeypatch.setattr(Cut, "status", status)
    with pytest.raises(TransientStoreError):
        ask(settings)


def test_an_answer_without_a_body_is_whole_whatever_length_the_object_has(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def do_head(self: Cut) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "100")
        self.end_headers()

    monkeypatch.setattr(Cut, "do_HEAD", do_head, raising=False)
    with pytest.raises(ObjectMissing):
        S3ObjectStore.connect(settings).open("acme", "inbox/one.jsonl")
