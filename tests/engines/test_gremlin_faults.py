"""What breaks between the graph's client and its server. Then: the right answer, or an error that says so."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.neptune.connection import GremlinConnection
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.errors import StoreError, StoreTooSlow, TransientStoreError
from gremlin_python.process.graph_traversal import __

from tests.contract.shapes import ACME, AS_OF, vertex
from tests.engines.gremlin_proxy import Damaged, GremlinProxy, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFLICT = Refusal(500, '{"code":"ConcurrentModificationException","detailedMessage":"try again"}')


@pytest.fixture
def proxy(gremlin_endpoint: str) -> Iterator[GremlinProxy]:
    with GremlinProxy(gremlin_endpoint).running() as made:
        yield made


@pytest.fixture
def connect(proxy: GremlinProxy) -> Iterator[Callable[..., GremlinConnection]]:
    made: list[GremlinConnection] = []

    def open_one(**settings: Any) -> GremlinConnection:
        made.append(GremlinConnection(proxy.url, **{"connect_timeout_s": 1.0, "read_timeout_s": 2.0, **settings}))
        return made[-1]

    yield open_one
    for each in made:
        each.close()


def echo(connection: GremlinConnection, value: int) -> list[Any]:
    return connection.submit(lambda g: g.inject(value))


def test_a_late_reply_never_answers_the_next_query(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection]
) -> None:
    connection = connect(read_timeout_s=0.2, attempts=1)
    proxy.faults.append("late")
    with pytest.raises(TransientStoreError, match="in time"):
        echo(connection, 1)
    proxy.release()
    assert echo(connection, 2) == [2]
    assert echo(connection, 3) == [3]


def test_a_query_whose_reply_is_late_is_asked_again(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection]
) -> None:
    proxy.faults.append("late")
    assert echo(connect(read_timeout_s=0.2, attempts=2), 1) == [1]
    assert proxy.requests == 2


def test_a_forbidden_handshake_is_signed_anew(proxy: GremlinProxy, connect: Callable[..., GremlinConnection]) -> None:
    proxy.statuses.extend([403, 403])
    assert echo(connect(attempts=3), 1) == [1]
    assert len(proxy.handshakes) == 3


def test_a_handshake_that_stays_forbidden_ends_and_does_not_block_the_next_query(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection]
) -> None:
    connection = connect(attempts=2)
    proxy.statuses.extend([403, 403])
    with pytest.raises(TransientStoreError, match="403"):
        echo(connection, 1)
    assert echo(connection, 2) == [2]


def test_a_handshake_that_is_wrong_is_not_repeated(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection]
) -> None:
    proxy.statuses.append(404)
    with pytest.raises(StoreError, match="404") as caught:
        echo(connect(attempts=3), 1)
    assert not isinstance(caught.value, TransientStoreError)
    assert len(proxy.handshakes) == 1


def test_a_refused_connection_recovers_when_the_server_is_back(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection]
) -> None:
    connection = connect(attempts=2)
    assert echo(connection, 1) == [1]
    proxy.stop_listening()
    with pytest.raises(TransientStoreError, match="unreachable"):
        echo(connection, 2)
    proxy.listen()
    assert echo(connection, 3) == [3]


@pytest.mark.parametrize("fault", ["close", "abort", "lose the reply"])
def test_a_connection_that_ends_during_a_query_is_replaced(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection], fault: Any
) -> None:
    connection = connect()
    assert echo(connection, 1) == [1]
    proxy.faults.append(fault)
    assert echo(connection, 2) == [2]
    assert echo(connection, 3) == [3]


def test_a_connection_that_was_closed_while_idle_is_replaced_within_the_budget(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection]
) -> None:
    connection = connect()
    assert echo(connection, 1) == [1]
    proxy.close_idle()
    begun = time.monotonic()
    assert echo(connection, 2) == [2]
    assert time.monotonic() - begun < 2.0
    assert len(proxy.handshakes) == 2


def test_a_server_that_hangs_costs_no_more_than_the_budget(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection]
) -> None:
    connection = connect(read_timeout_s=0.3, attempts=10, budget_s=0.8)
    proxy.faults.extend(["hang"] * 10)
    begun = time.monotonic()
    with pytest.raises(TransientStoreError):
        echo(connection, 1)
    assert time.monotonic() - begun < 1.6
    proxy.faults.clear()
    assert echo(connection, 2) == [2]


def test_a_server_that_hangs_costs_a_question_no_more_than_its_time_however_patient_writes_are(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection]
) -> None:
    connection = connect(read_timeout_s=5.0)
    proxy.faults.extend(["hang"] * 10)
    begun = time.monotonic()
    with pytest.raises(StoreTooSlow, match=r"within 0\.5 s"):
        GremlinGraph(connection, question_s=0.5).link(ACME, ["atlas"], as_of=AS_OF)
    assert time.monotonic() - begun < 1.5
    proxy.faults.clear()
    assert echo(connection, 2) == [2]


def test_conflicts_are_tried_again(proxy: GremlinProxy, connect: Callable[..., GremlinConnection]) -> None:
    proxy.faults.extend([CONFLICT] * 3)
    assert echo(connect(attempts=4), 1) == [1]
    assert proxy.requests == 4


@pytest.mark.parametrize(
    "refusal",
    [
        *(
            Refusal(500, f'{{"code":"{name}Exception","detailedMessage":"try again"}}')
            for name in ("ConstraintViolation", "InternalFailure", "ServerShutdown", "CancelledByMaintenance")
        ),
        Refusal(429, "too many"),
        Refusal(596, "not now"),
    ],
    ids=lambda refusal: refusal.message[:40],
)
def test_what_neptune_says_may_be_tried_again_is(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection], refusal: Refusal
) -> None:
    proxy.faults.extend([refusal] * 2)
    assert echo(connect(attempts=3), 1) == [1]
    assert proxy.requests == 3


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x81\0garbage",
        '{"status": {"code": 500}}',
        # A reply of the code 200 whose data is null, is a number, or ends within a list of five.
        *(
            b"\x81\0{id}\0\0\0\xc8\0" + 3 * b"\0\0\0\0" + data
            for data in (b"\xfe\x01", b"\x01\0\0\0\0\x03", b"\x09\0\0\0\0\x05\x01\0")
        ),
    ],
    ids=["nothing", "garbage", "text", "null", "a number", "cut off"],
)
def test_a_reply_that_cannot_be_read_is_asked_for_again_and_an_error_of_the_store_if_it_stays_so(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection], frame: bytes | str
) -> None:
    proxy.faults.append(Damaged(frame))
    assert echo(connect(attempts=2), 1) == [1]
    proxy.faults.extend([Damaged(frame)] * 2)
    with pytest.raises(TransientStoreError, match="cannot be read"):
        echo(connect(attempts=2), 1)


def test_conflicts_without_end_are_an_error(proxy: GremlinProxy, connect: Callable[..., GremlinConnection]) -> None:
    proxy.faults.extend([CONFLICT] * 3)
    with pytest.raises(TransientStoreError, match="ConcurrentModificationException"):
        echo(connect(attempts=3), 1)


def test_a_malformed_query_is_not_tried_again(proxy: GremlinProxy, connect: Callable[..., GremlinConnection]) -> None:
    connection = connect(attempts=3)
    with pytest.raises(StoreError) as caught:
        connection.submit(lambda g: g.inject("text").math("_ + 1"))
    assert not isinstance(caught.value, TransientStoreError)
    assert proxy.requests == 1
    assert echo(connection, 2) == [2]


def test_each_connection_is_signed_with_the_credentials_of_its_moment(proxy: GremlinProxy) -> None:
    keys = iter(["old", "new"])
    connection = GremlinConnection(proxy.url, headers=lambda _: {"Authorization": next(keys)})
    try:
        assert echo(connection, 1) == [1]
        assert echo(connection, 2) == [2]
        proxy.close_idle()
        assert echo(connection, 3) == [3]
    finally:
        connection.close()
    assert [handshake["Authorization"] for handshake in proxy.handshakes] == ["old", "new"]


def test_a_write_whose_reply_was_lost_is_written_once(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection]
) -> None:
    connection = connect()
    graph = GremlinGraph(connection)
    written = [vertex("a", name="Atlas", aliases=("Titan",))]
    connection.submit(lambda g: g.V().drop())
    graph.upsert(written, [])
    properties = connection.submit(lambda g: g.V().properties().count())
    connection.submit(lambda g: g.V().drop())
    proxy.faults.append("lose the reply")
    graph.upsert(written, [])
    assert graph.stats(ACME).vertices == 1
    assert connection.submit(lambda g: g.V().properties().count()) == properties


def test_threads_share_a_connection_and_each_gets_its_own_answer(
    proxy: GremlinProxy, connect: Callable[..., GremlinConnection]
) -> None:
    connection = connect()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda value: echo(connection, value), range(60))) == [[value] for value in range(60)]
    assert len(proxy.handshakes) == 1


def test_a_caller_may_be_inside_an_event_loop_of_its_own(connect: Callable[..., GremlinConnection]) -> None:
    connection = connect()

    async def caller() -> list[Any]:
        return echo(connection, 1)

    assert asyncio.run(caller()) == [1]


def test_the_server_gives_up_before_the_client_does(connect: Callable[..., GremlinConnection]) -> None:
    connection = connect(read_timeout_s=5.0, evaluation_timeout_ms=200, attempts=1)
    # Different numbers cannot be counted in bulk, and there are 2 ** 25 of them.
    twice = __.union(__.math("_ * 2"), __.math("_ * 2 + 1"))
    with pytest.raises(TransientStoreError, match="598"):
        connection.submit(lambda g: g.inject(1).repeat(twice).times(25).count())
    assert echo(connection, 2) == [2]


def test_the_server_gets_no_more_time_than_the_question_has(
    connect: Callable[..., GremlinConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect(evaluation_timeout_ms=30_000)
    serialize, given = connection._serializer.serialize_message, list[int]()

    def noted(request_id: str, message: Any) -> bytes:
        given.append(message.args["evaluationTimeout"])
        return bytes(serialize(request_id, message))

    monkeypatch.setattr(connection._serializer, "serialize_message", noted)
    connection.submit(lambda g: g.inject(1), within_s=2.0)
    assert [time <= 2_000 for time in given] == [True]
