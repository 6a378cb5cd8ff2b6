"""Port of the job store: the progress of each re-embedding job, written with compare-and-set."""

from __future__ import annotations

from typing import Annotated, Protocol, runtime_checkable

from pydantic import Field, StringConstraints

from braid.models import Frozen

JobName = Annotated[str, StringConstraints(pattern=r"^[!-~]{1,128}$")]


class JobRecord(Frozen):
    """Progress of a job, from which any worker can resume it."""

    name: JobName
    revision: int = Field(ge=1)
    body: str


@runtime_checkable
class JobStore(Protocol):
    """Durable job records."""

    def get(self, name: str) -> JobRecord | None:
        """Return a job as last written, None when there is none."""

    def put(self, record: JobRecord) -> bool:
        """Write a job if its revision is the next one; False, and nothing written, if another worker was first."""

    def names(self) -> list[str]:
        """Return the names of all jobs, in order."""

    def remove(self, name: str) -> bool:
        """Remove a job and return whether there was one; a worker on it fails at its next write."""


def refresh_job(tenant_id: str | None) -> str:
    """Return the name of the job that re-embeds one tenant's outdated records, or every tenant's."""
    return f"refresh:{tenant_id}" if tenant_id else "refresh"
