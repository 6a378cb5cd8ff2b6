"""Parsers of graph file formats: node-link JSON, GraphML, edge lists as CSV or TSV, and JSON exports of Neo4j."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from xml.etree import ElementTree as ET

from braid.errors import DatasetError
from braid.models.records import MAX_METADATA_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

Row = tuple[str, Any]
"""A node or edge as parsed, with its place in the file in front."""
_ENDS: Final = {
    "source": ("source", "from", "start", "src", ":start_id"),
    "target": ("target", "to", "end", "dst", ":end_id"),
}
"""Column names of an edge list, in lower case."""
_OTHERS: Final = {
    ".cypher": "Cypher is not read; CALL apoc.export.json.all('graph.json', {}) writes what is",
    ".cql": "Cypher is not read; CALL apoc.export.json.all('graph.json', {}) writes what is",
    ".gexf": "GEXF is not read; networkx.write_graphml writes what is",
    ".gml": "GML is not read; networkx.write_graphml writes what is",
}
_NUMBERS: Final[dict[str, Callable[[str], Any]]] = {
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": lambda text: text.strip().lower() in {"true", "1"},
}


class Rows(NamedTuple):
    """Nodes and edges of a file, in the same form for all formats."""

    nodes: list[Row]
    edges: list[Row]


def rows_of(path: Path, raw: bytes) -> Rows:
    """Return the nodes and edges of a graph file. Its format is detected by its suffix, and for JSON by its content.

    Raises DatasetError if the format is not supported, or the file is malformed.
    """
    ending = path.suffix.lower()
    if ending in _OTHERS:
        raise DatasetError(f"{path}: {_OTHERS[ending]}")
    if ending in {".graphml", ".xml"}:
        return _graphml(path, raw)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: not UTF-8: {error}") from None
    if ending in {".csv", ".tsv"}:
        return _edge_list(path, text, "\t" if ending == ".tsv" else ",")
    return _json(path, text)


def _json(path: Path, text: str) -> Rows:
    try:
        graph = json.loads(text)
    except (ValueError, RecursionError) as error:
        if (dump := _json_lines(text)) is None:
            raise DatasetError(f"{path}: not JSON: {error}") from None
        return _neo4j([(f"{path}:{line}", row) for line, row in dump])
    if isinstance(graph, list) and graph and all(_is_neo4j(row) for row in graph):
        return _neo4j([(f"{path}: [{number}]", row) for number, row in enumerate(graph)])
    if _is_neo4j(graph):  # an export of one line
        return _neo4j([(f"{path}:1", graph)])
    if not isinstance(graph, dict):
        raise DatasetError(f"{path}: expected one object with nodes and edges, found {type(graph).__name__}")
    edges_name = next((name for name in ("edges", "rels") if name in graph), "links")
    for name in ("nodes", edges_name):
        if not isinstance(graph.get(name), list):
            raise DatasetError(f"{path}: {name}: expected an array")
    rows = Rows(
        *([(f"{path}: {name}[{at}]", row) for at, row in enumerate(graph[name])] for name in ("nodes", edges_name))
    )
    if edges_name == "rels":
        kinds = [(place, row | {"type": "node"} if isinstance(row, dict) else row) for place, row in rows.nodes]
        return _neo4j([*kinds, *rows.edges])
    return rows


def _json_lines(text: str) -> list[tuple[int, Any]] | None:
    """Return the numbered rows of a JSON Lines export of Neo4j; None if the text is not one."""
    found = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if not _is_neo4j(row):
            return None
        found.append((number, row))
    return found


def _is_neo4j(row: object) -> bool:
    return isinstance(row, dict) and row.get("type") in ("node", "relationship") and "id" in row


def _neo4j(rows: Iterable[Row]) -> Rows:
    """Return the nodes and edges of an export of Neo4j; a node's type is its first label."""
    found = Rows([], [])
    for place, row in rows:
        given = row.get("properties") if isinstance(row, dict) else None
        properties = given if isinstance(given, dict) else {}
        if not isinstance(row, dict):
            found.edges.append((place, row))
        elif row.get("type") == "node":
            labels = row.get("labels")
            kind = {"type": labels[0]} if isinstance(labels, list) and labels else {}
            kept = {f"{name}_property" if name in {"id", "type"} else name: value for name, value in properties.items()}
            found.nodes.append((place, {**kept, **kind, "id": row.get("id")}))
        else:
            ends = {name: row.get(end) for name, end in (("source", "start"), ("target", "end"))}
            known = {name: end.get("id") if isinstance(end, dict) else end for name, end in ends.items()}
            found.edges.append((place, {**properties, **known, "type": row.get("label")}))
    return found


def _edge_list(path: Path, text: str, delimiter: str) -> Rows:
    """Return the edges of an edge list, and a node for each of their ends."""
    table = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in table.fieldnames or ()]
        lower = [name.lower() for name in header]
        columns = {
            end: next((header[lower.index(name)] for name in names if name in lower), None)
            for end, names in _ENDS.items()
        }
        if not all(columns.values()):
            message = f"the header has no columns source and target, but {', '.join(header) or 'nothing'}"
            raise DatasetError(f"{path}:1: {message}")
        table.fieldnames = header
        ends = {column: end for end, column in columns.items()}
        edges = []
        for row in table:
            if None in row or None in row.values():
                raise DatasetError(f"{path}:{table.line_num}: expected {len(header)} columns, as in the header")
            named = {
                ends.get(name, name.removeprefix(":").lower() if name.startswith(":") else name): value.strip()
                for name, value in row.items()
            }
            edges.append((f"{path}:{table.line_num}", {name: value for name, value in named.items() if value}))
    except csv.Error as error:
        raise DatasetError(f"{path}:{table.line_num}: not a table: {error}") from None
    first = {edge[end]: place for place, edge in reversed(edges) for end in _ENDS if end in edge}
    return Rows([(place, {"id": identity}) for identity, place in first.items()], edges)


class _Tree(ET.TreeBuilder):
    """XML tree builder that refuses document types, which allow entity expansion and external entities."""

    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:  # noqa: ARG002 - the parser's
        raise DatasetError("has a document type, which is not read; remove the line <!DOCTYPE …>")


def _graphml(path: Path, raw: bytes) -> Rows:
    try:
        root = ET.fromstring(raw, parser=ET.XMLParser(target=_Tree()))  # noqa: S314 - the tree refuses entities
    except DatasetError as error:
        raise DatasetError(f"{path}: {error}") from None
    except (ET.ParseError, LookupError, ValueError) as error:  # the last two for an unknown encoding
        raise DatasetError(f"{path}: not XML: {error}") from None
    if root.tag.rpartition("}")[2] != "graphml":
        raise DatasetError(f"{path}: not GraphML: the document is a {root.tag.rpartition('}')[2]!r}")
    keys = {key.get("id"): key for key in root.iterfind("{*}key")}
    defaults = {kind: _defaults(path, keys.values(), kind) for kind in ("node", "edge")}

    def row(element: ET.Element, kind: str) -> dict[str, Any]:
        given = dict(defaults[kind])
        for data in element.iterfind("{*}data"):
            key = keys.get(data.get("key"))
            if key is not None and not len(data):
                given[_name_of(key)] = _value(key, data.text or "")
        own = dict(element.attrib)
        return {**given, **({"key": own.pop("id")} if kind == "edge" and "id" in own else {}), **own}

    found = {
        kind: [row(one, kind) for one in root.iter() if one.tag.rpartition("}")[2] == kind] for kind in ("node", "edge")
    }
    return Rows(*([(f"{path}: {kind}s[{at}]", one) for at, one in enumerate(rows)] for kind, rows in found.items()))


def _defaults(path: Path, keys: Iterable[ET.Element], kind: str) -> dict[str, Any]:
    """Return the default values of nodes or edges. Their number is limited, so that a short file stays small."""
    found = {
        _name_of(key): _value(key, key.findtext("{*}default", ""))
        for key in keys
        if key.get("for") in {kind, "all"} and key.find("{*}default") is not None
    }
    if len(found) > MAX_METADATA_KEYS:
        raise DatasetError(f"{path}: key: {len(found):,} have a default for each {kind}; {MAX_METADATA_KEYS} may")
    return found


def _name_of(key: ET.Element) -> str:
    return key.get("attr.name") or str(key.get("id"))


def _value(key: ET.Element, text: str) -> Any:  # noqa: ANN401 - of a key's type
    """Return a value converted to its key's type; its text if that is not possible."""
    try:
        return _NUMBERS.get(str(key.get("attr.type")), str)(text)
    except ValueError:
        return text
