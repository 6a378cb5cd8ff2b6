"""Graphs in the forms of other programs are read as one in ours, or refused with a way out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from braid.errors import DatasetError

from braid_cli.datasets.graph_elements import Fields
from braid_cli.datasets.graph_file import read_graph

if TYPE_CHECKING:
    from pathlib import Path

    from braid_cli.datasets.graph_file import GraphFile

NODE_LINK = json.dumps(
    {
        "directed": True,
        "multigraph": True,
        "graph": {},
        "nodes": [
            {"id": 1, "label": "Ledger", "kind": "Business service", "floor": 2, "content": "Keeps the accounts."},
            {"id": 2, "label": "Harbour team", "kind": "Team"},
        ],
        "links": [{"source": 1, "target": 2, "key": 0, "label": "kept by"}],
    }
)
GRAPHML = """<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d3" for="edge" attr.name="label" attr.type="string" />
  <key id="d2" for="node" attr.name="content" attr.type="string" />
  <key id="d1" for="node" attr.name="floor" attr.type="long" />
  <key id="d0" for="node" attr.name="label" attr.type="string" />
  <key id="d4" for="node" attr.name="kind" attr.type="string"><default>Team</default></key>
  <graph edgedefault="directed">
    <node id="1">
      <data key="d0">Ledger</data><data key="d1">2</data><data key="d2">Keeps the accounts.</data>
      <data key="d4">Business service</data>
    </node>
    <node id="2"><data key="d0">Harbour team</data></node>
    <edge source="1" target="2" id="0"><data key="d3">kept by</data></edge>
  </graph>
</graphml>
"""
DEFAULTS = "".join(["<graphml>", *(f'<key id="{n}" for="node"><default/></key>' for n in range(257)), "</graphml>"])
NEO4J = [
    {
        "type": "node",
        "id": "1",
        "labels": ["Business service", "Thing"],
        "properties": {"name": "Ledger", "floor": 2, "content": "Keeps the accounts."},
    },
    {"type": "node", "id": "2", "labels": ["Team"], "properties": {"title": "Harbour team", "type": "x"}},
    {
        "id": "7",
        "type": "relationship",
        "label": "kept by",
        "properties": {"confidence": 1.0},
        "start": {"id": "1", "labels": ["Thing"]},
        "end": {"id": "2", "labels": ["Team"]},
    },
]
NEO4J_OBJECT = json.dumps(
    {
        "nodes": [{name: value for name, value in node.items() if name != "type"} for node in NEO4J[:2]],
        "rels": NEO4J[2:],
    }
)


def read(tmp_path: Path, name: str, text: str | bytes, fields: Fields | None = None) -> GraphFile:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_graph(path, "acme", fields or Fields())


@pytest.mark.parametrize(
    ("name", "text", "fields"),
    [
        ("node-link.json", NODE_LINK, Fields(type="kind")),
        ("node-link.json", NODE_LINK, Fields(name="label", type="kind")),
        ("graph.graphml", GRAPHML, Fields(type="kind")),
        ("dump.json", "\n".join(map(json.dumps, NEO4J)) + "\n", None),
        ("dump.json", json.dumps(NEO4J), None),
        ("dump.json", NEO4J_OBJECT, None),
    ],
    ids=["node-link", "named", "graphml", "neo4j lines", "neo4j array", "neo4j object"],
)
def test_the_same_graph_is_the_same_in_each_form(tmp_path: Path, name: str, text: str, fields: Fields | None) -> None:
    graph = read(tmp_path, name, text, fields)
    assert [(one.id, one.name, one.entity_type) for one in graph.vertices] == [
        ("1", "Ledger", "Business_service"),
        ("2", "Harbour team", "Team"),
    ]
    (edge,) = graph.relationships
    assert (edge.source, edge.type, edge.predicate, edge.target) == ("1", "KEPT_BY", "kept by", "2")
    (record,) = graph.records
    assert (record.content, record.metadata["floor"]) == ("Keeps the accounts.", 2)


def test_a_list_of_edges_makes_the_nodes_that_it_names(tmp_path: Path) -> None:
    table = 'From,To,label,weight\nLedger,"Harbour, the team",kept by,1\nLedger,Depot,,2\n'
    graph = read(tmp_path, "edges.csv", table)
    assert {one.name for one in graph.vertices} == {"Ledger", "Harbour, the team", "Depot"}
    assert [(one.source, one.type, one.target) for one in graph.relationships] == [
        ("Ledger", "KEPT_BY", "Harbour, the team"),
        ("Ledger", "RELATED_TO", "Depot"),
    ]
    neo4j = read(tmp_path, "edges.tsv", ":START_ID\t:END_ID\t:TYPE\n1\t2\tOWNS\n")
    assert [(one.source, one.type, one.target) for one in neo4j.relationships] == [("1", "OWNS", "2")]


@pytest.mark.parametrize(
    ("name", "text", "fields", "problem"),
    [
        ("g.json", NODE_LINK, Fields(name="title"), "--name-field: g.json has no 'title'; its fields are content, "),
        ("g.json", NODE_LINK, Fields(type="sort"), "--type-field: g.json has no 'sort'; its fields are content, "),
        ("g.cypher", "CREATE (a)", None, "g.cypher: Cypher is not read; CALL apoc.export.json.all"),
        ("g.gexf", "<gexf/>", None, "g.gexf: GEXF is not read; networkx.write_graphml"),
        ("g.csv", "a,b\n1,2\n", None, "g.csv:1: the header has no columns source and target, but a, b"),
        ("g.csv", "", None, "g.csv:1: the header has no columns source and target, but nothing"),
        ("g.csv", "source,target\na,b\nc\n", None, "g.csv:3: expected 2 columns"),
        ("g.csv", "source,target\na,b,c\n", None, "g.csv:2: expected 2 columns"),
        ("g.csv", "source,target\na,\n", None, "g.csv:2: target: "),
        ("g.csv", 'source,target\n"a,b\n', None, "g.csv:1: not a table: "),
        ("g.csv", b"source,target\n\xe9,b\n", None, "g.csv: not UTF-8: "),
        ("g.graphml", "<graphml>", None, "g.graphml: not XML: "),
        ("g.graphml", "<html/>", None, "g.graphml: not GraphML: the document is a 'html'"),
        (
            "g.graphml",
            '<!DOCTYPE graphml [<!ENTITY a SYSTEM "file:///etc/passwd">]><graphml>&a;</graphml>',
            None,
            "g.graphml: has a document type, which is not read",
        ),
        ("g.graphml", '<?xml version="1.0" encoding="rot13"?><graphml/>', None, "g.graphml: not XML: "),
        ("g.graphml", '<?xml version="1.0" encoding="utf-7"?><graphml/>', None, "g.graphml: not XML: "),
        ("g.graphml", DEFAULTS, None, "g.graphml: key: 257 have a default for each node; 256 may"),
        ("g.json", '{"nodes": [{"id": [1]}], "edges": []}', None, "g.json: nodes[0]: id: must be a valid string"),
        ("g.json", '{"type": ["node"], "id": "1"}', None, "g.json: nodes: expected an array"),
        ("g.json", '{"type": "node", "id": {}}', None, "g.json:1: id: must be a valid string"),
        ("g.json", json.dumps(NEO4J[2:]), None, "g.json: [0]: source: '1' is none of the nodes"),
        ("g.json", '{"type": "node", "id": 1}\n{"type": "nod', None, "g.json: not JSON: "),
    ],
)
def test_a_file_that_cannot_be_read_says_what_is_wrong_and_what_can(
    tmp_path: Path, name: str, text: str | bytes, fields: Fields | None, problem: str
) -> None:
    with pytest.raises(DatasetError) as refused:
        read(tmp_path, name, text, fields)
    assert str(refused.value).replace(f"{tmp_path}/", "").startswith(problem)


def test_entities_that_grow_without_bound_are_not_expanded(tmp_path: Path) -> None:
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    bomb = f'<?xml version="1.0"?><!DOCTYPE g [<!ENTITY e0 "ha">{levels}]><graphml>&e11;</graphml>'
    for encoding in ("utf-8", "utf-16"):
        with pytest.raises(DatasetError, match="document type"):
            read(tmp_path, "bomb.graphml", bomb.encode(encoding))
