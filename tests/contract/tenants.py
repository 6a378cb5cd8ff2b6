"""Two tenants at the front door: whatever one asks, nothing of the other is in the answer."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.front_door import claims
from tests.operations import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.front_door import Answered, FrontDoor
    from tests.operations import Operation

EXAMPLES = int(os.environ.get("EXAMPLES", "500"))
NOUNS = ("heron", "turbine", "ledger", "storm", "valve", "lantern")
TYPES = ("CAUSES", "ENABLES", "BEFORE", "MENTIONS")
KINDS = ("Event", "Person", "Machine")


@dataclass(frozen=True)
class World:
    """Two tenants whose records, ids, names and relations look alike. What is whose is told by a mark in its text."""

    tenants: tuple[str, str]
    stored: dict[str, str] = field(default_factory=dict)
    """What each has, as it lists it."""

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
    for tenant in tenants:
        world.stored[tenant] = listed(door, tenant)
    return world


def listed(door: FrontDoor, tenant: str) -> str:
    """Return all of a tenant's records as it lists them."""
    return door.ask("GET", "/records", query={"limit": 100}, authorizer=claims(tenant)).text


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


def wait_until_ended(ask: Callable[[], Answered]) -> None:
    """Ask for an import until it has ended, for a minute at most: what it writes later would look like a leak."""
    until = time.monotonic() + 60
    while (answered := ask()).status == 200 and answered.json()["status"] == "running":
        assert time.monotonic() < until, answered.text
        threading.Event().wait(0.01)
    assert answered.status == 200, answered.text


@dataclass(frozen=True)
class Asked:
    """One request."""

    operation: Operation
    path: str
    body: dict[str, Any] | None = None
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """What it says, which an answer may repeat."""
        return json.dumps([self.path, self.body, self.query])


class TenantsContract:
    """Subclass this and provide the fixtures ``door`` and ``world``, of a scope wider than a test."""

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def test_nothing_of_another_tenant_is_in_any_answer(
        self, door: FrontDoor, world: World, data: st.DataObject
    ) -> None:
        self.asks_and_is_shown_nothing(door, world, data)

    def asks_and_is_shown_nothing(self, door: FrontDoor, world: World, data: st.DataObject) -> None:
        """Ask one random question as one of the two, now and then after the other has asked the same."""
        tenant = data.draw(st.sampled_from(world.tenants))
        other = world.other(tenant)
        asked = data.draw(requests(world.tenants, tenant))
        if asked.operation.id not in CHANGING and data.draw(st.booleans()):
            self.shows_nothing_of(world, tenant, self.ask(door, other, asked), asked)
            # A second time it may be kept.
            self.shows_nothing_of(world, other, self.ask(door, tenant, asked), asked)
        answered = self.ask(door, tenant, asked)
        self.shows_nothing_of(world, other, answered, asked)
        if answered.status < 300:
            self.leads_nobody_else_on(door, world, tenant, asked.operation.id, answered.json())
        if asked.operation.id in CHANGING:
            assert listed(door, other) == world.stored[other]
            if asked.operation.id in {"deleteRecord", "deleteRecords"}:
                self.ask(door, tenant, Asked(OPERATION["writeRecords"], "/records", world.body(tenant)))
            world.stored[tenant] = listed(door, tenant)

    @staticmethod
    def ask(door: FrontDoor, tenant: str, asked: Asked) -> Answered:
        return door.ask(
            asked.operation.method,
            asked.path,
            asked.body,
            query=asked.query,
            headers=asked.headers,
            authorizer=claims(tenant),
        )

    def leads_nobody_else_on(
        self, door: FrontDoor, world: World, tenant: str, operation: str, said: dict[str, Any]
    ) -> None:
        """Follow what an answer refers to, as the one who was answered and as the other."""
        other = world.other(tenant)
        match operation:
            case "search" | "searchSemantic":
                trace = Asked(OPERATION["getTrace"], f"/traces/{said['trace_id']}")
                self.shows_nothing_of(world, other, self.ask(door, tenant, trace), trace)
                assert self.ask(door, other, trace).status == 404
            case "importRecords" | "addDocument":
                begun = Asked(OPERATION["getImport"], f"/imports/{said['id']}")
                wait_until_ended(lambda: self.ask(door, tenant, begun))
                assert self.ask(door, other, begun).status == 404
            case "listRecords" if said["next"]:
                onward = Asked(OPERATION["listRecords"], "/records", query={"after": said["next"]})
                self.shows_nothing_of(world, other, self.ask(door, tenant, onward), onward)
                assert self.ask(door, other, onward).status == 422

    def test_both_have_what_is_looked_for(self, door: FrontDoor, world: World) -> None:
        for tenant in world.tenants:
            found = door.ask("POST", "/search", {"text": "why heron turbine"}, authorizer=claims(tenant))
            assert world.mark(tenant) in found.text
            related = door.ask("GET", "/entities/heron/related", query={"depth": 3}, authorizer=claims(tenant))
            assert world.mark(tenant) in related.text

    def test_what_one_asked_is_kept_for_it_and_worked_out_anew_for_the_other(
        self, door: FrontDoor, world: World
    ) -> None:
        question = {"text": "who caused the lantern and the valve", "top_k": 7}
        first, second = world.tenants
        for tenant, kept in ((first, False), (first, True), (second, False), (second, True)):
            answered = door.ask("POST", "/search", question, authorizer=claims(tenant))
            assert answered.json()["cached"] is kept
            assert world.mark(tenant) in answered.text
            assert world.mark(world.other(tenant)) not in answered.text

    def test_an_edge_to_an_id_that_only_the_other_has_is_a_dead_end(self, door: FrontDoor, world: World) -> None:
        tenant, other = world.tenants
        bridges = [world.own_id(other, number) for number in range(12) if number % 3]
        edges = [{"source": "both-0", "type": "ENABLES", "target": bridge} for bridge in bridges]
        write = {"relationships": edges, "stub_missing_ends": True}
        assert door.ask("POST", "/records", write, authorizer=claims(tenant)).json()["stubs"] == len(bridges)
        try:
            for depth in (1, 2, 3):
                path, query = "/entities/both-0/related", {"types": "ENABLES", "depth": depth, "limit": 200}
                hits = door.ask("GET", path, query=query, authorizer=claims(tenant)).json()["hits"]
                reached = {hit["id"]: hit for hit in hits}
                assert set(bridges) <= set(reached)
                # A vertex of this tenant, by a name that means nothing here: nothing beyond it, nothing about it.
                assert all(reached[bridge]["name"] is None for bridge in bridges)
                assert all(bridge not in hit["path"]["ids"][:-1] for hit in hits for bridge in bridges)
            back = door.ask("GET", f"/entities/{bridges[0]}/related", query={"depth": 3}, authorizer=claims(other))
            assert world.mark(tenant) not in back.text
        finally:
            for bridge in bridges:
                door.ask("DELETE", f"/records/{bridge}", authorizer=claims(tenant))
        assert listed(door, other) == world.stored[other]

    def test_every_operation_is_asked(self, world: World) -> None:
        asked = set(requests_by_operation(world.tenants, world.tenants[0])) | FOLLOWED
        assert asked == {each.id for each in OPERATIONS if not each.open}

    @staticmethod
    def shows_nothing_of(world: World, other: str, answered: Answered, asked: Asked) -> None:
        """Check an answer. What was asked may be repeated, as a trace id or a phrase that was linked."""
        assert answered.status in {200, 202, 404, 409, 422}, answered.text
        mark = world.mark(other)
        said = sorted(strings(json.loads(asked.said)), key=len, reverse=True)
        for found in strings(answered.json()):
            if mark in found and found.lower() not in asked.said.lower():
                # A reason may quote what was asked; nothing else may stand beside it.
                left = found
                for each in filter(None, said):
                    left = left.replace(each, "")
                assert mark not in left, (asked, found)


CHANGING = {
    "writeRecords",
    "deleteRecord",
    "deleteRecords",
    "registerSchema",
    "reembed",
    "importRecords",
    "addDocument",
}
FOLLOWED = {"getTrace", "getImport"}
"""Asked for what other answers refer to."""
OPERATION = {each.id: each for each in OPERATIONS}


@cache
def requests(tenants: tuple[str, str], tenant: str) -> st.SearchStrategy[Asked]:
    """Return requests of every operation; those that change something, which take long, less often."""
    found = requests_by_operation(tenants, tenant)
    often = [each for name, each in found.items() if name not in CHANGING for _ in range(3)]
    return st.one_of(*often, *(found[name] for name in sorted(CHANGING)))


def requests_by_operation(tenants: tuple[str, str], tenant: str) -> dict[str, st.SearchStrategy[Asked]]:
    """Return requests by the operation that they ask, of one tenant who knows the other's ids and names."""
    world = World(tenants)
    other = world.other(tenant)
    every_id = [world.own_id(whose, number) for whose in world.tenants for number in range(12)]
    ids = st.sampled_from(every_id)
    names = st.sampled_from([*NOUNS, *(f"{noun} {world.mark(whose)}" for noun in NOUNS for whose in world.tenants)])
    text = st.lists(names | ids | st.sampled_from(["why", "when", "who caused", other]), min_size=1, max_size=4).map(
        " ".join
    )
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
        optional={
            "fusion": st.sampled_from(["weighted", "rrf"]),
            "ranking": st.sampled_from(["relevance", "memory"]),
            "explain": st.booleans(),
        },
    )
    start = st.fixed_dictionaries({"ids": st.lists(ids, max_size=3)}, optional={"names": st.lists(names, max_size=2)})
    step = st.fixed_dictionaries({"types": types, "direction": direction})
    graph = st.fixed_dictionaries(
        {"start": start, "steps": st.lists(step, max_size=3), "returns": st.sampled_from(["nodes", "paths"])}
    )
    # What a tenant writes is its own; what it deletes may be anybody's id.
    own = world.body(tenant)
    note = st.sampled_from(NOUNS).map(lambda noun: _note(noun, world.mark(tenant)))
    writes = st.fixed_dictionaries(
        {
            "records": st.lists(
                st.sampled_from(own["records"]) | note, min_size=1, max_size=2, unique_by=lambda r: r["id"]
            )
        },
        optional={"relationships": st.lists(st.sampled_from(own["relationships"]), max_size=2)},
    )
    version = st.fixed_dictionaries({"version": st.integers(1, 3), "changes": st.just(world.mark(tenant))})
    # Both use the same keys: what was answered to one under a key is no answer to the other.
    once = st.sampled_from([{}, {"idempotency-key": "a"}, {"idempotency-key": "b"}])
    key = st.sampled_from(["inbox/none.jsonl", f"{other}/inbox/none.jsonl", f"inbox/{other}.jsonl"])

    def of(operation: str, path: st.SearchStrategy[str] | None = None, **parts: Any) -> st.SearchStrategy[Asked]:
        described = OPERATION[operation]
        return st.builds(Asked, st.just(described), st.just(described.template) if path is None else path, **parts)

    return {
        "search": of("search", body=search),
        "searchSemantic": of("searchSemantic", body=st.fixed_dictionaries({"text": text})),
        "queryGraph": of("queryGraph", body=graph),
        "buildContext": of("buildContext", body=st.fixed_dictionaries({"query": text})),
        "getEntity": of("getEntity", ids.map("/entities/{}".format)),
        "readEntity": of("readEntity", body=st.fixed_dictionaries({"id": ids})),
        "getRelated": of(
            "getRelated",
            (ids | names).map("/entities/{}/related".format),
            query=st.fixed_dictionaries({"types": types, "direction": direction, "depth": depth}),
        ),
        "listRecords": of("listRecords", query=st.fixed_dictionaries({"limit": st.integers(1, 100)})),
        "listDocuments": of("listDocuments", query=st.fixed_dictionaries({"limit": st.integers(1, 100)})),
        "listEntities": of("listEntities", query=st.fixed_dictionaries({"limit": st.integers(1, 100)})),
        "getAccess": of("getAccess"),
        "listSchemas": of("listSchemas"),
        "getStats": of("getStats"),
        "readRecords": of("readRecords", body=st.fixed_dictionaries({"ids": st.lists(ids, min_size=1, max_size=3)})),
        "writeRecords": of("writeRecords", body=writes, headers=once),
        "deleteRecord": of("deleteRecord", ids.map("/records/{}".format)),
        "deleteRecords": of(
            "deleteRecords", body=st.fixed_dictionaries({"ids": st.lists(ids, min_size=1, max_size=2)})
        ),
        "registerSchema": of("registerSchema", body=version),
        "reembed": of("reembed", body=st.just({})),
        "addDocument": of(
            "addDocument",
            body=st.fixed_dictionaries(
                {"name": st.sampled_from(["heron.md", "a/lantern.md"]), "content": st.just("SGVyb24u")}
            ),
            headers=once,
        ),
        "importRecords": of("importRecords", body=st.fixed_dictionaries({"key": key}), headers=once),
    }


def _note(noun: str, mark: str) -> dict[str, Any]:
    return {"id": f"{mark}-note-{noun}", "content": f"Of the {noun}, {mark}.", "metadata": {"whose": mark}}
