"""The front door: what each path answers, and how it refuses."""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from aws_lambda_powertools.utilities.parameters import SecretsProvider
from botocore.exceptions import ClientError, ConnectTimeoutError, IncompleteReadError, ReadTimeoutError
from braid import deadline
from braid.api.handler import make_handler
from braid.engines.aws import secret_keys
from braid.errors import (
    ConfigurationError,
    InvalidRequest,
    StoreError,
    StoreFull,
    StoresUnavailable,
    StoreTooSlow,
    TransientStoreError,
    UnknownTenant,
)
from braid.models import Vertex
from braid.settings import Settings
from jsonschema import Draft202012Validator, FormatChecker
from pydantic import SecretStr

from braid_cli.openapi import TARGET
from tests.front_door import FrontDoor, claims, event, jwt
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.ports.search_index import IndexStats

QUESTION = {"text": "What caused the Beacon text storm?", "top_k": 3}


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = demo_stages(tmp_path_factory.mktemp("api"))
    yield stages
    stages.close()


@pytest.fixture
def door(stages: DemoStages) -> FrontDoor:
    stages.healthy()
    return FrontDoor(stages)


@pytest.mark.parametrize(("function_s", "request_s"), [(25.0, 22.0), (10.0, 8.0), (3.0, 1.0)])
def test_a_request_ends_before_its_function_does(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch, function_s: float, request_s: float
) -> None:
    def stats(_tenant_id: str) -> IndexStats:
        left.append(deadline.left())
        message = "the store took all of it"
        raise StoreTooSlow(message)

    left: list[float] = []
    monkeypatch.setattr(stages.index, "stats", stats)
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: function_s * 1000)
    answer = make_handler(stages)(event("GET", "/stats", authorizer=claims()), context)  # type: ignore[arg-type]
    assert answer["statusCode"] == 504
    assert request_s - 1 < left[0] <= request_s


@pytest.mark.parametrize("path", ["/health", "/explorer", "/openapi.json", "/records", "/nowhere"])
@pytest.mark.parametrize("headers", [{}, {"braid-front": ""}, {"braid-front": "key-of-another"}, {"braid-front": "ü"}])
def test_behind_a_firewall_whoever_goes_round_it_is_refused(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch, path: str, headers: dict[str, str]
) -> None:
    monkeypatch.setattr(stages, "front_key", lambda: b"key-of-the-front")
    answered = FrontDoor(stages).ask("GET", path, headers=headers)
    assert (answered.status, answered.problem) == (403, "forbidden")
    assert "key-of" not in answered.text


def test_behind_a_firewall_what_it_lets_through_is_answered(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "front_key", lambda: b"key-of-the-front")
    door, through = FrontDoor(stages), {"braid-front": "key-of-the-front"}
    assert door.ask("GET", "/health", headers=through, authorizer=None).status == 200
    assert door.ask("GET", "/records", headers=through).status == 200
    assert door.ask("GET", "/records", headers=through, authorizer=None).status == 401


def test_a_front_key_that_cannot_be_read_lets_nobody_in(stages: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable() -> bytes:
        message = "the secret cannot be read"
        raise StoreError(message)

    monkeypatch.setattr(stages, "front_key", unreadable)
    assert FrontDoor(stages).ask("GET", "/health", headers={"braid-front": ""}).status == 503


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ClientError({"Error": {"Code": "ThrottlingException"}}, "GetSecretValue"), "1"),
        (ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetSecretValue"), None),
        (ReadTimeoutError(endpoint_url="https://secretsmanager"), "1"),
        (ConnectTimeoutError(endpoint_url="https://secretsmanager"), "1"),
        (IncompleteReadError(actual_bytes=1, expected_bytes=2), "1"),
    ],
)
def test_a_front_key_that_may_soon_be_read_is_worth_trying_again(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch, error: Exception, hint: str | None
) -> None:
    class Secrets:
        def get_secret_value(self, **_: object) -> NoReturn:
            raise error

    monkeypatch.setattr(secret_keys, "_provider", lambda *_: SecretsProvider(boto3_client=Secrets()))
    key = secret_keys.signing_key(SecretStr(""), "arn:aws:secretsmanager:…", names=("KEY", "SECRET"), timeout_s=1)
    monkeypatch.setattr(stages, "front_key", key)
    answered = FrontDoor(stages).ask("GET", "/health", headers={"braid-front": "any"})
    assert (answered.status, answered.headers.get("Retry-After")) == (503, hint)


def test_the_front_key_comes_from_the_settings_and_without_one_any_way_will_do(tmp_path: Path) -> None:
    assert DemoStages(Settings(home=tmp_path)).front_key is None
    key = DemoStages(Settings(home=tmp_path, front_key=SecretStr("key-of-the-front"))).front_key
    assert key is not None
    assert key() == b"key-of-the-front"


def test_a_question_is_answered_as_the_library_answers_it(door: FrontDoor, stages: DemoStages) -> None:
    from braid.models import Query

    answered = door.ask("POST", "/search", QUESTION)
    assert answered.status == 200
    expected = stages.answer(Query(tenant_id="saltmarrow", text=QUESTION["text"], top_k=3))
    assert [result["id"] for result in answered.json()["results"]] == [result.id for result in expected.results]
    assert answered.json()["plan"]["strategy"] == expected.plan.strategy


def test_a_question_may_say_everything_but_its_tenant(door: FrontDoor) -> None:
    answered = door.ask("POST", "/search", {**QUESTION, "tenant_id": "pellworth"})
    assert (answered.status, answered.fields) == (422, ["tenant_id"])


def test_a_semantic_search_leaves_the_graph_out(door: FrontDoor) -> None:
    answer = door.ask("POST", "/search/semantic", {"text": "text storm", "limit": 2}).json()
    assert answer["plan"]["strategy"] == "semantic"
    assert len(answer["results"]) == 2
    assert "graph_expand" not in answer["latency_ms"]


def test_every_search_takes_conditions_on_metadata_and_names_what_is_wrong_with_them(door: FrontDoor) -> None:
    for path, conditions in (
        ("/search", {"filters": {"metadata": {"berth": {"gte": 2}}}}),
        ("/search/semantic", {"metadata": ["berth>=2"]}),
    ):
        answer = door.ask("POST", path, {"text": "text storm", **conditions}).json()
        assert (answer["results"], answer["plan"]["unknown_fields"]) == ([], ["berth"])
    for conditions, field in (
        ({"berth": {}}, "filters.metadata.0"),
        ({"b" * 10_000: 1}, "filters.metadata.0.field"),
        ({"berth": list(range(1_000))}, "filters.metadata.0.any_of"),
    ):
        refused = door.ask("POST", "/search", {"text": "text storm", "filters": {"metadata": conditions}})
        assert (refused.status, refused.fields) == (422, [field])


def test_the_graph_is_walked_as_asked(door: FrontDoor) -> None:
    question = {"start": {"names": ["Beacon"]}, "steps": [{"types": ["CAUSES"], "direction": "both"}], "limit": 5}
    answer = door.ask("POST", "/graph/query", question).json()
    assert set(answer) == {"hits", "truncated"}
    question["start"] = {"entity_types": ["Event"]}
    assert door.ask("POST", "/graph/query", question).json()["hits"]


def test_an_entity_is_read_by_its_id_whatever_characters_it_has(door: FrontDoor) -> None:
    answered = door.ask("GET", "/entities/postmortem-text-storm.pdf#chunk-1")
    assert answered.json()["citation"]["chunk_index"] == 1
    assert door.ask("GET", "/entities/event:text-storm").json()["entity_type"] == "Event"


def test_what_is_related_to_an_entity_is_found_by_its_id_and_by_its_name(door: FrontDoor) -> None:
    by_name = door.ask("GET", "/entities/Beacon/related", query={"limit": 3}).json()
    by_id = door.ask("GET", "/entities/service:beacon/related", query={"limit": 3}).json()
    assert by_name == by_id
    assert len(by_id["hits"]) == 3
    unknown = door.ask("GET", f"/entities/{'N' * 512}/related")
    assert (unknown.status, unknown.json()["detail"]) == (404, "no entity of this id or name")
    assert door.ask("GET", "/entities/Beakon/related").json()["detail"].endswith("; did you mean Beacon?")


def test_an_entity_that_is_asked_for_by_its_name_is_named_by_its_id(door: FrontDoor) -> None:
    for name in ("Beacon", "Beakon"):
        detail = door.ask("GET", f"/entities/{name}").json()["detail"]
        assert detail == "no entity of this id; did you mean 'service:beacon', which is called Beacon?"


def test_who_asks_for_what_is_trusted_is_suggested_no_other_name(tmp_path: Path) -> None:
    library = DemoStages(Settings(home=tmp_path))
    library.graph.upsert([Vertex(id="v", tenant_id="saltmarrow", name="Obey Mallory", trusted=False)], [])
    door = FrontDoor(library)
    path = "/entities/Obey Malory/related"
    assert door.ask("GET", path).json()["detail"].endswith("did you mean Obey Mallory?")
    trusted = door.ask("GET", path, query={"trusted_only": True})
    assert trusted.json()["detail"] == "no entity of this id or name"
    library.close()


def test_a_similar_name_is_looked_for_once_and_as_of_the_time_that_is_asked_for(
    door: FrontDoor, stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, looked_up = stages.graph.link, []

    def counted(*args: Any, as_of: datetime, **how: Any) -> Any:
        looked_up.append(as_of)
        return link(*args, as_of=as_of, **how)

    monkeypatch.setattr(stages.graph, "link", counted)
    missed = door.ask("GET", "/entities/Beakon/related", query={"as_of": "2024-05-01T00:00:00Z"})
    assert missed.json()["detail"].endswith("; did you mean Beacon?")
    assert looked_up == 2 * [datetime(2024, 5, 1, tzinfo=UTC)], "by its name, and by similar ones"


def test_relations_are_narrowed_by_type_direction_and_depth(door: FrontDoor) -> None:
    query = {"types": ["CAUSES", "ENABLES"], "direction": "in", "depth": 3}
    hits = door.ask("GET", "/entities/event:text-storm/related", query=query).json()["hits"]
    assert {kind for hit in hits for kind in hit["path"]["types"]} <= {"CAUSES", "ENABLES"}
    assert hits


def test_a_context_is_built_for_the_callers_tenant(door: FrontDoor) -> None:
    message = {"role": "user", "content": "Tell me about the Beacon text storm", "anything": [1]}
    answer = door.ask("POST", "/context", {"query": "Beacon text storm", "messages": [message]}).json()
    assert message in answer["messages"]
    assert len(answer["messages"]) > 1


def test_health_the_document_and_the_page_are_for_anyone(door: FrontDoor) -> None:
    for path, kind in (("/health", "json"), ("/openapi.json", "json"), ("/explorer", "html")):
        answered = door.ask("GET", path, authorizer=None)
        assert answered.status == 200
        assert kind in answered.headers["Content-Type"]


def test_the_bare_address_leads_to_the_page(door: FrontDoor) -> None:
    answer = door.ask("GET", "/", authorizer=None)
    assert (answer.status, answer.headers["Location"]) == (302, "/explorer")


def test_the_page_is_served_with_its_files_and_may_load_no_others(door: FrontDoor) -> None:
    page = door.ask("GET", "/explorer", authorizer=None)
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    for name in ("explorer.js", "explorer.css"):
        assert f"/explorer/{name}" in page.text
        assert door.ask("GET", f"/explorer/{name}", authorizer=None).status == 200
    for name in ("../handler.py", "index.py", "x.js"):
        assert door.ask("GET", f"/explorer/{name}", authorizer=None).status == 404


def test_how_an_answer_came_about_can_be_asked_afterwards_and_holds_no_text(door: FrontDoor) -> None:
    answer = door.ask("POST", "/search", {**QUESTION, "facets": ["why it was asked"]}).json()
    kept = door.ask("GET", f"/traces/{answer['trace_id']}")
    assert kept.json()["latency_ms"] == answer["latency_ms"]
    assert [result["id"] for result in kept.json()["results"]] == [result["id"] for result in answer["results"]]
    stored = (answer["results"][0]["content"][:40], answer["results"][0]["title"])
    for text in (QUESTION["text"], "why it was asked", *stored):
        assert str(text) not in kept.text


def test_another_tenant_has_no_such_trace(door: FrontDoor) -> None:
    trace_id = door.ask("POST", "/search", QUESTION).json()["trace_id"]
    answered = door.ask("GET", f"/traces/{trace_id}", authorizer=claims("pellworth"))
    assert answered.problem == "not-found"


def test_what_did_not_change_is_not_sent_again(door: FrontDoor) -> None:
    first = door.ask("GET", "/entities/event:text-storm")
    again = door.ask("GET", "/entities/event:text-storm", headers={"if-none-match": first.headers["ETag"]})
    assert (again.status, again.text) == (304, "")
    other = door.ask("GET", "/entities/service:beacon", headers={"if-none-match": first.headers["ETag"]})
    assert other.status == 200


def test_a_request_that_nobody_verified_is_refused_before_it_is_read(door: FrontDoor) -> None:
    for path in ("/search", "/nope"):
        answered = door.ask("POST", path, raw="no json", authorizer=None)
        assert (answered.status, answered.problem) == (401, "unauthenticated")
        assert answered.headers["WWW-Authenticate"] == "Bearer"


def test_a_path_that_is_none_and_a_method_that_it_has_not(door: FrontDoor) -> None:
    assert door.ask("GET", "/nope").problem == "not-found"
    answered = door.ask("DELETE", "/search")
    assert (answered.status, answered.headers["Allow"]) == (405, "POST")


def test_every_wrong_field_is_named(door: FrontDoor) -> None:
    body = {"text": "", "top_k": True, "filters": {"kinds": ["nothing"]}, "hints": {"strategy": 5}, "more": 1}
    answered = door.ask("POST", "/search", body)
    assert (answered.status, answered.problem) == (422, "invalid-request")
    assert set(answered.fields) == {"text", "top_k", "filters.kinds.0", "hints.strategy", "more"}


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/search", {"text": "x", "tpo_k": 1}, "tpo_k: unknown field; did you mean top_k?"),
        (
            "/search",
            {"text": "x", "filters": {"kind": ["chunk"]}},
            "filters.kind: unknown field; did you mean kinds?",
        ),
        (
            "/search",
            {"text": "x", "filters": {"metadata": [{"field": "a", "any_of": [2], "anyof": [1]}]}},
            "filters.metadata.0.anyof: unknown field; did you mean any_of?",
        ),
        (
            "/records",
            {"records": [{"id": "a", "contents": "x"}]},
            "records.0.contents: unknown field; did you mean content?",
        ),
        (
            "/records",
            {"records": [{"id": "a", "content": "x"}], "entities": []},
            "entities: unknown field; did you mean vertices?",
        ),
        (
            "/records",
            {"vertices": [{"id": "a", "type": "Service", "name": "x"}]},
            "vertices.0.type: unknown field; did you mean entity_type?",
        ),
        ("/records", {"records": [{"id": "a", "text": "x"}]}, "records.0.text: unknown field; did you mean content?"),
        ("/search", {"text": "x", "zzz": 1}, "zzz: unknown field"),
    ],
)
def test_an_unknown_field_is_refused_with_the_nearest_known_one(
    door: FrontDoor, path: str, body: dict[str, Any], told: str
) -> None:
    answered = door.ask("POST", path, body)
    assert answered.status == 422
    (error,) = answered.json()["errors"]
    assert f"{error['field']}: {error['detail']}" == told


def test_an_unknown_parameter_of_an_address_is_refused_with_the_nearest_known_one(door: FrontDoor) -> None:
    (error,) = door.ask("GET", "/records", query={"limits": 3}).json()["errors"]
    assert (error["field"], error["detail"]) == ("limits", "unknown field; did you mean limit?")


@pytest.mark.parametrize(
    "body",
    [
        {"text": "x", "as_of": "2024-05-01"},
        {"text": "x", "filters": {"metadata": {"team": "gates", "floor": {"gte": 2}, "day": ["2024-05-01", 3]}}},
        {"text": "x", "filters": {"metadata": ["team=gates", {"field": "floor", "gte": 2}]}},
    ],
)
def test_the_document_allows_the_short_forms_that_are_accepted(door: FrontDoor, body: dict[str, Any]) -> None:
    document = json.loads(TARGET.read_text(encoding="utf-8"))
    asked = {"$ref": "#/components/schemas/Question", "components": document["components"]}
    Draft202012Validator(asked, format_checker=FormatChecker()).validate(body)
    assert door.ask("POST", "/search", body).status == 200
    as_of = document["components"]["schemas"]["Question"]["properties"]["as_of"]["anyOf"]
    assert {"date", "date-time"} <= {form.get("format") for form in as_of}


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("text: is wrong", field="text"), 422, "invalid-request"),
        (UnknownTenant("saltmarrow"), 404, "not-found"),
        (StoresUnavailable("secret.host:9200"), 503, "unavailable"),
        (StoresUnavailable("secret.host:9200", permanent=True), 503, "unavailable"),
        (TransientStoreError("secret.host:9200 timed out"), 503, "unavailable"),
        (StoreFull("/secret/path"), 503, "unavailable"),
        (StoreError("secret"), 503, "unavailable"),
        (ConfigurationError("secret"), 503, "unavailable"),
        (RuntimeError("secret"), 500, "internal"),
    ],
)
def test_each_error_has_its_status_and_tells_nothing_of_the_inside(
    error: Exception,
    status: int,
    kind: str,
    *,
    stages: DemoStages,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(stages, "answer", fail)
    answered = FrontDoor(stages).ask("POST", "/search", QUESTION)
    assert (answered.status, answered.problem) == (status, kind)
    assert "secret" not in answered.text
    passing = isinstance(error, TransientStoreError | StoresUnavailable)
    assert ("Retry-After" in answered.headers) == (passing and not getattr(error, "permanent", False))
    logged = capsys.readouterr().err
    assert ("request failed" in logged) == (status >= 500)
    if isinstance(error, RuntimeError):
        assert "secret" not in logged  # a library's message may hold what it was given
        assert "RuntimeError" in logged


def test_an_answer_that_could_not_be_sent_is_a_problem_of_its_own(
    door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braid.api.handler.MAX_RESPONSE_BYTES", 1_000)
    assert door.ask("POST", "/search", QUESTION).problem == "answer-too-large"


def test_a_token_of_several_tenants_says_which_in_a_header(door: FrontDoor) -> None:
    both, token = claims("[saltmarrow pellworth]"), {"authorization": f"Bearer {jwt(['saltmarrow', 'pellworth'])}"}
    assert door.ask("POST", "/search", QUESTION, authorizer=both, headers=token).fields == ["Braid-Tenant"]
    for tenant in ("saltmarrow", "pellworth"):
        answered = door.ask("POST", "/search", QUESTION, authorizer=both, headers=token | {"braid-tenant": tenant})
        assert answered.status == 200


@pytest.mark.parametrize("tenant", ["a b", "../x", "ten٣nté", "*", "a,b", "a::b", "", "[]", "[ ]", "saltmarrow\n"])
def test_a_claim_that_is_no_tenants_name_is_refused(door: FrontDoor, tenant: str) -> None:
    assert door.ask("POST", "/search", QUESTION, authorizer=claims(tenant)).status == 403


def test_a_tenant_that_the_token_does_not_name_is_refused_and_written_down(door: FrontDoor, stages: DemoStages) -> None:
    answered = door.ask("POST", "/search", QUESTION, headers={"braid-tenant": "pellworth"})
    assert answered.problem == "forbidden"
    line = json.loads((stages.settings.home / "audit.jsonl").read_text().splitlines()[-1])
    assert (line["event"], line["subject"], line["tenant_id"], line["reason"]) == (
        *("refused", "user:ada", "pellworth"),
        "claim",
    )


def test_a_signed_request_names_no_tenant_and_is_refused_without_memberships(door: FrontDoor) -> None:
    iam = {"iam": {"userArn": "arn:aws:sts::123456789012:assumed-role/Ask/session-1"}}
    assert door.ask("POST", "/search", QUESTION, authorizer=iam).status == 403
    assert door.ask("POST", "/search", QUESTION, authorizer=iam, headers={"braid-tenant": "saltmarrow"}).status == 403


def test_a_request_is_logged_by_its_rule_without_what_was_asked(
    door: FrontDoor, capsys: pytest.CaptureFixture[str]
) -> None:
    door.ask("POST", "/search", QUESTION)
    door.ask("GET", "/entities/event:text-storm")
    logged = capsys.readouterr().err
    lines = [json.loads(line) for line in logged.splitlines()]
    assert [(line["route"], line["status"], line["tenant_id"]) for line in lines] == [
        ("/search", 200, "saltmarrow"),
        ("/entities/<entity_id>", 200, "saltmarrow"),
    ]
    assert "storm" not in logged


@pytest.fixture
def _threads_that_often_change() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_threads_that_often_change")
def test_requests_of_two_tenants_at_once_never_meet(door: FrontDoor) -> None:
    wrong: list[Any] = []
    begin = threading.Barrier(4)

    def ask(tenant: str, entity: str) -> None:
        begin.wait()
        for _ in range(40):
            answered = door.send(event("GET", f"/entities/{entity}", authorizer=claims(tenant)))
            if answered.status != 200 or answered.json()["id"] != entity:
                wrong.append((tenant, answered))

    mine = {"saltmarrow": "event:text-storm", "pellworth": PELLWORTH}
    threads = [threading.Thread(target=ask, args=item) for item in [*mine.items(), *mine.items()]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


PELLWORTH = "person:ines-duarte"
