"""Bad input at the front door: refused for its own reason, never a fault of ours, never another tenant's data."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.front_door import FrontDoor, claims
from tests.hostile.oracle import CANARY, NO_TENANTS, UNREADABLE, WORDS, harmless, raw, two_tenants
from tests.operations import DOCUMENT, OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.operations import Operation
    from tests.stages import DemoStages

EXAMPLES = int(os.environ.get("EXAMPLES", "60"))
"""Of each test that makes its own input; `make test-hostile` asks for more."""
QUESTION = {"text": WORDS}
GRAPH = {"start": {"names": ["Canary"]}}


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    with two_tenants(tmp_path_factory.mktemp("hostile")) as stages:
        yield stages


@pytest.fixture(scope="module")
def door(stages: DemoStages) -> FrontDoor:
    return FrontDoor(stages)


def asks(**fields: Any) -> dict[str, Any]:
    return {"body": {**QUESTION, **fields}}


def named(name: str) -> dict[str, Any]:
    return {"body": QUESTION, "headers": {"braid-tenant": name}}


BAD: dict[str, tuple[dict[str, Any], int]] = {
    **UNREADABLE,
    **{f"a tenant: {what}": (named(name), 403) for what, name in NO_TENANTS.items()},
    "empty text": (asks(text=""), 422),
    "blank text": (asks(text=" \n\t "), 422),
    "1 MB of text": (asks(text="x" * 1_000_000), 422),
    "NUL": (asks(text="a\x00b"), 422),
    "right to left and zero width": (asks(text="\u202eabc\u200b\u200d\u2066"), 200),
    "infinity": (raw('{"text": "a", "vector_weight": 1e999}'), 400),
    "k of 0": (asks(top_k=0), 422),
    "k of -1": (asks(top_k=-1), 422),
    "k of 10⁹": (asks(top_k=10**9), 422),
    'k of "5"': (asks(top_k="5"), 422),
    "k of true": (asks(top_k=True), 422),
    "k of 5.5": (asks(top_k=5.5), 422),
    "99 hops": (asks(graph_constraint={"entity": "Canary", "depth": 99}), 422),
    "unknown field": (asks(size=10), 422),
    "a tenant in the body": (asks(tenant_id="pellworth"), 422),
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
    "a time that is none": (asks(as_of="yesterday"), 422),
    "a time as a number": (asks(as_of=1e308), 422),
    "a time long ago": (asks(as_of="0001-01-01T00:00:00+14:00"), 422),
    "a range the wrong way": (asks(filters={"time_range": {"start": "2025-01-01", "end": "2024-01-01"}}), 422),
    "a thousand types": (asks(filters={"entity_types": ["A"] * 1_000}), 422),
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
        *((path, f"{name}=1") for path in ("/records", "/health") for name in ("body", "query", "path", "header")),
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


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
FIELDS = st.sampled_from(sorted({name for schema in SCHEMAS.values() for name in schema.get("properties", ())}))
ANY = st.sampled_from(OPERATIONS)
TAKING = st.sampled_from([each for each in OPERATIONS if each.body is not None])
QUICK = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUICK
@given(operation=TAKING, body=st.dictionaries(FIELDS, JSON, max_size=5), kept=st.integers(0, 3))
def test_whatever_the_fields_hold_it_is_refused_or_answered(
    door: FrontDoor, operation: Operation, body: dict[str, Any], kept: int
) -> None:
    right = dict(list((operation.body or {}).items())[:kept])  # so that not every request lacks what it needs
    harmless(door.ask("POST", operation.template, {**body, **right}))


@QUICK
@given(operation=TAKING, text=st.binary(max_size=60) | st.text(max_size=60))
def test_whatever_the_body_is_it_is_refused_or_answered(
    door: FrontDoor, operation: Operation, text: str | bytes
) -> None:
    harmless(door.ask("POST", operation.template, raw=text))


@QUICK
@given(operation=ANY, place=st.text(max_size=30), query=st.data())
def test_whatever_the_place_and_parameters_are_they_are_refused_or_answered(
    door: FrontDoor, operation: Operation, place: str, query: st.DataObject
) -> None:
    names = st.sampled_from(operation.names) if operation.names else st.text(max_size=6)
    asked = query.draw(st.dictionaries(names, st.text(max_size=12) | st.integers(), max_size=3))
    path = operation.path(place)
    harmless(door.ask(operation.method, path, operation.body, query=asked))


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
