"""``braid related``, ``braid graph-query`` and the options of ``braid search`` that narrow what is searched."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_cli import one_line

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.test_cli import Braid

TENANT = ("--tenant", "saltmarrow")
OWNERS = {"start": {"names": ["Keelson"]}, "steps": [{"direction": "in", "types": ["OWNS"]}]}


def test_what_an_entity_is_related_to_is_two_lines_each_in_eighty_columns(braid: Braid) -> None:
    done = braid("related", "Keelson", *TENANT, "--type", "OWNS", "--direction", "in", COLUMNS="80")
    assert (done.status, done.err) == (0, "")
    path, about = done.out.splitlines()
    assert path.rstrip() == "0.50  Keelson ←OWNS─ Platform team"
    assert about == "      Organization · team:platform"
    wide = braid("related", "Keelson", *TENANT, "--depth", "2", "--limit", "200", COLUMNS="80").out
    assert max(map(len, wide.splitlines())) <= 80
    found = json.loads(braid("related", "Keelson", *TENANT, "--type", "OWNS", "--json").out)
    assert [hit["id"] for hit in found["hits"]] == ["team:platform"]


def test_what_is_known_of_an_entity_is_a_sentence_a_line(braid: Braid) -> None:
    done = braid("facts", "Keelson", *TENANT, "--type", "OWNS")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("Platform team owns Keelson.")
    (fact,) = json.loads(braid("facts", "Keelson", *TENANT, "--type", "OWNS", "--json").out)["facts"]
    assert (fact["source"], fact["type"], fact["target"]) == ("Platform team", "OWNS", "Keelson")
    assert "Nothing is known about it." in braid("facts", "Keelson", *TENANT, "--type", "EATS").out


def test_relations_of_strangers_are_marked_and_left_out_where_asked(braid: Braid, tmp_path: Path) -> None:
    file, tenant = tmp_path / "mail.jsonl", ("--tenant", "strangers")
    edge = {"source": "keel", "type": "OWNED_BY", "target": "guild", "trusted": False}
    entities = [{"entity": {"id": name, "name": name.title()}} for name in ("keel", "guild")]
    file.write_text("\n".join(json.dumps(line) for line in (*entities, {"relationship": edge})), encoding="utf-8")
    assert braid("ingest", str(file), *tenant).status == 0
    assert " · not trusted" in braid("related", "Keel", *tenant).out
    assert "Nothing found" in braid("related", "Keel", *tenant, "--trusted-only").out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("related", "Kelson"), "braid: ENTITY: nothing in the graph is called 'Kelson'; did you mean Keelson?"),
        (("related", "Keelson", "--depth", "9"), "braid: --depth: "),
        (("facts", "Kelson"), "braid: ENTITY: nothing in the graph is called 'Kelson'; did you mean Keelson?"),
        (("related", "Keelson", "--type", "no type"), "braid: --type"),
        (
            ("search", "who", "--within", "Kelson"),
            "braid: --within: nothing in the graph of",
        ),
        (("search", "who", "--since", "soon"), "braid: --since: not a date"),
        (("search", "who", "--min-similarity", "2"), "braid: --min-similarity: "),
        (("search", "who", "--type", "no type"), "braid: --type: "),
    ],
)
def test_what_is_wrong_is_said_by_its_option(braid: Braid, arguments: tuple[str, ...], problem: str) -> None:
    done = braid(*arguments, *TENANT)
    assert done.status == 2
    assert one_line(done).startswith(problem)


def test_a_misspelt_name_is_said_to_be_read_as_another(braid: Braid) -> None:
    done = braid("search", "Who owns Keelsn?", *TENANT)
    assert "“keelsn” was read as Keelson" in done.out
    assert "Platform team owns Keelson" in done.out


def test_a_graph_query_is_read_from_a_file(braid: Braid, tmp_path: Path) -> None:
    file = tmp_path / "owners.json"
    file.write_text(json.dumps(OWNERS), encoding="utf-8")
    done = braid("graph-query", str(file), *TENANT, "--json")
    assert [hit["id"] for hit in json.loads(done.out)["hits"]] == ["team:platform"]
    assert "Platform" in braid("graph-query", str(file), *TENANT).out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at line 1, column 2; such as {"),
        ('{"start": {}, "start": {}}', "holds a key twice in one object"),
        ("[]", "expected one JSON object"),
        ('{"start": {}}', "start: needs ids, names or entity_types"),
        ('{"start": {"ids": ["a"]}, "tenant_id": "pellworth"}', "tenant_id: unknown field"),
    ],
)
def test_a_graph_query_that_is_wrong_is_refused_with_file_and_field(
    braid: Braid, tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "wrong.json"
    file.write_text(text, encoding="utf-8")
    done = braid("graph-query", str(file), *TENANT)
    assert done.status == 2
    assert one_line(done).startswith(f"braid: {file}: {problem}")


def test_a_type_that_nothing_has_is_named_with_the_nearest_one(braid: Braid, tmp_path: Path) -> None:
    file = tmp_path / "query.json"
    file.write_text(
        json.dumps({"start": {"names": ["Keelson"]}, "steps": [{"types": ["OWNED"], "entity_types": ["Theme"]}]}),
        encoding="utf-8",
    )
    of_event = "braid: no record of saltmarrow has the type even; did you mean Event?"
    owned = "braid: no relationship has the type OWNED; did you mean OWNS?"
    asked = {
        ("search", "What broke?", "--type", "even"): of_event,
        ("related", "Keelson", "--type", "OWNED"): owned,
        ("facts", "Keelson", "--type", "OWNED"): owned,
        ("graph-query", str(file)): owned,
    }
    for command, told in asked.items():
        assert told in braid(*command, *TENANT).err.splitlines()
    assert braid("related", "Keelson", "--type", "CAUSES", *TENANT).err == ""


def test_records_without_a_timestamp_are_said_to_be_left_out_of_a_period(braid: Braid) -> None:
    assert (
        "left out: all records without a timestamp" in braid("search", "outage", *TENANT, "--since", "2024-01-01").out
    )


def test_a_search_keeps_to_a_type_and_a_time(braid: Braid) -> None:
    kept = ("--type", "Event", "--since", "2024-01-01", "--until", "2026-01-01")
    answer = json.loads(braid("search", "label outage", *TENANT, *kept, "--json").out)
    assert answer["results"]
    assert {result["entity_type"] for result in answer["results"]} == {"Event"}
    assert all("2024-01-01" <= result["timestamp"] < "2026-01-01" for result in answer["results"])


def test_a_graph_of_nodes_and_edges_is_ingested_and_answers_with_its_path(
    braid: Braid, home: Path, tmp_path: Path
) -> None:
    file, other = tmp_path / "graph.json", {"home": tmp_path / "home", "BRAID_MODELS_DIR": str(home / "models")}
    nodes = [
        {"id": "pump", "name": "Aristarete", "type": "Part"},
        {"id": 7, "name": "Valve", "content": "Closed by hand, with the long key."},
    ]
    graph = {"directed": True, "graph": {}, "nodes": nodes, "links": [{"source": "pump", "target": 7, "key": "FEEDS"}]}
    file.write_text(json.dumps(graph), encoding="utf-8")
    done = braid("ingest-graph", str(file), "--tenant", "acme", **other)
    assert (done.status, " ".join(done.out.split())) == (
        0,
        "graph.json: 2 vertices, 1 relationship and 1 record for acme",
    )
    answer = json.loads(braid("search", "What is behind Aristarete?", "-t", "acme", "--json", **other).out)
    (found,) = answer["results"]
    assert (found["id"], found["paths"][0]["types"]) == ("7", ["FEEDS"])
    assert "nothing has changed" in braid("ingest-graph", str(file), "--tenant", "acme", **other).out


def test_a_graph_with_a_mistake_is_refused_by_file_and_element_and_nothing_is_written(
    braid: Braid, tmp_path: Path
) -> None:
    file = tmp_path / "graph.json"
    file.write_text('{"nodes": [{"id": "a"}], "edges": [{"source": "a", "target": "b"}]}', encoding="utf-8")
    done = braid("ingest-graph", str(file), "--tenant", "acme", home=tmp_path / "home")
    assert done.status == 2
    assert one_line(done).startswith(f"braid: {file}: edges[0]: target: 'b' is none of the nodes")
    assert "nothing is known of 'acme'" in braid("search", "b", "-t", "acme", home=tmp_path / "home").err


def test_how_strands_are_combined_is_planned_unless_it_is_asked_for(braid: Braid) -> None:
    ask = ("search", "Who owns Keelson?", *TENANT, "--json")
    planned = json.loads(braid(*ask).out)
    assert planned["fusion"] == planned["plan"]["fusion"] == "propagate"
    assert json.loads(braid(*ask, "--fusion", "rrf").out)["fusion"] == "rrf"
    assert "combined rrf: ranks and not scores" in " ".join(
        braid(*ask[:-1], "--fusion", "rrf", "--explain").out.split()
    )
