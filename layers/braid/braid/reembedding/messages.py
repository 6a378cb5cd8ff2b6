"""Message schema of the re-embedding queue: one message names records of one tenant.

:meth:`Reembed.message` writes a message and :meth:`Reembed.read` reads it. The queue delivers at least once and in no
order, so the consumer checks each record again: by then it may be up to date, or deleted.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Annotated

from pydantic import Field, ValidationError

from braid.errors import InvalidRequest
from braid.models import Frozen, RecordId, TenantId
from braid.ports.message_queue import QueueMessage

MAX_RECORDS = 100
"""Most ids in one message: with the longest ids it is a tenth of the queue's limit."""


class Reason(StrEnum):
    """Why records are to be re-embedded."""

    SCHEMA = "schema"
    """They were written with an older schema than the tenant's current one."""
    MODEL = "model"
    """They lack a vector of a model that questions are embedded with."""


class FoundBy(StrEnum):
    """Who met the records."""

    SEARCH = "search"
    SCHEDULE = "schedule"
    OPERATOR = "operator"


class _Body(Frozen):
    """Body of a message: everything but the tenant, which the queue carries and checks."""

    record_ids: Annotated[tuple[RecordId, ...], Field(min_length=1, max_length=MAX_RECORDS)]
    reason: Reason
    target_schema_version: Annotated[int, Field(ge=1)]
    """The tenant's current schema version when the message was sent. Records of this version are skipped."""
    found_by: FoundBy = FoundBy.SEARCH


class Reembed(_Body):
    """Records of one tenant that are to be re-embedded."""

    tenant_id: TenantId

    def message(self) -> QueueMessage:
        """Return the queue's message.

        Its deduplication id names the work and the state that it is for: the tenant, the records in any order, the
        reason and the target version, but not who found them. Whoever meets the same record again, for as long as the
        queue remembers, adds nothing.
        """
        state = [self.reason.value, str(self.target_schema_version), *sorted(set(self.record_ids))]
        digest = hashlib.sha256("\0".join(state).encode()).hexdigest()
        return QueueMessage(
            tenant_id=self.tenant_id,
            deduplication_id=f"{self.tenant_id}/{digest[:32]}",
            body=self.model_dump_json(exclude={"tenant_id"}),
        )

    @classmethod
    def read(cls, message: QueueMessage) -> Reembed:
        """Parse a message; the tenant is the message's own.

        Raises
        ------
        InvalidRequest
            If its body does not have the format of :meth:`message`; the error names the field.
        """
        try:
            asked = _Body.model_validate_json(message.body)
        except ValidationError as error:
            raise InvalidRequest.from_validation(error) from None
        return cls(tenant_id=message.tenant_id, **asked.model_dump())
