"""The processes of ``braid serve``: which of them answers what, and that each request is answered."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from braid.api.handler import make_api
from braid.settings import Settings

from braid_cli.http_server import worker_process, workers
from braid_cli.http_server.fair_shares import HEAVY_S
from braid_cli.http_server.worker_protocol import (
    LENGTH,
    PING,
    PONG,
    READY,
    Start,
    framed,
    framed_answer,
    read_frame,
    with_body,
)
from braid_cli.http_server.workers import Workers
from tests.stages import DemoStages

if TYPE_CHECKING:
    from pathlib import Path

Given = dict[str, Any]


class OneWorker:
    """A process that notes what it is asked."""

    def __init__(self) -> None:
        self.ready = True
        self.load = 0
        self.events: list[Given] = []

    async def answer(self, event: Given) -> tuple[Given, float]:
        self.load += 1
        self.events.append(event)
        return {}, 0.0


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> tuple[Workers, list[OneWorker]]:
    made: list[OneWorker] = []

    def make() -> OneWorker:
        made.append(OneWorker())
        return made[-1]

    monkeypatch.setattr(workers, "_Worker", make)
    return Workers(3, at_once=8), made


def ask(some: Workers, method: str, path: str) -> None:
    asyncio.run(some.answer({"requestContext": {"http": {"method": method, "path": path}}}))


def test_all_that_writes_goes_to_one_process_and_questions_to_the_one_with_the_least_to_do(
    three: tuple[Workers, list[OneWorker]],
) -> None:
    some, made = three
    for path in ("/records", "/records:delete", "/documents", "/records:import", "/records\n", "/whatever"):
        ask(some, "POST", path)
    ask(some, "DELETE", "/records/a")
    assert [len(worker.events) for worker in made] == [7, 0, 0]
    for method, path in (("POST", "/search"), ("GET", "/records"), ("POST", "/context"), ("GET", "/entities/a")):
        ask(some, method, path)
    assert [len(worker.events) for worker in made] == [7, 2, 2]


def test_a_question_goes_to_the_process_that_writes_only_where_the_others_have_more_to_do(
    three: tuple[Workers, list[OneWorker]],
) -> None:
    some, made = three
    counts = []
    for _ in range(4):
        ask(some, "POST", "/search")
        counts.append([worker.load for worker in made])
    assert counts == [[0, 1, 0], [0, 1, 1], [1, 1, 1], [1, 2, 1]]


def test_another_process_writes_once_the_one_that_wrote_has_ended_and_goes_on_when_it_is_back(
    three: tuple[Workers, list[OneWorker]],
) -> None:
    some, made = three
    made[0].ready = False
    ask(some, "POST", "/records")
    made[0].ready = True
    ask(some, "POST", "/records:import")
    assert [len(worker.events) for worker in made] == [0, 2, 0]


def test_no_operation_that_writes_counts_as_a_question(tmp_path: Path) -> None:
    stages = DemoStages(Settings(home=tmp_path))
    try:
        api = make_api(stages)
        for path in workers.QUESTIONS:
            assert "POST" in api.methods(path)
            assert not api.is_for_writers("POST", path)
    finally:
        stages.close()


def test_a_request_that_fails_unforeseen_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    # Else it kept its place, and a tenant that knew such a request all of the server's.
    class Panic(BaseException):
        """As native code raises it."""

    def panic(_event: Given, _context: object) -> Given:
        raise Panic

    monkeypatch.setattr(worker_process, "END_S", 3_600.0)
    monkeypatch.setattr(worker_process, "ask_once", lambda *_: None)
    monkeypatch.setattr(worker_process, "make_handler", lambda _library: panic)
    ours, theirs = socket.socketpair()
    ours.settimeout(30)
    start = Start(tenants=[], at_once=1, cursor_key="00" * 32)
    with ours, theirs, theirs.makefile("rb") as given, ours.makefile("rb") as answers:
        thread = threading.Thread(target=worker_process._answer, args=(start, theirs, given), daemon=True)
        thread.start()
        assert read_frame(answers) == READY
        ours.sendall(framed([7, {}]))
        number, answer, _seconds = read_frame(answers)
        body = read_frame(answers)
        ours.shutdown(socket.SHUT_WR)
        thread.join(30)
    assert (number, answer["statusCode"], body["status"]) == (7, 500, 500)


def test_a_body_comes_behind_its_answer_as_it_was() -> None:
    answer = {"statusCode": 200, "headers": {}, "body": json.dumps("ä\ud800 \n") + "\ud800 ∎"}
    sent = io.BytesIO(framed_answer(7, answer, 0.5))
    number, rest, seconds = read_frame(sent)
    size = LENGTH.unpack(sent.read(LENGTH.size))[0]
    assert (number, seconds, with_body(rest, sent.read(size))) == (7, 0.5, answer)
    assert sent.read() == b""


STOPS = "os.kill(os.getpid(), signal.SIGSTOP)"
SENDS = "server.sendall({!r}); server.recv(1); time.sleep(60)"


@pytest.mark.parametrize(
    "does",
    [
        STOPS,
        SENDS.format(b"\x00\x00\x00\x05hello"),
        SENDS.format(b"\x00\x00\x00\x017"),
        SENDS.format(b"\x00\x00\x00\x02[]"),
        f"server.sendall({LENGTH.pack(9) + b'[1'!r}); {STOPS}",
        f"server.sendall({LENGTH.pack(9) + b'[1'!r}); sys.exit()",
    ],
    ids=["stops", "no JSON", "a number", "a list of nothing", "half a frame", "half a frame at its end"],
)
def test_a_process_that_says_nothing_more_is_replaced_and_what_it_was_asked_fails(
    monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def make() -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        script = f"import os, signal, socket, sys, time; server = socket.socket(fileno=0); server.recv(9); {does}"
        with theirs:
            theirs.sendall(framed(READY))
            started.append(subprocess.Popen([sys.executable, "-c", script], stdin=theirs))  # noqa: S603 - this interpreter
        ours.setblocking(False)
        return started[-1], ours

    async def run(worker: workers._Worker) -> None:
        watching = [asyncio.create_task(worker.watch()), asyncio.create_task(worker.ping())]
        while not worker.ready:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
        # More than the socket takes at once: it is sent in part.
        asked = [worker.answer({"body": "x" * 2_000_000}) for _ in range(3)]
        answers = await asyncio.gather(*asked)
        assert [answer["statusCode"] for answer, _ in answers] == [503] * 3
        # All of them, or those that it had for long when it ended.
        assert max(seconds for _, seconds in answers) > HEAVY_S, "it costs no less than a heavy question"
        while len(started) == 1 or not worker.ready:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        for task in watching:
            task.cancel()

    monkeypatch.setattr(workers, "_process", make)
    monkeypatch.setattr(workers, "RESTART_S", 0.01)
    monkeypatch.setattr(workers, "PING_S", 0.1)
    try:
        asyncio.run(asyncio.wait_for(run(workers._Worker()), 30))
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_of_what_an_ended_process_was_asked_that_is_charged_which_it_had_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(workers, "_process", lambda: (process, ours))

    async def run() -> list[float]:
        worker = workers._Worker()
        _, worker._sent = await asyncio.open_connection(sock=ours)
        monkeypatch.setattr(workers, "SLOW_S", 0.0)
        slow = asyncio.create_task(worker.answer({}))
        while worker.load <= 1:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.001)
        monkeypatch.setattr(workers, "SLOW_S", 60.0)
        quick = asyncio.create_task(worker.answer({}))
        await asyncio.sleep(0)
        worker._end()
        charged = [seconds for _, seconds in await asyncio.gather(slow, quick)]
        worker._sent.close()
        return charged

    with theirs, process:
        assert asyncio.run(run()) == [workers.CHARGED_S, 0.0]


def test_a_process_that_is_asked_nothing_but_whether_it_lives_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def make() -> tuple[subprocess.Popen[bytes], socket.socket]:
        ours, theirs = socket.socketpair()
        answers = f"while server.recv({len(framed(PING))}): server.sendall({framed(PONG)!r})"
        script = f"import socket\nserver = socket.socket(fileno=0)\nserver.sendall({framed(READY)!r})\n{answers}"
        with theirs:
            started.append(subprocess.Popen([sys.executable, "-c", script], stdin=theirs))  # noqa: S603 - this interpreter
        return started[-1], ours

    async def run(worker: workers._Worker) -> None:
        watching = [asyncio.create_task(worker.watch()), asyncio.create_task(worker.ping())]
        while worker._heard < 2 * workers.UNHEARD:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
        for task in watching:
            task.cancel()

    monkeypatch.setattr(workers, "_process", make)
    monkeypatch.setattr(workers, "RESTART_S", 0.01)
    monkeypatch.setattr(workers, "PING_S", 0.1)
    worker = workers._Worker()
    worker.wait()
    try:
        asyncio.run(asyncio.wait_for(run(worker), 30))
        assert len(started) == 1
    finally:
        for process in started:
            process.kill()
            process.wait()
