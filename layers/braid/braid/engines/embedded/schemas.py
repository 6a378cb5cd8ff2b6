"""The embedded schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.engines.ports import SchemaVersion
from braid.errors import InvalidRequest

if TYPE_CHECKING:
    from braid.engines.embedded.store import EmbeddedStore


class EmbeddedSchemaRegistry:
    """Schema versions in SQLite; implements :class:`braid.engines.ports.SchemaRegistry`."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store

    def register(self, schema: SchemaVersion) -> None:
        """Write one version; writing it again with the same content does nothing.

        Raises
        ------
        InvalidRequest
            If the version is registered with other content: records were written by it.
        """
        with self._store.transaction() as connection:
            tenant = self._store.make_number(connection, schema.tenant_id)
            row = connection.execute(
                "SELECT body FROM schemas WHERE tenant = ? AND version = ?", (tenant, schema.version)
            ).fetchone()
            if row is None:
                connection.execute(
                    "INSERT INTO schemas VALUES (?, ?, ?)", (tenant, schema.version, schema.model_dump_json())
                )
            elif SchemaVersion.model_validate_json(row[0]) != schema:
                message = (
                    f"version: version {schema.version} of tenant {schema.tenant_id}'s schema is registered"
                    " with other content; register the change as a new version"
                )
                raise InvalidRequest(message, field="version")

    def current(self, tenant_id: str) -> int:
        """Return the newest version, 1 when none is registered."""
        with self._store.read() as connection:
            row = connection.execute(
                "SELECT coalesce(max(version), 1) FROM schemas JOIN tenants ON tenants.number = schemas.tenant"
                " WHERE tenants.tenant = ?",
                (tenant_id,),
            ).fetchone()
            return int(row[0])
