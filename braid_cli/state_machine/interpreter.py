"""Runs the deployed state machines locally, with moto's interpreter and the deployed handlers."""

from __future__ import annotations

import json
import logging
import os
import time
import uuid
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from braid.errors import BraidError, InvalidRequest, ObjectChanged, ObjectMissing, StoresUnavailable
from braid.models import Answer
from braid.settings.folders import shared_folder
from braid.telemetry.recording import TRACEPARENT, operation, trace_headers
from opentelemetry.trace import SpanKind

from braid_cli.state_machine.invoke_endpoint import InvokeServer, stage_handlers
from braid_cli.state_machine.moto_caching import FUNCTIONS_ENDPOINT, remember

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from braid.models import Query
    from moto.core.config import DefaultConfig

    from braid_cli.state_machine.invoke_endpoint import Handler, ReadObject

DEFINITION = shared_folder() / "statemachines" / "retrieve.asl.yaml"
REGION = "us-east-1"
ENDPOINT = f"https://states.{REGION}.amazonaws.com"
"""Address of Step Functions that moto answers; addresses of AWS in the environment are for the stages."""
INTERPRETER: DefaultConfig = {
    "stepfunctions": {"execute_state_machine": True},
    # Other requests are the stages' own and pass through, with their credentials.
    "core": {"mock_credentials": False, "passthrough": {"urls": [rf"(?!{ENDPOINT})"], "services": []}},
}
POLL_SECONDS = 0.001
TIMEOUT_SECONDS = 90.0
FUNCTION_ARNS = {
    "PlanFunctionArn": "plan",
    "EmbedFunctionArn": "embed",
    "VectorSearchFunctionArn": "vector_search",
    "GraphExpandFunctionArn": "graph_expand",
    "FuseRerankFunctionArn": "fuse_rerank",
    "IngestFunctionArn": "ingest",
    "ReembedFunctionArn": "reembed",
}
BUCKET = "objects"
INGEST_DEFINITION = DEFINITION.with_name("ingest.asl.yaml")
REEMBED_DEFINITION = DEFINITION.with_name("reembed.asl.yaml")
ERRORS: dict[str, type[BraidError]] = {
    kind.__name__: kind for kind in (InvalidRequest, ObjectChanged, ObjectMissing, StoresUnavailable)
}


class WorkflowFailed(BraidError):
    """The state machine failed for a reason other than invalid input and unavailable stores."""


@dataclass(frozen=True)
class Execution:
    """Output and history of one execution."""

    output: dict[str, Any]
    events: tuple[dict[str, Any], ...]

    def states(self) -> list[str]:
        """Return the names of the states that were entered, in order."""
        return [
            event["stateEnteredEventDetails"]["name"] for event in self.events if "stateEnteredEventDetails" in event
        ]


def definition(path: Path = DEFINITION) -> dict[str, Any]:
    """Return a deployed definition, with local function ARNs for the template's placeholders."""
    import yaml

    text = path.read_text(encoding="utf-8").replace("${ObjectsBucketName}", BUCKET)
    for placeholder, name in FUNCTION_ARNS.items():
        text = text.replace(f"${{{placeholder}}}", f"arn:aws:lambda:{REGION}:123456789012:function:{name}")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


class Workflow:
    """Context manager that answers questions by the state machine.

    Parameters
    ----------
    handlers
        Lambda handlers by function name; by default the deployed ones.
    asl
        The definition; by default the deployed one.
    read_object
        Returns an object by its key in the bucket, for distributed maps over an object's items.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler] | None = None,
        asl: dict[str, Any] | None = None,
        read_object: ReadObject | None = None,
    ) -> None:
        self._handlers = handlers
        self._asl = asl
        self._read_object = read_object
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        from moto import mock_aws
        from moto.stepfunctions.parser.models import stepfunctions_parser_backends

        logging.getLogger("moto").setLevel(logging.CRITICAL)  # it logs every IsPresent that is false as an error
        import boto3  # after moto, whose absence names the extra that brings both

        remember()
        handlers = stage_handlers() if self._handlers is None else self._handlers
        with ExitStack() as stack:
            server = stack.enter_context(InvokeServer(handlers, self._read_object))
            stack.enter_context(_environment(**{FUNCTIONS_ENDPOINT: server.url}))
            if self._read_object is not None:
                stack.enter_context(_environment(AWS_ENDPOINT_URL_S3=server.url))
            stack.enter_context(mock_aws(config=INTERPRETER))
            self._client = boto3.client(
                "stepfunctions",
                region_name=REGION,
                endpoint_url=ENDPOINT,
                aws_access_key_id="local",
                aws_secret_access_key="local",  # noqa: S106 - moto does not check it
            )
            self._arn = self._client.create_state_machine(
                name=f"local-{uuid.uuid4()}",  # unique, as creating one with an existing name returns the existing one
                definition=json.dumps(self._asl or definition()),
                roleArn="arn:aws:iam::123456789012:role/retrieve",
            )["stateMachineArn"]
            self._interpreter = stepfunctions_parser_backends[self._arn.split(":")[4]][REGION]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def answer(self, query: Query) -> Answer:
        """Answer one question.

        Raises
        ------
        InvalidRequest, StoresUnavailable
            As the in-process pipeline.
        WorkflowFailed
            If the state machine itself failed or did not end in time.
        """
        return Answer.model_validate(self._output(self._begin(_asking(query))))

    def execute(self, query: Query | dict[str, Any]) -> Execution:
        """Answer one question; return the output and the history."""
        return self.run(_asking(query))

    def run(self, state: dict[str, Any]) -> Execution:
        """Run the definition on an input; return output and history.

        Raises
        ------
        BraidError
            The error of that name, or :class:`WorkflowFailed`, if the execution failed.
        """
        arn = self._begin(state)
        output = self._output(arn)
        history = self._client.get_execution_history(executionArn=arn, maxResults=1000)["events"]
        return Execution(output=output, events=tuple(dict(event) for event in history))

    def _begin(self, state: dict[str, Any]) -> str:
        # Named as in braid.engines.aws.step_functions, by which the functions know the trace that they belong to.
        with operation(f"start {self._arn.rsplit(':', 1)[-1]}", {}, kind=SpanKind.CLIENT):
            name = trace_headers().get(TRACEPARENT) or str(uuid.uuid4())
            started = self._client.start_execution(stateMachineArn=self._arn, name=name, input=json.dumps(state))
        arn: str = started["executionArn"]
        return arn

    def _output(self, arn: str) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        # Read from the interpreter itself, as an API request takes as long as a state.
        execution = self._interpreter.describe_execution(arn)
        ended = False
        while time.monotonic() < deadline:
            # It sets the status first, and output, error and cause a moment later.
            if ended and execution.status != "SUCCEEDED":
                raise _failure(execution.error or "", execution.cause or "", execution.status)
            if execution.output is not None:
                output: dict[str, Any] = json.loads(json.dumps(execution.output))
                return output
            ended = execution.status != "RUNNING"
            time.sleep(POLL_SECONDS)
        raise WorkflowFailed(f"the state machine did not end within {TIMEOUT_SECONDS:.0f} s")


def _asking(query: Query | dict[str, Any]) -> dict[str, Any]:
    """Return the input of an execution."""
    return {"query": query if isinstance(query, dict) else query.model_dump(mode="json")}


def _failure(error: str, cause: str, status: str) -> BraidError:
    """Return the error of a failed execution: the one that the pipeline would raise, or WorkflowFailed."""
    try:
        message = json.loads(cause)["errorMessage"]
    except (ValueError, KeyError, TypeError):
        message = cause
    kind = ERRORS.get(error)
    return kind(message) if kind else WorkflowFailed(f"{status}: {error or 'no error'}: {message}")


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set environment variables while the block runs."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
