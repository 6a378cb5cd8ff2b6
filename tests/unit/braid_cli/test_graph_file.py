"""A graph in one JSON file is read whole, or refused by file and element."""

from __future__ import annotations

import json
import os
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import DatasetError

from braid_cli.datasets import graph_elements, graph_file, streaming
from braid_cli.datasets.graph_file import read_graph
from braid_cli.datasets.streaming import open_dataset

if TYPE_CHECKING:
    from pathlib import Path

NODES: list[Any] = [
    {"id": "keelson", "name": "Keelson", "type": "Service", "aliases": ["the keel"], "colour": "red"},
    {"id": 7, "content": "Seven keeps the ledger."},
]
EDGE = {"source": "keelson", "target": 7, "type": "DEPENDS_ON", "confidence": 0.5, "weight": 3}


def write(tmp_path: Path, graph: object) -> Path:
    path = tmp_path / "graph.json"
    path.write_text(graph if isinstance(graph, str) else json.dumps(graph), encoding="utf-8")
    return path


@pytest.mark.parametrize("way", [read_graph, open_dataset])
def test_of_a_file_that_is_too_long_no_more_is_read_than_tells_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: Any
) -> None:
    for module in (graph_elements, graph_file, streaming):
        monkeypatch.setattr(module, "MAX_BYTES", 1_000)
    path = tmp_path / "graph.json"
    with path.open("wb") as file:
        file.truncate(2**27)
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "A text."}')
    tracemalloc.start()
    with pytest.raises(DatasetError, match="longer than"):
        way(path if way is read_graph else tmp_path, "acme")
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "graph.json")
    with pytest.raises(OSError, match="is no regular file"):
        read_graph(tmp_path / "graph.json", "acme")


@pytest.mark.parametrize("name", ["edges", "links"])
def test_nodes_and_edges_or_links_become_vertices_and_relationships(tmp_path: Path, name: str) -> None:
    whole = {"directed": True, "multigraph": False, "graph": {}, "nodes": NODES, name: [EDGE]}
    graph = read_graph(write(tmp_path, whole), "acme")
    assert [(one.id, one.name, one.entity_type, one.has_record) for one in graph.vertices] == [
        ("keelson", "Keelson", "Service", False),
        ("7", "7", "Concept", True),
    ]
    assert graph.vertices[0].aliases == ("the keel",)
    (edge,) = graph.relationships
    assert (edge.source, edge.type, edge.target, edge.confidence) == ("keelson", "DEPENDS_ON", "7", 0.5)
    assert [record.content for record in graph.records] == ["Seven keeps the ledger."]
    assert {one.tenant_id for one in (*graph.vertices, *graph.relationships, *graph.records)} == {"acme"}


def test_an_edge_without_a_type_has_its_key_or_is_a_relation(tmp_path: Path) -> None:
    ends = {"source": 7, "target": "keelson"}
    graph = read_graph(
        write(tmp_path, {"nodes": NODES, "links": [{**ends, "key": "OWNS"}, {**ends, "key": 0}]}), "acme"
    )
    assert [edge.type for edge in graph.relationships] == ["OWNS", "RELATED_TO"]


@pytest.mark.parametrize(
    ("graph", "problem"),
    [
        ("{", "not JSON"),
        ([], "expected one object with nodes and edges, found list"),
        ({"edges": []}, "nodes: expected an array"),
        ({"nodes": []}, "links: expected an array"),
        ({"nodes": ["a"], "edges": []}, "nodes[0]: expected an object, found str"),
        ({"nodes": [{"name": "a"}], "edges": []}, "nodes[0]: "),
        ({"nodes": [*NODES, {"id": "7"}], "edges": []}, "nodes[2]: id: '7' stands already at "),
        ({"nodes": NODES, "edges": [{**EDGE, "target": "x"}]}, "edges[0]: target: 'x' is none of the nodes"),
        ({"nodes": NODES, "edges": [EDGE, {**EDGE, "type": "…"}]}, "edges[1]: type: "),
        ({"nodes": NODES, "links": [{**EDGE, "confidence": 2}]}, "links[0]: confidence: "),
    ],
)
def test_what_is_wrong_is_named_by_file_and_element(tmp_path: Path, graph: object, problem: str) -> None:
    path = write(tmp_path, graph)
    with pytest.raises(DatasetError) as refused:
        read_graph(path, "acme")
    assert str(refused.value).startswith(f"{path}: {problem}")


def test_the_same_file_has_the_same_content(tmp_path: Path) -> None:
    path = write(tmp_path, {"nodes": NODES, "edges": [EDGE]})
    assert read_graph(path, "acme").content_hash == read_graph(path, "acme").content_hash
    before = read_graph(path, "acme").content_hash
    assert read_graph(write(tmp_path, {"nodes": NODES, "edges": []}), "acme").content_hash != before
