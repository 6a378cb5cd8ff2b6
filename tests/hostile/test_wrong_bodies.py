"""Refusing a body that is wrong everywhere costs about as much as reading one that is right."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from braid.errors import InvalidRequest
from braid.ingestion.inline_writes import write_message
from braid.ingestion.item_parsing import read_lines
from braid.ports.members import Membership as Member
from braid.ports.members import Role
from braid.settings import Membership, Settings

from tests.front_door import FrontDoor
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BODY_BYTES = 1_950_000
MAX_S = 3.0
"""Of this thread's time, on a machine that is busy; a body of 650,000 wrong items took 19 s."""
MAX_BYTES = 150_000_000


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = demo_stages(tmp_path_factory.mktemp("wrong"))
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def door(stages: DemoStages) -> FrontDoor:
    return FrontDoor(stages)


def many(before: str, piece: str, after: str, length: int = BODY_BYTES) -> str:
    """Return a text of about a length, a piece repeated between its ends."""
    return before + ",".join([piece] * ((length - len(before) - len(after)) // (len(piece) + 1))) + after


def keys(value: str, count: int) -> str:
    return ",".join(f'"k{number}":{value}' for number in range(count))


def times(piece: str, count: int) -> str:
    return ",".join([piece] * count)


def ten(name: str, piece: str, length: int) -> str:
    """Return ten objects, each with a list of that name."""
    return times(many(f'{{"{name}":[', piece, "]}", length), 10)


def fifty(members: str) -> str:
    return times(f"{{{members}}}", 58)


METADATA = f'"metadata":{{{keys("{}", 990)}}}'
WRONG = {
    "embeddings": ("/records", many('{"records":[{"id":"a","content":"x","embeddings":[', "{}", "]}]}")),
    "embeddings of ten": ("/records", f'{{"records":[{ten("embeddings", "{}", 17_000)}]}}'),
    "aliases of ten": ("/records", f'{{"records":[{ten("aliases", "1", 11_000)}]}}'),
    "metadata": ("/records", f'{{"records":[{fifty(METADATA)}]}}'),
    "numbers out of range": ("/records", many('{"records":[{"id":"a","aliases":[', "1e999", "]}]}")),
    "records": ("/records", many('{"records":[', "{}", "]}")),
    "few records": ("/records", many('{"records":[', "{}", "]}", 30_000)),
    "relationships": ("/records", many('{"relationships":[', "{}", "]}", 30_000)),
    "superseded": ("/records", f'{{"relationships":[{ten("supersedes", "{}", 17_000)}]}}'),
    "unknown keys of many": ("/records", f'{{"records":[{fifty(keys("1", 990))}]}}'),
    "unknown keys": ("/search", f'{{"text":"x",{keys("1", 150_000)}}}'),
    "entity types": ("/search", many('{"text":"x","filters":{"entity_types":[', "1", "]}}")),
    "semantic types": ("/search/semantic", many('{"text":"x","entity_types":[', "1", "]}")),
    "graph types": ("/graph/query", f'{{"start":{{}},"steps":[{ten("types", "1", 11_000)}]}}'),
    "messages": ("/context", many('{"query":"x","messages":[', "1", "]}")),
    "ids": ("/records:delete", many('{"ids":[', "1", "]}")),
    "an id": ("/entities:read", many('{"id":[', "1", "]}")),
    "a key": ("/records:import", many('{"key":[', "{}", "]}")),
    "schema types": ("/schemas", many('{"version":1,"entity_types":[', "1", "]}")),
    "no field": ("/reembed", f"{{{keys('1', 150_000)}}}"),
}


@pytest.mark.parametrize(("path", "body"), WRONG.values(), ids=WRONG)
def test_a_wrong_body_is_refused_in_little_time_and_memory(door: FrontDoor, path: str, body: str) -> None:
    began = time.thread_time()
    status = door.ask("POST", path, raw=body).status
    assert time.thread_time() - began < MAX_S
    assert status in {400, 422}
    tracemalloc.start()
    try:
        door.ask("POST", path, raw=body)
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (many('{"a":[', "1", "]}", 30_000), "the body holds an array of more than 10,000 items"),
        (f"{{{keys('1', 1_001)}}}", "the body holds an object of more than 1,000 keys"),
        (f'{{"a":[{times(many("[", "1", "]", 18_000), 7)}]}}', "the body holds more than 60,000 values"),
    ],
)
def test_what_is_too_much_is_said(door: FrontDoor, body: str, detail: str) -> None:
    refused = door.ask("POST", "/search", raw=body)
    assert (refused.status, refused.json()["detail"]) == (400, detail)


@pytest.mark.parametrize(("path", "field"), [("/search", "text"), ("/search/semantic", "text"), ("/context", "query")])
def test_a_question_is_bounded_by_what_its_characters_stand_for(door: FrontDoor, path: str, field: str) -> None:
    # One ligature stands for eighteen characters: twelve such questions at once made neighbours wait for seconds.
    refused = door.ask("POST", path, {field: "\ufdfa" * 9_990})
    assert (refused.status, refused.fields) == (422, [field])
    assert "must not be longer than 10,000 characters when its ligatures are written out" in refused.text
    for longest in ("\ufdfa" * 555, "\ufb03" * 3_333, "\u1f14" * 10_000, "\uac01" * 10_000):
        assert door.ask("POST", path, {field: longest}).status == 200


def test_lines_and_queued_writes_are_bounded_alike(stages: DemoStages) -> None:
    row = many('{"id":"a","content":"x","aliases":[', "1", "]}", 30_000)
    (error,) = read_lines([("line 1", row.encode())], "saltmarrow").errors
    assert error.message == "not JSON: the line holds an array of more than 10,000 items"
    with pytest.raises(InvalidRequest, match="body: holds an array of more than"):
        write_message(f'{{"tenant_id":"saltmarrow","records":[{row}]}}', stages)


def test_a_conversation_may_have_ten_thousand_messages(door: FrontDoor) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Beacon"}]}] * 8_000
    messages += [{"role": "user", "content": "Beacon"}] * 2_000
    asked = {"query": "Beacon", "messages": messages, "semantic": False, "episodic": False}
    assert door.ask("POST", "/context", asked).status == 200


def test_the_greatest_valid_write_is_not_too_much(door: FrontDoor) -> None:
    edge = {"source": "x", "type": "A", "target": "y", "predicate": "p"}
    many_edges = [
        {"source": f"s{number}", "type": "A", "target": "t", "supersedes": [edge] * 10} for number in range(100)
    ]
    refused = door.ask("POST", "/records", {"relationships": many_edges})
    assert refused.fields[0] == "relationships.0.supersedes"  # it was read, and there is no such edge


@pytest.mark.parametrize("path", ["/records", "/records:delete", "/records:import", "/schemas", "/reembed"])
def test_readers_are_refused_before_their_body_is_read(tmp_path: Path, path: str) -> None:
    library = DemoStages(Settings(home=tmp_path, membership=Membership.STORE))
    library.members.add(Member(subject="user:ada", tenant_id="saltmarrow", role=Role.READER))
    assert FrontDoor(library).ask("POST", path, raw="{").status == 403
    library.close()


@pytest.mark.parametrize("number", ["1e400", "-1e999"])
def test_a_number_out_of_range_is_not_read_as_infinity(stages: DemoStages, door: FrontDoor, number: str) -> None:
    asked = f'{{"query":"hello","messages":[{{"role":"user","content":"hello","x":{number}}}]}}'
    refused = door.ask("POST", "/context", raw=asked)
    assert (refused.status, refused.json()["detail"]) == (400, "the body holds a number that is out of range")
    with pytest.raises(InvalidRequest, match="body: holds a number that is out of range"):
        write_message(f'{{"tenant_id":"saltmarrow","records":[{number}]}}', stages)
