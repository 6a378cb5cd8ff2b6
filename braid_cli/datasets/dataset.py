"""A dataset folder in memory: BEIR's corpus, queries and qrels, with entities, relationships and schema versions.

The whole folder is checked before any of it is used.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from braid.errors import DatasetError
from braid.ingestion.item_parsing import object_of, require_fields
from braid.ingestion.regular_files import NotRegular, inside, open_inside
from braid.ingestion.request_checks import vertex_of
from braid.models import Frozen, GraphSource, Kind, Query, Record, Relationship, Vertex

from braid_cli.datasets.json_lines import Mistakes, read_lines
from braid_cli.datasets.staging import Item, Staging
from braid_cli.datasets.streaming import DatasetFiles, content_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from braid.ports.schema_registry import SchemaVersion


_SPANS = ("time_range", "time_range.start", "time_range.end")
_CALLED = {"id": "_id", "as_of": "metadata.as_of", **{f"filters.{name}": f"metadata.{name}" for name in _SPANS}}
"""Names of a question's fields in a line of ``queries.jsonl``."""


class JudgedQuery(Frozen):
    """A question of a dataset with its relevance judgements."""

    id: str
    query: Query
    relevant: dict[str, int]
    """Grade above 0 by id of a relevant record."""
    metadata: dict[str, Any]


@dataclass(frozen=True)
class Dataset:
    """The content of a dataset folder, for one tenant."""

    folder: Path
    tenant_id: str
    records: tuple[Record, ...]
    vertices: tuple[Vertex, ...]
    relationships: tuple[Relationship, ...]
    schemas: tuple[SchemaVersion, ...]
    judged: tuple[JudgedQuery, ...]
    places: Mapping[str, str]
    """File and line of each record, by id."""

    @cached_property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the stored content, independent of the folder's path."""
        return content_hash(self.folder)

    def entity_items(self) -> Iterator[Item]:
        """Yield the vertices without a record."""
        for vertex in self.vertices:
            if vertex.id not in self.places:
                yield Item(f"{self.folder}: {vertex.id}", None, vertex)

    def record_items(self) -> Iterator[Item]:
        """Yield each record with its vertex, if it has one; records of entities first."""
        vertices = {vertex.id: vertex for vertex in self.vertices}
        for record in sorted(self.records, key=lambda record: record.kind is not Kind.ENTITY):
            yield Item(self.places[record.id], record, vertices.get(record.id))

    def edges(self) -> Iterator[tuple[str, Relationship]]:
        """Yield relationships with their places."""
        for edge in self.relationships:
            yield f"{self.folder}: {edge.source!r} {edge.type} {edge.target!r}", edge

    @contextmanager
    def staged(self) -> Iterator[Staging]:
        """Provide staging tables with all items and edges."""
        staging = Staging()
        try:
            staging.add_items(chain(self.record_items(), self.entity_items()))
            staging.add_edges(self.edges())
            yield staging
        finally:
            staging.close()


def read_dataset(
    folder: Path,
    tenant_id: str,
    *,
    judged: bool = False,
    questions: str | None = None,
    split: str | None = None,
    graph: GraphSource = GraphSource.BOTH,
) -> Dataset:
    """Read and check a dataset folder.

    Raises DatasetError if a file is missing or a line malformed; the message names file, line and field.

    Parameters
    ----------
    folder
        Has ``corpus.jsonl`` and optionally ``entities.jsonl``, ``relationships.jsonl``, ``graph.json``,
        ``schemas.jsonl``; for evaluation also ``queries.jsonl`` and ``qrels``.
    tenant_id
        Tenant of the data.
    judged
        Whether to read questions and judgements as well.
    questions
        Name of a subfolder with other questions and judgements about the same data.
    split
        Judgements to use: the name of a file in ``qrels``; by default ``test``, or the only one.
    graph
        ``FOUND`` leaves the folder's entities and relationships out, except the entities' records.
    """
    errors = Mistakes()
    items: list[Item] = []
    edges: list[tuple[str, Relationship]] = []
    with DatasetFiles(folder, tenant_id, graph) as files:
        files.check(errors, on_item=items.append, on_edge=edges.append)
    asked = _judged(folder, Path(questions or ""), split, tenant_id, errors) if judged else ()
    errors.raise_any()
    corpus = [(item.place, item.record) for item in items if item.record is not None and item.vertex is None]
    corpus += [(item.place, item.record) for item in items if item.record is not None and item.vertex is not None]
    by_id = {record.id: record for _, record in corpus}
    vertices = {item.vertex.id: item.vertex for item in items if item.vertex is not None}
    for _, edge in edges:
        for end in (edge.source, edge.target):
            if end not in vertices:
                vertices[end] = vertex_of(by_id[end])
    return Dataset(
        folder=folder,
        tenant_id=tenant_id,
        records=tuple(by_id.values()),
        vertices=tuple(vertices.values()),
        relationships=tuple(edge for _, edge in edges),
        schemas=files.schemas,
        judged=asked,
        places={record.id: place for place, record in corpus},
    )


def _refuse_duplicates(places: list[tuple[str, str]], errors: Mistakes) -> None:
    first: dict[str, str] = {}
    for place, identity in places:
        if identity in first:
            errors.add(place, f"id: {identity!r} stands already at {first[identity]}")
        else:
            first[identity] = place


def _qrels_file(folder: Path, split: str | None) -> Path:
    """Return the file of judgements: the one of that name, ``test``, or the only one."""
    path = folder / "qrels" / f"{split or 'test'}.tsv"
    others = sorted((folder / "qrels").glob("*.tsv"))
    if path in others:
        return path
    if split is None and len(others) == 1:
        return others[0]
    if others:
        raise DatasetError(f"{path}: missing; --split names another: {', '.join(one.stem for one in others)}")
    raise DatasetError(f"{path}: missing; evaluation needs questions and their judgements")


def _judged(
    folder: Path, subfolder: Path, split: str | None, tenant_id: str, errors: Mistakes
) -> tuple[JudgedQuery, ...]:
    queries = folder / subfolder / "queries.jsonl"
    if not queries.is_file():
        raise DatasetError(f"{queries}: missing; evaluation needs questions and their judgements")
    judgements = subfolder / "qrels" / _qrels_file(folder / subfolder, split).name
    try:
        inside(folder, str(subfolder / queries.name))
        with open_inside(folder, str(judgements)) as file:
            qrels = _qrels(folder / judgements, file, errors)
    except NotRegular as error:
        raise DatasetError(f"{error.filename}: {error.strerror}") from error

    def parse(row: dict[str, Any]) -> JudgedQuery:
        require_fields(row, "_id", "text")
        return _question(row, tenant_id, qrels.get(str(row["_id"]), {}))

    parsed = read_lines(queries, parse, errors, _CALLED)
    _refuse_duplicates([(place, question.id) for place, question in parsed], errors)
    return tuple(question for _, question in parsed if question.relevant)


def _question(row: dict[str, Any], tenant_id: str, relevant: dict[str, int]) -> JudgedQuery:
    metadata = object_of(row, "metadata")
    conditions = {"as_of": metadata.get("as_of") or None, "filters": {"time_range": metadata.get("time_range")}}
    return JudgedQuery(
        id=row["_id"],
        query=Query.model_validate({"text": row["text"], "tenant_id": tenant_id, **conditions}),
        relevant=relevant,
        metadata=metadata,
    )


def read_judgements(path: Path, tenant_id: str) -> tuple[JudgedQuery, ...]:
    """Read judged questions about a tenant's stored data, in the format that the explorer exports.

    Each line is a question as in ``queries.jsonl`` with a field ``relevant``: grades by record id, 0 for irrelevant.
    Raises DatasetError if a line is malformed, or no question has a relevant record.
    """
    errors = Mistakes()

    def parse(row: dict[str, Any]) -> JudgedQuery:
        require_fields(row, "_id", "text", "relevant")
        return _question(row, tenant_id, object_of(row, "relevant"))

    parsed = read_lines(path, parse, errors, _CALLED)
    _refuse_duplicates([(place, question.id) for place, question in parsed], errors)
    errors.raise_any()
    above = [{name: grade for name, grade in one.relevant.items() if grade > 0} for _, one in parsed]
    judged = tuple(
        one.model_copy(update={"relevant": right}) for (_, one), right in zip(parsed, above, strict=True) if right
    )
    if not judged:
        raise DatasetError(f"{path}: no question of it has a relevant record")
    return judged


def _qrels(path: Path, lines: Iterable[bytes], errors: Mistakes) -> dict[str, dict[str, int]]:
    """Read TREC-like judgements: ``query-id``, ``corpus-id``, ``score``, separated by tabs, after one header line."""
    qrels: dict[str, dict[str, int]] = {}
    for number, raw in enumerate(lines, start=1):
        if not raw.strip():
            continue
        try:
            parts = raw.decode("utf-8").rstrip("\r\n").split("\t")
            if number == 1 and parts[0] == "query-id":
                continue
            query_id, record_id, score = parts
            qrels.setdefault(query_id, {})[record_id] = int(score)
        except UnicodeDecodeError:
            errors.add(f"{path}:{number}", "not UTF-8")
        except ValueError:
            errors.add(f"{path}:{number}", "expected query-id, corpus-id and a whole score, separated by tabs")
    return {query: {record: score for record, score in found.items() if score > 0} for query, found in qrels.items()}
