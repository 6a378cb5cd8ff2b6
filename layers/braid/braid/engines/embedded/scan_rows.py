"""Going through a tenant's records in the order of their ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from braid.engines.embedded.rows import read_vectors
from braid.models import Record

if TYPE_CHECKING:
    import sqlite3

_OF_DOCUMENT = (
    "(r.id = :document OR substr(r.id, 1, length(:document) + 1) = :document || '#'"
    " OR json_extract(r.body, '$.source.title') = :document)"
)


def page(
    connection: sqlite3.Connection,
    tenant: int,
    tenant_id: str,
    *,
    schema_below: int | None,
    space_missing: str | None,
    model_missing: str | None,
    document: str | None,
    after: str,
    limit: int,
    with_vectors: bool,
) -> list[Record]:
    """Return up to ``limit`` records whose ids are greater than ``after`` and that meet every condition given."""
    clauses = ["r.tenant = :tenant", "r.id > :after"]
    if schema_below is not None:
        clauses.append("r.schema_version < :schema_below")
    for column, wanted in (("space", space_missing), ("model_id", model_missing)):
        if wanted is not None:
            clauses.append(
                f"NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.record = r.number AND v.{column} = :{column})"  # noqa: S608 - a column's name from above
            )
    if document is not None:
        clauses.append(_OF_DOCUMENT)
    rows = connection.execute(
        f"SELECT r.number, r.id, r.content, r.body FROM records AS r WHERE {' AND '.join(clauses)}"  # noqa: S608
        " ORDER BY r.id LIMIT :limit",
        {
            "tenant": tenant,
            "after": after,
            "schema_below": schema_below,
            "space": space_missing,
            "model_id": model_missing,
            "document": document,
            "limit": limit,
        },
    ).fetchall()
    vectors = read_vectors(connection, [row[0] for row in rows]) if with_vectors else {}
    return [
        Record(
            id=record_id,
            tenant_id=tenant_id,
            content=content,
            embeddings=tuple(vectors.get(number, ())),
            **json.loads(body),
        )
        for number, record_id, content, body in rows
    ]
