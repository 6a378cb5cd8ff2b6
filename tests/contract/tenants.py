"""Two tenants at the front door: whatever one asks, nothing of the other is in the answer."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.front_door import claims

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.front_door import Answered, FrontDoor

EXAMPLES = int(os.environ.get("EXAMPLES", "500"))
NOUNS = ("heron", "turbine", "ledger", "storm", "valve", "lantern")
TYPES = ("CAUSES", "ENABLES", "BEFORE", "MENTIONS")
KINDS = ("Event", "Person", "Machine")


@dataclass(frozen=True)
class World:
    """Two tenants whose records, ids, names and relations look alike. What is whose is told by a mark in its text."""

    tenants: tuple[str, str]

    def other(self, tenant: str) -> str:
        return self.tenants[1 - self.tenants.index(tenant)]

    def mark(self, tenant: str) -> str:
        return f"mark{self.tenants.index(tenant)}of{tenant}"

    def own_id(self, tenant: str, number: int) -> str:
        """Return an id that only this tenant has; every third is one that both have."""
        return f"both-{number}" if number % 3 == 0 else f"{self.mark(tenant)}-{number}"

    def body(self, tenant: str) -> dict[str, Any]:
        """Return what a tenant writes: the same but for the mark."""
        mark = self.mark(tenant)
        records = [
            {
                "id": self.own_id(tenant, number),
                "kind": "entity" if number % 2 else "chunk",
                "entity_type": KINDS[number % len(KINDS)],
                "name": f"{noun.title()} {mark}",
                "aliases": [noun],
                "content": f"The {noun} and the {NOUNS[(number + 1) % len(NOUNS)]}, {mark}.",
                "timestamp": f"2025-01-{number + 1:02}",
                "metadata": {"whose": mark},
            }
            for number in range(12)
            for noun in [NOUNS[number % len(NOUNS)]]
        ]
        relationships = [
            {
                "source": self.own_id(tenant, number),
                "type": TYPES[number % len(TYPES)],
                "target": self.own_id(tenant, (number * 5 + 1) % 12),
                "evidence": self.own_id(tenant, (number + 2) % 12),
            }
            for number in range(12)
        ]
        return {"records": records, "relationships": relationships}


def write_world(door: FrontDoor, tenants: tuple[str, str]) -> World:
    """Write both tenants' records."""
    world = World(tenants)
    for tenant in tenants:
        answered = door.ask("POST", "/records", world.body(tenant), authorizer=claims(tenant))
        assert answered.status == 200, answered.text
    return world


def strings(value: object) -> Iterator[str]:
    """Yield every string of an answer, the keys too."""
    match value:
        case str():
            yield value
        case dict():
            for key, member in value.items():
                yield str(key)
                yield from strings(member)
        case list():
            for item in value:
                yield from strings(item)


class TenantsContract:
    """Subclass this and provide the fixtures ``door`` and ``world``, of a scope wider than a test."""

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def test_nothing_of_another_tenant_is_in_any_answer(
        self, door: FrontDoor, world: World, data: st.DataObject
    ) -> None:
        self.asks_and_is_shown_nothing(door, world, data)

    def asks_and_is_shown_nothing(self, door: FrontDoor, world: World, data: st.DataObject) -> None:
        """Ask one random question as one of the two."""
        tenant = data.draw(st.sampled_from(world.tenants))
        other = world.other(tenant)
        ids = st.sampled_from([world.own_id(whose, number) for whose in world.tenants for number in range(12)])
        names = st.sampled_from([*NOUNS, *(f"{noun} {world.mark(whose)}" for noun in NOUNS for whose in world.tenants)])
        text = st.lists(
            names | ids | st.sampled_from(["why", "when", "who caused", other]), min_size=1, max_size=4
        ).map(" ".join)
        method, path, body, query = data.draw(questions(ids, names, text))
        answered = door.ask(method, path, body, query=query, authorizer=claims(tenant))
        self.shows_nothing_of(world, other, answered, asked=json.dumps([path, body, query]))
        if path in {"/search", "/search/semantic"} and answered.status == 200:
            trace = f"/traces/{answered.json()['trace_id']}"
            assert door.ask("GET", trace, authorizer=claims(other)).status == 404

    def test_both_have_what_is_looked_for(self, door: FrontDoor, world: World) -> None:
        for tenant in world.tenants:
            found = door.ask("POST", "/search", {"text": "why heron turbine"}, authorizer=claims(tenant))
            assert world.mark(tenant) in found.text
            related = door.ask("GET", "/entities/heron/related", query={"depth": 3}, authorizer=claims(tenant))
            assert world.mark(tenant) in related.text

    @staticmethod
    def shows_nothing_of(world: World, other: str, answered: Answered, *, asked: str) -> None:
        """Check an answer. What was asked may be repeated, as a trace id or a phrase that was linked."""
        assert answered.status in {200, 404, 422}, answered.text
        mark = world.mark(other)
        said = sorted(strings(json.loads(asked)), key=len, reverse=True)
        for found in strings(answered.json()):
            if mark in found and found.lower() not in asked.lower():
                # A reason may quote what was asked; nothing else may stand beside it.
                left = found
                for each in filter(None, said):
                    left = left.replace(each, "")
                assert mark not in left, (asked, found)


def questions(
    ids: st.SearchStrategy[str], names: st.SearchStrategy[str], text: st.SearchStrategy[str]
) -> st.SearchStrategy[tuple[str, str, Any, Any]]:
    """Return requests of every route that asks."""
    types = st.lists(st.sampled_from(TYPES), max_size=2, unique=True)
    direction = st.sampled_from(["in", "out", "both"])
    depth = st.integers(1, 3)
    constraint = st.none() | st.fixed_dictionaries(
        {"entity": names | ids, "types": types, "direction": direction, "depth": depth}
    )
    hints = st.sampled_from(
        [{}, *({"strategy": each} for each in ("semantic", "graph_only", "vector_first", "hybrid"))]
    )
    filters = st.sampled_from([{}, {"kinds": ["entity"]}, {"entity_types": ["Event", "Person"]}])
    search = st.fixed_dictionaries(
        {"text": text, "graph_constraint": constraint, "hints": hints, "filters": filters, "top_k": st.integers(1, 50)},
        optional={"fusion": st.sampled_from(["weighted", "rrf"]), "ranking": st.sampled_from(["relevance", "memory"])},
    )
    start = st.fixed_dictionaries({"ids": st.lists(ids, max_size=3)}, optional={"names": st.lists(names, max_size=2)})
    step = st.fixed_dictionaries({"types": types, "direction": direction})
    graph = st.fixed_dictionaries(
        {"start": start, "steps": st.lists(step, max_size=3), "returns": st.sampled_from(["nodes", "paths"])}
    )
    related = st.fixed_dictionaries({"types": types, "direction": direction, "depth": depth})
    return st.one_of(
        st.tuples(st.just("POST"), st.just("/search"), search, st.just("")),
        st.tuples(st.just("POST"), st.just("/search/semantic"), st.fixed_dictionaries({"text": text}), st.just("")),
        st.tuples(st.just("POST"), st.just("/graph/query"), graph, st.just("")),
        st.tuples(st.just("POST"), st.just("/context"), st.fixed_dictionaries({"query": text}), st.just("")),
        st.tuples(st.just("GET"), ids.map("/entities/{}".format), st.none(), st.just("")),
        st.tuples(st.just("GET"), (ids | names).map("/entities/{}/related".format), st.none(), related),
        st.tuples(
            st.just("GET"), st.just("/records"), st.none(), st.fixed_dictionaries({"limit": st.integers(1, 100)})
        ),
        st.tuples(st.just("GET"), st.just("/schemas"), st.none(), st.just("")),
    )
