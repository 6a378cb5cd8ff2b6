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
CREW = ("anna", "bruno", "carla")


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


def test_an_answer_from_what_is_trusted_is_planned_as_if_strangers_had_written_nothing(door: FrontDoor) -> None:
    crew = [
        {"id": name, "kind": "entity", "entity_type": "Engineer", "name": name.title(), "content": "x"} for name in CREW
    ]
    write(door, *crew, edges=[])
    duties = [{"source": "anna", "type": "MAINTAINS", "target": "keel"}]
    assert door.ask("POST", "/records", {"relationships": duties}, authorizer=claims(TENANT)).status == 200
    body = {"text": "Which engineers do not maintain Keelson?", "filters": {"trusted_only": True}, "explain": True}

    inside = {**body, "graph_constraint": {"entity": "Keelson"}}

    def asked() -> tuple[Any, Any, Any]:
        answered = door.ask("POST", "/search", body, authorizer=claims(TENANT)).json()
        constrained = door.ask("POST", "/search", inside, authorizer=claims(TENANT)).json()["plan"]
        return answered["plan"], constrained, [(result["id"], result["title"]) for result in answered["results"]]

    before = asked()
    assert before[2][0] == ("fact:bruno", "2 without a relationship “maintains” in the graph: Bruno, Carla")
    one = {"kind": "entity", "entity_type": "Engineer", "content": "x", "trusted": False}
    for first in (0, 100):
        write(door, *({"id": f"m{n}", "name": f"Mallory {n}", **one} for n in range(first, first + 100)))
        types = [
            {"source": "m0", "type": f"AA_{n}", "target": "m1", "trusted": False} for n in range(first, first + 100)
        ]
        assert door.ask("POST", "/records", {"relationships": types}, authorizer=claims(TENANT)).status == 200
    assert asked() == before


@pytest.fixture
def strangers_edge(door: FrontDoor) -> FrontDoor:
    """Make a door behind which a mail is the evidence that Keelson is owned by the guild, and so by page 1."""
    relationships = [
        {"source": "keel", "type": "OWNED_BY", "target": "page1", "evidence": "mail"},
        {"source": "keel", "type": "OWNED_BY", "target": "guild"},
        {"source": "keel", "type": "MENTIONS", "target": "page2"},
    ]
    guild = {"id": "guild", "kind": "entity", "name": STRANGER, "content": "x", "trusted": False}
    body = {"records": [{"id": "mail", "content": "We own her.", "trusted": False}, guild]}
    for part in (body, {"relationships": relationships}):
        answered = door.ask("POST", "/records", part, authorizer=claims(TENANT))
        assert answered.status == 200, answered.text
    return door


def hits(door: FrontDoor, way: str, *, trusted_only: bool) -> dict[str, bool]:
    """Ask for what Keelson is tied to, and return which of it is trusted."""
    if way == "related":
        query = {"trusted_only": "true"} if trusted_only else {}
        answered = door.ask("GET", "/entities/Keelson/related", query=query, authorizer=claims(TENANT))
    else:
        asked: dict[str, Any] = {"start": {"names": ["Keelson"]}, "steps": [{}]}
        body = asked | ({"trusted_only": True} if trusted_only else {})
        answered = door.ask("POST", "/graph/query", body, authorizer=claims(TENANT))
    assert answered.status == 200, answered.text
    return {hit["id"]: hit.get("trusted", True) for hit in answered.json()["hits"]}


@pytest.mark.parametrize("way", ["related", "graph query"])
def test_relations_say_what_is_not_trusted_and_leave_it_out_where_asked(strangers_edge: FrontDoor, way: str) -> None:
    trusted = {"log": True, "page2": True}
    assert hits(strangers_edge, way, trusted_only=True) == trusted
    assert hits(strangers_edge, way, trusted_only=False) == {**trusted, "page1": False, "guild": False}


def test_an_entity_that_is_not_trusted_is_not_there_where_that_is_asked(strangers_edge: FrontDoor) -> None:
    for entity in ("guild", STRANGER):
        path, query = f"/entities/{entity}/related", {"trusted_only": "true"}
        answered = strangers_edge.ask("GET", path, query=query, authorizer=claims(TENANT))
        assert (answered.status, answered.json().get("hits", [])) == (404, [])


def test_an_answer_from_what_is_trusted_is_reached_by_no_edge_of_a_strangers(strangers_edge: FrontDoor) -> None:
    body = {"text": "Tell me about Keelson", "explain": True, "hints": {"strategy": "graph_only"}}
    answered = strangers_edge.ask("POST", "/search", body, authorizer=claims(TENANT))
    assert "OWNED_BY" in answered.text
    body["filters"] = {"trusted_only": True}
    answered = strangers_edge.ask("POST", "/search", body, authorizer=claims(TENANT))
    answer = answered.json()
    assert answer["results"]
    del answer["plan"]  # which names the tenant's types of relationships
    assert "OWNED_BY" not in str(answer)


@pytest.mark.parametrize("condition", [{"gte": 2}, "2"])
def test_no_value_of_a_stranger_s_field_changes_what_a_condition_finds_among_the_trusted(
    door: FrontDoor, condition: object
) -> None:
    write(door, *({"id": f"room{n}", "content": f"Ledger of room {n}", "metadata": {"floor": n}} for n in range(4)))
    conditions = {"floor": condition}
    search = {
        "text": "ledger of a room",
        "filters": {"trusted_only": True, "metadata": conditions},
        "facets": ["floor"],
    }
    context = {"query": "ledger of a room", "metadata": conditions}

    def asked() -> tuple[list[str], int]:
        found = door.ask("POST", "/search", search, authorizer=claims(TENANT))
        built = door.ask("POST", "/context", context, authorizer=claims(TENANT))
        assert (found.status, built.status) == (200, 200), (found.text, built.text)
        return sorted(result["id"] for result in found.json()["results"]), len(built.json()["messages"])

    before = asked()
    assert before[0][0] == "room2"
    mail = {"id": "mail", "content": "Ledger of a room", "trusted": False, "metadata": {"floor": "all"}}
    write(door, mail)
    assert asked() == before
