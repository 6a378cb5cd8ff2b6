"""Going through a tenant's records in the order of their ids."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from braid.models import Embedding, Record

if TYPE_CHECKING:
    import sqlite3


def page(
    connection: sqlite3.Connection,
    tenant: int,
    tenant_id: str,
    *,
    schema_below: int | None,
    space_missing: str | None,
    model_missing: str | None,
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
    rows = connection.execute(
        f"SELECT r.number, r.id, r.content, r.body FROM records AS r WHERE {' AND '.join(clauses)}"  # noqa: S608
        " ORDER BY r.id LIMIT :limit",
        {
            "tenant": tenant,
            "after": after,
            "schema_below": schema_below,
            "space": space_missing,
            "model_id": model_missing,
            "limit": limit,
        },
    ).fetchall()
    vectors = _vectors(connection, [row[0] for row in rows]) if with_vectors else {}
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


def _vectors(connection: sqlite3.Connection, numbers: list[int]) -> dict[int, list[Embedding]]:
    """Return the vectors of some records, by the record's number and in the order of their spaces."""
    found: dict[int, list[Embedding]] = {}
    for number, space, model_id, vector in connection.execute(
        "SELECT record, space, model_id, vector FROM vectors WHERE record IN (SELECT value FROM json_each(?))"
        " ORDER BY record, space",
        (json.dumps(numbers),),
    ):
        found.setdefault(number, []).append(Embedding(space=space, model_id=model_id, vector=vector))
    return found
