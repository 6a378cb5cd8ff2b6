"""What many or large vertices and edges cost whoever looks a name up, or deletes what they hang on."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING, Any

from braid.engines.embedded.graph import edge_rows
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.store import EmbeddedStore
from braid.engines.neptune import element_layout
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.engines.neptune.name_links import MAX_LINKED
from braid.ingestion.deleting import delete_records
from braid.settings import Settings
from gremlin_python.process.graph_traversal import GraphTraversalSource
from gremlin_python.process.traversal import TraversalStrategies
from gremlin_python.structure.graph import Graph

from tests.contract.shapes import ACME, AS_OF, edge, vertex
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


def test_a_name_that_large_vertices_share_is_looked_up_in_little_memory(tmp_path: Path) -> None:
    shared = tuple(f"heron {number}" for number in range(19))
    large = tuple(f"{number} " + "x" * 500 for number in range(80))
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store)
        graph.upsert([vertex(f"v{number:02}", name="Heron", aliases=shared + large) for number in range(60)], [])
        graph.link(ACME, ["egret"], as_of=AS_OF)
        tracemalloc.start()
        links = graph.link(ACME, ["heron", *shared], as_of=AS_OF)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert [(link.entity_id, link.phrase) for link in links] == [(f"v{number:02}", "heron") for number in range(50)]
    assert peak < 1_000_000


def test_the_deployed_graph_sends_of_a_vertex_only_the_names_that_were_asked_for(monkeypatch: Any) -> None:
    asked: list[Any] = []

    def ask(_: GremlinGraph, build: Callable[[GraphTraversalSource], Any]) -> list[Any]:
        asked.append(build(GraphTraversalSource(Graph(), TraversalStrategies())))
        return [{}]

    monkeypatch.setattr(GremlinGraph, "_ask", ask)
    GremlinGraph(None).link(ACME, ["heron"], as_of=AS_OF)  # type: ignore[arg-type]
    steps = asked[0].bytecode.step_instructions
    assert ["limit", MAX_LINKED] in steps
    (keys,) = (step[1] for step in steps if step[0] == "by" and str(element_layout.LINK_KEY) in str(step[1]))
    assert [step[0] for step in keys.step_instructions] == ["values", "is", "fold"]


def test_a_hub_is_deleted_without_reading_its_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stages = DemoStages(Settings(home=tmp_path))
    spokes = [f"v{number}" for number in range(200)]
    stages.graph.upsert([vertex(name) for name in ("hub", *spokes)], [edge("hub", name) for name in spokes])

    def read(*_: Any) -> None:
        message = "an edge was read"
        raise AssertionError(message)

    with monkeypatch.context() as patch:
        patch.setattr(edge_rows, "_edge", read)
        report = delete_records(ACME, ["hub"], stages)
    assert (report.vertices, report.relationships) == (1, 200)
    stages.close()
