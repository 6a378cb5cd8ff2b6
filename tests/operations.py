"""Every operation of the OpenAPI document with a right request, for tests that spoil it or ask it of another tenant."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DOCUMENT: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[1] / "shared/openapi.json").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Operation:
    """One operation, and a request that it takes."""

    id: str
    method: str
    template: str
    """Its path, such as ``/traces/{trace_id}``."""
    names: tuple[str, ...]
    """Of the query's parameters."""
    body: dict[str, Any] | None
    place: str
    """What stands in the path's braces; empty where there are none."""
    open: bool
    """Whether it answers anyone."""
    query: dict[str, Any] = field(default_factory=dict)

    def path(self, place: str | None = None) -> str:
        """Return the path with something in its braces."""
        beginning, brace, rest = self.template.partition("{")
        return beginning + (self.place if place is None else place) + rest.partition("}")[2] if brace else beginning


BODIES: dict[str, dict[str, Any]] = {
    "addDocument": {"name": "heron.md", "content": "IyBIZXJvbgoKVGhlIGhlcm9uIGdhdGUuCg=="},
    "buildContext": {"query": "heron", "messages": [{"role": "user", "content": "Hello"}], "working_state": True},
    "deleteRecords": {"ids": ["n-9", "n-8"]},
    "importRecords": {"key": "inbox/none.jsonl", "stub_missing_ends": False},
    "queryGraph": {
        "start": {"names": ["heron"]},
        "steps": [{"types": ["CAUSES"], "direction": "out"}],
        "limit": 5,
        "as_of": "2025-06-01T00:00:00Z",
    },
    "readEntity": {"id": "heron"},
    "readRecords": {"ids": ["heron", "n-1"]},
    "reembed": {},
    "registerSchema": {"version": 3, "entity_types": ["Event"], "relationship_types": ["CAUSES"], "changes": "first"},
    "search": {
        "text": "why heron",
        "top_k": 3,
        "filters": {"kinds": ["entity"], "entity_types": ["Event"], "time_range": {"start": "2020-01-01"}},
        "graph_constraint": {"entity": "heron", "types": ["CAUSES"], "direction": "out", "depth": 1},
        "hints": {"strategy": "vector_first"},
        "vector_weight": 0.5,
        "as_of": "2025-06-01T00:00:00Z",
        "explain": True,
    },
    "searchSemantic": {"text": "heron", "entity_types": ["Event"], "limit": 5, "min_similarity": 0.1},
    "writeRecords": {
        "records": [
            {
                "id": "n-1",
                "kind": "entity",
                "entity_type": "Event",
                "name": "Note",
                "content": "a",
                "metadata": {"a": 1},
            }
        ],
        "vertices": [{"id": "n-2", "entity_type": "Event", "name": "Other"}],
        "relationships": [{"source": "n-1", "type": "CAUSES", "target": "n-2", "confidence": 0.5}],
        "stub_missing_ends": False,
    },
}
PLACES = {
    "deleteRecord": "n-9",
    "getEntity": "heron",
    "getImport": "f" * 32,
    "getRelated": "heron",
    "getTrace": "00000000-0000-4000-8000-000000000000",
}
QUERIES: dict[str, dict[str, Any]] = {
    "getRelated": {"types": "CAUSES", "direction": "out", "depth": 1, "limit": 5, "as_of": "2025-06-01T00:00:00Z"},
    "listRecords": {"limit": 5, "after": "none"},
}


def _operations() -> list[Operation]:
    found = []
    for path, methods in DOCUMENT["paths"].items():
        for method, described in methods.items():
            name = described["operationId"]
            found.append(
                Operation(
                    id=name,
                    method=method.upper(),
                    template=path,
                    names=tuple(each["name"] for each in described.get("parameters", ()) if each["in"] == "query"),
                    # A KeyError here: an operation is new, and needs a right request above.
                    body=BODIES[name] if "requestBody" in described else None,
                    place=PLACES[name] if "{" in path else "",
                    open=described.get("security") == [],
                    query=QUERIES.get(name, {}),
                )
            )
    return found


OPERATIONS = _operations()
