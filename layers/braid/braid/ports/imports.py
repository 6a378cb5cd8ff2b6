"""Port: asynchronous imports of objects, with their requests, status and report.

Deployed, the workflow ``ingest`` does it (:mod:`braid.engines.aws.step_functions`), elsewhere a thread of this process
(:mod:`braid.ingestion.bulk.local_imports`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Protocol

from pydantic import StringConstraints

from braid.models import Frozen, TenantId, Text
from braid.ports.ingestion import MissingEnds
from braid.ports.object_store import ObjectInfo

ARRIVING: Final = "documents/"
"""Key prefix, after the tenant, of documents that are imported on arrival."""
POSTED: Final = "posted/"
"""Key prefix of documents that a request brought, until they are written."""
INCOMPLETE: Final = "IngestIncomplete"
"""How it ended when some batches failed as a whole; the workflow calls it so, too."""
INTERRUPTED: Final = "Interrupted"
"""How it ended when the process that did it ended first."""

JobName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,80}$")]


class Job(Frozen):
    """One object that is being written; the same for all of its steps."""

    name: JobName
    tenant_id: TenantId
    object: ObjectInfo
    missing: MissingEnds = MissingEnds.REFUSE
    lines: int = 0
    batches: int = 0
    marks: ObjectInfo | None = None
    """Which of its edges others of it supersede, and which supersede records, if any do."""
    document: Text | None = None
    """Key of the document that the object's lines were made of, if they were."""
    refused: str = ""
    """Why that document cannot be read; there are no lines then."""


class JobStatus(StrEnum):
    """How writing an object ended."""

    WRITTEN = "written"
    """Every line."""
    WITH_ERRORS = "with_errors"
    """Every line but those in the report."""
    INCOMPLETE = "incomplete"
    """Some batches failed as a whole: start again."""
    CHANGED = "changed"
    """The object was replaced meanwhile: start again with what it is now."""


class JobReport(Frozen):
    """What became of an object."""

    job: Job
    status: JobStatus
    written: int = 0
    unchanged: int = 0
    embedded: int = 0
    relationships: int = 0
    superseded: int = 0
    errors: int = 0
    lost_batches: int = 0
    report_key: str
    """The object with one line of JSON for each error."""


class ImportStatus(StrEnum):
    """How far writing an object is."""

    RUNNING = "running"
    """Begun, or waiting for its turn."""
    WRITTEN = "written"
    """Every line."""
    WITH_ERRORS = "with_errors"
    """Every line but those that the report names."""
    FAILED = "failed"
    """Not all that is right of it was written; start again."""


class ImportAsked(Frozen):
    """Which object is to be written."""

    key: Text
    """Its key, without the tenant's name in front."""
    missing: MissingEnds = MissingEnds.REFUSE


class Import(Frozen):
    """An object that is being written, or was."""

    id: JobName
    status: ImportStatus
    error: str | None = None
    """Name of the error that it failed with, such as ``ObjectMissing``."""
    report: JobReport | None = None
    """What became of its lines, when it ended and did not fail."""


class Imports(Protocol):
    """What writes objects while nobody waits."""

    def start(self, tenant_id: str, import_id: str, asked: ImportAsked) -> None:
        """Begin; ``import_id`` is one that was never used before, or the same request again.

        Raises
        ------
        StoreError, TransientStoreError
            If it cannot be begun.
        QuotaExceeded, QueueFull
            If too many wait already, of this tenant or of all.
        """

    def find(self, tenant_id: str, import_id: str) -> Import | None:
        """Return how far it is; None if there is no such import, or it is another tenant's."""
