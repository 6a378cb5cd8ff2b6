"""Requests and responses of the import workflow's steps; their size does not grow with the object."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from braid.models import Frozen, TenantId
from braid.ports.ingestion import ImportJob, ImportName, ItemError, JobReport, WriteReport


class Phase(StrEnum):
    """Part of the lines that is written; the phases run in this order."""

    ITEMS = "items"
    """Records and entities."""
    EDGES = "edges"
    """Edges, except those of the next phase."""
    LINKS = "links"
    """``SUPERSEDES`` edges: stated ones, and those that records imply."""
    ENDS = "ends"
    """Supersession of edges by edges."""


class BatchRange(Frozen):
    """Range of the object that one batch is: byte offsets, and lines."""

    number: int = Field(ge=0)
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    line: int = Field(ge=1)
    """Number of its first line."""
    lines: int = Field(ge=1)
    phases: tuple[Phase, ...] = (Phase.ITEMS,)
    """Phases in which the batch may have something to write."""


class Split(Frozen):
    """Request to split an object into batches."""

    name: Literal["split"] = "split"
    job: ImportName
    event: dict[str, Any]
    """EventBridge's event of a created object, or ``{"tenant_id": …, "key": …, "missing": …}``."""


class Cursor(Frozen):
    """Position in the iteration over phases and pages of batches."""

    phase: Phase = Phase.ITEMS
    page: int = Field(default=0, ge=0)


class PageRequest(Frozen):
    """Request for the next batches."""

    name: Literal["page"] = "page"
    job: ImportJob
    cursor: Cursor


class Batch(Frozen):
    """Request to write one batch in one phase."""

    name: Literal["batch"] = "batch"
    job: ImportJob
    phase: Phase
    batch: BatchRange


class Lost(Frozen):
    """Request to record that a batch could not be written."""

    name: Literal["lost"] = "lost"
    job: ImportJob
    phase: Phase
    batch: BatchRange
    error: str


class Finish(Frozen):
    """Request to gather the results of all batches."""

    name: Literal["finish"] = "finish"
    job: ImportJob


class PageResult(Frozen):
    """Where the next batches are listed, and the position after them."""

    phase: Phase = Phase.ITEMS
    items: str | None = None
    """Key of the JSON array of their places, after the tenant; None when there are no more."""
    next: Cursor = Cursor()


class BatchResult(Frozen):
    """Result of the last write of one batch in one phase; kept in the object store until the job ends."""

    written: int = 0
    unchanged: int = 0
    embedded: int = 0
    relationships: int = 0
    superseded: int = 0
    errors: tuple[ItemError, ...] = ()
    refused: tuple[str, ...] = ()
    """Ids of refused lines that may be records which are not trusted, of the first phase."""
    lost: str | None = None
    """Name of the error that kept the whole batch from being written."""


class BatchCounts(Frozen):
    """Counts of one batch, as a step returns them."""

    written: int = 0
    errors: int = 0


class InlineWrite(Frozen):
    """Request to write the items of one call."""

    name: Literal["write"] = "write"
    tenant_id: TenantId
    body: dict[str, Any]


class Task(Frozen):
    """Request of one step, discriminated by its name."""

    task: Annotated[Split | PageRequest | Batch | Lost | Finish | InlineWrite, Field(discriminator="name")]

    @property
    def tenant_id(self) -> str | None:
        """Tenant of the job or of the items; None of a split, whose event names it."""
        if isinstance(self.task, Split):
            return None
        return self.task.tenant_id if isinstance(self.task, InlineWrite) else self.task.job.tenant_id


TaskResult = ImportJob | PageResult | BatchCounts | JobReport | WriteReport
