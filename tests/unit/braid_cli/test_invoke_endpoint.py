"""The Lambda endpoint on loopback answers as Lambda does, whatever its caller and its handlers do."""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.config import Config
from braid.errors import TransientStoreError

from braid_cli.state_machine.invoke_endpoint import STAGE_FUNCTIONS, InvokeServer, load_handler, stage_handlers

if TYPE_CHECKING:
    from collections.abc import Iterator

FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:echo"


def echo(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return {"event": event, "function": context.function_name, "request": context.aws_request_id}


def lost(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    raise TransientStoreError("the search index did not answer in time")


def unspeakable(_event: dict[str, Any], _context: Any) -> dict[str, Any]:
    return {"when": object()}


@pytest.fixture(scope="module")
def server() -> Iterator[InvokeServer]:
    with InvokeServer({"echo": echo, "lost": lost, "unspeakable": unspeakable}) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: InvokeServer) -> Any:
    return boto3.client(
        "lambda",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",  # noqa: S106 - of no account
        config=Config(retries={"total_max_attempts": 1}),
    )


def call(client: Any, function: str, event: object) -> tuple[dict[str, Any], Any]:
    answer = client.invoke(FunctionName=function, Payload=json.dumps(event).encode())
    return answer, json.loads(answer["Payload"].read())


@pytest.mark.parametrize("name", ["echo", FUNCTION])
def test_a_function_is_called_by_its_name_or_its_arn(client: Any, name: str) -> None:
    answer, payload = call(client, name, {"question": "Łódź – why?"})
    assert answer["StatusCode"] == 200
    assert "FunctionError" not in answer
    assert (payload["event"], payload["function"]) == ({"question": "Łódź – why?"}, "echo")


def test_each_call_has_a_request_id_of_its_own(client: Any) -> None:
    assert call(client, "echo", {})[1]["request"] != call(client, "echo", {})[1]["request"]


def test_what_a_handler_raises_is_its_answer_by_class_and_message(client: Any) -> None:
    answer, payload = call(client, "lost", {})
    assert answer["FunctionError"] == "Unhandled"
    assert payload == {
        "errorType": "TransientStoreError",
        "errorMessage": "the search index did not answer in time",
    }


def test_a_result_that_is_not_json_is_the_handlers_error(client: Any) -> None:
    answer, payload = call(client, "unspeakable", {})
    assert answer["FunctionError"] == "Unhandled"
    assert payload["errorType"] == "Runtime.MarshalError"


def test_a_function_that_does_not_exist_is_named(client: Any) -> None:
    with pytest.raises(client.exceptions.ResourceNotFoundException, match="nothing"):
        call(client, "nothing", {})


def test_a_caller_that_hangs_up_does_not_stop_the_next(server: InvokeServer, client: Any) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as caller:
        caller.sendall(b"POST /2015-03-31/functions/echo/invocations HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
    assert call(client, "echo", {"next": True})[1]["event"] == {"next": True}


def test_an_event_that_is_not_json_is_an_error_and_no_broken_connection(server: InvokeServer) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.request("POST", "/2015-03-31/functions/echo/invocations", body=b"{")
    answer = connection.getresponse()
    assert answer.getheader("X-Amz-Function-Error") == "Unhandled"
    answer.read()
    connection.close()


def test_the_endpoint_listens_on_loopback_only_and_closes() -> None:
    with InvokeServer({"echo": echo}) as running:
        assert running.url.startswith("http://127.0.0.1:")
        port = int(running.url.rsplit(":", 1)[1])
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_every_function_of_the_workflow_is_loaded_once_from_where_it_is_deployed_from() -> None:
    handlers = stage_handlers()
    assert set(handlers) == set(STAGE_FUNCTIONS)
    assert all(load_handler(name) is handler for name, handler in handlers.items())


def test_a_function_that_has_no_folder_is_named() -> None:
    with pytest.raises((LookupError, FileNotFoundError), match="nothing"):
        load_handler("nothing")
