"""Bad input at the front door: refused for its own reason, never a fault of ours, never another tenant's data."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.front_door import Answered, FrontDoor, claims
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = int(os.environ.get("EXAMPLES", "60"))
"""Of each test that makes its own input; `make test-hostile` asks for more."""
CANARY = "canary-of-pellworth"
WORDS = "Osprey heron bittern"
"""In both tenants' records, so that a search for them could find the canary."""
QUESTION = {"text": WORDS}
GRAPH = {"start": {"names": ["Canary"]}}
INSIDE = ("Traceback", "site-packages", "pydantic", 'File "', "sqlite3", "aws_lambda_powertools", "errors.pydantic.dev")


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = demo_stages(tmp_path_factory.mktemp("hostile"))
    door = FrontDoor(stages)
    for tenant, name in (("saltmarrow", "heron"), ("pellworth", CANARY)):
        record = {"id": name, "kind": "entity", "entity_type": "Event", "name": "Canary", "content": f"{WORDS} {name}"}
        body = {"records": [record, {"id": f"{name}-2", "content": name}]}
        body["relationships"] = [{"source": name, "type": "CAUSES", "target": f"{name}-2"}]  # type: ignore[assignment]
        assert door.ask("POST", "/records", body, authorizer=claims(tenant)).status == 200
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def door(stages: DemoStages) -> FrontDoor:
    return FrontDoor(stages)


def harmless(answered: Answered) -> Answered:
    """Return an answer that shows nothing of the inside and nothing of another tenant."""
    assert answered.status < 500, answered.text
    assert CANARY not in answered.text
    if answered.status >= 400:
        assert answered.problem
        for sign in INSIDE:
            assert sign not in answered.text
    return answered


def asks(**fields: Any) -> dict[str, Any]:
    return {"body": {**QUESTION, **fields}}


def raw(text: str | bytes) -> dict[str, Any]:
    return {"raw": text}


def named(name: str) -> dict[str, Any]:
    return {"body": QUESTION, "headers": {"braid-tenant": name}}


BAD: dict[str, tuple[dict[str, Any], int]] = {
    "no body": ({}, 400),
    "empty body": (raw(""), 400),
    "spaces only": (raw("   "), 400),
    "empty text": (asks(text=""), 422),
    "blank text": (asks(text=" \n\t "), 422),
    "1 MB of text": (asks(text="x" * 1_000_000), 422),
    "3 MB of text": (asks(text="x" * 3_000_000), 413),
    "3 MB of base64": (raw(b"\xff" * 3_000_000), 413),
    "NUL": (asks(text="a\x00b"), 422),
    "lone surrogate": (raw('{"text": "a\\ud800b"}'), 400),
    "lone surrogate in a key": (raw('{"text": "a", "\\udfff": 1}'), 400),
    "right to left and zero width": (asks(text="\u202eabc\u200b\u200d\u2066"), 200),
    "NaN": (raw('{"text": "a", "vector_weight": NaN}'), 400),
    "infinity": (raw('{"text": "a", "vector_weight": 1e999}'), 422),
    "k of 0": (asks(top_k=0), 422),
    "k of -1": (asks(top_k=-1), 422),
    "k of 10⁹": (asks(top_k=10**9), 422),
    'k of "5"': (asks(top_k="5"), 422),
    "k of true": (asks(top_k=True), 422),
    "k of 5.5": (asks(top_k=5.5), 422),
    "k of 5,000 digits": (raw('{"text": "a", "top_k": ' + "9" * 5_000 + "}"), 400),
    "99 hops": (asks(graph_constraint={"entity": "Canary", "depth": 99}), 422),
    "a key twice": (raw('{"text": "a", "text": "b"}'), 400),
    "depth 10⁴ of arrays": (raw("[" * 10_000 + "]" * 10_000), 400),
    "depth 10⁴ of objects": (raw('{"text":' * 10_000 + "1" + "}" * 10_000), 400),
    "unknown field": (asks(size=10), 422),
    "a tenant in the body": (asks(tenant_id="pellworth"), 422),
    "an array": (raw(json.dumps([QUESTION])), 400),
    "a string": (raw('"text"'), 400),
    "half of JSON": (raw('{"text": "a"'), 400),
    "two values": (raw('{"text": "a"} {}'), 400),
    "a comment": (raw('{"text": "a"} // b'), 400),
    "script as filters": (asks(filters={"script": {"source": "ctx._source"}}), 422),
    "match_all as filters": (asks(filters={"match_all": {}}), 422),
    "match_all as text": (asks(text='{"query": {"match_all": {}}}'), 200),
    "a query string": (asks(text="*:* OR _exists_:tenant_id AND tenant_id:pellworth"), 200),
    "Gremlin as text": (asks(text="'); g.V().drop().iterate(); ('"), 200),
    "Gremlin as entity": (asks(graph_constraint={"entity": "x').both().values('tenant_id"}), 200),
    "SQL as text": (asks(text="' UNION SELECT * FROM records WHERE tenant = 2 --"), 200),
    "SQL as a type": (asks(filters={"entity_types": ["Event' OR '1'='1"]}), 422),
    "FTS5 operators": (asks(text='"Osprey NEAR( AND * ^ heron'), 200),
    "a bomb of a regular expression": (asks(text="(a+)+" * 1_500 + "a" * 2_000 + "!"), 200),
    "words without end": (asks(text="why " * 2_500), 200),
    "a wrong content type": ({"body": QUESTION, "headers": {"content-type": "text/plain"}}, 415),
    "a form": ({"raw": "text=a", "headers": {"content-type": "application/x-www-form-urlencoded"}}, 415),
    "another charset": ({"body": QUESTION, "headers": {"content-type": "application/json; charset=utf-16"}}, 415),
    "no content type": ({"body": QUESTION, "headers": {"content-type": ""}}, 415),
    "invalid UTF-8": (raw(b'{"text": "\xff\xfe"}'), 400),
    "UTF-16": (raw('{"text": "a"}'.encode("utf-16")), 400),
    "a byte order mark": (raw(b'\xef\xbb\xbf{"text": "a"}'), 400),
    "a time that is none": (asks(as_of="yesterday"), 422),
    "a time as a number": (asks(as_of=1e308), 422),
    "a time long ago": (asks(as_of="0001-01-01T00:00:00+14:00"), 422),
    "a range the wrong way": (asks(filters={"time_range": {"start": "2025-01-01", "end": "2024-01-01"}}), 422),
    "a thousand types": (asks(filters={"entity_types": ["A"] * 1_000}), 422),
    "a tenant with a space": (named("a b"), 403),
    "a tenant as a path": (named("../x"), 403),
    "a tenant with other digits": (named("ten٣nté"), 403),
    "any tenant": (named("*"), 403),
    "two tenants": (named("saltmarrow,pellworth"), 403),
    "a tenant with colons": (named("a::b"), 403),
    "a tenant and a bar": (named("saltmarrow|pellworth"), 403),
    "a tenant with a line feed": (named("saltmarrow\npellworth"), 403),
    "a tenant without a name": (named(""), 403),
    "another tenant": (named("pellworth"), 403),
}


def test_the_canary_is_there_to_be_found_by_its_own_tenant(door: FrontDoor) -> None:
    for path in (f"/entities/{CANARY}", f"/entities/{CANARY}/related"):
        assert CANARY in door.ask("GET", path, authorizer=claims("pellworth")).text
    assert CANARY in door.ask("POST", "/search", QUESTION, authorizer=claims("pellworth")).text
    assert "heron" in door.ask("POST", "/search", QUESTION).text


@pytest.mark.parametrize("name", BAD)
def test_a_bad_question_is_answered_for_what_it_is(door: FrontDoor, name: str) -> None:
    given, status = BAD[name]
    began = time.perf_counter()
    answered = harmless(door.ask("POST", "/search", **given))
    assert answered.status == status, answered.text
    assert time.perf_counter() - began < 5  # seconds; the slowest takes a tenth of one here


@pytest.mark.parametrize(
    "path",
    [
        "/entities/a\x00b",
        "/entities/" + "x" * 5_000,
        "/entities/../records",
        f"/entities/pellworth|{CANARY}",
        f"/entities/{CANARY}",
        f"/entities/{CANARY}/related",
        "/entities/x').drop().V('/related",
        "/entities/%00",
        "/entities/\ufffd",
        "/traces/..",
        "/traces/" + "x" * 500,
        "/traces/*",
        "//search",
        "/search/",
        "/",
        "",
        "/entities/",
        "/explorer/../app.py",
    ],
)
def test_a_bad_path_leads_nowhere(door: FrontDoor, path: str) -> None:
    assert harmless(door.ask("GET", path)).status in {404, 405, 422}


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/entities/heron/related", "depth=99"),
        ("/entities/heron/related", "depth=1&depth=2"),
        ("/entities/heron/related", "limit=1e9"),
        ("/entities/heron/related", "types=A%27)&direction=up"),
        ("/entities/heron/related", "types=" + "A&types=" * 100 + "A"),
        ("/entities/heron/related", "as_of=%00"),
        ("/entities/heron/related", "dept=2"),
        ("/entities/heron", "%00=%ff"),
        ("/records", "limit=0"),
        ("/records", "limit=true"),
        ("/records", "after=%ff%fe"),
        ("/records", "after=" + "A" * 5_000),
    ],
)
def test_a_bad_parameter_is_named(door: FrontDoor, path: str, query: str) -> None:
    answered = harmless(door.ask("GET", path, query=query))
    assert answered.status == 422
    assert answered.fields


@pytest.mark.parametrize(
    "authorizer", [None, {}, {"jwt": None}, {"jwt": {"claims": None}}, {"jwt": {"claims": {}}}, {"iam": {}}]
)
def test_a_request_that_was_not_verified_is_nobodys(door: FrontDoor, authorizer: dict[str, Any] | None) -> None:
    assert harmless(door.ask("POST", "/search", QUESTION, authorizer=authorizer)).status == 401


# --- anything at all --------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["text", "top_k", "filters", "hints", "graph_constraint", "as_of", "fusion", "ranking", "start", "steps", "limit",
     "query", "messages", "records", "vertices", "relationships", "version", "types", "vector_weight", "explain"]
)  # fmt: skip
PATHS = st.sampled_from(["/search", "/search/semantic", "/graph/query", "/context", "/records", "/schemas"])
QUICK = settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(path=PATHS, body=st.dictionaries(FIELDS, JSON, max_size=5))
def test_whatever_the_fields_hold_it_is_refused_or_answered(door: FrontDoor, path: str, body: dict[str, Any]) -> None:
    harmless(door.ask("POST", path, body))


@QUICK
@given(path=PATHS, text=st.binary(max_size=60) | st.text(max_size=60))
def test_whatever_the_body_is_it_is_refused_or_answered(door: FrontDoor, path: str, text: str | bytes) -> None:
    harmless(door.ask("POST", path, raw=text))


@QUICK
@given(text=st.text(min_size=1, max_size=200))
def test_whatever_is_asked_is_answered_from_ones_own_tenant(door: FrontDoor, text: str) -> None:
    harmless(door.ask("POST", "/search", {"text": f"{WORDS} {text}"}))
    harmless(door.ask("GET", f"/entities/{text}/related"))


@QUICK
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "x"]), path=st.text(max_size=40)
)
def test_whatever_the_path_is_it_is_refused_or_answered(door: FrontDoor, method: str, path: str) -> None:
    harmless(door.ask(method, f"/{path}"))


@QUICK
@given(claim=JSON, header=st.none() | st.text(max_size=30))
def test_whatever_a_token_claims_it_is_one_of_its_tenants_or_refused(
    door: FrontDoor, claim: Any, header: str | None
) -> None:
    headers = {} if header is None else {"braid-tenant": header}
    answered = door.ask("POST", "/search", QUESTION, authorizer=claims(claim), headers=headers)
    assert harmless(answered).status in {200, 403, 422}
    if answered.status == 200:
        assert answered.json()["results"] == []  # a tenant of that name has nothing here
