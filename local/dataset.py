"""Reading a dataset folder: BEIR's corpus, queries and qrels, with entities, relationships and schemas beside them.

The whole folder is checked before anything of it is used, so that nothing is ever half-ingested.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from braid.engines.ports import SchemaVersion
from braid.errors import DatasetError, InvalidRequest
from braid.models import Frozen, Kind, Query, Record, Relationship, Vertex
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_ERRORS = 10
MAX_LINE_BYTES = 10_000_000
DEFAULT_ENTITY_TYPE = "Concept"
_T = TypeVar("_T")


class JudgedQuery(Frozen):
    """One question of a dataset, and which records answer it."""

    id: str
    query: Query
    relevant: dict[str, int]
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Dataset:
    """What a folder holds, for one tenant."""

    folder: Path
    tenant_id: str
    records: tuple[Record, ...]
    vertices: tuple[Vertex, ...]
    relationships: tuple[Relationship, ...]
    schemas: tuple[SchemaVersion, ...]
    judged: tuple[JudgedQuery, ...]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over what is stored: equal for equal content, wherever the folder lies."""
        digest = hashlib.sha256()
        for name in ("corpus.jsonl", "entities.jsonl", "relationships.jsonl", "schemas.jsonl"):
            path = self.folder / name
            digest.update(f"{name}\0".encode())
            if path.exists():
                digest.update(path.read_bytes())
        return digest.hexdigest()


@dataclass
class _Errors:
    """What is wrong with a folder; the first few are shown."""

    found: list[str] = field(default_factory=list)

    def add(self, place: str, message: str) -> None:
        self.found.append(f"{place}: {message}")

    def raise_any(self) -> None:
        if not self.found:
            return
        shown = self.found[:MAX_ERRORS]
        more = len(self.found) - len(shown)
        raise DatasetError("\n".join([*shown, *([f"and {more} more"] if more else [])]))


def read_dataset(folder: Path, tenant_id: str, *, judged: bool = False) -> Dataset:
    """Read and check a dataset folder.

    Parameters
    ----------
    folder
        Holds ``corpus.jsonl`` and, as there are any, ``entities.jsonl``, ``relationships.jsonl``, ``schemas.jsonl``;
        for evaluation also ``queries.jsonl`` and ``qrels/test.tsv``.
    tenant_id
        Whose data it becomes.
    judged
        Whether questions and judgements are wanted.

    Raises
    ------
    DatasetError
        If a file is missing or a line malformed; names file, line and field.
    """
    if not (folder / "corpus.jsonl").is_file():
        raise DatasetError(f"{folder}: no corpus.jsonl here; a dataset folder holds one record a line in it")
    errors = _Errors()
    corpus = _read(folder / "corpus.jsonl", lambda row: _record(row, tenant_id), errors)
    entities = _read(folder / "entities.jsonl", lambda row: _entity(row, tenant_id), errors)
    edges = _read(folder / "relationships.jsonl", lambda row: Relationship(tenant_id=tenant_id, **row), errors)
    schemas = _read(folder / "schemas.jsonl", lambda row: SchemaVersion(tenant_id=tenant_id, **row), errors)
    records = [record for _, record in corpus]
    described = [(place, record) for place, (_, record) in entities if record is not None]
    _refuse_repeated([(place, record.id) for place, record in [*corpus, *described]], errors)
    _refuse_repeated([(place, vertex.id) for place, (vertex, _) in entities], errors)
    records += [record for _, record in described]
    vertices = {vertex.id: vertex for _, (vertex, _) in entities}
    by_id = {record.id: record for record in records}
    for place, edge in edges:
        for end, identity in (("source", edge.source), ("target", edge.target)):
            if identity in vertices:
                continue
            if identity in by_id:
                vertices[identity] = _vertex_of(by_id[identity])
            else:
                errors.add(place, f"{end}: {identity!r} is neither an entity nor a record of this folder")
    _refuse_newer([*corpus, *described], [schema for _, schema in schemas], errors)
    questions = _judged(folder, tenant_id, errors) if judged else ()
    errors.raise_any()
    return Dataset(
        folder=folder,
        tenant_id=tenant_id,
        records=tuple(records),
        vertices=tuple(vertices.values()),
        relationships=tuple(edge for _, edge in edges),
        schemas=tuple(schema for _, schema in schemas),
        judged=questions,
    )


def _lines(path: Path, errors: _Errors) -> Iterator[tuple[str, dict[str, Any]]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            place = f"{path}:{number}"
            if not raw.strip():
                continue
            if len(raw) > MAX_LINE_BYTES:
                errors.add(place, f"the line is longer than {MAX_LINE_BYTES:,} bytes")
                continue
            try:
                row = json.loads(raw)
            except UnicodeDecodeError:
                errors.add(place, "not UTF-8")
            except (ValueError, RecursionError) as error:
                errors.add(place, f"not JSON ({error})")
            else:
                if isinstance(row, dict):
                    yield place, row
                else:
                    errors.add(place, f"expected an object, found {type(row).__name__}")


def _read(path: Path, parse: Callable[[dict[str, Any]], _T], errors: _Errors) -> list[tuple[str, _T]]:
    """Parse each line, noting what is wrong and going on, so that one run shows every mistake."""
    parsed: list[tuple[str, _T]] = []
    for place, row in _lines(path, errors):
        try:
            parsed.append((place, parse(row)))
        except ValidationError as error:
            errors.add(place, str(InvalidRequest.from_validation(error)))
        except (TypeError, KeyError) as error:
            errors.add(place, f"missing or repeated field {error}")
    return parsed


def _record(row: dict[str, Any], tenant_id: str) -> Record:
    """Make a record of a line of the corpus: BEIR's ``_id``, ``title`` and ``text``, and any of a record's fields."""
    fields = {key: value for key, value in row.items() if key not in {"_id", "title", "text", "metadata", "source"}}
    source = dict(row.get("source") or {})
    title = " ".join(str(row.get("title") or "").split())
    if title:
        source.setdefault("title", title[:512])
    return Record.model_validate(
        {
            **fields,
            "id": row.get("_id"),
            "tenant_id": tenant_id,
            "content": row.get("text"),
            "source": source,
            "metadata": _flat(row.get("metadata")),
        }
    )


def _entity(row: dict[str, Any], tenant_id: str) -> tuple[Vertex, Record | None]:
    """Make a vertex of a line of the entities, and a record as well when it has content."""
    content = row.get("content") or ""
    vertex_fields = ("id", "name", "timestamp", "valid_at", "invalid_at")
    vertex = Vertex.model_validate(
        {
            **{key: row[key] for key in vertex_fields if key in row},
            "tenant_id": tenant_id,
            "entity_type": row.get("type") or DEFAULT_ENTITY_TYPE,
            "aliases": row.get("aliases") or (),
            "has_record": bool(content),
        }
    )
    fields = {key: value for key, value in row.items() if key not in {"type", "metadata"}}
    record = Record.model_validate(
        {
            "kind": Kind.ENTITY,
            **fields,
            "tenant_id": tenant_id,
            "entity_type": vertex.entity_type,
            "content": content,
            "metadata": _flat(row.get("metadata")),
        }
    )
    return vertex, record if content else None


def _vertex_of(record: Record) -> Vertex:
    """Make the vertex through which edges lead to a record."""
    return Vertex(
        id=record.id,
        tenant_id=record.tenant_id,
        entity_type=record.entity_type or "Document",
        name=record.name or record.source.title,
        has_record=True,
        timestamp=record.timestamp,
        valid_at=record.valid_at,
        invalid_at=record.invalid_at,
    )


def _flat(metadata: object) -> object:
    """Keep scalars as they are and nested values as JSON text, so that any BEIR file can be read."""
    if not isinstance(metadata, dict):
        return metadata or {}
    scalar = (str, int, float, bool, type(None))
    return {str(key): value if isinstance(value, scalar) else json.dumps(value) for key, value in metadata.items()}


def _refuse_repeated(places: list[tuple[str, str]], errors: _Errors) -> None:
    first: dict[str, str] = {}
    for place, identity in places:
        if identity in first:
            errors.add(place, f"id: {identity!r} stands already at {first[identity]}")
        else:
            first[identity] = place


def _refuse_newer(records: list[tuple[str, Record]], schemas: list[SchemaVersion], errors: _Errors) -> None:
    if not schemas:
        return
    current = max(schema.version for schema in schemas)
    for place, record in records:
        if record.schema_version > current:
            errors.add(place, f"schema_version: {record.schema_version} is newer than the current version {current}")


def _judged(folder: Path, tenant_id: str, errors: _Errors) -> tuple[JudgedQuery, ...]:
    qrels_path = folder / "qrels" / "test.tsv"
    for path in (folder / "queries.jsonl", qrels_path):
        if not path.is_file():
            raise DatasetError(f"{path}: missing; evaluation needs questions and their judgements")
    qrels = _qrels(qrels_path, errors)

    def parse(row: dict[str, Any]) -> JudgedQuery:
        metadata = row.get("metadata") or {}
        stated = {key: metadata[key] for key in ("as_of",) if metadata.get(key)}
        return JudgedQuery(
            id=str(row.get("_id")),
            query=Query.model_validate({"text": row.get("text"), "tenant_id": tenant_id, **stated}),
            relevant=qrels.get(str(row.get("_id")), {}),
            metadata=metadata,
        )

    parsed = _read(folder / "queries.jsonl", parse, errors)
    _refuse_repeated([(place, question.id) for place, question in parsed], errors)
    return tuple(question for _, question in parsed if question.relevant)


def _qrels(path: Path, errors: _Errors) -> dict[str, dict[str, int]]:
    """Read TREC-like judgements: ``query-id``, ``corpus-id``, ``score``, separated by tabs, after one header line."""
    qrels: dict[str, dict[str, int]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        parts = line.split("\t")
        if number == 1 and parts[:1] == ["query-id"]:
            continue
        try:
            query_id, record_id, score = parts
            qrels.setdefault(query_id, {})[record_id] = int(score)
        except ValueError:
            errors.add(f"{path}:{number}", "expected query-id, corpus-id and a whole score, separated by tabs")
    return {query: {record: score for record, score in found.items() if score > 0} for query, found in qrels.items()}
