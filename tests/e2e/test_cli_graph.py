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


def test_what_an_entity_is_related_to_is_a_table_with_paths(braid: Braid) -> None:
    done = braid("related", "Keelson", *TENANT, "--type", "OWNS", "--direction", "in")
    assert (done.status, done.err) == (0, "")
    assert "Keelson ←OWNS─ Platform" in " ".join(done.out.split())
    found = json.loads(braid("related", "Keelson", *TENANT, "--type", "OWNS", "--json").out)
    assert [hit["id"] for hit in found["hits"]] == ["team:platform"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("related", "Kelson"), "braid: ENTITY: nothing in the graph is called 'Kelson'"),
        (("related", "Keelson", "--depth", "9"), "braid: --depth: "),
        (("related", "Keelson", "--type", "no type"), "braid: --type"),
        (
            ("search", "who", "--within", "Kelson", "--in-process"),
            "braid: --within: nothing in the graph of",
        ),
        (("search", "who", "--since", "soon", "--in-process"), "braid: --since: not a date"),
        (("search", "who", "--min-similarity", "2", "--in-process"), "braid: --min-similarity: "),
        (("search", "who", "--type", "no type", "--in-process"), "braid: --type: "),
    ],
)
def test_what_is_wrong_is_said_by_its_option(braid: Braid, arguments: tuple[str, ...], problem: str) -> None:
    done = braid(*arguments, *TENANT)
    assert done.status == 2
    assert one_line(done).startswith(problem)


def test_a_graph_query_is_read_from_a_file(braid: Braid, tmp_path: Path) -> None:
    file = tmp_path / "owners.json"
    file.write_text(json.dumps(OWNERS), encoding="utf-8")
    done = braid("graph-query", str(file), *TENANT, "--json")
    assert [hit["id"] for hit in json.loads(done.out)["hits"]] == ["team:platform"]
    assert "Platform" in braid("graph-query", str(file), *TENANT).out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
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


def test_a_search_keeps_to_a_type_and_a_time(braid: Braid) -> None:
    kept = ("--type", "Event", "--since", "2024-01-01", "--until", "2026-01-01")
    answer = json.loads(braid("search", "label outage", *TENANT, *kept, "--in-process", "--json").out)
    assert answer["results"]
    assert {result["entity_type"] for result in answer["results"]} == {"Event"}
    assert all("2024-01-01" <= result["timestamp"] < "2026-01-01" for result in answer["results"])
