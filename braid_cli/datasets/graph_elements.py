"""Parser of nodes and edges in one JSON document, NetworkX's node-link format included."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from braid.errors import DatasetError, InvalidRequest
from braid.ingestion.items import InvalidItem, entity_of
from braid.models import Relationship
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from braid.models import Record, Vertex

    from braid_cli.datasets.json_lines import Mistakes

MAX_BYTES = 200_000_000
DEFAULT_RELATIONSHIP = "RELATED_TO"
_EDGE_FIELDS = frozenset(Relationship.model_fields) - {"tenant_id"}
_SPAN_FIELDS = ("timestamp", "valid_at", "invalid_at")
_NODE_FIELDS = frozenset(
    ("id", "name", "type", "aliases", "content", *_SPAN_FIELDS, "schema_version", "importance", "trusted")
)
_T = TypeVar("_T")


@dataclass(frozen=True)
class Elements:
    """Well-formed nodes and edges of a graph file, each with its place."""

    nodes: list[tuple[str, tuple[Vertex, Record | None]]]
    edges: list[tuple[str, Relationship]]


def read_elements(path: Path, raw: bytes, tenant_id: str, errors: Mistakes) -> Elements:
    """Parse a graph file; malformed nodes and edges become errors, the others are returned.

    Parameters
    ----------
    path
        Path of the file, for messages.
    raw
        Content of the file.
    tenant_id
        Tenant of the data.
    errors
        Collects what is wrong.

    Raises
    ------
    DatasetError
        If the document is not JSON of nodes and edges, or too long.
    """
    if len(raw) > MAX_BYTES:
        raise DatasetError(f"{path}: longer than {MAX_BYTES:,} bytes")
    try:
        graph = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path}: not JSON: {error}") from None
    if not isinstance(graph, dict):
        raise DatasetError(f"{path}: expected one object with nodes and edges, found {type(graph).__name__}")
    edges_name = "edges" if "edges" in graph else "links"
    for name in ("nodes", edges_name):
        if not isinstance(graph.get(name), list):
            raise DatasetError(f"{path}: {name}: expected an array")
    nodes = _parse(path, "nodes", graph["nodes"], lambda row: _node(row, tenant_id), errors)
    edges = _parse(path, edges_name, graph[edges_name], lambda row: _edge(row, tenant_id), errors)
    return Elements(nodes, edges)


def _parse(
    path: Path, name: str, rows: list[Any], parse: Callable[[dict[str, Any]], _T], errors: Mistakes
) -> list[tuple[str, _T]]:
    parsed: list[tuple[str, _T]] = []
    for number, row in enumerate(rows):
        place = f"{path}: {name}[{number}]"
        if not isinstance(row, dict):
            errors.add(place, f"expected an object, found {type(row).__name__}")
            continue
        try:
            parsed.append((place, parse(row)))
        except (ValidationError, InvalidItem) as error:
            found = InvalidRequest.from_validation(error) if isinstance(error, ValidationError) else error
            errors.add(place, str(found).removeprefix("request: "))
            errors.ids.add(_identity(row.get("id")))
    return parsed


def _identity(value: object) -> Any:  # noqa: ANN401 - the model refuses what is no id
    """Return an id as text: NetworkX's nodes are often numbers."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _node(row: dict[str, Any], tenant_id: str) -> tuple[Vertex, Record | None]:
    fields = {name: value for name, value in row.items() if name in _NODE_FIELDS}
    identity = _identity(row.get("id"))
    rest = {name: value for name, value in row.items() if name not in _NODE_FIELDS}
    return entity_of({"name": identity, **fields, "id": identity, "metadata": rest}, tenant_id)


def _edge(row: dict[str, Any], tenant_id: str) -> Relationship:
    kind = row.get("type") or (row["key"] if isinstance(row.get("key"), str) else DEFAULT_RELATIONSHIP)
    fields = {name: value for name, value in row.items() if name in _EDGE_FIELDS}
    ends = {name: _identity(row.get(name)) for name in ("source", "target")}
    return Relationship.model_validate({**fields, **ends, "type": kind, "tenant_id": tenant_id})
