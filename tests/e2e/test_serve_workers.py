"""``braid serve --workers``: several processes answer as one would, and live and end with the server."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
import pytest

from tests.e2e.conftest import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WORKERS = 2
TENANT = "saltmarrow"
AT_ONCE = 6
"""Requests that are sent at once, so that each process gets some."""


class Answered(NamedTuple):
    """A status and the answer's JSON."""

    status: int
    body: Any


def runs(process: psutil.Process) -> bool:
    """Whether a process has not ended; it may do so while it is asked."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Running:
    """A server, and a client of it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        said = json.loads(process.stdout.readline())
        self.process, self.url, self.token = process, said["url"], said["tokens"][TENANT]

    def workers(self) -> list[psutil.Process]:
        return [child for child in psutil.Process(self.process.pid).children() if runs(child)]

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answered:
        given = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **headers}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, given, method=method)  # noqa: S310 - our own server
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - our own server
                return Answered(answer.status, json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return Answered(error.code, json.load(error))

    def ask_at_once(self, ask: Callable[[int], Answered], times: int = AT_ONCE) -> list[Answered]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(ask, range(times)))


@contextmanager
def serving(home: Path, **more: str) -> Iterator[Running]:
    command = [sys.executable, "-m", "braid_cli.main", "serve", "--port", "0", "--json", "--workers", str(WORKERS)]
    process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
        [*command, "--tenant", TENANT],
        cwd=ROOT,
        env=environment(home, **more),
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        yield Running(process)
    finally:
        process.terminate()
        process.communicate(timeout=30)


@pytest.fixture(scope="module")
def own_home(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the home, to write into."""
    return shutil.copytree(home, tmp_path_factory.mktemp("workers") / "home")


@pytest.fixture(scope="module")
def server(own_home: Path) -> Iterator[Running]:
    with serving(own_home) as running:
        yield running


def test_what_one_process_wrote_all_answer_with(server: Running) -> None:
    assert len(server.workers()) == WORKERS
    before = {worker.pid: sum(worker.cpu_times()[:2]) for worker in server.workers()}
    note = {"id": "note-ferry", "content": "The tangerine ferry was repainted by Odalys."}
    assert server.ask("POST", "/records", {"records": [note]}).status == 200
    question = {"text": "Who repainted the tangerine ferry?"}
    found = server.ask_at_once(lambda _: server.ask("POST", "/search", question), 18)
    assert [one.body["results"][0]["id"] for one in found] == ["note-ferry"] * 18
    assert all(sum(worker.cpu_times()[:2]) > before[worker.pid] for worker in server.workers()), "one did all the work"


def test_a_page_of_one_process_goes_on_in_another(server: Running) -> None:
    first = server.ask("GET", "/records?limit=1")
    answers = server.ask_at_once(lambda _: server.ask("GET", f"/records?limit=1&after={first.body['next']}"), 12)
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body["records"][0]["id"] for answer in answers}) == 1


def test_an_idempotency_key_is_used_once_whichever_process_gets_it(server: Running, own_home: Path) -> None:
    def audited() -> int:
        log = own_home / "audit.jsonl"
        return log.read_text(encoding="utf-8").count('"event": "write"') if log.exists() else 0

    body, before = {"records": [{"id": "once", "content": "Written under one key."}]}, audited()
    answers = server.ask_at_once(lambda _: server.ask("POST", "/records", body, **{"Idempotency-Key": "k1"}), 12)
    assert {answer.status for answer in answers} <= {200, 409}
    assert len({json.dumps(answer.body) for answer in answers if answer.status == 200}) == 1
    assert audited() - before == 12, "each is in the log, of whichever process"


def test_an_import_is_found_by_all_of_them(server: Running) -> None:
    text = base64.b64encode(b"# Ferry\n\nThe ferry leaves at nine.").decode()
    begun = server.ask("POST", "/documents", {"name": "ferry.md", "content": text})
    assert begun.status == 202
    path, until = f"/imports/{begun.body['id']}", time.monotonic() + 60
    states: set[str] = set()
    while states != {"written"}:
        assert time.monotonic() < until
        found = server.ask_at_once(lambda _: server.ask("GET", path))
        assert {answer.status for answer in found} == {200}
        states = {answer.body["status"] for answer in found}
        assert states <= {"running", "written"}


def test_a_quota_counts_what_all_of_them_answered_and_one_that_dies_is_replaced(own_home: Path) -> None:
    with serving(own_home, BRAID_QUOTA_WRITES_PER_MINUTE="3") as server:

        def write(number: int) -> Answered:
            return server.ask("POST", "/records", {"records": [{"id": f"n{number}", "content": f"Note {number}."}]})

        def search(number: int) -> Answered:
            return server.ask("POST", "/search", {"text": f"Who runs pier {number}?"})

        began = time.monotonic()
        statuses = Counter(answer.status for answer in server.ask_at_once(write, 12))
        assert time.monotonic() - began < 55
        assert statuses[200] in range(3, 7), "a new minute may have begun meanwhile, and gives as many again"
        assert statuses[429] == 12 - statuses[200]

        killed, other = server.workers()
        killed.kill()
        while len(server.workers()) == WORKERS and killed in server.workers():
            assert time.monotonic() - began < 100
        meanwhile = Counter(answer.status for answer in server.ask_at_once(search))
        assert meanwhile[200]
        assert meanwhile.total() == meanwhile[200] + meanwhile[503]
        while len(server.workers()) < WORKERS:
            assert time.monotonic() - began < 200
            time.sleep(0.05)
        assert other in server.workers()
        assert {answer.status for answer in server.ask_at_once(search)} == {200}


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_they_end_with_the_server_however_it_ends(own_home: Path, sent: signal.Signals) -> None:
    with serving(own_home) as server:
        workers = server.workers()
        os.kill(server.process.pid, sent)
        server.process.wait(30)
        assert not psutil.wait_procs(workers, timeout=30)[1]
