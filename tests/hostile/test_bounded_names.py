"""What callers name becomes no table, file, field or metric of its own, however many names they make up."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from braid.engines.neptune import element_layout
from braid.engines.opensearch import mapping
from braid.settings import Settings
from gremlin_python.process.graph_traversal import GraphTraversalSource
from gremlin_python.process.traversal import TraversalStrategies
from gremlin_python.structure.graph import Graph

from tests.contract.shapes import edge, record, vertex
from tests.front_door import FrontDoor, claims
from tests.stages import DemoStages

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NAMES = ("Aa", "records", "vectors", "T" + "x" * 63, "sqlite_master", "tenant_id", "id", "label")
"""Identifiers that mean something to one of the stores, or are as long as may be."""


def hostile_writes(number: int) -> dict[str, Any]:
    name = NAMES[number % len(NAMES)]
    keys = [f"vector_{number}", f"a.b.c{number}", "_id", "_source", "", f"$key{number}", "words"]
    return {
        "records": [
            {
                "id": f"r{number}/../../{name}",
                "kind": "entity",
                "entity_type": name if number < len(NAMES) else f"T{number}",
                "name": f"{name} {number}",
                "content": f"A heron, {number}.",
                "task_id": f"task{number}",
                "tool_name": f"tool{number}",
                "status": f"status{number}",
                "metadata": dict.fromkeys(keys, number),
            }
        ],
        "vertices": [{"id": f"v{number}", "entity_type": f"V{number}", "name": name}],
        "relationships": [
            {"source": f"v{number}", "type": f"R{number}", "target": f"v{number}", "predicate": f"p{number}"}
        ],
    }


def test_names_make_no_table_column_or_file(tmp_path: Path) -> None:
    def things() -> tuple[set[Any], set[str]]:
        connection = sqlite3.connect(tmp_path / "braid.db")
        tables = set(connection.execute("SELECT type, name, sql FROM sqlite_master"))
        connection.close()
        return tables, {path.name for path in tmp_path.rglob("*")}

    stages = DemoStages(Settings(home=tmp_path))
    door = FrontDoor(stages)
    assert door.ask("POST", "/records", hostile_writes(0), authorizer=claims("acme")).status == 200
    stages.index.optimise("acme")  # type: ignore[attr-defined]
    before = things()
    for number in range(1, 60):
        assert door.ask("POST", "/records", hostile_writes(number), authorizer=claims("acme")).status == 200
        assert door.ask("POST", "/search", {"text": f"heron {number}"}, authorizer=claims("acme")).status == 200
    tables, files = things()
    assert tables == before[0]
    assert {name for name in files if not name.endswith(".usearch")} == {
        name for name in before[1] if not name.endswith(".usearch")
    }
    stages.close()


def test_an_index_document_has_no_field_but_its_own_and_those_of_configured_spaces() -> None:
    own = mapping.document(record("a", metadata={"team": "red"}))
    written = hostile_writes(7)["records"][0]
    fields = mapping.document(record("b", "", **{name: written[name] for name in ("metadata", "status", "task_id")}))
    assert fields.keys() == own.keys()


def test_the_index_takes_up_no_field_that_it_was_not_told_of() -> None:
    body = mapping.index_body(Settings())
    assert body["mappings"]["dynamic"] is False
    inner = [field for field in body["mappings"]["properties"].values() if "properties" in field]
    assert not any("dynamic" in field for field in inner)


def test_graph_properties_and_vertex_labels_are_named_by_nobody() -> None:
    def named(bytecode: Any) -> tuple[set[str], set[str]]:
        keys, labels = set(), set()
        for name, *arguments in bytecode.step_instructions:
            if name == "property":
                keys.add(next(argument for argument in arguments if isinstance(argument, str)))
            if name == "mergeV":
                labels |= {value for key, value in arguments[0].items() if "label" in str(key)}
        return keys, labels

    source = GraphTraversalSource(Graph(), TraversalStrategies())
    usual = named(element_layout.write_vertices(source, [vertex("a", name="a")]).bytecode)
    hostile = [vertex(f"v{name}", name=name, entity_type=name, aliases=(name, "x|y")) for name in NAMES]
    assert named(element_layout.write_vertices(source, hostile).bytecode) == usual
    assert usual[1] == {element_layout.LABEL}
    of_edges = named(element_layout.write_edges(source, [edge("a", "b")]).bytecode)
    assert named(element_layout.write_edges(source, [edge(n, "b", n, predicate=n) for n in NAMES]).bytecode) == of_edges


def test_metrics_have_the_function_alone_as_a_dimension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "search_api")
    stages = DemoStages(Settings(home=tmp_path))
    door = FrontDoor(stages)
    names: set[str] = set()
    for number in range(40):
        door.ask("GET", f"/made-up/{number}", authorizer=claims(f"tenant{number}"))
        door.ask("POST", "/records", hostile_writes(number), authorizer=claims(f"tenant{number}"))
        door.ask("POST", "/search", {"text": f"heron {number}"}, authorizer=claims(f"tenant{number}"))
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
        assert lines
        told = [each for line in lines for each in line["_aws"]["CloudWatchMetrics"]]
        assert {tuple(map(tuple, each["Dimensions"])) for each in told} == {(("service",),)}
        assert {line["service"] for line in lines} == {"search_api"}
        found = {metric["Name"] for each in told for metric in each["Metrics"]}
        if number < 3:
            names |= found
        assert found <= names
    stages.close()
