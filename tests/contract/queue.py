"""What every queue must do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.errors import InvalidRequest
from braid.ports.message_queue import DEDUPLICATION_S, MAX_MESSAGE_BYTES, Queue, QueueMessage

from tests.contract.shapes import ACME, GLOBEX

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.shapes import Clock

MAX_RECEIVES = 5
"""After which a queue under test sets a message aside."""


def message(name: str, body: str = "", *, tenant: str = ACME) -> QueueMessage:
    return QueueMessage(tenant_id=tenant, deduplication_id=name, body=body)


def received(queue: Queue, count: int = 100, *, visibility_s: int = 30) -> list[str]:
    return sorted(delivery.message.deduplication_id for delivery in queue.receive(count, visibility_s))


class QueueContract:
    """Subclass this and provide the fixtures below.

    ``clock``, ``queue`` (a queue by that clock, empty for every test, that sets a message aside after
    :data:`MAX_RECEIVES`), ``send_raw`` (puts any text into it as a message) and ``set_aside`` (returns how many
    messages were).
    """

    def test_the_port_is_implemented(self, queue: Queue) -> None:
        assert isinstance(queue, Queue)

    def test_an_empty_queue_gives_nothing(self, queue: Queue) -> None:
        assert queue.receive(10, 30) == []
        assert queue.depth() == 0

    def test_sending_and_deleting_nothing_is_no_error(self, queue: Queue) -> None:
        queue.send([])
        queue.delete([])
        assert queue.depth() == 0

    def test_a_message_comes_back_as_it_was_sent(self, queue: Queue) -> None:
        sent = message("acme/r1@3", 'Größe 東京 🧵 "quoted" \x7f\uffff\n\t', tenant=GLOBEX)
        queue.send([sent])
        (delivery,) = queue.receive(1, 30)
        assert delivery.message == sent
        assert delivery.receives == 1

    def test_more_messages_than_one_request_holds_all_arrive_once(self, queue: Queue) -> None:
        names = [f"m{number:02}" for number in range(25)]
        queue.send([message(name) for name in names])
        assert queue.depth() == 25
        assert received(queue) == names

    def test_long_messages_all_arrive(self, queue: Queue) -> None:
        bodies = {f"m{number}": str(number) * 200_000 for number in range(4)}
        queue.send([message(name, body) for name, body in bodies.items()])
        deliveries = queue.receive(10, 30)
        assert {found.message.deduplication_id: found.message.body for found in deliveries} == bodies

    def test_a_message_that_is_too_long_is_refused_and_nothing_is_sent(self, queue: Queue) -> None:
        with pytest.raises(InvalidRequest, match="message long takes") as caught:
            queue.send([message("short"), message("long", "é" * (MAX_MESSAGE_BYTES // 6))])
        assert caught.value.field == "body"
        assert queue.depth() == 0

    def test_no_more_is_received_than_was_asked_for(self, queue: Queue) -> None:
        queue.send([message(f"m{number}") for number in range(15)])
        assert len(queue.receive(3, 30)) == 3
        assert len(queue.receive(11, 30)) == 11
        assert len(queue.receive(11, 30)) == 1

    def test_sending_twice_delivers_once(self, queue: Queue) -> None:
        queue.send([message("a"), message("b"), message("a")])
        queue.send([message("b"), message("c")])
        assert received(queue) == ["a", "b", "c"]

    def test_an_id_may_be_sent_again_later(self, queue: Queue, clock: Clock) -> None:
        queue.send([message("a")])
        (first,) = queue.receive(10, 30)
        queue.delete([first.receipt])
        clock.advance(DEDUPLICATION_S + 1)
        queue.send([message("a")])
        assert received(queue) == ["a"]

    def test_a_message_is_nobody_elses_until_its_time_is_over(self, queue: Queue, clock: Clock) -> None:
        queue.send([message("a")])
        assert received(queue, visibility_s=60) == ["a"]
        clock.advance(59)
        assert received(queue) == []
        assert queue.depth() == 1
        clock.advance(2)
        (again,) = queue.receive(1, 60)
        assert again.message == message("a")
        assert again.receives == 2

    def test_a_deleted_message_never_comes_again(self, queue: Queue, clock: Clock) -> None:
        queue.send([message(f"m{number:02}") for number in range(12)])
        deliveries = queue.receive(12, 30)
        queue.delete([delivery.receipt for delivery in deliveries[:11]])
        clock.advance(31)
        assert received(queue) == [deliveries[11].message.deduplication_id]
        assert queue.depth() == 1

    def test_deleting_twice_is_no_error(self, queue: Queue) -> None:
        queue.send([message("a")])
        (delivery,) = queue.receive(1, 30)
        queue.delete([delivery.receipt])
        queue.delete([delivery.receipt])
        assert queue.depth() == 0

    def test_an_unknown_receipt_hides_no_other(self, queue: Queue) -> None:
        queue.send([message("a")])
        (delivery,) = queue.receive(1, 30)
        queue.delete(["no such receipt", delivery.receipt])
        assert queue.depth() == 0

    def test_one_tenants_work_does_not_wait_for_anothers(self, queue: Queue) -> None:
        queue.send([message("a1"), message("a2"), message("g1", tenant=GLOBEX)])
        assert len(queue.receive(1, 30)) == 1
        assert len(queue.receive(10, 30)) == 2

    @pytest.mark.parametrize(
        "poison", ["", "{", "[]", '{"body": "no tenant"}', '{"tenant_id": "../x"}', "\N{SPOOL OF THREAD}"]
    )
    def test_a_message_that_cannot_be_read_hides_no_other(
        self, queue: Queue, send_raw: Callable[[str], None], poison: str
    ) -> None:
        send_raw(poison or " ")
        queue.send([message(f"good{number}") for number in range(3)])
        first = received(queue, 2)
        assert len(first) == 2
        assert sorted(first + received(queue, 10)) == ["good0", "good1", "good2"]

    def test_a_message_that_cannot_be_read_is_set_aside_and_kept(
        self, queue: Queue, clock: Clock, send_raw: Callable[[str], None], set_aside: Callable[[], int]
    ) -> None:
        send_raw("not JSON")
        for _ in range(MAX_RECEIVES + 1):
            assert queue.receive(10, 30) == []
            clock.advance(31)
        assert set_aside() == 1
        assert queue.depth() == 0

    def test_a_message_that_is_never_deleted_is_set_aside(
        self, queue: Queue, clock: Clock, set_aside: Callable[[], int]
    ) -> None:
        queue.send([message("a")])
        for number in range(MAX_RECEIVES):
            assert [delivery.receives for delivery in queue.receive(10, 30)] == [number + 1]
            assert set_aside() == 0
            clock.advance(31)
        assert queue.receive(10, 30) == []
        assert set_aside() == 1

    def test_asking_for_nothing_is_refused(self, queue: Queue) -> None:
        for count, visibility_s, field in (
            (0, 30, "max_messages"),
            (1, 0, "visibility_s"),
            (1, 43_201, "visibility_s"),
        ):
            with pytest.raises(InvalidRequest, match=field) as caught:
                queue.receive(count, visibility_s)
            assert caught.value.field == field

    def test_a_tenant_is_forgotten_where_its_messages_can_be_chosen(
        self, queue: Queue, send_raw: Callable[[str], None]
    ) -> None:
        send_raw("not JSON")
        queue.send([message("a"), message("b"), message("c", tenant=GLOBEX)])
        forgotten = queue.forget(ACME)
        assert forgotten in {2, None}
        assert received(queue) == (["a", "b", "c"] if forgotten is None else ["c"])
