"""Requests and responses of the import workflow's steps; their size does not grow with the object."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from braid.ingestion.writing import ItemError, WriteReport
from braid.models import Frozen, TenantId
from braid.ports.imports import Job, JobName, JobReport


class Phase(StrEnum):
    """What of the lines is written, in this order."""

    ITEMS = "items"
    """Records and entities."""
    EDGES = "edges"
    """Edges, but for those of the next phase."""
    LINKS = "links"
    """``SUPERSEDES`` edges: those that are stated, and what records say they supersede."""
    ENDS = "ends"
    """What edges supersede."""


class BatchPlace(Frozen):
    """Where one batch lies."""

    number: int = Field(ge=0)
    start: int = Field(ge=0)
    end: int = Field(ge=0)
    line: int = Field(ge=1)
    """Number of its first line."""
    lines: int = Field(ge=1)
    phases: tuple[Phase, ...] = (Phase.ITEMS,)
    """Those in which there may be something to write."""


class Split(Frozen):
    """Find the batches of an object."""

    name: Literal["split"] = "split"
    job: JobName
    event: dict[str, Any]
    """EventBridge's event of an object that was created, or ``{"tenant_id": …, "key": …, "missing": …}``."""


class Cursor(Frozen):
    """How far the batches were handed out."""

    phase: Phase = Phase.ITEMS
    page: int = Field(default=0, ge=0)


class Page(Frozen):
    """Hand out the next batches."""

    name: Literal["page"] = "page"
    job: Job
    cursor: Cursor


class Batch(Frozen):
    """Write one batch."""

    name: Literal["batch"] = "batch"
    job: Job
    phase: Phase
    batch: BatchPlace


class Lost(Frozen):
    """Note that a batch could not be written."""

    name: Literal["lost"] = "lost"
    job: Job
    phase: Phase
    batch: BatchPlace
    error: str
    cause: str = ""


class Finish(Frozen):
    """Gather what became of all batches."""

    name: Literal["finish"] = "finish"
    job: Job


class PageOut(Frozen):
    """Batches that are next."""

    phase: Phase
    batches: tuple[BatchPlace, ...] = ()
    next: Cursor
    done: bool
    """Whether these are the last."""


class BatchOut(Frozen):
    """What became of one batch, the last time that it was written; kept in the object store until the end."""

    written: int = 0
    unchanged: int = 0
    embedded: int = 0
    relationships: int = 0
    superseded: int = 0
    errors: tuple[ItemError, ...] = ()
    lost: str | None = None
    """Name of the error that kept the whole batch from being written."""


class Noted(Frozen):
    """What a step says of a batch."""

    written: int = 0
    errors: int = 0


class Inline(Frozen):
    """Write one call's items."""

    name: Literal["write"] = "write"
    tenant_id: TenantId
    body: dict[str, Any]


class Task(Frozen):
    """One step, by its name."""

    task: Annotated[Split | Page | Batch | Lost | Finish | Inline, Field(discriminator="name")]


TaskOut = Job | PageOut | Noted | JobReport | WriteReport
