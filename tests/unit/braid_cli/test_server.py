"""The server on a laptop: tokens, bounds, and what it hands to the function."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from braid.api.handler import make_handler
from braid.api.problems import Problem
from braid.errors import StoresUnavailable
from braid.ports.members import Membership as Member
from braid.ports.members import Role
from braid.settings import Membership, Settings

from braid_cli.http_server import server as http_server
from braid_cli.http_server import startup_links
from braid_cli.http_server.server import Bounds, Server, development_token
from braid_cli.http_server.startup_links import ask_once
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from braid.models import Query

KEY = b"k" * 32
NOW = 1_700_000_000.0
TOKEN = development_token("acme", key=KEY, now=NOW)
Given = dict[str, Any]


class Recorder:
    """A handler that keeps what it is given, and answers when it is let."""

    def __init__(self) -> None:
        self.events: list[Given] = []
        self.began = threading.Semaphore(0)
        self.may_answer = threading.Event()
        self.may_answer.set()

    def __call__(self, event: Given, _context: Any) -> Given:
        self.events.append(event)
        self.began.release()
        assert self.may_answer.wait(20)
        return {"statusCode": 200, "headers": {"Content-Type": "application/json"}, "body": '"ä"'}


@pytest.fixture
def handler() -> Recorder:
    return Recorder()


@pytest.fixture
def server(handler: Recorder) -> Iterator[Server]:
    server = Server(handler, key=KEY, bounds=Bounds(at_once=2, per_tenant=1, body_bytes=100), clock=lambda: NOW)
    yield server
    handler.may_answer.set()
    server.close()


async def send(
    server: Server,
    path: str = "/search",
    *,
    body: Sequence[bytes] = (b"{}",),
    token: str | None = TOKEN,
    headers: dict[str, str] | None = None,
    query: str = "",
    method: str = "POST",
) -> tuple[int, dict[str, str], bytes]:
    """Send one request in parts, and return status, headers and body."""
    given = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "state": {},
    }
    parts = [
        {"type": "http.request", "body": part, "more_body": index + 1 < len(body)} for index, part in enumerate(body)
    ]
    sent: list[Given] = []

    async def receive() -> Given:
        return parts.pop(0)

    async def keep(message: Any) -> None:
        sent.append(message)

    await server(scope, receive, keep)
    start, end = sent
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, end["body"]


def test_a_request_reaches_the_function_as_api_gateway_would_send_it(server: Server, handler: Recorder) -> None:
    headers = {"Content-Type": "application/json", "X-Two": "a"}
    status, answered, body = asyncio.run(
        send(server, "/entities/a#b", body=[b'{"a":', b"1}"], headers=headers, query="types=A&types=B&x=%20y")
    )
    assert (status, body) == (200, '"ä"'.encode())
    assert answered["content-length"] == str(len(body))
    (event,) = handler.events
    assert event["rawPath"] == "/entities/a#b"
    assert event["queryStringParameters"] == {"types": "A,B", "x": " y"}
    assert event["headers"]["content-type"] == "application/json"
    assert (event["body"], event["isBase64Encoded"]) == ('{"a":1}', False)
    assert event["requestContext"]["authorizer"]["jwt"]["claims"] == {"sub": "developer-acme", "tenant_id": "acme"}


def test_a_body_that_is_no_text_is_handed_over_as_base64(server: Server, handler: Recorder) -> None:
    asyncio.run(send(server, body=[b"\xff\xfe"]))
    assert (handler.events[0]["body"], handler.events[0]["isBase64Encoded"]) == ("//4=", True)


JSON = {"Content-Type": "application/json"}
EXPIRED = development_token("acme", key=KEY, now=NOW - 13 * 3_600)
CHANGED = ("B" if TOKEN[0] == "A" else "A") + TOKEN[1:]
OTHERS = development_token("acme", key=b"o" * 32, now=NOW)


@pytest.mark.parametrize(
    "token",
    [
        None,
        "",
        "x",
        TOKEN[:-2],
        CHANGED,
        TOKEN + "AAAA",
        EXPIRED,
        OTHERS,
        "ü",
        "e30.e30.e30",
        "A" * 5_000,
    ],
    ids=["none", "empty", "short", "cut", "changed", "longer", "expired", "of another key", "unicode", "jwt", "huge"],
)
def test_a_token_that_is_not_ours_or_no_longer_holds_says_nothing_of_who_asks(
    server: Server, handler: Recorder, token: str | None
) -> None:
    asyncio.run(send(server, headers={} if token is None else {"Authorization": f"Bearer {token}"}, token=None))
    assert "authorizer" not in handler.events[0]["requestContext"]


def test_no_change_of_one_character_makes_another_token(server: Server, handler: Recorder) -> None:
    async def all_of_them() -> None:
        for place in range(0, len(TOKEN) - 1, 7):
            changed = TOKEN[:place] + ("A" if TOKEN[place] != "A" else "B") + TOKEN[place + 1 :]
            await send(server, token=changed)

    asyncio.run(all_of_them())
    assert handler.events
    assert not any("authorizer" in event["requestContext"] for event in handler.events)


def test_a_body_too_long_is_refused_by_its_length_and_by_its_bytes_and_never_handed_on(
    server: Server, handler: Recorder
) -> None:
    for options in ({"headers": {"content-length": "101"}}, {"body": [b"x" * 60, b"x" * 60]}):
        status, headers, body = asyncio.run(send(server, **options))  # type: ignore[arg-type]
        assert (status, headers["connection"]) == (413, "close")
        assert json.loads(body)["type"] == "urn:braid:problem:too-large"
    assert handler.events == []


def test_a_body_that_does_not_arrive_is_not_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("braid_cli.http_server.server.READ_TIMEOUT_S", 0.01)

    async def never() -> int:
        sent: list[Given] = []

        async def receive() -> Given:
            await asyncio.Event().wait()
            return {}

        async def keep(message: Any) -> None:
            sent.append(message)

        scope: Given = {"type": "http", "method": "POST", "path": "/search", "query_string": b"", "state": {}}
        scope["headers"] = [(b"authorization", f"Bearer {TOKEN}".encode())]
        await server(scope, receive, keep)
        return int(sent[0]["status"])

    assert asyncio.run(never()) == 408


def test_more_at_once_than_it_takes_on_is_refused_without_waiting(server: Server, handler: Recorder) -> None:
    other = development_token("other", key=KEY, now=NOW)
    third = development_token("third", key=KEY, now=NOW)

    async def crowd() -> list[tuple[int, dict[str, str], bytes]]:
        handler.may_answer.clear()
        first = asyncio.create_task(send(server))
        await asyncio.to_thread(handler.began.acquire)
        same_tenant = await send(server)
        second = asyncio.create_task(send(server, token=other))
        await asyncio.to_thread(handler.began.acquire)
        too_many = await send(server, token=third)
        handler.may_answer.set()
        answers = [same_tenant, too_many, await first, await second]
        return [*answers, await send(server)]

    same_tenant, too_many, *answered = asyncio.run(crowd())
    assert (same_tenant[0], same_tenant[1]["retry-after"]) == (429, "1")
    assert (too_many[0], too_many[1]["retry-after"]) == (503, "1")
    assert [answer[0] for answer in answered] == [200, 200, 200]


def test_the_places_that_one_tenant_leaves_are_not_all_taken_by_a_second(handler: Recorder) -> None:
    server = Server(handler, key=KEY, bounds=Bounds(at_once=16, per_tenant=12), clock=lambda: NOW)

    def take(tenant_id: str) -> contextlib.ExitStack | int:
        with contextlib.ExitStack() as taking:
            try:
                taking.enter_context(server._places(tenant_id, 1))
            except Problem as refused:
                return refused.status
            return taking.pop_all()

    def take_all(tenant_id: str) -> list[contextlib.ExitStack]:
        return [taken for taken in (take(tenant_id) for _ in range(16)) if isinstance(taken, contextlib.ExitStack)]

    held = {name: take_all(name) for name in ("first", "second", "third", "fourth")}
    assert [len(taken) for taken in held.values()] == [12, 2, 1, 1]
    assert take("fifth") == 503, "what is answered already goes on"
    for name in ("third", "fourth", "first", "first", "first"):
        held[name].pop().close()
    held["second"] += take_all("second")
    assert (len(held["first"]), len(held["second"])) == (9, 5)
    held["first"].pop().close()
    assert take("first") == 429
    held["third"] += take_all("third")
    assert len(held["third"]) == 1
    for taken in (one for each in held.values() for one in each):
        taken.close()
    server.close()


def test_a_long_body_takes_several_of_its_tenants_places_and_none_of_anothers(
    handler: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "PLACE_BYTES", 10)
    server = Server(handler, key=KEY, bounds=Bounds(at_once=4, per_tenant=3, body_bytes=100), clock=lambda: NOW)
    other = development_token("other", key=KEY, now=NOW)

    async def crowd() -> list[int]:
        handler.may_answer.clear()
        held = [asyncio.create_task(send(server, body=[b"x" * 19])), asyncio.create_task(send(server))]
        held.append(asyncio.create_task(send(server, body=[b"x" * 100], token=other)))
        for _ in held:
            await asyncio.to_thread(handler.began.acquire)
        refused = await send(server)
        handler.may_answer.set()
        answered = [await one for one in held]
        return [one[0] for one in (refused, *answered, await send(server, body=[b"x" * 100]))]

    try:
        assert asyncio.run(crowd()) == [429, 200, 200, 200, 200]
    finally:
        handler.may_answer.set()
        server.close()


def test_whether_it_lives_can_be_asked_while_it_is_busy(server: Server, handler: Recorder) -> None:
    async def crowd() -> int:
        handler.may_answer.clear()
        others = [development_token(name, key=KEY, now=NOW) for name in ("a", "b")]
        tasks = [asyncio.create_task(send(server, token=token)) for token in others]
        for _ in tasks:
            await asyncio.to_thread(handler.began.acquire)
        health = asyncio.create_task(send(server, "/health", method="GET", body=[b""]))
        await asyncio.to_thread(handler.began.acquire)
        handler.may_answer.set()
        await asyncio.gather(*tasks)
        return (await health)[0]

    assert asyncio.run(crowd()) == 200


def test_a_reader_reads_records_and_changes_none(tmp_path: Path) -> None:
    stages = DemoStages(Settings(home=tmp_path, membership=Membership.STORE))
    stages.members.add(Member(subject="user:developer-acme", tenant_id="acme", role=Role.READER))
    server = Server(make_handler(stages), key=KEY, clock=lambda: NOW)
    try:
        paths = ("/records:read", "/records:delete")
        asked = [asyncio.run(send(server, path, body=[b'{"ids": ["a"]}'], headers=JSON))[0] for path in paths]
        assert asked == [200, 403]
    finally:
        server.close()
        stages.close()


def test_each_tenant_has_been_asked_before_its_link_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = DemoStages(Settings(home=tmp_path))

    def fail() -> None:
        message = "none answers"
        raise StoresUnavailable(message)

    try:
        ask_once(stages, ["ours", "theirs"])
        assert (stages.calls["embed"], stages.calls["vector_search"], stages.calls["fuse_rerank"]) == (2, 2, 2)
        assert capsys.readouterr().err == ""
        stages.faults = {"vector_search": fail, "graph_expand": fail}
        ask_once(stages, ["ours"])
        assert capsys.readouterr().err.startswith("braid: ours: cannot be asked: ")
    finally:
        stages.close()


def test_a_tenant_whose_first_question_takes_minutes_keeps_no_other_from_being_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup_links, "WARM_UP_S", 0.01)
    goes_on, stages = threading.Event(), DemoStages(Settings(home=tmp_path))
    asked: list[str] = []

    def take_minutes(query: Query) -> None:
        assert goes_on.wait(60)
        asked.append(query.tenant_id)

    monkeypatch.setattr(stages, "retrieve", take_minutes)
    ask_once(stages, ["ours", "theirs"])
    assert asked == []
    goes_on.set()
    (warming,) = (thread for thread in threading.enumerate() if thread.name == "braid-warm-up")
    warming.join(60)
    assert asked == ["ours", "theirs"]
    stages.close()


class Elsewhere:
    """Worker processes that answer, or none that can."""

    def __init__(self, *processes: int) -> None:
        self.processes = processes
        self.count = len(processes)
        self.events: list[Given] = []

    async def answer(self, event: Given) -> tuple[Given, float]:
        self.events.append(event)
        return {"statusCode": 200, "headers": {}, "body": '"elsewhere"'}, 0.0


def test_processes_answer_whoever_has_a_token_and_the_server_itself_all_others(handler: Recorder) -> None:
    workers = Elsewhere(17)
    server = Server(handler, key=KEY, clock=lambda: NOW, workers=workers)  # type: ignore[arg-type]
    assert asyncio.run(send(server))[2] == b'"elsewhere"'
    assert asyncio.run(send(server, "/search", token=None))[2] == '"ä"'.encode()
    assert asyncio.run(send(server, "/health", method="GET"))[0] == 200
    assert [event["rawPath"] for event in workers.events] == ["/search"]
    workers.processes = ()
    assert asyncio.run(send(server, "/health", method="GET"))[0] == 503
    server.close()
