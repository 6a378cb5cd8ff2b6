"""Queues records of an older schema that answers found, to be re-embedded, without delaying the answers.

The queue is called on its own thread while the candidates are reranked, at most once an answer. An answer waits a short
time for the call and then returns without its result. A queue that fails is logged and counted, and degrades nothing:
the scheduled scan finds the same records.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from braid.ports.message_queue import DEDUPLICATION_S
from braid.reembedding.messages import FoundBy, Reason, Reembed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from braid.ports.message_queue import Queue, QueueMessage

_LOG = logging.getLogger(__name__)
_REMEMBERED = 10_000


class Sending:
    """A call to the queue that may still be running."""

    def __init__(self, wait_s: float) -> None:
        self._done = threading.Event()
        self._wait_s = wait_s

    def finish(self) -> None:
        """Mark the call as finished."""
        self._done.set()

    def wait(self) -> bool:
        """Wait for the call, at most as long as an answer may, and return whether it has finished."""
        return self._done.wait(self._wait_s)


class DriftedRecordQueue:
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
        self._rest_s = rest_s
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way = False
        self._resting_until = float("-inf")
        self._remembered: OrderedDict[str, float] = OrderedDict()
        self._counts = {"OutdatedQueued": 0, "OutdatedLost": 0}

    def send(self, tenant_id: str, record_ids: Sequence[str], target_schema_version: int) -> Sending | None:
        """Start sending the records that are not known to be queued, in their order; None if there are none.

        Nothing is started while a call is running or after a failure: later answers find the same records.
        """
        messages = [
            Reembed(
                tenant_id=tenant_id,
                record_ids=(record_id,),
                reason=Reason.SCHEMA,
                target_schema_version=target_schema_version,
                found_by=FoundBy.SEARCH,
            ).message()
            for record_id in dict.fromkeys(record_ids)
        ]
        with self._lock:
            now = self._clock()
            new = [message for message in messages if not self._knows(message, now)][: self._per_answer]
            if not new or self._under_way or now < self._resting_until:
                return None
            self._under_way = True
        sending = Sending(self._wait_s)
        threading.Thread(target=self._send, args=(new, sending), name="braid-outdated", daemon=True).start()
        return sending

    def take_counts(self) -> dict[str, int]:
        """Return the numbers of records queued and lost since the last call, by metric."""
        with self._lock:
            counts, self._counts = self._counts, {"OutdatedQueued": 0, "OutdatedLost": 0}
        return counts

    def _knows(self, message: QueueMessage, now: float) -> bool:
        sent_at = self._remembered.get(message.deduplication_id)
        return sent_at is not None and now - sent_at < DEDUPLICATION_S

    def _send(self, messages: list[QueueMessage], sending: Sending) -> None:
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
                    self._resting_until = now + self._rest_s
                self._under_way = False
            sending.finish()
