"""The embedded schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.engines.embedded.generations import Generation
from braid.ports.schema_registry import SchemaVersion, check_next

if TYPE_CHECKING:
    import sqlite3

    from braid.engines.embedded.store import EmbeddedStore


class EmbeddedSchemaRegistry:
    """Schema versions in SQLite; implements :class:`braid.ports.schema_registry.SchemaRegistry`."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def register(self, schema: SchemaVersion) -> None:
        """Write the next version; writing one again with the same content does nothing.

        Raises
        ------
        InvalidRequest
            If the version is registered with other content, or is not the next one.
        """
        with self._store.transaction() as connection:
            tenant = self._store.ensure_tenant_number(connection, schema.tenant_id)
            if check_next(schema, _versions(connection, tenant)):
                connection.execute(
                    "INSERT INTO schemas VALUES (?, ?, ?)", (tenant, schema.version, schema.model_dump_json())
                )
                # Cached answers depend on the current version.
                Generation.RECORDS.advance(connection, tenant)

    def current(self, tenant_id: str) -> int:
        """Return the newest version, 1 when none is registered."""
        with self._store.read() as connection:
            row = connection.execute(
                "SELECT coalesce(max(version), 1) FROM schemas JOIN tenants ON tenants.number = schemas.tenant"
                " WHERE tenants.tenant = ?",
                (tenant_id,),
            ).fetchone()
            return int(row[0])

    def versions(self, tenant_id: str) -> list[SchemaVersion]:
        """Return all versions, oldest first."""
        with self._store.read() as connection:
            tenant = self._store.tenant_number(connection, tenant_id)
            return [] if tenant is None else _versions(connection, tenant)

    def forget(self, tenant_id: str) -> int:
        """Remove all versions of a tenant and return how many there were."""
        with self._store.transaction() as connection:
            tenant = self._store.tenant_number(connection, tenant_id)
            if tenant is None:
                return 0
            removed = connection.execute("DELETE FROM schemas WHERE tenant = ?", (tenant,)).rowcount
            Generation.RECORDS.advance(connection, tenant)
            return removed


def _versions(connection: sqlite3.Connection, tenant: int) -> list[SchemaVersion]:
    rows = connection.execute("SELECT body FROM schemas WHERE tenant = ? ORDER BY version", (tenant,))
    return [SchemaVersion.model_validate_json(row[0]) for row in rows]
