"""Ingests a file or folder of documents in this process; the report of :meth:`braid.client.Braid.add`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.api.schemas import WriteSummary
from braid.errors import InvalidRequest
from braid.ingestion.documents.ingesting import ingest_documents
from braid.ingestion.documents.progress import EncodingGuessed, FileSkipped, FolderDone

if TYPE_CHECKING:
    from pathlib import Path

    from braid.ingestion.documents.ingesting import DocumentStore

_NAMED: Final = 20
"""Limit of files that a warning names."""


class Added(WriteSummary):
    """Report of an add: counts of items; for documents, of the records that they were cut into."""

    written: int = 0
    unchanged: int = 0
    embedded: int = 0
    vertices: int = 0
    relationships: int = 0
    """Number of edges of the added items, including edges that were stored already."""
    superseded: int = 0
    stubs: int = 0
    removed: int = 0
    """Number of documents that were deleted because their files are gone from the folder."""
    skipped: tuple[FileSkipped, ...] = ()
    """Files of folders that could not be read, with reasons."""
    guessed: tuple[EncodingGuessed, ...] = ()
    """Files that were read in an encoding that is uncertain."""

    def plus(self, other: WriteSummary) -> Added:
        """Return the sum of both reports."""
        mine = dict(self)
        return Added(**mine | {name: mine[name] + value for name, value in other})


def warning_lines(added: Added) -> str:
    """Return a line for each file that was skipped or read in an uncertain encoding: 20, and the number of others."""
    lines = list(map(str, (*added.skipped, *added.guessed)))
    more = [f"and {len(lines) - _NAMED:,} more"] if len(lines) > _NAMED else []
    return "\n".join([*lines[:_NAMED], *more])


def ingest(path: Path, store: DocumentStore, tenant: str) -> Added:
    """Ingest a file or folder of documents.

    Raises InvalidRequest if another file or folder of the same name was ingested before, and OSError if the path cannot
    be read.
    """
    try:
        (done,) = (event for event in ingest_documents(path, store, tenant_id=tenant) if isinstance(event, FolderDone))
    except InvalidRequest as error:
        if error.field != "name":
            raise
        raise InvalidRequest(
            f"another file or folder called {path.resolve().name!r} was added before; rename this one, add the folder "
            "that holds both, or give it a name by `braid ingest --name`",
            field="name",
        ) from error
    return Added(
        written=done.written,
        unchanged=done.chunks - done.written,
        embedded=done.embedded,
        removed=done.removed,
        skipped=done.skipped,
        guessed=done.guessed,
    )
