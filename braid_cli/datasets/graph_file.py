"""Reads a graph file as a dataset."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from braid.errors import DatasetError
from braid.ingestion.regular_files import open_regular

from braid_cli.datasets.dataset import Dataset
from braid_cli.datasets.graph_elements import AS_NAMED, MAX_BYTES, Fields, read_elements
from braid_cli.datasets.json_lines import Mistakes

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class GraphFile(Dataset):
    """The content of a graph file, for one tenant."""

    digest: str = ""

    @property
    def name(self) -> str:
        """The file's name."""
        return self.folder.resolve().name

    @property
    def content_hash(self) -> str:
        """SHA-256 of the file."""
        return self.digest


def read_graph(path: Path, tenant_id: str, fields: Fields = AS_NAMED) -> GraphFile:
    """Read a graph file and check it as a whole.

    Raises DatasetError if the file is malformed (the message names the file and the element), and OSError if it is not
    a regular file.

    Parameters
    ----------
    path
        File in one of the :mod:`braid_cli.datasets.graph_formats`. A node needs an ``id``; ``name``, ``type``,
        ``aliases`` and ``content`` are as in ``entities.jsonl``. An edge needs ``source`` and ``target``; its type is
        by default ``RELATED_TO``. Other fields of a node become metadata of its record; other fields of an edge are
        dropped.
    tenant_id
        Tenant of the data.
    fields
        Names of the file's fields for name and type.
    """
    if path.is_dir():
        raise DatasetError(f"{path}: is a folder; `braid ingest` reads one that holds a graph.json")
    with open_regular(path) as file:
        raw = file.read(MAX_BYTES + 1)
    errors = Mistakes()
    elements = read_elements(path, raw, tenant_id, errors, fields)
    nodes, edges = elements.nodes, elements.edges
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
