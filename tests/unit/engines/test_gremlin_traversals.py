"""What is sent to the graph: looked at as bytecode, without a server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.neptune import element_layout
from braid.engines.neptune.connection import GremlinConnection, iam_headers
from braid.engines.neptune.expansion import HUB_EDGES, expand, expansion_traversal
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.errors import ConfigurationError
from braid.models import Direction
from braid.ports.batches import batches
from braid.ports.knowledge_graph import ExpandRequest
from braid.settings import Settings
from gremlin_python.process.graph_traversal import GraphTraversalSource
from gremlin_python.process.traversal import Bytecode, Cardinality, TraversalStrategies
from gremlin_python.structure.graph import Graph

from tests.contract.shapes import ACME, AS_OF, day, edge, vertex

if TYPE_CHECKING:
    from collections.abc import Iterator

HOSTILE = "x').drop();g.V().drop() // ${jndi}"


def source() -> GraphTraversalSource:
    return GraphTraversalSource(Graph(), TraversalStrategies())


def instructions(bytecode: Bytecode) -> Iterator[list[Any]]:
    """Yield every instruction, those of nested traversals too."""
    for instruction in bytecode.step_instructions:
        yield instruction
        for argument in instruction[1:]:
            if isinstance(argument, Bytecode):
                yield from instructions(argument)


def steps_named(traversal: Any, name: str) -> list[list[Any]]:
    return [step for step in instructions(traversal.bytecode) if step[0] == name]


def rows(written: Any) -> list[str]:
    return [step[-1] for step in steps_named(written, "property") if step[-2] == element_layout.ROW]


def request(**fields: Any) -> ExpandRequest:
    return ExpandRequest(**{"tenant_id": ACME, "seeds": ("a", "b"), "as_of": AS_OF, **fields})


def test_every_property_of_a_vertex_is_written_with_its_cardinality() -> None:
    written = element_layout.write_vertices(source(), [vertex("a", name="Yawl", aliases=("Brig", "Buoy")), vertex("b")])
    properties = steps_named(written, "property")
    assert len(properties) == 25
    keys = [step for step in properties if step[2] == element_layout.LINK_KEY]
    assert [step[1] for step in keys] == [Cardinality.set_] * 3
    assert all(step[1] == Cardinality.single for step in properties if step not in keys)


def test_names_of_any_length_fit_into_the_messages_of_a_write() -> None:
    long = [vertex(str(each), aliases=tuple(f"{n} " + "\U0001d4b3" * 500 for n in range(100))) for each in range(20)]
    limits: dict[str, Any] = {"size": element_layout.CHARACTERS_AT_ONCE, "size_of": element_layout.characters_of_names}
    split = [*batches(long, 50, **limits), *batches([vertex("a")] * 60, 50, **limits)]
    assert [len(batch) for batch in split] == [3] * 6 + [2, 50, 10]
    written = [steps_named(element_layout.write_vertices(source(), batch), "property") for batch in split]
    assert max(sum(len(str(step[-1]).encode()) for step in steps) for steps in written) < 8_000_000


def test_batches_keep_the_order_and_one_that_is_too_large_stands_alone() -> None:
    assert list(batches([3, 1, 1, 9, 2], 2, size=4, size_of=int)) == [[3, 1], [1], [9], [2]]
    assert list(batches("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(batches([], 2)) == []


def test_every_write_replaces_all_that_another_wrote() -> None:
    full = vertex("a", name="Atlas", timestamp=day(1), valid_at=day(1), invalid_at=day(2), entity_type="Event")
    keys = [
        {step[2] for step in steps_named(element_layout.write_vertices(source(), [each]), "property")}
        - {element_layout.LINK_KEY}
        for each in (full, vertex("a"))
    ]
    assert keys[0] == keys[1]


def test_a_vertex_and_an_edge_have_the_same_id_in_every_write() -> None:
    once, again = (element_layout.edge_id(edge("a", "b", confidence=score)) for score in (0.1, 0.9))
    assert once == again
    others = [
        edge("b", "a"),
        edge("a", "b", "OWNS"),
        edge("a", "b", predicate="why"),
        edge("a", "b", tenant_id="other"),
    ]
    assert len({once, *map(element_layout.edge_id, others)}) == 5
    assert element_layout.record_id(element_layout.vertex_id(ACME, "a|b")) == "a|b"


@pytest.mark.parametrize("direction", list(Direction))
def test_of_a_hub_so_many_edges_are_read_and_none_are_sorted(direction: Direction) -> None:
    walk = expansion_traversal(source(), request(direction=direction), ("a", "b"))
    assert steps_named(walk, "repeat") == steps_named(walk, "order") == []
    (each,) = (step[1] for step in steps_named(walk, "local"))
    # In both directions a loop is met twice.
    assert each.step_instructions[-1] == ["limit", HUB_EDGES * (2 if direction is Direction.BOTH else 1)]


def test_every_read_names_its_tenant() -> None:
    walk = expansion_traversal(source(), request(), ("a", "b"))
    assert [step[1:] for step in steps_named(walk, "has")].count([element_layout.TENANT, ACME]) == 3


def test_what_a_caller_sends_is_an_argument_and_never_a_step() -> None:
    walk = expansion_traversal(source(), request(), (HOSTILE,))
    written = element_layout.write_vertices(source(), [vertex(HOSTILE, name=HOSTILE)])
    assert not {"drop", "inject"} & {step[0] for step in instructions(walk.bytecode)}
    assert steps_named(walk, "V")[0][1] == f"{ACME}|{HOSTILE}"
    assert [step[0] for step in instructions(written.bytecode)].count("drop") == 1


@pytest.mark.parametrize("ends", [None, day(9)])
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("position", [None, 0, 17])
@pytest.mark.parametrize("since", [None, day(1)])
def test_rows_come_back_as_they_were_written(ends: Any, since: Any, position: int | None, *, trusted: bool) -> None:
    fields: dict[str, Any] = {"timestamp": day(3), "has_record": False, "trusted": trusted, "invalid_at": ends}
    found = position is not None
    described = vertex("a|1", entity_type="Event", name="Naïve | name", found=found, **fields)
    (row,) = [
        step[3]
        for step in steps_named(element_layout.write_vertices(source(), [described]), "property")
        if step[2] == "row"
    ]
    assert element_layout.read_vertex(row) == ("a|1", "Event", False, day(3), "Naïve | name", trusted, ends, found)
    validity: dict[str, Any] = {"valid_at": since, "invalid_at": ends}
    related = edge("a", "b", confidence=0.1 + 0.2, evidence="a|1", trusted=trusted, position=position, **validity)
    (row,) = rows(element_layout.write_edges(source(), [related]))
    assert element_layout.read_edge(row) == ("a", "CAUSES", "b", "", 0.1 + 0.2, "a|1", trusted, ends, position, since)


def test_rows_without_an_end_of_validity_which_an_older_braid_wrote_are_read() -> None:
    assert element_layout.read_vertex("\x01".join(("a", "Event", "1", "", "A"))).invalid_at is None
    assert element_layout.read_edge("\x01".join(("a", "CAUSES", "b", "", "1.0", ""))).invalid_at is None


def test_times_before_1970_are_whole() -> None:
    early = datetime(1203, 7, 4, 12, 0, 0, 1, tzinfo=UTC)
    (row,) = rows(element_layout.write_vertices(source(), [vertex("a", timestamp=early)]))
    assert element_layout.read_vertex(row).timestamp == early


def test_an_edge_that_both_ends_brought_counts_once() -> None:
    separator = "\x01"
    vertices = [separator.join((name, "Concept", "1", "", "")) for name in ("a", "b", "c")]
    edges = [separator.join(("a", "CAUSES", "b", "", "1.0", "")), separator.join(("b", "CAUSES", "c", "", "0.5", ""))]
    asked: list[Any] = []

    def ask(build: Any) -> list[Any]:
        asked.append(build(source()))
        return [{"vertices": [*vertices, *vertices], "edges": [*edges, *edges]}]

    found = expand(ask, request(seeds=("a",), fan_out=2))
    assert [hit.id for hit in found.hits] == ["b", "c"]
    assert not found.truncated
    assert [steps_named(walk, "V") for walk in asked] == [[["V", f"{ACME}|a"]], [["V", f"{ACME}|b"]]]


def test_an_address_that_is_no_web_socket_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="BRAID_NEPTUNE_ENDPOINT"):
        GremlinGraph.connect(Settings(neptune_endpoint="https://neptune.example:8182/gremlin"))


def test_a_connection_is_signed_for_neptune_with_the_credentials_of_its_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    headers = iam_headers()("wss://graph.example:8182/gremlin")
    assert "AKIDEXAMPLE/" in headers["Authorization"]
    assert "/eu-west-1/neptune-db/aws4_request" in headers["Authorization"]
    assert "host" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "token"
    assert "secret" not in str(headers)


def test_signing_without_a_region_is_refused_when_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(ConfigurationError, match="region"):
        GremlinGraph.connect(Settings(neptune_endpoint="wss://graph.example:8182/gremlin"))


def test_a_connection_that_was_never_opened_closes() -> None:
    GremlinConnection("ws://127.0.0.1:9/gremlin").close()
