"""What processes that are about to be killed do to a store, and what the store then holds."""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any

from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.ingestion.bulk.import_steps import BATCH_LINES
from braid.ingestion.deleting import delete_records
from braid.ingestion.documents.ingesting import ingest_documents
from braid.ingestion.documents.progress import FolderDone
from braid.ingestion.writing import MissingEnds, WriteRequest, require_written, write
from braid.models import Kind
from braid.settings import Settings

from braid_cli.datasets.ingest_file import ingest_file
from tests.contract.shapes import ACME, day, edge, record, vertex
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection
    from pathlib import Path

    from braid.models import Record, Relationship, Vertex

CHUNKS = 4
DOCUMENTS = 20
LONG_WORDS = 600
"""Words of a text that its encoder reads in several parts."""
GROUPS = 6
"""Groups of records that one writer writes, rewrites and deletes in turn."""


def stages(home: Path) -> DemoStages:
    """Open a store with an encoder that needs no model."""
    return DemoStages(Settings(home=home))


def operations(name: str, seed: int) -> Iterator[tuple[str, int, int]]:
    """Yield what a writer does, without end: an operation, the group it is about, and a number of its own."""
    choose = random.Random(f"{name} {seed}")  # noqa: S311 - no secret
    for number in range(1_000_000):
        yield ("delete" if choose.random() < 0.25 else "write"), choose.randrange(GROUPS), number


def word(name: str, group: int, number: int) -> str:
    """Return the word that only the records of one write have."""
    return f"zq{name}{group}x{number}"


def group_of(name: str, group: int, number: int) -> tuple[list[Record], list[Vertex], list[Relationship]]:
    """Return what one write writes: an entity, a fact, chunks, a vertex without a record, and edges between them.

    One of the chunks names places of the writer's own, of which the number says one.
    """
    own, said = f"{name}{group}", word(name, group, number)
    entity = record(f"{own}-e", f"{said} hums", kind=Kind.ENTITY, entity_type="Machine", name=f"Machine {own}")
    fact = record(f"{own}-f", f"{said} holds", kind=Kind.FACT, valid_at=day(1 + number % 20))
    chunks = [record(f"{own}-c{at}", f"{said} part {at}") for at in range(CHUNKS)]
    # Of a document: names are found in it, among them the entity's, and when it is long it is embedded in parts.
    told = f"{said} lies between {name.upper()}dale {number % 3} and Port {name.upper()}wick near Machine {own}."
    long = " and so on" * (LONG_WORDS // 3 if number % 2 else 1)
    page = record(f"{own}-d", told + long, source={"chunk_index": 0}, metadata={"file": f"{own}.md"})
    edges = [edge(f"{own}-e", f"{own}-f", "STATES"), edge(f"{own}-v", f"{own}-e", "HOUSES", evidence=f"{own}-f")]
    edges += [
        edge(f"{own}-e", chunk.id, "MENTIONS", confidence=1 / (2 + number), evidence=f"{own}-f") for chunk in chunks
    ]
    return [entity, fact, *chunks, page], [vertex(f"{own}-v", name=f"Hall {own}", has_record=False)], edges


def apply(store: DemoStages, name: str, operation: tuple[str, int, int]) -> None:
    """Do one operation; when it returns it is acknowledged."""
    what, group, number = operation
    records, vertices, edges = group_of(name, group, number)
    if what == "delete":
        delete_records(ACME, [*(one.id for one in records), *(one.id for one in vertices)], store)
        return
    old = sorted(store.index.written(ACME, [f"{name}{other}-f" for other in range(group)]))[-1:]
    records[1] = records[1].model_copy(update={"supersedes": tuple(old)})
    request = WriteRequest(tenant_id=ACME, records=tuple(records), vertices=tuple(vertices), relationships=tuple(edges))
    require_written(write(request, store))


def keep_writing(home: Path, name: str, seed: int, acknowledged: Connection) -> None:
    """Do one operation after the other, and say of each when it is done, until this process is killed."""
    store = stages(home)
    for operation in operations(name, seed):
        apply(store, name, operation)
        acknowledged.send(operation[2])
        if operation[2] % 7 == 6 and isinstance(store.index, EmbeddedSearchIndex):
            store.index.optimise(ACME)


def lines_of(count: int) -> list[dict[str, Any]]:
    """Return lines of a file: entities with records, records, and edges that lead anywhere in it."""
    made: list[dict[str, Any]] = []
    for at in range(count):
        made.append({"record": {"_id": f"r{at}", "text": f"zqr{at} part {at % 7}"}})
        made.append({"entity": {"id": f"e{at}", "name": f"Machine {at}", "content": f"zqe{at} hums"}})
        edge_of = {"source": f"e{at}", "type": "MENTIONS", "target": f"r{(at * 7) % count}"}
        made.append({"relationship": edge_of})
    return made


def write_file(path: Path, count: int) -> Path:
    """Write such a file."""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines_of(count)), encoding="utf-8")
    return path


def pages_of(count: int) -> list[set[str]]:
    """Return the ids of the records that such a file's import has written after each of its pages."""
    lines = lines_of(count)
    ids = [line.get("record", {}).get("_id") or line.get("entity", {}).get("id") for line in lines]
    ends = [*range(0, len(lines), BATCH_LINES), len(lines)]
    return [{identity for identity in ids[:end] if identity} for end in ends]


def keep_importing(home: Path, file: Path, _: int, acknowledged: Connection) -> None:
    """Import a file, say when it is done, and wait to be killed."""
    store = stages(home)
    acknowledged.send(0)
    ingest_file(file, ACME, store, missing=MissingEnds.REFUSE)
    acknowledged.send(1)
    acknowledged.close()


def write_folder(folder: Path, version: int) -> Path:
    """Write a folder of documents in one of two versions: the second has some gone, some new, longer and shorter."""
    folder.mkdir(exist_ok=True)
    for at in range(DOCUMENTS):
        file = folder / f"{at}.md"
        if version == 2 and at % 5 == 4:
            file.unlink()
        elif version == 2 or at % 5 != 3:
            sections = 1 + (at * 7 + version * (at % 2)) % 5
            text = f"zqd{at}v{version if at % 3 else 1} stands at Quay {at % 4} beside Wrenfield Dock."
            parts = [f"## Part {part}\n\n{text}{' It goes on.' * 40 * (at % 4)}\n\n" for part in range(sections)]
            file.write_text(f"# Paper {at}\n\n{''.join(parts)}", encoding="utf-8")
            os.utime(file, ns=(version * 10**18, version * 10**18) if at % 3 else (10**18, 10**18))
    return folder


def ingest_folder(store: DemoStages, folder: Path) -> None:
    """Ingest such a folder to its end."""
    *_, done = ingest_documents(folder, store, tenant_id=ACME)
    assert isinstance(done, FolderDone)
    assert not done.skipped


def keep_ingesting(home: Path, folder: Path, _: int, acknowledged: Connection) -> None:
    """Ingest a folder, say when it is done, and wait to be killed."""
    store = stages(home)
    acknowledged.send(0)
    ingest_folder(store, folder)
    acknowledged.send(1)
    acknowledged.close()


def everything(store: DemoStages, prefix: str = "") -> dict[str, Any]:
    """Return the records with their vectors, vertices and edges of tenant acme, all or those of one writer.

    A writer's ids begin with its name, as do the names, in capitals, that are found in its texts.
    """

    def is_own(one: Vertex) -> bool:
        told = f" {one.name}" if one.found else ""
        return one.id.startswith(prefix) or f" {prefix.upper()}dale" in told or f" {prefix.upper()}wick" in told

    found: dict[str, Any] = {}
    cursor: str | None = None
    while True:
        page = store.index.scan(ACME, after=cursor, with_vectors=True)
        found.update((f"record {one.id}", one) for one in page.records if one.id.startswith(prefix))
        cursor = page.cursor
        if cursor is None:
            break
    while True:
        drawn = store.graph.scan(ACME, after=cursor)
        found.update((f"vertex {one.id}", one) for one in drawn.vertices if is_own(one))
        edges = (one for one in drawn.relationships if one.target.startswith(prefix))
        found.update((f"edge {one.identity()}", one) for one in edges)
        cursor = drawn.cursor
        if cursor is None:
            return found
