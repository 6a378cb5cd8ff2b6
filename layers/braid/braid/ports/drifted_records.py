"""Port of drifted records: records of an older schema, on their way from answers to the re-embedding queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class PendingSend(Protocol):
    """A call to the re-embedding queue that may still be under way."""

    def wait(self) -> bool:
        """Wait for the call, for as long as an answer may, and return whether it is over."""


class DriftedRecords(Protocol):
    """Records of an older schema that answers found, on their way to the re-embedding queue."""

    def send(self, tenant_id: str, record_ids: Sequence[str], target_schema_version: int) -> PendingSend | None:
        """Queue the records without holding up the answer; None when there was nothing to send."""
