"""What each function's code asks of AWS its role may, and of a table the role may no more than the code asks."""

from __future__ import annotations

import json
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import boto3
import pytest
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.index_migration import EmbeddedIndexMigration
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.ingestion.bulk.import_steps import run
from braid.ingestion.bulk.step_messages import InlineWrite, Task
from braid.ingestion.inline_writes import write_message
from braid.models import Query
from braid.models.query import Ranking
from braid.ports.members import Membership, Role
from braid.ports.schema_registry import SchemaVersion
from braid.reembedding.queue_from_answers import Reason, ReembedMessage
from braid.reembedding.running_jobs import JobRequest, Step, StepName, run_step, work_off
from braid.retrieval import pipeline
from braid.retrieval.context.message_selection import ContextRequest
from braid.settings import EngineKind, Settings
from moto import mock_aws

from tests.contract.shapes import ACME
from tests.dynamo_table import make_table
from tests.file_steps import all_phases, begun, put_lines
from tests.front_door import FrontDoor, claims
from tests.operations import OPERATIONS
from tests.stages import NOW, DemoStages
from tests.unit.deployment.test_template_front_door import actions, of_function

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REGION: Final = "eu-west-1"
ASKING: ContextVar[str] = ContextVar("asking", default="")
STAGES = ("PlanFunction", "EmbedFunction", "VectorSearchFunction", "GraphExpandFunction", "FuseRerankFunction")
IS_CALLED = {
    "HeadObject": "s3:GetObject",
    "ListObjectsV2": "s3:ListBucket",
    "DeleteObjects": "s3:DeleteObject",
    "SendMessageBatch": "sqs:SendMessage",
    "StartSyncExecution": "states:StartSyncExecution",
    "Invoke": "lambda:InvokeFunction",
}
"""Actions that are not named after their operations."""
_DELETE, _PUT, _COUNT = "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem of counters"
UNASKED_HERE = {
    ("EmbedFunction", "CacheTable"): {_DELETE, _COUNT},
    ("ContextFunction", "CacheTable"): {_DELETE, _PUT, _COUNT},
    ("IngestFunction", "CacheTable"): {_PUT},
    ("SearchApiFunction", "CacheTable"): {_DELETE},
}
"""What roles may do with a table beyond what is asked here.

A value that is too large removes the one before it, and so does a request that failed its claim; contexts are kept, and
what a reranker costs is counted, where there is an answer; a tenant's first write to Neptune stores its counts.
"""
RECORDS = [
    {"id": "r1", "content": "It was Anna Berg who closed the heron gate."},
    {"id": "r2", "content": "Heron.", "schema_version": 2},
]


@contextmanager
def of(function: str) -> Iterator[None]:
    """Count what is asked inside as a function's."""
    token = ASKING.set(function)
    try:
        yield
    finally:
        ASKING.reset(token)


class Calls:
    """Which actions each function asked for, of what."""

    def __init__(self) -> None:
        self.asked: dict[str, set[tuple[str, str]]] = {}

    def note(self, params: dict[str, Any], model: Any, **_: Any) -> None:
        """Note one operation."""
        service = model.service_model.service_name
        action = IS_CALLED.get(model.name, f"{'states' if service == 'stepfunctions' else service}:{model.name}")
        given = {name: params.get(name) for name in ("TableName", "Bucket", "QueueUrl", "SecretId", "stateMachineArn")}
        what = next((str(value) for value in given.values() if value), "")
        keys = [params.get("Prefix", params.get("Key", ""))]
        if model.name == "DeleteObjects":
            keys = [each["Key"] for each in params["Delete"]["Objects"]]
        if service == "s3":
            self.asked.setdefault(ASKING.get(), set()).update((action, key) for key in keys)
            return
        if model.name == "UpdateItem" and "|counter/" in params["Key"]["id"]["S"]:
            what += " counters"
        self.asked.setdefault(ASKING.get(), set()).add((action, what))

    def answer(self, model: Any, **_: Any) -> Any:
        """Answer in place of functions and workflows."""
        if model.name == "Invoke":
            said = json.dumps({"tenant_id": ACME}).encode()
            return Responded(200), {"Payload": BytesIO(said), "StatusCode": 200}
        if model.name == "DescribeExecution":
            return Responded(200), {"status": "RUNNING", "input": json.dumps({"tenant_id": ACME})}
        started = {"status": "FAILED", "error": "StoresUnavailable", "executionArn": "arn", "startDate": NOW}
        return Responded(200), started


class Responded:
    """The part of an HTTP response that a client looks at."""

    def __init__(self, status_code: int) -> None:
        self.status_code = status_code


class StagesOfFunctions(DemoStages):
    """Stages of which each is run as its function."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        function = f"{name.title().replace('_', '')}Function"
        if function not in STAGES:
            return found

        def run_as_its_function(request: Any) -> Any:
            with of(function):
                return found(request)

        return run_as_its_function


class OverAws(StagesOfFunctions):
    """What DynamoDB, S3 and SQS keep is there; the index and the graph are embedded."""

    @cached_property
    def index(self) -> EmbeddedSearchIndex:
        """The search index."""
        return EmbeddedSearchIndex(self.store, self.profiles.dimensions())

    @cached_property
    def graph(self) -> EmbeddedKnowledgeGraph:
        """The knowledge graph."""
        return EmbeddedKnowledgeGraph(self.store)

    @cached_property
    def migration(self) -> EmbeddedIndexMigration:
        """Index migration."""
        return EmbeddedIndexMigration(self.store, self.index)


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Calls:
    found = Calls()
    with account(found):
        _ask_everything(tmp_path_factory.mktemp("home"))
    return found


@contextmanager
def account(calls: Calls) -> Iterator[pytest.MonkeyPatch]:
    """Have an account with the tables and the bucket, whose functions and workflows answer as ``calls`` says."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name, value in {"DEFAULT_REGION": REGION, "ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "test"}.items():
            patch.setenv(f"AWS_{name}", value)
        patch.setattr(boto3, "DEFAULT_SESSION", boto3.Session())
        _make_tables_and_bucket()
        events = boto3.DEFAULT_SESSION.events  # type: ignore[union-attr] - set above
        events.register("provide-client-params.*.*", calls.note)
        for service in ("lambda", "sfn", "stepfunctions"):
            events.register(f"before-call.{service}.*", calls.answer)
        yield patch


def _make_tables_and_bucket() -> None:
    client = boto3.client("dynamodb")
    make_table(client, "CacheTable")
    keys = {
        "SchemaTable": [("tenant_id", "S"), ("version", "N")],
        "MembersTable": [("subject", "S"), ("tenant_id", "S")],
    }
    for table, columns in (keys | {"ReembedTable": [("name", "S")]}).items():
        client.create_table(
            TableName=table,
            KeySchema=[
                {"AttributeName": n, "KeyType": k} for (n, _), k in zip(columns, ("HASH", "RANGE"), strict=False)
            ],
            AttributeDefinitions=[{"AttributeName": n, "AttributeType": t} for n, t in columns],
            BillingMode="PAY_PER_REQUEST",
        )
    boto3.client("s3").create_bucket(Bucket="objects-bucket", CreateBucketConfiguration={"LocationConstraint": REGION})


def deployed_settings(home: Path, **own: Any) -> Settings:
    """Return settings of a deployment in that account, whose stores are at no address."""
    given: dict[str, Any] = {"engine": EngineKind.AWS, "cache_table": "CacheTable", "schema_table": "SchemaTable"}
    given |= {"opensearch_endpoint": "http://localhost:1", "neptune_endpoint": "ws://localhost:1/gremlin"}
    return Settings(home=home, **given, **own)


def _stages(home: Path, **own: Any) -> OverAws:
    return OverAws(deployed_settings(home, **own))


def _ask_everything(home: Path) -> None:
    machine = f"arn:aws:states:{REGION}:123456789012:stateMachine:braid"
    ingest = _stages(home, objects_bucket="objects-bucket")
    with of("nobody"):
        put_lines(ingest, RECORDS)
        ingest.objects.put(ACME, "documents/heron.md", b"# Heron\n\nThe gate of Anna Berg.\n")
        for version in (1, 2):
            ingest.schemas.register(SchemaVersion(tenant_id=ACME, version=version, created_at=NOW))
    with of("IngestFunction"):
        all_phases(ingest, begun(ingest))
        all_phases(ingest, begun(ingest, "d", key="documents/heron.md"))
        write_message(json.dumps({"tenant_id": ACME, "records": RECORDS}), ingest)
        run(Task(task=InlineWrite(tenant_id=ACME, body={"records": RECORDS})), ingest)
    for ranking in Ranking:
        pipeline.answer(Query(tenant_id=ACME, text="Who closed the heron gate?", ranking=ranking), ingest)
    context = _stages(home, retrieve_state_machine_arn=machine)
    with of("ContextFunction"):
        context.context(ContextRequest(tenant_id=ACME, query="heron", messages=({"role": "user", "content": "Hello"},)))
    reembed = _stages(home, reembed_table="ReembedTable")
    with of("ReembedFunction"):
        progress = run_step(Step(step=StepName.PLAN, asked=JobRequest(tenant_id=ACME)), reembed.reembedding, step_s=1.0)
        named: dict[str, Any] = {"job": progress.job, "run": progress.run}
        listed = run_step(Step(step=StepName.LIST, **named), reembed.reembedding, step_s=1.0).listed
        for page in listed.pages:
            run_step(Step(step=StepName.PAGE, page=page, **named), reembed.reembedding, step_s=1.0)
        run_step(Step(step=StepName.LIST, done=listed.position, **named), reembed.reembedding, step_s=1.0)
        message = ReembedMessage(tenant_id=ACME, record_ids=("r1",), reason=Reason.SCHEMA, target_schema_version=2)
        work_off(message.message().model_dump_json(), reembed.reembedding)
    api = _stages(
        home,
        objects_bucket="objects-bucket",
        members_table="MembersTable",
        membership="store",
        reembed_table="ReembedTable",
        retrieve_state_machine_arn=machine,
        ingest_state_machine_arn=f"{machine}-ingest",
        reembed_state_machine_arn=f"{machine}-reembed",
        ingest_function="ingest",
    )
    with of("nobody"):
        api.members.add(Membership(subject="user:ada", tenant_id=ACME, role=Role.WRITER))
    with of("SearchApiFunction"):
        door = FrontDoor(api)
        for operation in OPERATIONS:
            for headers in ({}, {"idempotency-key": operation.id}):
                door.ask(
                    operation.method,
                    operation.path(),
                    operation.body,
                    authorizer=claims(None),
                    headers={"braid-tenant": ACME, **headers},
                )
        api.uses.add_gathered()
    for each in (ingest, context, reembed, api):
        each.close()


def of_table(function: str, table: str) -> set[str]:
    """Return what a function's role may do with a table; with counters alone, as ``counters``."""
    found: set[str] = set()
    for statement in of_function(function):
        if statement["Resource"] == f"{table}.Arn":
            found |= {f"{each} of counters" if _is_of_counters(statement) else each for each in actions(statement)}
    return found


def _is_of_counters(statement: dict[str, Any]) -> bool:
    given = statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys", [])
    return given == ["*|counter/*"]


def may(function: str, action: str, key: str) -> bool:
    """Whether a function's role may do something with an object of the bucket, or list what begins with a key."""
    for statement in of_function(function):
        if action not in actions(statement):
            continue
        if action == "s3:ListBucket":
            wanted = statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix", "*")
            if fnmatchcase(key, wanted):
                return True
            continue
        given = statement["Resource"]
        patterns = [given] if isinstance(given, str) else given
        if any(fnmatchcase(key, each.removeprefix("${ObjectsBucket.Arn}/")) for each in patterns):
            return True
    return False


@pytest.mark.parametrize(
    "function", [*STAGES, "ContextFunction", "IngestFunction", "ReembedFunction", "SearchApiFunction"]
)
def test_a_function_may_do_with_tables_what_its_code_asks_and_no_more(calls: Calls, function: str) -> None:
    for table in ("CacheTable", "SchemaTable", "MembersTable", "ReembedTable"):
        plain = {action for action, what in calls.asked[function] if what == table}
        counting = {action for action, what in calls.asked[function] if what == f"{table} counters"}
        allowed = of_table(function, table)
        assert not plain - allowed, f"{table}: not allowed"
        assert not counting - {each.removesuffix(" of counters") for each in allowed}, f"{table}: not allowed"
        unasked = {each for each in allowed if each.removesuffix(" of counters") not in plain | counting}
        assert unasked == UNASKED_HERE.get((function, table), set()), f"{table}: allowed and not asked for"


def test_the_function_in_the_workflow_s_place_may_do_what_its_stages_do(calls: Calls) -> None:
    for stage in STAGES:
        for action, table in calls.asked[stage]:
            assert action in of_table("AnswerFunction", table), (stage, action, table)


@pytest.mark.parametrize("function", ["IngestFunction", "SearchApiFunction"])
def test_a_function_may_do_with_objects_what_its_code_asks(calls: Calls, function: str) -> None:
    asked = [(action, key) for action, key in calls.asked[function] if action.startswith("s3:")]
    assert asked
    assert [each for each in asked if not may(function, *each)] == []


def test_the_interface_calls_the_function_and_workflows_that_it_may(calls: Calls) -> None:
    asked = {action for action, _ in calls.asked["SearchApiFunction"] if action.startswith(("lambda:", "states:"))}
    allowed = {action for each in of_function("SearchApiFunction") for action in actions(each)}
    assert asked == {
        "lambda:InvokeFunction",
        "states:StartSyncExecution",
        "states:StartExecution",
        "states:DescribeExecution",
    }
    assert asked <= allowed
