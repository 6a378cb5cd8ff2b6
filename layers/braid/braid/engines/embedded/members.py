"""The embedded membership store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.ports.members import Membership, Role

if TYPE_CHECKING:
    import sqlite3

    from braid.engines.embedded.store import EmbeddedStore

_TABLE = """
CREATE TABLE IF NOT EXISTS members (
    subject TEXT NOT NULL,
    tenant TEXT NOT NULL,
    role TEXT NOT NULL,
    PRIMARY KEY (subject, tenant)
) WITHOUT ROWID
"""


class EmbeddedMembers:
    """Memberships in SQLite; implements :class:`braid.ports.members.MembershipStore`.

    Most stores have none, so the table is made with the first membership.
    """

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def role(self, subject: str, tenant_id: str) -> Role | None:
        """Return a subject's role in a tenant; None when it is no member."""
        return next((found.role for found in self.of(subject) if found.tenant_id == tenant_id), None)

    def of(self, subject: str) -> list[Membership]:
        """Return a subject's memberships, in the order of the tenants' names."""
        with self._store.read() as connection:
            if not _has_table(connection):
                return []
            rows = connection.execute(
                "SELECT tenant, role FROM members WHERE subject = ? ORDER BY tenant", (subject,)
            ).fetchall()
        return [Membership(subject=subject, tenant_id=tenant, role=Role(role)) for tenant, role in rows]

    def add(self, membership: Membership) -> None:
        """Write a membership, instead of the role that the subject had in that tenant."""
        with self._store.transaction() as connection:
            connection.execute(_TABLE)
            connection.execute(
                "INSERT INTO members VALUES (?, ?, ?) ON CONFLICT (subject, tenant) DO UPDATE SET role = excluded.role",
                (membership.subject, membership.tenant_id, membership.role.value),
            )

    def remove(self, subject: str, tenant_id: str) -> bool:
        """Remove a membership and return whether there was one."""
        with self._store.transaction() as connection:
            if not _has_table(connection):
                return False
            done = connection.execute("DELETE FROM members WHERE subject = ? AND tenant = ?", (subject, tenant_id))
            return done.rowcount > 0

    def forget(self, tenant_id: str) -> int:
        """Remove every membership in a tenant and return how many there were."""
        with self._store.transaction() as connection:
            if not _has_table(connection):
                return 0
            return connection.execute("DELETE FROM members WHERE tenant = ?", (tenant_id,)).rowcount


def _has_table(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'members'").fetchone() is not None
