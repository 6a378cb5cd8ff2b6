"""Going through a tenant's records in the order of their ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from braid.deadline import checked
from braid.engines.embedded.search.rows import read_vectors
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
    where, values = _conditions(
        tenant, schema_below=schema_below, space_missing=space_missing, model_missing=model_missing, document=document
    )
    rows = connection.execute(
        f"SELECT r.number, r.id, r.content, r.body FROM records AS r WHERE {where} AND r.id > :after"  # noqa: S608 - see below
        " ORDER BY r.id LIMIT :limit",
        {**values, "after": after, "limit": limit},
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
        for number, record_id, content, body in checked(rows, every=1)
    ]


def count(
    connection: sqlite3.Connection,
    tenant: int,
    *,
    schema_below: int | None,
    space_missing: str | None,
    model_missing: str | None,
) -> int:
    """Return how many records meet every condition given."""
    where, values = _conditions(
        tenant, schema_below=schema_below, space_missing=space_missing, model_missing=model_missing, document=None
    )
    statement = f"SELECT count(*) FROM records AS r WHERE {where}"  # noqa: S608 - see below
    return int(connection.execute(statement, values).fetchone()[0])


def _conditions(
    tenant: int,
    *,
    schema_below: int | None,
    space_missing: str | None,
    model_missing: str | None,
    document: str | None,
) -> tuple[str, dict[str, str | int | None]]:
    """Return a condition, which holds names of columns and no value, and the values."""
    clauses = ["r.tenant = :tenant"]
    if schema_below is not None:
        clauses.append("r.schema_version < :schema_below")
    for column, wanted in (("space", space_missing), ("model_id", model_missing)):
        if wanted is not None:
            clauses.append(
                f"NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.record = r.number AND v.{column} = :{column})"  # noqa: S608 - a column's name from above
            )
    if document is not None:
        clauses.append(_OF_DOCUMENT)
    values = {
        "document": document,
        "tenant": tenant,
        "schema_below": schema_below,
        "space": space_missing,
        "model_id": model_missing,
    }
    return " AND ".join(clauses), values
