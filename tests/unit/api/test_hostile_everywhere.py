"""The bad inputs at every operation of the OpenAPI document, in the place of each thing that a right request says."""

from __future__ import annotations

import copy
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.front_door import FrontDoor, claims
from tests.hostile.oracle import CANARY, NEVER_READ, NO_TENANTS, UNREADABLE, VALUES, harmless, two_tenants
from tests.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.operations import Operation
    from tests.stages import DemoStages

LONG = "EXAMPLES" in os.environ
"""`make test-hostile` puts every value into every place; the tests put each value into every fourth of them."""
ALWAYS = ("true", '"5"', "NUL", *NEVER_READ)
FREE = {("records", 0, "metadata", "a"), ("messages", 0, "role"), ("messages", 0, "content")}
"""What may be whatever the caller likes: it is given back, and never read."""
PLACEHOLDER = "what is spoiled"

every_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
with_body = pytest.mark.parametrize(
    "operation", [each for each in OPERATIONS if each.body is not None], ids=lambda operation: operation.id
)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    with two_tenants(tmp_path_factory.mktemp("everywhere")) as stages:
        yield stages


@pytest.fixture(scope="module")
def door(stages: DemoStages) -> FrontDoor:
    return FrontDoor(stages)


@pytest.fixture(scope="module", autouse=True)
def stores_of_the_neighbour_stay_as_they_are(door: FrontDoor) -> Iterator[None]:
    """Whatever is sent here by one tenant, nothing of the other changes."""
    before = _all_of("pellworth", door)
    assert any(CANARY in text for text in before)
    yield
    assert _all_of("pellworth", door) == before


def _all_of(tenant: str, door: FrontDoor) -> list[str]:
    pages, query = [], {"limit": "100"}
    while True:
        page = door.ask("GET", "/records", query=query, authorizer=claims(tenant)).json()
        pages.append(json.dumps(page["records"]))
        if not page["next"]:
            return [*pages, door.ask("GET", "/schemas", authorizer=claims(tenant)).text]
        query = {"limit": "100", "after": page["next"]}


def places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield where each part of a body stands, containers before what they hold."""
    if at:
        yield at
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        yield from places(member, (*at, key))


def spoiled(body: dict[str, Any], at: tuple[str | int, ...], text: str) -> tuple[str, Any]:
    """Return a body as JSON with something else in one place, and what stood there."""
    changed = copy.deepcopy(body)
    holder: Any = changed
    for step in at[:-1]:
        holder = holder[step]
    before, holder[at[-1]] = holder[at[-1]], PLACEHOLDER
    return json.dumps(changed).replace(json.dumps(PLACEHOLDER), text), before


def test_the_requests_that_are_spoiled_are_right_before(door: FrontDoor) -> None:
    for each in OPERATIONS:
        query = {name: value for name, value in each.query.items() if name != "after"}
        answered = harmless(door.ask(each.method, each.path(), each.body, query=query))
        assert answered.status < 300 or (answered.status == 404 and each.id in {"getImport", "getTrace"}), each.id


@with_body
def test_a_value_that_is_not_meant_there_is_refused_or_answered(door: FrontDoor, operation: Operation) -> None:
    assert operation.body is not None
    for number, at in enumerate(places(operation.body)):
        for index, (name, text) in enumerate(VALUES.items()):
            if not (LONG or name in ALWAYS or (index + number) % 4 == 0):
                continue
            raw, before = spoiled(operation.body, at, text)
            answered = harmless(door.ask(operation.method, operation.path(), raw=raw))
            if name in NEVER_READ:
                assert answered.status == 400, (at, name)
            elif name in ALWAYS and at not in FREE and not (name == "true" and isinstance(before, bool)):
                # A number is no truth, and what holds a NUL no string. A 5 in quotes is a string.
                fits = name == '"5"' and isinstance(before, str)
                assert fits or answered.status == 422, (at, name, answered.text)


@with_body
@pytest.mark.parametrize("name", UNREADABLE)
def test_a_body_that_cannot_be_read_is_refused_alike_everywhere(
    door: FrontDoor, operation: Operation, name: str
) -> None:
    given, status = UNREADABLE[name]
    assert harmless(door.ask(operation.method, operation.path(), **given)).status == status


@with_body
@pytest.mark.parametrize("field", ["tenant_id", "size", "", "__proto__"])
def test_a_field_that_nobody_knows_is_named(door: FrontDoor, operation: Operation, field: str) -> None:
    body = {**(operation.body or {}), field: "pellworth"}
    answered = harmless(door.ask(operation.method, operation.path(), body))
    assert answered.status == 422
    assert field in "".join(answered.fields)


@every_operation
def test_a_name_that_is_not_the_callers_tenant_is_refused_everywhere_but_where_anyone_may_ask(
    door: FrontDoor, operation: Operation
) -> None:
    for name in NO_TENANTS.values():
        headers = {"braid-tenant": name}
        answered = harmless(door.ask(operation.method, operation.path(), operation.body, headers=headers))
        assert answered.status == (200 if operation.open else 403)


@every_operation
def test_whoever_was_not_verified_is_nobody_everywhere_but_where_anyone_may_ask(
    door: FrontDoor, operation: Operation
) -> None:
    for authorizer in (None, {}, {"jwt": {"claims": {}}}, {"iam": {}}):
        answered = harmless(door.ask(operation.method, operation.path(), operation.body, authorizer=authorizer))
        assert answered.status == (200 if operation.open else 401)


@every_operation
def test_a_parameter_that_is_none_is_refused_or_answered(door: FrontDoor, operation: Operation) -> None:
    for name in (*operation.names, "size", "tenant_id", ""):
        for text in VALUES.values():
            value = text.strip('"')[:2_000]
            answered = harmless(door.ask(operation.method, operation.path(), operation.body, query={name: value}))
            assert name in operation.names or answered.status == 422


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.place], ids=lambda each: each.id)
def test_a_place_that_is_none_is_refused_or_answered(door: FrontDoor, operation: Operation) -> None:
    others = (CANARY, f"pellworth|{CANARY}", "..", "%00", "a\x00b", "x" * 5_000, "\ufffd", "#", "?", "a/b/c", "\u202ea")
    for place in (*(text.strip('"')[:2_000] for text in VALUES.values()), *others):
        answered = harmless(door.ask(operation.method, operation.path(place)))
        # An id that nobody has is deleted as well as can be: its own report says so.
        assert answered.status in {404, 405, 422} or operation.id in {"deleteRecord", "getRelated", "getEntity"}


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.method == "POST"], ids=lambda each: each.id)
def test_a_header_that_is_none_is_refused_or_answered(door: FrontDoor, operation: Operation) -> None:
    for value in ("", " ", "a" * 300, "a\nb", "ü", "*", "'; DROP TABLE cache; --", f"once/{CANARY}"):
        for name in ("idempotency-key", "if-none-match", "accept", "x-forwarded-for"):
            harmless(door.ask(operation.method, operation.path(), operation.body, headers={name: value}))
