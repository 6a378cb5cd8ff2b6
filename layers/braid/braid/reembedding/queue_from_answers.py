"""Queue of outdated records: its message schema, and the sender of outdated records that answers encountered.

The queue delivers at least once and in no order, so its consumer checks each record again: by then it may be up to
date, or deleted.

The sender calls the queue on its own thread while the candidates are reranked, at most once an answer; an answer waits
a short time for the call and then returns without its result. A failing queue is logged and counted, and degrades
nothing: the nightly run of :mod:`braid.reembedding.running_jobs` finds the same records.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from contextvars import copy_context
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from braid.deadline import CircuitBreaker
from braid.errors import as_invalid_request
from braid.models import Frozen, RecordId, TenantId
from braid.ports.message_queue import DEDUPLICATION_S, QueueMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.ports.message_queue import Queue

MAX_RECORDS = 100
"""Most ids in one message: with the longest ids it is a tenth of the queue's limit."""
_LOG = logging.getLogger(__name__)
_REMEMBERED = 10_000
"""Most messages that a sender remembers as sent."""


class Reason(StrEnum):
    """Why records are to be re-embedded."""

    SCHEMA = "schema"
    """They were written with an older schema than the tenant's current one."""
    MODEL = "model"
    """They lack a vector of a model that questions are embedded with. Braid sends no such message, and takes it."""


class _Body(Frozen):
    """Body of a message: everything but the tenant, which the queue carries and checks."""

    record_ids: Annotated[tuple[RecordId, ...], Field(min_length=1, max_length=MAX_RECORDS)]
    reason: Reason
    target_schema_version: Annotated[int, Field(ge=1)]
    """The tenant's current schema version when the message was sent. Records of this version are skipped."""
    found_by: Literal["search"] = "search"
    """Part of the message's format; nothing reads it."""


class ReembedMessage(_Body):
    """Records of one tenant that are to be re-embedded."""

    tenant_id: TenantId

    def message(self) -> QueueMessage:
        """Return the queue's message.

        Its deduplication id names the work and the state that it is for: the tenant, the records in any order, the
        reason and the target version. A message with the id of one that the queue remembers adds nothing.
        """
        state = [self.reason.value, str(self.target_schema_version), *sorted(set(self.record_ids))]
        digest = hashlib.sha256("\0".join(state).encode()).hexdigest()
        return QueueMessage(
            tenant_id=self.tenant_id,
            deduplication_id=f"{self.tenant_id}/{digest[:32]}",
            body=self.model_dump_json(exclude={"tenant_id"}),
        )

    @classmethod
    def read(cls, message: QueueMessage) -> ReembedMessage:
        """Parse a message; the tenant is the message's own.

        Raises InvalidRequest if its body does not have the format of :meth:`message`; the error names the field.
        """
        with as_invalid_request():
            asked = _Body.model_validate_json(message.body)
        return cls(tenant_id=message.tenant_id, **asked.model_dump())


class OutdatedRecordSender:
    """Sends each outdated record to the queue once, however often answers find it.

    Parameters
    ----------
    open_queue
        Opens the queue; called on another thread before the first message is sent.
    per_answer
        Most records of one answer that are sent, each as a message of its own.
    wait_s
        Most seconds that an answer waits for the queue.
    rest_s
        Seconds for which a queue that failed is not called again.
    clock
        Monotonic clock, in seconds.
    """

    def __init__(
        self,
        open_queue: Callable[[], Queue],
        *,
        per_answer: int = 10,
        wait_s: float = 0.2,
        rest_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_queue = open_queue
        self._per_answer = per_answer
        self._wait_s = wait_s
        self._clock = clock
        self._breaker = CircuitBreaker(rest_s, clock)
        self._lock = threading.Lock()
        self._under_way = False
        self._remembered: OrderedDict[str, float] = OrderedDict()
        self._counts = {"OutdatedQueued": 0, "OutdatedLost": 0}

    def send(self, tenant_id: str, record_ids: Sequence[str], target_schema_version: int) -> Callable[[], bool] | None:
        """Start sending the records that are not known to be queued, in their order; None if there are none.

        The function that it returns waits for the call, at most as long as an answer may, and returns whether it ended.
        Nothing is started while a call is running or after a failure: later answers find the same records.
        """
        messages = [
            ReembedMessage(
                tenant_id=tenant_id,
                record_ids=(record_id,),
                reason=Reason.SCHEMA,
                target_schema_version=target_schema_version,
            ).message()
            for record_id in dict.fromkeys(record_ids)
        ]
        with self._lock:
            now = self._clock()
            new = [message for message in messages if not self._knows(message, now)][: self._per_answer]
            if not new or self._under_way or self._breaker.is_open():
                return None
            self._under_way = True
        done = threading.Event()
        # In a copy of the context, so that messages carry the trace of the question that found them.
        send = partial(copy_context().run, self._send, new, done)
        threading.Thread(target=send, name="braid-outdated", daemon=True).start()
        return partial(done.wait, self._wait_s)

    def take_counts(self) -> dict[str, int]:
        """Return the numbers of records queued and not queued since the last call, by metric."""
        with self._lock:
            counts, self._counts = self._counts, {"OutdatedQueued": 0, "OutdatedLost": 0}
        return counts

    def _knows(self, message: QueueMessage, now: float) -> bool:
        sent_at = self._remembered.get(message.deduplication_id)
        return sent_at is not None and now - sent_at < DEDUPLICATION_S

    def _send(self, messages: list[QueueMessage], done: threading.Event) -> None:
        queued = False
        try:
            self._open_queue().send(messages)
            queued = True
        except Exception as error:  # noqa: BLE001 - no failure of a queue may fail an answer
            _LOG.warning("%d outdated records not queued: %s: %s", len(messages), type(error).__name__, error)
        finally:
            with self._lock:
                now = self._clock()
                self._counts["OutdatedQueued" if queued else "OutdatedLost"] += len(messages)
                if queued:
                    self._remembered |= {message.deduplication_id: now for message in messages}
                    while len(self._remembered) > _REMEMBERED:
                        self._remembered.popitem(last=False)
                else:
                    self._breaker.open()
                self._under_way = False
            done.set()
