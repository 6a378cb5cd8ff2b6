"""Reading a dataset folder: BEIR's corpus, queries and qrels, with entities, relationships and schemas beside them.

The whole folder is checked before anything of it is used, so that nothing is ever half-ingested.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from braid.engines.ports import SchemaVersion
from braid.errors import DatasetError
from braid.models import Frozen, Query, Record, Relationship, Vertex
from braid.write_items import CORPUS_NAMES, ENTITY_NAMES, OURS, corpus_record, entity_of, object_of, refuse, require
from braid.writes_checks import vertex_of

from local.graph_elements import read_elements
from local.json_lines import Mistakes, read_lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

GRAPH = "graph.json"
"""Entities and relationships in one file, beside or in place of those of their own."""
_S = TypeVar("_S", bound=Frozen)


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
    places: Mapping[str, str]
    """File and line of each record, by id."""

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
        if (graph := self.folder / GRAPH).exists():
            digest.update(f"{GRAPH}\0".encode() + graph.read_bytes())
        return digest.hexdigest()


def read_dataset(folder: Path, tenant_id: str, *, judged: bool = False, questions: str | None = None) -> Dataset:
    """Read and check a dataset folder.

    Parameters
    ----------
    folder
        Holds ``corpus.jsonl`` and, as there are any, ``entities.jsonl``, ``relationships.jsonl``, ``graph.json``,
        ``schemas.jsonl``; for evaluation also ``queries.jsonl`` and ``qrels/test.tsv``.
    tenant_id
        Whose data it becomes.
    judged
        Whether questions and judgements are wanted.
    questions
        Name of a subfolder that has other questions and judgements about the same data.

    Raises
    ------
    DatasetError
        If a file is missing or a line malformed; names file, line and field.
    """
    if not folder.is_dir():
        raise DatasetError(f"{folder}: no such folder")
    if not (folder / "corpus.jsonl").is_file():
        raise DatasetError(f"{folder}: no corpus.jsonl here; a dataset folder holds one record a line in it")
    errors = Mistakes()
    corpus = read_lines(folder / "corpus.jsonl", lambda row: corpus_record(row, tenant_id), errors, CORPUS_NAMES)
    entities = read_lines(folder / "entities.jsonl", lambda row: entity_of(row, tenant_id), errors, ENTITY_NAMES)
    edges = read_lines(folder / "relationships.jsonl", lambda row: _stored(Relationship, row, tenant_id), errors)
    schemas = read_lines(folder / "schemas.jsonl", lambda row: _stored(SchemaVersion, row, tenant_id), errors)
    if (graph := folder / GRAPH).is_file():
        elements = read_elements(graph, graph.read_bytes(), tenant_id, errors)
        entities, edges = [*entities, *elements.nodes], [*edges, *elements.edges]
    records = [record for _, record in corpus]
    described = [(place, record) for place, (_, record) in entities if record is not None]
    _refuse_repeated([(place, record.id) for place, record in [*corpus, *described]], errors)
    _refuse_repeated([(place, vertex.id) for place, (vertex, _) in entities], errors)
    records += [record for _, record in described]
    vertices = {vertex.id: vertex for _, (vertex, _) in entities}
    by_id = {record.id: record for record in records}
    for place, edge in edges:
        for end, identity in (("source", edge.source), ("target", edge.target)):
            if identity in vertices or identity in errors.ids:
                continue
            if identity in by_id:
                vertices[identity] = vertex_of(by_id[identity])
            else:
                errors.add(
                    place,
                    f"{end}: {identity!r} is neither an entity nor a record of this folder, "
                    f"in {edge.source!r} {edge.type} {edge.target!r}",
                )
    _refuse_newer([*corpus, *described], [schema for _, schema in schemas], errors)
    asked = _judged(folder / questions if questions else folder, tenant_id, errors) if judged else ()
    errors.raise_any()
    return Dataset(
        folder=folder,
        tenant_id=tenant_id,
        records=tuple(records),
        vertices=tuple(vertices.values()),
        relationships=tuple(edge for _, edge in edges),
        schemas=tuple(schema for _, schema in schemas),
        judged=asked,
        places={record.id: place for place, record in [*corpus, *described]},
    )


def _stored(shape: type[_S], row: dict[str, Any], tenant_id: str) -> _S:
    refuse(row, OURS)
    return shape.model_validate({**row, "tenant_id": tenant_id})


def _refuse_repeated(places: list[tuple[str, str]], errors: Mistakes) -> None:
    first: dict[str, str] = {}
    for place, identity in places:
        if identity in first:
            errors.add(place, f"id: {identity!r} stands already at {first[identity]}")
        else:
            first[identity] = place


def _refuse_newer(records: list[tuple[str, Record]], schemas: list[SchemaVersion], errors: Mistakes) -> None:
    if not schemas:
        return
    current = max(schema.version for schema in schemas)
    for place, record in records:
        if record.schema_version > current:
            errors.add(place, f"schema_version: {record.schema_version} is newer than the current version {current}")


def _judged(folder: Path, tenant_id: str, errors: Mistakes) -> tuple[JudgedQuery, ...]:
    qrels_path = folder / "qrels" / "test.tsv"
    for path in (folder / "queries.jsonl", qrels_path):
        if not path.is_file():
            raise DatasetError(f"{path}: missing; evaluation needs questions and their judgements")
    qrels = _qrels(qrels_path, errors)
    spans = ("time_range", "time_range.start", "time_range.end")
    names = {"id": "_id", "as_of": "metadata.as_of", **{f"filters.{name}": f"metadata.{name}" for name in spans}}

    def parse(row: dict[str, Any]) -> JudgedQuery:
        require(row, "_id", "text")
        metadata = object_of(row, "metadata")
        conditions = {"as_of": metadata.get("as_of") or None, "filters": {"time_range": metadata.get("time_range")}}
        return JudgedQuery(
            id=row["_id"],
            query=Query.model_validate({"text": row["text"], "tenant_id": tenant_id, **conditions}),
            relevant=qrels.get(str(row["_id"]), {}),
            metadata=metadata,
        )

    parsed = read_lines(folder / "queries.jsonl", parse, errors, names)
    _refuse_repeated([(place, question.id) for place, question in parsed], errors)
    return tuple(question for _, question in parsed if question.relevant)


def _qrels(path: Path, errors: Mistakes) -> dict[str, dict[str, int]]:
    """Read TREC-like judgements: ``query-id``, ``corpus-id``, ``score``, separated by tabs, after one header line."""
    qrels: dict[str, dict[str, int]] = {}
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            parts = raw.decode("utf-8").rstrip("\r").split("\t")
            if number == 1 and parts[0] == "query-id":
                continue
            query_id, record_id, score = parts
            qrels.setdefault(query_id, {})[record_id] = int(score)
        except UnicodeDecodeError:
            errors.add(f"{path}:{number}", "not UTF-8")
        except ValueError:
            errors.add(f"{path}:{number}", "expected query-id, corpus-id and a whole score, separated by tabs")
    return {query: {record: score for record, score in found.items() if score > 0} for query, found in qrels.items()}
