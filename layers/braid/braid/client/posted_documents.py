"""Posts a file, or the files of a folder, to a deployed Braid, and waits for their imports."""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

from braid.api.schemas import DocumentRequest, ImportSummary
from braid.client.api_errors import ApiError
from braid.client.documents_in_process import Added
from braid.errors import InvalidRequest, as_invalid_request
from braid.ingestion.documents import folder_listing
from braid.ingestion.documents.document import Unreadable
from braid.ingestion.documents.metadata_files import name_of, read_beside, stated_fields
from braid.ingestion.documents.progress import FileSkipped
from braid.ingestion.regular_files import open_regular
from braid.ports.ingestion import ImportStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.ingestion.documents.folder_listing import FoundFile

POSTED_BYTES: Final = 1_400_000
"""Size limit of one file: base64 makes it a third longer, and a server reads at most two million bytes."""
IMPORT_S: Final = 600.0
"""Time limit of one import, in seconds."""
_AT_ONCE: Final = 4
"""Limit of concurrent imports; `braid serve` lets five imports of a tenant wait."""
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0


def post_documents(
    path: Path,
    start: Callable[[DocumentRequest], ImportSummary],
    find: Callable[[str], ImportSummary],
    *,
    within_s: float = IMPORT_S,
) -> Added:
    """Post a file, or each file of a folder, and wait until all are imported.

    Parameters
    ----------
    start
        Posts a document and returns its import.
    find
        Returns the status of an import by its id.
    within_s
        Time limit of one import, in seconds.

    Raises
    ------
    OSError
        If the path cannot be read.
    ApiError
        If an import fails, or does not end in time; others may have been written.
    """
    listed = folder_listing.find(path)
    folder = Path(os.path.realpath(path)).name
    added = Added(skipped=tuple(FileSkipped(file or folder, reason) for file, reason in listed.refused.items()))
    running: deque[tuple[str, ImportSummary]] = deque()
    for file in listed.files.values():
        name = file.path or folder
        if len(running) == _AT_ONCE:
            added = added.plus(_ended(*running.popleft(), find, within_s))
        try:
            running.append((name, start(_request(file, f"{folder}/{file.path}" if file.path else folder))))
        except (InvalidRequest, Unreadable) as error:
            added = added.plus(Added(skipped=(FileSkipped(name, str(error)),)))
    for name, begun in running:
        added = added.plus(_ended(name, begun, find, within_s))
    return added


def _request(file: FoundFile, name: str) -> DocumentRequest:
    try:
        # The file may have been replaced since the folder was listed: by a link, a pipe, an endless file.
        with open_regular(file.location, follow_links=False) as opened:
            content = opened.read(POSTED_BYTES + 1)
    except OSError as error:
        raise InvalidRequest(f"cannot be opened: {error.strerror}", field="content") from error
    if len(content) > POSTED_BYTES:
        raise InvalidRequest(
            f"is longer than the {POSTED_BYTES:,} bytes that can be posted; put it into the bucket, under documents/",
            field="content",
        )
    if not content:
        raise InvalidRequest("is empty", field="content")
    stated = read_beside(file.location, name)
    with as_invalid_request():
        if stated is None:
            return DocumentRequest(name=name, content=content)
        return DocumentRequest(name=name, content=content, metadata=stated_fields(stated, name_of(name)))


def _ended(name: str, begun: ImportSummary, find: Callable[[str], ImportSummary], within_s: float) -> Added:
    """Wait until an import has ended and return its counts. Raises ApiError if it fails or takes too long."""
    until, pause, found = time.monotonic() + within_s, _FIRST_PAUSE_S, begun
    while found.status is ImportStatus.RUNNING:
        if time.monotonic() > until:
            raise ApiError(f"{name}: not imported within {within_s:g} s; `GET /imports/{begun.id}` says when it is")
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE_S)
        found = find(begun.id)
    if found.status is ImportStatus.FAILED:
        raise ApiError(f"{name}: the import failed: {found.error}; adding it again is safe")
    reason = "; ".join(found.reasons) or f"could not be read by the server; its object {found.report_key} says why"
    skipped = (FileSkipped(name, reason),) if found.status is ImportStatus.WITH_ERRORS else ()
    return Added(written=found.written, unchanged=found.unchanged, embedded=found.embedded, skipped=skipped)
