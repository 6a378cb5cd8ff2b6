"""Writing an object because somebody asked for it: what is asked, and how far it is.

Deployed, the workflow ``ingest`` does it (:mod:`braid.engines.aws.step_functions`), elsewhere a thread of this process
(:mod:`braid.ingestion.bulk.local_imports`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Protocol

from braid.ingestion.bulk.jobs import JobName, JobReport
from braid.ingestion.requests import MissingEnds
from braid.models import Frozen, Text

INCOMPLETE: Final = "IngestIncomplete"
"""How it ended when some batches failed as a whole; the workflow calls it so, too."""
INTERRUPTED: Final = "Interrupted"
"""How it ended when the process that did it ended first."""


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
