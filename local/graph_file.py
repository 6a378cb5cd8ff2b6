"""A graph in one JSON file: ``nodes`` and ``edges`` or ``links``, which NetworkX's node-link form is one of."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from braid.errors import DatasetError, InvalidRequest
from braid.models import Relationship, Vertex
from braid.write_items import entity_of
from pydantic import ValidationError

from local.dataset import Dataset
from local.json_lines import Mistakes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from braid.models import Record

MAX_BYTES = 200_000_000
DEFAULT_RELATIONSHIP = "RELATED_TO"
_EDGE_FIELDS = frozenset(Relationship.model_fields) - {"tenant_id"}
_NODE_FIELDS = frozenset(
    ("id", "name", "type", "aliases", "content", "timestamp", "valid_at", "invalid_at", "schema_version", "importance")
)
_T = TypeVar("_T")


@dataclass(frozen=True)
class GraphFile(Dataset):
    """What a graph's file holds, for one tenant; written as any dataset is."""

    digest: str = ""

    @property
    def name(self) -> str:
        """The file's name."""
        return self.folder.resolve().name

    @property
    def content_hash(self) -> str:
        """SHA-256 of the file."""
        return self.digest


def read_graph(path: Path, tenant_id: str) -> GraphFile:
    """Read and check a graph's file, whole, before anything of it is used.

    Parameters
    ----------
    path
        One JSON object of ``nodes`` and ``edges`` or ``links``. A node needs an ``id``; ``name``, ``type``, ``aliases``
        and ``content`` are as in ``entities.jsonl``. An edge needs ``source`` and ``target``; its ``type``, or its
        ``key`` in a graph of several edges between two nodes, is ``RELATED_TO`` when not given. What else a node has is
        kept as metadata of its record; what else an edge has is not kept.
    tenant_id
        Whose data it becomes.

    Raises
    ------
    DatasetError
        If it is not such a file; names the file and the element.
    """
    raw = path.read_bytes()
    nodes, edges, errors = _elements(path, raw, tenant_id)
    known: dict[str, str] = {}
    for place, (vertex, _) in nodes:
        if vertex.id in known:
            errors.add(place, f"id: {vertex.id!r} stands already at {known[vertex.id]}")
        known.setdefault(vertex.id, place)
    for place, edge in edges:
        for end, identity in (("source", edge.source), ("target", edge.target)):
            if identity not in known and identity not in errors.ids:
                errors.add(place, f"{end}: {identity!r} is none of the nodes")
    errors.raise_any()
    records = [(place, record) for place, (_, record) in nodes if record is not None]
    return GraphFile(
        folder=path,
        tenant_id=tenant_id,
        records=tuple(record for _, record in records),
        vertices=tuple(vertex for _, (vertex, _) in nodes),
        relationships=tuple(edge for _, edge in edges),
        schemas=(),
        judged=(),
        places={record.id: place for place, record in records},
        digest=hashlib.sha256(raw).hexdigest(),
    )


def _elements(
    path: Path, raw: bytes, tenant_id: str
) -> tuple[list[tuple[str, tuple[Vertex, Record | None]]], list[tuple[str, Relationship]], Mistakes]:
    """Return the nodes and edges that are well formed, each with its place, and what is wrong with the others."""
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
    errors = Mistakes()
    nodes = _parse(path, "nodes", graph["nodes"], lambda row: _node(row, tenant_id), errors)
    edges = _parse(path, edges_name, graph[edges_name], lambda row: _edge(row, tenant_id), errors)
    return nodes, edges, errors


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
        except ValidationError as error:
            errors.add(place, str(InvalidRequest.from_validation(error)).removeprefix("request: "))
            errors.ids.add(_identity(row.get("id")))
    return parsed


def _identity(value: object) -> Any:  # noqa: ANN401 - what is no id is refused by the shape
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
