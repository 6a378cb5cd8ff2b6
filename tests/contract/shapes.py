"""Records, vectors, vertices and edges for the contract suites: small, fixed, made by seed."""

from __future__ import annotations

import math
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from braid.models import Embedding, FurtherPart, Record, Relationship, Vertex
from braid.understanding.misspelling_keys import misspellings
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    import random
    import sqlite3

ACME = "acme"
GLOBEX = "globex"
AS_OF = datetime(2025, 6, 1, 12, 0, tzinfo=UTC)
"""The moment of asking in every test."""

SPACE = "small-space"
"""Vectors of 8 values."""
WIDE_SPACE = "wide-space"
"""Vectors of 16 values."""
DIMENSIONS = {SPACE: 8, WIDE_SPACE: 16}
"""Every embedding space that the suites use, for an engine that must declare its vector fields."""


def day(number: int) -> datetime:
    """Return noon of a day of May 2025, in UTC."""
    return datetime(2025, 5, number, 12, 0, tzinfo=UTC)


def packed(values: list[float]) -> bytes:
    """Normalise values and return them as little-endian float32."""
    length = math.sqrt(sum(value * value for value in values)) or 1.0
    return struct.pack(f"<{len(values)}f", *(value / length for value in values))


def unpacked(vector: bytes) -> list[float]:
    """Read little-endian float32 values."""
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


def random_vector(generator: random.Random, dimension: int = 8) -> bytes:
    """Return a random direction."""
    return packed([generator.gauss(0.0, 1.0) for _ in range(dimension)])


def at_cosine(cosine: float, dimension: int = 8) -> bytes:
    """Return a unit vector whose cosine with the first axis is the one given."""
    return packed([cosine, math.sqrt(max(0.0, 1.0 - cosine * cosine)), *[0.0] * (dimension - 2)])


AXIS = at_cosine(1.0)


def embedding(vector: bytes, space: str = SPACE) -> Embedding:
    """Return a vector of a test space."""
    return Embedding(space=space, model_id=f"model-of-{space}", vector=vector)


def in_parts(*cosines: float, space: str = SPACE) -> Embedding:
    """Return the vectors of a long text whose parts begin every hundred characters, by their cosines with an axis."""
    first, *others = (at_cosine(cosine, DIMENSIONS[space]) for cosine in cosines)
    further = tuple(FurtherPart(start=100 * number, vector=vector) for number, vector in enumerate(others, start=1))
    return Embedding(space=space, model_id=f"model-of-{space}", vector=first, further=further)


def record(record_id: str, content: str = "", *, cosine: float | None = None, **fields: Any) -> Record:
    """Return a record of tenant acme; ``cosine`` is that of its vector with :data:`AXIS`."""
    if cosine is not None:
        fields["embeddings"] = (embedding(at_cosine(cosine)),)
    return Record(id=record_id, content=content, **{"tenant_id": ACME, **fields})


def vertex(vertex_id: str, **fields: Any) -> Vertex:
    """Return a vertex of tenant acme that has a record."""
    return Vertex(id=vertex_id, **{"tenant_id": ACME, "has_record": True, **fields})


def edge(source: str, target: str, relationship_type: str = "CAUSES", **fields: Any) -> Relationship:
    """Return an edge of tenant acme."""
    return Relationship(source=source, type=relationship_type, target=target, **{"tenant_id": ACME, **fields})


class Clock:
    """A clock that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.moment = AS_OF

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.moment += timedelta(seconds=seconds)

    def now(self) -> datetime:
        """Return the moment, in UTC."""
        return self.moment

    def seconds(self) -> float:
        """Return the moment as seconds since 1970."""
        return self.moment.timestamp()


def to_format(connection: sqlite3.Connection, wanted: int) -> None:
    """Give a new store, of which only texts, names and edges were written, the tables of an older format."""
    for (trigger,) in connection.execute("SELECT name FROM temp.sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER temp.{trigger}")  # they name tables that go
    if wanted < 11:
        for tenant, name, vertex in connection.execute("SELECT tenant, name, number FROM vertices").fetchall():
            rows = [(tenant, key, vertex) for key in misspellings(normalise(name or ""))]
            connection.executemany("INSERT INTO names VALUES (?, ?, ?, 1)", rows)
    for added, statements in _ADDED.items():
        if wanted < added:
            for statement in statements:
                connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {wanted:d}")


_ADDED = {
    16: [
        "DROP INDEX edges_by_evidence",
        "CREATE INDEX edges_by_evidence ON edges (tenant, evidence) WHERE evidence IS NOT NULL",
    ],
    15: [
        "DROP TABLE record_generations",
        "DROP TABLE removed_vectors",
        *(f"DROP INDEX records_by_{what}" for what in ("time", "task", "tool", "schema")),
    ],
    13: ["DROP TABLE graph_counts", "DROP TABLE graph_changes"],
    12: ["DROP TABLE removals"],
    11: ["DROP TABLE misspellings"],
    10: ["DROP TABLE metadata"],
    9: ["ALTER TABLE edges DROP COLUMN position", "ALTER TABLE vertices DROP COLUMN found"],
    8: [
        "DROP INDEX vectors_by_record",
        "ALTER TABLE vectors DROP COLUMN start",
        "CREATE UNIQUE INDEX vectors_by_record ON vectors (record, space)",
    ],
    7: ["DROP INDEX edges_by_evidence", "ALTER TABLE edges DROP COLUMN trusted"],
    6: ["ALTER TABLE vertices DROP COLUMN trusted"],
    5: ["DROP INDEX untrusted_records"],
    3: ["DROP TABLE notes"],
    2: [f"DROP TABLE {table}" for table in ("cache", "messages", "messages_sent", "objects")],
}
"""By the format that brought them: the statements that take its tables and columns away."""
