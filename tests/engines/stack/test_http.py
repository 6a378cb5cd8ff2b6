"""The HTTP interface on LocalStack, by requests to its API: routes, tokens and events as the template has them."""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from braid.models import Answer
from braid.retrieval import pipeline

from tests.engines.stack.deployed import TENANT, question, until
from tests.front_door import Answered

if TYPE_CHECKING:
    from tests.engines.stack.deployed import Deployed

OWN = "own"


@dataclass(frozen=True)
class Door:
    """Sends requests of one tenant."""

    deployed: Deployed
    tenant: str

    def ask(self, method: str, path: str, body: Any = None, *, query: Any = (), token: str | None = OWN) -> Answered:
        host = f"{self.deployed.name_of('FrontDoor')}.execute-api.localhost"
        headers = {"Host": host, "Content-Type": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {self.deployed.issuer.token(self.tenant) if token is OWN else token}"
        data = None if body is None else json.dumps(body).encode()
        url = f"{self.deployed.localstack.endpoint}{path}{'?' if query else ''}{urlencode(query)}"
        try:
            answer = urlopen(Request(url, data, headers, method=method), timeout=60)  # noqa: S310 - a loopback address
        except HTTPError as refused:
            answer = refused
        with answer:
            return Answered(answer.status, dict(answer.headers), answer.read().decode())

    def found(self, text: str) -> list[str]:
        answered = self.ask("POST", "/search", {"text": text})
        assert answered.status == 200, answered.text
        return [result["id"] for result in answered.json()["results"]]


@pytest.fixture
def door(deployed: Deployed) -> Door:
    return Door(deployed, f"tenant-{uuid.uuid4().hex}")


def test_a_question_is_answered_by_the_workflow_as_by_the_pipeline_and_leaves_its_trace(deployed: Deployed) -> None:
    door, query = Door(deployed, TENANT), question()
    answered = door.ask("POST", "/search", {"text": query.text, "explain": True})
    assert answered.status == 200, answered.text
    answer = Answer.model_validate(answered.json())
    assert answer.degraded == ()
    expected = pipeline.answer(query, deployed.stages)
    assert [result.id for result in answer.results] == [result.id for result in expected.results]
    trace = door.ask("GET", f"/traces/{answer.trace_id}").json()
    assert trace["trace_id"] == answer.trace_id
    again = door.ask("POST", "/search", {"text": query.text, "explain": True}).json()
    assert again["results"]
    assert Door(deployed, "nobody").ask("GET", f"/traces/{answer.trace_id}").status == 404


def test_who_is_not_known_or_asks_wrongly_is_told_so(deployed: Deployed) -> None:
    door = Door(deployed, TENANT)
    for path in ("/health", "/openapi.json", "/explorer", "/explorer/explorer.js", "/"):
        assert door.ask("GET", path, token=None).status == 200, path
    issuer = deployed.issuer
    changed = issuer.token(TENANT, sub="eve").rpartition(".")[0] + "." + issuer.token(TENANT).rpartition(".")[2]
    for token in (None, "a.b.c", changed, issuer.token(TENANT, aud="others"), issuer.token(TENANT, exp=1)):
        assert door.ask("POST", "/search", {"text": "why"}, token=token).status == 401
    assert door.ask("GET", "/records", token=issuer.token([TENANT, "other"])).fields == ["Braid-Tenant"]
    wrong = door.ask("POST", "/search", {"text": "why", "top_k": 51})
    assert (wrong.status, wrong.fields) == (422, ["top_k"])


def test_what_is_written_is_found_at_once_listed_and_removed(door: Door) -> None:
    body = {
        "records": [{"id": f"r{at}", "content": f"the heron turbine number {at}"} for at in range(3)],
        "vertices": [{"id": "heron", "name": "Heron"}],
        "relationships": [{"source": "heron", "type": "MENTIONS", "target": "r1"}],
    }
    written = door.ask("POST", "/records", body)
    assert (written.status, written.json()["written"]) == (200, 3), written.text
    assert set(door.found("the heron turbine")) == {"r0", "r1", "r2"}
    page = door.ask("GET", "/records", query={"limit": 2}).json()
    rest = door.ask("GET", "/records", query={"limit": 2, "after": page["next"]}).json()
    assert [record["id"] for record in (*page["records"], *rest["records"])] == ["r0", "r1", "r2"]
    assert door.ask("DELETE", "/records/r1").json()["records"] == 1
    assert set(door.found("the heron turbine")) == {"r0", "r2"}


def test_a_document_is_written_in_the_background(door: Door) -> None:
    text = base64.b64encode(b"# Gates\n\nThe egret gate opens at nine.\n").decode()
    begun = door.ask("POST", "/documents", {"name": "gates.md", "content": text})
    assert begun.status == 202, begun.text

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = door.ask("GET", begun.headers["Location"]).json()
        return None if found["status"] == "running" else found

    assert until(ended, "the import ended")["status"] == "written"
    (found,) = door.found("When does the egret gate open?")
    assert found.startswith("documents/gates.md#")
