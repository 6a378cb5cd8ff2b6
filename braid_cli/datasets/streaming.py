"""A dataset folder that is read line by line; each iteration reads the files again."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from braid.errors import DatasetError
from braid.ingestion.item_parsing import CORPUS_NAMES, ENTITY_NAMES, FOUND, OURS, corpus_record, entity_of, refuse
from braid.ingestion.regular_files import NotRegular, inside, open_regular
from braid.models import Frozen, GraphSource, Kind, Relationship
from braid.ports.schema_registry import SchemaVersion

from braid_cli.datasets.graph_elements import MAX_BYTES, Elements, read_elements
from braid_cli.datasets.json_lines import Mistakes, each_line, read_lines
from braid_cli.datasets.staging import Item, Staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path
    from typing import Self

    from braid.models import Record, Vertex

GRAPH = "graph.json"
"""File with entities and relationships, in addition to or instead of ``entities.jsonl`` and ``relationships.jsonl``."""
STORED = ("corpus.jsonl", "entities.jsonl", "relationships.jsonl", "schemas.jsonl", GRAPH)
_PART = 2**20
_S = TypeVar("_S", bound=Frozen)
_T = TypeVar("_T")


def _why_no_folder(path: Path) -> str:
    if not path.exists():
        return "no such file or folder"
    return "is a file and no dataset folder" if path.is_file() else "is neither a folder nor a file to be read twice"


class DatasetFiles:
    """The files of a dataset folder. They are not held in memory, except ``graph.json``.

    Raises DatasetError if the folder is not a dataset folder.

    Parameters
    ----------
    folder
        As in :func:`braid_cli.datasets.dataset.read_dataset`.
    tenant_id
        Tenant of the data.
    graph
        ``FOUND`` leaves the folder's entities and relationships out, except the entities' records.
    """

    def __init__(self, folder: Path, tenant_id: str, graph: GraphSource = GraphSource.BOTH) -> None:
        if not folder.is_dir():
            raise DatasetError(f"{folder}: {_why_no_folder(folder)}")
        if not (folder / "corpus.jsonl").is_file():
            raise DatasetError(f"{folder}: no corpus.jsonl here; a dataset folder holds one record a line in it")
        self.folder, self.tenant_id = folder, tenant_id
        self._given = graph is not GraphSource.FOUND
        self.schemas: tuple[SchemaVersion, ...] = ()
        self.staging = Staging()
        self._elements = Elements([], [])
        self._opened_as = self._file_states()
        self._entities_in_corpus = self._described_entities = False
        """Whether the corpus, and the other files, have records of entities; if not, they are not read for these."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the staging tables."""
        self.staging.close()

    @contextmanager
    def staged(self) -> Iterator[Staging]:
        """Provide the staging tables, which :meth:`check` has filled."""
        self.staging.clear_snapshots()
        yield self.staging

    @cached_property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.resolve().name

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the stored content, independent of the folder's path."""
        return content_hash(self.folder)

    def entity_items(self) -> Iterator[Item]:
        """Yield the entities without a record, in the order of the files.

        Raises DatasetError at the end if a file has changed since the folder was opened.
        """
        yield from (item for item in self._given_items() if item.record is None)
        self.require_unchanged()

    def record_items(self) -> Iterator[Item]:
        """Yield records, those of entities first. Raises as :meth:`entity_items`."""
        if self._entities_in_corpus:
            yield from (item for item in self._corpus(Mistakes()) if _is_entity(item))
        if self._described_entities:
            yield from (item for item in self._given_items() if item.record is not None)
        yield from (item for item in self._corpus(Mistakes()) if not _is_entity(item))
        self.require_unchanged()

    def edges(self) -> Iterator[tuple[str, Relationship]]:
        """Yield relationships with their places. Raises as :meth:`entity_items`."""
        yield from self._line_edges(Mistakes())
        yield from self._graph_edges()
        self.require_unchanged()

    def require_unchanged(self) -> None:
        """Check that no file has changed since the folder was opened.

        Raises DatasetError if one has changed.
        """
        if self._file_states() != self._opened_as:
            raise DatasetError(f"{self.folder} changed while it was read; ingest it again")

    def check(
        self,
        errors: Mistakes,
        *,
        on_item: Callable[[Item], None] = lambda _: None,
        on_edge: Callable[[tuple[str, Relationship]], None] = lambda _: None,
    ) -> None:
        """Read all files once into the staging tables, and collect mistakes.

        Parameters
        ----------
        errors
            Collects the mistakes.
        on_item, on_edge
            Called with each well-formed item and edge.
        """
        graph = self.folder / GRAPH
        self._stage(
            chain(self._corpus(errors), self._line_entities(errors)), self._line_edges(errors), on_item, on_edge
        )
        schemas = read_lines(
            self.folder / "schemas.jsonl", lambda row: _parse(SchemaVersion, row, self.tenant_id), errors
        )
        self.schemas = tuple(schema for _, schema in schemas)
        if graph.is_file():
            with graph.open("rb") as file:
                raw = file.read(MAX_BYTES + 1)
            self._elements = read_elements(graph, raw, self.tenant_id, errors)
            self._stage(self._graph_items(), self._graph_edges(), on_item, on_edge)
        for place, identity, first in self.staging.duplicate_ids():
            errors.add(place, f"id: {identity!r} stands already at {first}")
        for place, side, end, (source, kind, target) in self.staging.dangling_ends():
            if end not in errors.ids:
                message = f"{end!r} is neither an entity nor a record of this folder, in {source!r} {kind} {target!r}"
                errors.add(place, f"{side}: {message}")
        if self.schemas:
            current = max(schema.version for schema in self.schemas)
            for place, version in self.staging.newer_than(current):
                errors.add(place, f"schema_version: {version} is newer than the current version {current}")

    def _stage(
        self,
        items: Iterator[Item],
        edges: Iterator[tuple[str, Relationship]],
        on_item: Callable[[Item], None],
        on_edge: Callable[[tuple[str, Relationship]], None],
    ) -> None:
        self.staging.add_items(_told(items, on_item))
        self.staging.add_edges(_told(edges, on_edge))

    def _corpus(self, errors: Mistakes) -> Iterator[Item]:
        lines = each_line(
            self.folder / "corpus.jsonl", lambda row: corpus_record(row, self.tenant_id), errors, CORPUS_NAMES
        )
        for place, record in lines:
            self._entities_in_corpus |= record.kind is Kind.ENTITY
            yield Item(place, record, None)

    def _line_entities(self, errors: Mistakes) -> Iterator[Item]:
        entities = each_line(
            self.folder / "entities.jsonl", lambda row: entity_of(row, self.tenant_id), errors, ENTITY_NAMES
        )
        return self._entities(entities)

    def _given_items(self) -> Iterator[Item]:
        return chain(self._line_entities(Mistakes()), self._graph_items())

    def _entities(self, found: Iterable[tuple[str, tuple[Vertex, Record | None]]]) -> Iterator[Item]:
        """Yield entities; if the given graph is left out, only the records of those that have one."""
        for place, (vertex, record) in found:
            self._described_entities |= record is not None
            if self._given or record is not None:
                yield Item(place, record, vertex if self._given else None)

    def _line_edges(self, errors: Mistakes) -> Iterator[tuple[str, Relationship]]:
        edges = each_line(
            self.folder / "relationships.jsonl", lambda row: _parse(Relationship, row, self.tenant_id), errors
        )
        return (edge for edge in edges if self._given)

    def _graph_items(self) -> Iterator[Item]:
        return self._entities(self._elements.nodes)

    def _graph_edges(self) -> Iterator[tuple[str, Relationship]]:
        return iter(self._elements.edges if self._given else ())

    def _file_states(self) -> dict[str, tuple[int, int]]:
        paths = (self.folder / name for name in STORED)
        try:
            found = {path.name: inside(self.folder, path.name).stat() for path in paths if path.exists()}
        except NotRegular as error:
            raise DatasetError(f"{error.filename}: {error.strerror}") from error
        return {name: (state.st_mtime_ns, state.st_size) for name, state in found.items()}


def _told(items: Iterable[_T], tell: Callable[[_T], None]) -> Iterator[_T]:
    for item in items:
        tell(item)
        yield item


def _is_entity(item: Item) -> bool:
    return item.record is not None and item.record.kind is Kind.ENTITY


def open_dataset(folder: Path, tenant_id: str, graph: GraphSource = GraphSource.BOTH) -> DatasetFiles:
    """Open a dataset folder and check it as a whole, line by line.

    Raises DatasetError if a file is missing or a line malformed; the message names file, line and field.
    """
    files = DatasetFiles(folder, tenant_id, graph)
    errors = Mistakes()
    try:
        files.check(errors)
        errors.raise_any()
        files.require_unchanged()
    except BaseException:
        files.close()
        raise
    return files


def content_hash(folder: Path) -> str:
    """Return the SHA-256 of a dataset folder's content without queries and judgements, in hexadecimal."""
    digest = hashlib.sha256()
    for name in STORED:
        path = folder / name
        if name == GRAPH and not path.exists():
            continue
        digest.update(f"{name}\0".encode())
        if path.exists():
            with open_regular(path) as file:
                while part := file.read(_PART):
                    digest.update(part)
    return digest.hexdigest()


def _parse(model: type[_S], row: dict[str, Any], tenant_id: str) -> _S:
    refuse(row, OURS | FOUND)
    return model.model_validate({**row, "tenant_id": tenant_id})
