"""Port of the membership store: roles of subjects in tenants."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Protocol, runtime_checkable

from pydantic import AfterValidator, StringConstraints

from braid.models import Frozen, TenantId
from braid.models.enums_and_scalars import no_controls


class Role(StrEnum):
    """Permission of a member."""

    READER = "reader"
    """May ask questions."""
    WRITER = "writer"
    """May ask, write and delete."""


Subject = Annotated[str, StringConstraints(min_length=1, max_length=1_024), AfterValidator(no_controls)]
"""A caller: ``user:`` and the subject of a token, or ``iam:`` and the ARN of a user or role."""


class Membership(Frozen):
    """One subject's role in one tenant."""

    subject: Subject
    tenant_id: TenantId
    role: Role = Role.READER


@runtime_checkable
class MembershipStore(Protocol):
    """Store of all memberships. A write is seen by every later read."""

    def role(self, subject: str, tenant_id: str) -> Role | None:
        """Return a subject's role in a tenant; None when it is no member."""

    def of(self, subject: str) -> list[Membership]:
        """Return a subject's memberships, in the order of the tenants' names."""

    def add(self, membership: Membership) -> None:
        """Write a membership, which replaces the subject's role in that tenant."""

    def remove(self, subject: str, tenant_id: str) -> bool:
        """Remove a membership and return whether there was one."""

    def forget(self, tenant_id: str) -> int:
        """Remove every membership in a tenant and return how many there were; reads all memberships of the store."""
