"""The embedded message queue."""

from __future__ import annotations

import logging
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from braid.engines.embedded.tables import to_microseconds
from braid.errors import TransientStoreError
from braid.ports.keys import check_tenant
from braid.ports.message_queue import DEDUPLICATION_S, Delivery, check_receive, decode_message, encode_messages

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from braid.engines.embedded.store import EmbeddedStore
    from braid.ports.message_queue import QueueMessage

MAX_RECEIVES = 5
"""Deliveries of a message that is never deleted, before it is set aside as a dead letter."""
MAX_MESSAGES = 10_000
"""Most messages, dead letters included: questions fill the queue, and ``braid reembed --queue`` empties it."""
DEAD_LETTERS_S = 14 * 24 * 3600
"""How long a dead letter is kept, as in a deployment."""

_LOG = logging.getLogger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class EmbeddedQueue:
    """Messages in SQLite, oldest first; implements :class:`braid.ports.message_queue.Queue`."""

    def __init__(self, store: EmbeddedStore, *, clock: Callable[[], datetime] = _now) -> None:
        self._store = store
        self._clock = clock

    def send(self, messages: Sequence[QueueMessage]) -> None:
        """Add all messages in one transaction; when it returns they are durable.

        Raises TransientStoreError if there are :data:`MAX_MESSAGES` already; nothing is added.
        """
        bodies = encode_messages(messages)
        if not bodies:
            return
        now = self._clock()
        with self._store.transaction() as connection:
            connection.execute(
                "DELETE FROM messages WHERE set_aside = 1 AND visible_at <= ?",
                (to_microseconds(now - timedelta(seconds=DEAD_LETTERS_S)),),
            )
            room = MAX_MESSAGES - len(bodies)
            if connection.execute("SELECT 1 FROM messages LIMIT 1 OFFSET ?", (room,)).fetchone():
                raise TransientStoreError(f"the queue has {MAX_MESSAGES:,} messages; run braid reembed --queue")
            forgotten = to_microseconds(now - timedelta(seconds=DEDUPLICATION_S))
            connection.execute("DELETE FROM messages_sent WHERE sent_at <= ?", (forgotten,))
            for message, body in zip(messages, bodies, strict=True):
                new = connection.execute(
                    "INSERT OR IGNORE INTO messages_sent VALUES (?, ?)",
                    (message.deduplication_id, to_microseconds(now)),
                ).rowcount
                if new:
                    connection.execute(
                        "INSERT INTO messages (body, visible_at) VALUES (?, ?)", (body, to_microseconds(now))
                    )

    def receive(self, max_messages: int, visibility_s: int) -> list[Delivery]:
        """Return up to ``max_messages``, invisible to other receivers for ``visibility_s`` seconds."""
        check_receive(max_messages, visibility_s)
        now = self._clock()
        deliveries: list[Delivery] = []
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE messages SET set_aside = 1 WHERE set_aside = 0 AND visible_at <= ? AND receives >= ?",
                (to_microseconds(now), MAX_RECEIVES),
            )
            while len(deliveries) < max_messages:
                rows = connection.execute(
                    "SELECT number, body, receives FROM messages WHERE set_aside = 0 AND visible_at <= ?"
                    " ORDER BY number LIMIT ?",
                    (to_microseconds(now), max_messages - len(deliveries)),
                ).fetchall()
                if not rows:
                    break
                until = now + timedelta(seconds=visibility_s)
                handed_out = (_hand_out(connection, *row, until=until) for row in rows)
                deliveries.extend(delivery for delivery in handed_out if delivery)
        return deliveries

    def delete(self, receipts: Sequence[str]) -> None:
        """Remove processed messages; a receipt is valid until its message is delivered again."""
        with self._store.transaction() as connection:
            connection.executemany("DELETE FROM messages WHERE receipt = ?", [(receipt,) for receipt in receipts])

    def depth(self) -> int:
        """Return how many messages are waiting or in flight."""
        with self._store.read() as connection:
            return int(connection.execute("SELECT count(*) FROM messages WHERE set_aside = 0").fetchone()[0])

    def forget(self, tenant_id: str) -> int:
        """Remove a tenant's messages, dead letters included, and return how many there were."""
        check_tenant(tenant_id)
        with self._store.transaction() as connection:
            # A message that cannot be parsed belongs to no tenant.
            return connection.execute(
                "DELETE FROM messages WHERE json_valid(body) AND json_extract(body, '$.tenant_id') = ?", (tenant_id,)
            ).rowcount


def _hand_out(
    connection: sqlite3.Connection, number: int, body: str, receives: int, *, until: datetime
) -> Delivery | None:
    """Deliver a message and hide it from other receivers; None for one that cannot be read, now a dead letter."""
    message = decode_message(body)
    if message is None:
        _LOG.warning("message %d of the queue cannot be read and is set aside", number)
        connection.execute("UPDATE messages SET set_aside = 1 WHERE number = ?", (number,))
        return None
    receipt = uuid.uuid4().hex
    connection.execute(
        "UPDATE messages SET visible_at = ?, receives = receives + 1, receipt = ? WHERE number = ?",
        (to_microseconds(until), receipt, number),
    )
    return Delivery(message=message, receipt=receipt, receives=receives + 1)
