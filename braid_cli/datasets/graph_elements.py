"""Converts nodes and edges of a graph file to vertices, records and relationships."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from braid.errors import DatasetError, InvalidRequest
from braid.ingestion.item_parsing import InvalidItem, entity_of
from braid.models import Relationship
from pydantic import ValidationError

from braid_cli.datasets.graph_formats import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from braid.models import Record, Vertex

    from braid_cli.datasets.graph_formats import Row
    from braid_cli.datasets.json_lines import Mistakes

MAX_BYTES = 200_000_000
DEFAULT_RELATIONSHIP = "RELATED_TO"
_EDGE_FIELDS = frozenset(Relationship.model_fields) - {"tenant_id"}
_SPAN_FIELDS = ("timestamp", "valid_at", "invalid_at")
_NODE_FIELDS = frozenset(
    ("id", "name", "type", "aliases", "content", *_SPAN_FIELDS, "schema_version", "importance", "trusted")
)
_SHOWN_FIELDS = 12
_WORDS = re.compile(r"[A-Za-z0-9_]+")
_T = TypeVar("_T")


@dataclass(frozen=True)
class Elements:
    """Well-formed nodes and edges of a graph file, each with its place."""

    nodes: list[tuple[str, tuple[Vertex, Record | None]]]
    edges: list[tuple[str, Relationship]]


@dataclass(frozen=True)
class Fields:
    """Names of the fields for name and type in a graph file."""

    name: str | None = None
    """Field with a node's name; by default ``name``, ``label`` or ``title``, else the id."""
    type: str | None = None
    """Field with a node's or edge's type; by default ``type``, for edges also ``label``, ``relation`` or ``name``."""


AS_NAMED = Fields()


def read_elements(path: Path, raw: bytes, tenant_id: str, errors: Mistakes, fields: Fields = AS_NAMED) -> Elements:
    """Parse a graph file; malformed nodes and edges are collected as errors, the others are returned.

    Raises DatasetError if the file is not a graph, is too long, or has no field of a given name.

    Parameters
    ----------
    path
        Path of the file, for messages.
    raw
        Content of the file.
    tenant_id
        Tenant of the data.
    errors
        Collects the mistakes.
    fields
        Names of the file's fields for name and type.
    """
    if len(raw) > MAX_BYTES:
        raise DatasetError(f"{path}: longer than {MAX_BYTES:,} bytes")
    rows = rows_of(path, raw)
    for option, field, among in (
        ("--name-field", fields.name, rows.nodes),
        ("--type-field", fields.type, rows.nodes + rows.edges),
    ):
        if field and not any(isinstance(row, dict) and field in row for _, row in among):
            known = sorted({name for _, row in among if isinstance(row, dict) for name in row})
            raise DatasetError(f"{option}: {path} has no {field!r}; its fields are {', '.join(known[:_SHOWN_FIELDS])}")
    nodes = _parse(rows.nodes, lambda row: _node(row, fields, tenant_id), errors)
    edges = _parse(rows.edges, lambda row: _edge(row, fields, tenant_id), errors)
    return Elements(nodes, edges)


def _parse(rows: list[Row], parse: Callable[[dict[str, Any]], _T], errors: Mistakes) -> list[tuple[str, _T]]:
    parsed: list[tuple[str, _T]] = []
    for place, row in rows:
        if not isinstance(row, dict):
            errors.add(place, f"expected an object, found {type(row).__name__}")
            continue
        try:
            parsed.append((place, parse(row)))
        except (ValidationError, InvalidItem) as error:
            found = InvalidRequest.from_validation(error) if isinstance(error, ValidationError) else error
            errors.add(place, str(found).removeprefix("request: "))
            errors.ids.add(str(row.get("id")))
    return parsed


def _identity(value: object) -> Any:  # noqa: ANN401 - the model refuses other types
    """Return an integer id as text, as NetworkX's nodes are often numbers; other values as they are."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _first(row: dict[str, Any], names: Iterable[str | None]) -> str:
    """Return the first of these fields that is a non-empty text or a number, as text; else an empty string."""
    given = (row.get(name) for name in names if name)
    return next((str(value) for value in given if isinstance(value, str | int | float) and str(value).strip()), "")


def _type(name: str) -> str:
    """Return an entity's or relationship's type as an identifier: ``depends on`` as ``depends_on``."""
    return "_".join(_WORDS.findall(name)) or name


def _node(row: dict[str, Any], fields: Fields, tenant_id: str) -> tuple[Vertex, Record | None]:
    known = {name: value for name, value in row.items() if name in _NODE_FIELDS}
    identity = _identity(row.get("id"))
    rest = {name: value for name, value in row.items() if name not in _NODE_FIELDS}
    said = {
        "name": _first(row, (fields.name, "name", "label", "title")),
        "type": _type(_first(row, (fields.type, "type"))),
    }
    named = {name: value for name, value in said.items() if value}
    return entity_of({"name": identity, **known, **named, "id": identity, "metadata": rest}, tenant_id)


def _edge(row: dict[str, Any], fields: Fields, tenant_id: str) -> Relationship:
    key = row["key"] if isinstance(row.get("key"), str) else ""
    name = _first(row, (fields.type, "type", "label", "relation", "relationship", "name")) or key
    kind = _type(name)
    known = {field: value for field, value in row.items() if field in _EDGE_FIELDS}
    if kind != name:
        known = {"predicate": name, **known}
        kind = kind.upper()
    ends = {end: _identity(row.get(end)) for end in ("source", "target")}
    return Relationship.model_validate({**known, **ends, "type": kind or DEFAULT_RELATIONSHIP, "tenant_id": tenant_id})
