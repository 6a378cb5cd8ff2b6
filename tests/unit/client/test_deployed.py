"""The client against the server on this machine: the library's shapes over the wire, and how it meets trouble."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from braid.api.client import ApiError, Client
from braid.api.schemas import GraphRequest, NewSchema, Writes
from braid.models import NewRecord, Query, Question
from braid.ports.graph_query import QueryStart
from braid.retrieval.context.selection import ContextQuestion

from braid_cli.openapi import TARGET, generated
from tests.served import served, token
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator

QUESTION = "What caused the Beacon text storm?"


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = demo_stages(tmp_path_factory.mktemp("client"))
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def address(stages: DemoStages) -> Iterator[str]:
    with served(stages) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address, token=token("saltmarrow"), attempts=1) as client:
        yield client


def test_an_answer_over_the_wire_is_the_librarys(client: Client, stages: DemoStages) -> None:
    answer = client.search(QUESTION, top_k=3)
    expected = stages.answer(Query(tenant_id="saltmarrow", text=QUESTION, top_k=3))
    assert answer.results == expected.results
    assert client.search(Question(text=QUESTION, top_k=3)).results == expected.results


def test_every_question_of_the_library_can_be_asked(client: Client) -> None:
    found = client.semantic_search("text storm", limit=2)
    assert client.trace(found.trace_id).trace_id == found.trace_id
    assert client.entity("postmortem-text-storm.pdf#chunk-1").citation
    assert client.related("Beacon", types=["DEPENDS_ON"], depth=2, limit=3).hits
    assert client.graph_query(GraphRequest(start=QueryStart(names=("Beacon",)))).hits
    assert client.context(ContextQuestion(query=QUESTION)).messages


def test_what_is_written_is_listed(address: str) -> None:
    writes = Writes(records=(NewRecord(id="b", content="x"), NewRecord(id="a#1", content="y")))
    with Client(address, token=token("written"), attempts=1) as client:
        assert client.write(writes, key="k").written == 2
        assert client.write(writes, key="k").written == 2
        assert [record.id for record in client.records(page_size=1)] == ["a#1", "b"]
        assert client.delete("a?1").records == 0
        assert client.delete("a#1").records == 1
        assert client.register_schema(NewSchema(version=1)) in client.schemas().versions


def test_a_refusal_says_what_the_server_said(client: Client, address: str) -> None:
    with pytest.raises(ApiError, match="no entity") as caught:
        client.entity("nothing / here?")
    assert caught.value.status == 404
    with pytest.raises(ApiError, match="depth: ") as caught:
        client.related("Beacon", depth=9)
    assert caught.value.problem
    assert [error.field for error in caught.value.problem.errors] == ["depth"]
    with Client(address, token="forged", attempts=1) as stranger, pytest.raises(ApiError) as caught:  # noqa: S106 - none
        stranger.search(QUESTION)
    assert caught.value.status == 401
    with (
        Client(address, token=token("saltmarrow"), tenant_id="pellworth", attempts=1) as curious,
        pytest.raises(ApiError) as caught,
    ):
        curious.search(QUESTION)
    assert caught.value.status == 403


class Grudging(BaseHTTPRequestHandler):
    """Answers with what its class says, one after another."""

    answers: list[tuple[int, bytes]]
    asked = 0

    def do_POST(self) -> None:
        type(self).asked += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = self.answers.pop(0)
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def grudging() -> Iterator[tuple[type[Grudging], str]]:
    kind = type("Once", (Grudging,), {"answers": [], "asked": 0})
    with HTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield kind, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


ENTITY = json.dumps({"id": "a", "kind": None, "entity_type": None, "name": None}).encode()


def test_a_busy_server_is_asked_again_and_not_for_ever(grudging: tuple[type[Grudging], str]) -> None:
    kind, address = grudging
    kind.answers = [(503, b""), (429, b""), (200, ENTITY)]
    with Client(address, token="t") as client:  # noqa: S106 - of no use anywhere
        assert client.entity("a").id == "a"
        kind.answers = [(503, b'{"message": "later"}')] * 5
        kind.asked = 0
        with pytest.raises(ApiError, match="later"):
            client.entity("a")
    assert kind.asked == 3


def test_a_write_that_is_being_done_is_asked_after_again(grudging: tuple[type[Grudging], str]) -> None:
    kind, address = grudging
    kind.answers = [(409, b""), (409, b""), (200, ENTITY)]
    with Client(address, token="t") as client:  # noqa: S106 - of no use anywhere
        assert client.entity("a").id == "a"


def test_an_answer_that_cannot_be_read_is_an_error_of_the_client(grudging: tuple[type[Grudging], str]) -> None:
    kind, address = grudging
    kind.answers = [(200, b"<html>"), (500, b"<html>"), (418, b"[]")]
    with Client(address, token="t", attempts=1) as client:  # noqa: S106 - of no use anywhere
        for _ in range(3):
            with pytest.raises(ApiError):
                client.entity("a")


def test_a_server_that_does_not_answer_is_given_up() -> None:
    with HTTPServer(("127.0.0.1", 0), Grudging) as silent:
        address = f"http://127.0.0.1:{silent.server_port}"
        with Client(address, token="t", timeout_s=0.05, attempts=2) as client:  # noqa: S106 - of no use anywhere
            with pytest.raises(ApiError) as caught:
                client.entity("a")
            assert caught.value.status == 0


def test_the_document_that_is_kept_is_that_of_the_routes() -> None:
    assert TARGET.read_text(encoding="utf-8") == generated(), "make openapi writes it anew"


def test_each_operation_of_the_document_says_how_it_may_refuse() -> None:
    document = json.loads(TARGET.read_text(encoding="utf-8"))
    for path, operations in document["paths"].items():
        for operation in operations.values():
            codes = set(operation["responses"])
            assert operation["operationId"]
            if path != "/health":
                assert {"401", "403", "404", "422", "429", "503"} <= codes, path
            if "requestBody" in operation:
                assert {"400", "413", "415"} <= codes, path
