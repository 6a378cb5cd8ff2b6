"""Outdated records that answers meet are queued once, few at a time, and never at the cost of the answer."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded.message_queue import EmbeddedQueue
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import StoreReadOnly, TransientStoreError
from braid.ports.message_queue import DEDUPLICATION_S
from braid.reembedding.queue_from_answers import OutdatedRecordSender, Reason, ReembedMessage

from tests.contract.shapes import Clock
from tests.fakes import FakeReranker, found, fused, record, searched, walked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from braid.ports.message_queue import QueueMessage

PATIENT_S = 30.0
"""A wait that ends as soon as the queue answers, and that no test reaches."""


class FakeQueue:
    """Keeps what is sent, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.calls: list[list[ReembedMessage]] = []

    def send(self, messages: Sequence[QueueMessage]) -> None:
        self.calls.append([ReembedMessage.read(message) for message in messages])
        if self.error:
            raise self.error

    def ids(self) -> list[str]:
        return [identity for call in self.calls for asked in call for identity in asked.record_ids]


def sender(queue: FakeQueue, **fields: object) -> OutdatedRecordSender:
    return OutdatedRecordSender(lambda: queue, **{"wait_s": PATIENT_S, **fields})  # type: ignore[arg-type, return-value]


def sent(outdated: OutdatedRecordSender, tenant: str, *ids: str, target: int = 5) -> int:
    """Send, wait for the queue, and return how many it took."""
    wait = outdated.send(tenant, ids, target)
    assert wait is None or wait()
    return outdated.take_counts()["OutdatedQueued"]


def test_an_answer_queues_what_it_left_out_and_what_it_marked_for_transformation() -> None:
    queue = FakeQueue()
    records = [record(f"v{version}", schema_version=version) for version in (1, 2, 3, 4, 5)]
    answer = fused(
        records,
        schema_version=5,
        outdated_sender=sender(queue),
        searched=searched(("v2", 0.8), ("v3", 0.7), ("v4", 0.7), ("v5", 0.6), outdated=("beyond",)),
        expanded=found(walked("v5", "v1")),
    )
    assert [result.id for result in answer.results if result.needs_transformation] == ["v2", "v3"]
    assert queue.ids() == ["beyond", "v1", "v2", "v3"]
    assert all(
        (asked.tenant_id, asked.reason, asked.target_schema_version, asked.found_by)
        == ("acme", Reason.SCHEMA, 5, "search")
        for asked in queue.calls[0]
    )
    assert answer.counts["outdated"] == 4
    assert answer.degraded == ()


def test_an_answer_that_meets_nothing_outdated_asks_no_queue() -> None:
    queue = FakeQueue()
    answer = fused([record("a")], outdated_sender=sender(queue), searched=searched(("a", 0.8)))
    assert queue.calls == []
    assert answer.counts["outdated"] == 0


def test_one_answer_queues_a_few_and_the_next_the_others() -> None:
    queue = FakeQueue()
    outdated = sender(queue, per_answer=2)
    assert [sent(outdated, "acme", "a", "b", "c", "a") for _ in range(3)] == [2, 1, 0]
    assert [[asked.record_ids[0] for asked in call] for call in queue.calls] == [["a", "b"], ["c"]]


def test_what_is_queued_is_not_queued_again_until_the_queue_has_forgotten_it() -> None:
    queue, clock = FakeQueue(), Clock()
    outdated = sender(queue, clock=clock.seconds)
    assert [sent(outdated, "acme", "a"), sent(outdated, "acme", "a"), sent(outdated, "globex", "a")] == [1, 0, 1]
    assert sent(outdated, "acme", "a", target=6) == 1
    clock.advance(DEDUPLICATION_S)
    assert sent(outdated, "acme", "a") == 1
    assert len(queue.calls) == 4


@pytest.mark.parametrize("error", [TransientStoreError("throttled"), StoreReadOnly("no"), RuntimeError("unforeseen")])
def test_a_queue_that_is_lost_is_logged_and_counted_and_the_answer_stands(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    outdated = sender(FakeQueue(error))
    with caplog.at_level(logging.WARNING, "braid.reembedding.queue_from_answers"):
        answer = fused(
            [record("a")],
            schema_version=9,
            outdated_sender=outdated,
            searched=searched(("a", 0.8), outdated=("b", "c")),
        )
    assert answer.degraded == ()
    assert answer.counts["outdated"] == 3
    assert outdated.take_counts() == {"OutdatedQueued": 0, "OutdatedLost": 3}
    assert f"3 outdated records not queued: {type(error).__name__}" in caplog.text


def test_a_queue_that_failed_rests_and_is_then_asked_for_the_same_again() -> None:
    queue, clock = FakeQueue(TransientStoreError("throttled")), Clock()
    outdated = sender(queue, rest_s=30, clock=clock.seconds)
    assert sent(outdated, "acme", "a") == 0
    clock.advance(29)
    assert sent(outdated, "acme", "a") == 0
    assert len(queue.calls) == 1
    clock.advance(1)
    queue.error = None
    assert sent(outdated, "acme", "a") == 1


def test_a_queue_that_hangs_holds_up_no_answer_and_gets_no_second_call() -> None:
    let_go, entered = threading.Event(), threading.Event()

    class Hanging(FakeQueue):
        def send(self, messages: Sequence[QueueMessage]) -> None:
            entered.set()
            assert let_go.wait(PATIENT_S)
            super().send(messages)

    queue = Hanging()
    outdated = sender(queue, wait_s=0.01)
    wait_for_first = outdated.send("acme", ["a"], 5)
    assert entered.wait(PATIENT_S)
    assert wait_for_first is not None
    assert wait_for_first() is False
    assert outdated.send("acme", ["b"], 5) is None
    let_go.set()
    while not wait_for_first():
        pass
    assert queue.ids() == ["a"]


def test_the_queue_is_asked_while_the_candidates_are_reranked() -> None:
    asked = threading.Event()

    class Telling(FakeQueue):
        def send(self, messages: Sequence[QueueMessage]) -> None:
            super().send(messages)
            asked.set()

    queue = Telling()
    reranker = FakeReranker(lambda _: 0.5 if asked.wait(PATIENT_S) else 0.0)
    answer = fused(
        [record("a")],
        schema_version=1,
        outdated_sender=sender(queue),
        reranker=reranker,
        searched=searched(("a", 0.8), outdated=("b",)),
    )
    assert answer.results[0].rerank_score == 0.5
    assert queue.ids() == ["b"]


def test_the_embedded_queue_holds_what_an_answer_met(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path)
    queue = EmbeddedQueue(store)
    outdated = OutdatedRecordSender(lambda: queue, wait_s=PATIENT_S)
    fused([record("a")], schema_version=9, outdated_sender=outdated, searched=searched(("a", 0.8), outdated=("b",)))
    delivered = {ReembedMessage.read(each.message).record_ids for each in queue.receive(10, 60)}
    assert delivered == {("a",), ("b",)}
    store.close()
