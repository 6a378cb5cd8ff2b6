"""What strangers wrote pushes nothing out of an answer from trusted records alone, by no name and by no edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from braid.settings import Settings

from tests.front_door import FrontDoor, claims
from tests.stages import NOW, DemoStages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TENANT = "acme"
QUESTIONS = ("Keelson", "Who was captain of Keelson?", "Tell me about Keelson")
STRANGER = "Wreckers Guild"


@pytest.fixture
def door(tmp_path: Path) -> Iterator[FrontDoor]:
    stages = DemoStages(Settings(home=tmp_path))
    door = FrontDoor(stages)
    pages = [{"id": f"page{number}", "content": f"Ledger page {number}, cargo of its own"} for number in range(20)]
    write(
        door,
        {"id": "keel", "kind": "entity", "entity_type": "Ship", "name": "Keelson", "content": "A three-masted ship."},
        {"id": "log", "content": "Launched in Gdynia, her captain was Brandt."},
        *pages,
        edges=[("keel", "log")],
    )
    yield door
    stages.close()


def write(door: FrontDoor, *records: dict[str, Any], edges: list[tuple[str, str]] | None = None) -> None:
    relationships = [{"source": source, "type": "MENTIONS", "target": target} for source, target in edges or []]
    dated = [{"timestamp": NOW.isoformat(), **record} for record in records]
    body = {"records": dated, "relationships": relationships}
    answered = door.ask("POST", "/records", body, authorizer=claims(TENANT))
    assert answered.status == 200, answered.text


def namesakes(door: FrontDoor) -> None:
    entity = {"kind": "entity", "entity_type": "Ship", "name": "Keelson", "content": "x", "trusted": False}
    write(door, *({"id": f"a{number}", **entity} for number in range(60)))


def edges_to_mail(door: FrontDoor) -> None:
    names = [f"a{number}" for number in range(25)]
    mail = ({"id": name, "content": "x", "trusted": False} for name in names)
    write(door, *mail, edges=[("keel", name) for name in names])


def stranger_between(door: FrontDoor) -> None:
    entity = {"kind": "entity", "entity_type": "Guild", "name": STRANGER, "content": "x", "trusted": False}
    ways = [("keel", "guild"), ("guild", "page1"), ("guild", "page2")]
    write(door, {"id": "guild", **entity}, edges=ways)


def context_of(door: FrontDoor, question: str) -> list[str]:
    answered = door.ask("POST", "/context", {"query": question}, authorizer=claims(TENANT))
    return [message["metadata"]["id"] for message in answered.json()["messages"]]


@pytest.mark.parametrize("attack", [namesakes, edges_to_mail])
def test_a_context_has_what_it_had_before_strangers_wrote(door: FrontDoor, attack: Callable[[FrontDoor], None]) -> None:
    before = {question: context_of(door, question) for question in QUESTIONS}
    attack(door)
    assert {question: context_of(door, question) for question in QUESTIONS} == before
    assert all({"keel", "log"} <= set(found) for found in before.values())


def test_no_name_that_a_stranger_gave_stands_in_an_answer_from_what_is_trusted(door: FrontDoor) -> None:
    stranger_between(door)
    body = {"text": "Tell me about Keelson", "explain": True}
    answered = door.ask("POST", "/search", body, authorizer=claims(TENANT))
    assert STRANGER in answered.text
    answered = door.ask("POST", "/search", {**body, "filters": {"trusted_only": True}}, authorizer=claims(TENANT))
    assert answered.status == 200
    assert STRANGER not in answered.text
    assert "guild" not in answered.text
