"""One Idempotency-Key sent many times at once, on both engines' caches."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from braid.api import idempotency
from braid.engines.aws.dynamodb_cache import DynamoCache
from braid.ports.cache import ResilientCache
from braid.ports.members import Membership as Member
from braid.ports.members import Role
from braid.settings import Membership, Settings
from moto import mock_aws

from tests.contract.shapes import Clock
from tests.dynamo_table import cache_table
from tests.front_door import FrontDoor, claims
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

    from braid.ports.ingestion import ImportAsked

KEY = {"idempotency-key": "k1"}
LINE = b'{"record": {"id": "late", "content": "Beacon was late."}}\n'
RECORD = {"records": [{"id": "note-1", "content": "Beacon was slow again."}]}


@pytest.fixture(params=["embedded", "dynamodb"])
def library(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStages]:
    """Embedded stores, with either engine's cache."""
    stages = demo_stages(tmp_path)
    if request.param == "embedded":
        yield stages
        stages.close()
        return
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    with mock_aws():
        stages.cache = ResilientCache(DynamoCache(cache_table("cache"), "cache"))
        yield stages
    stages.close()


class Counted:
    """Counts calls of an import or a write, each of which lasts until every request has come."""

    def __init__(self, do: Any, requests: int) -> None:
        self.do, self.calls = do, 0
        self.refused = threading.Semaphore(0)
        self.requests = requests
        self.lock = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        with self.lock:
            self.calls += 1
        for _ in range(self.requests - 1):
            self.refused.acquire(timeout=5)
        return self.do(*arguments)


def _at_once(door: FrontDoor, counted: Counted, path: str, body: dict[str, Any]) -> list[Any]:
    def ask(_: int) -> Any:
        answered = door.ask("POST", path, body, headers=KEY)
        counted.refused.release()
        return answered

    with ThreadPoolExecutor(counted.requests) as pool:
        return list(pool.map(ask, range(counted.requests)))


def test_eight_imports_at_once_under_one_key_start_one(library: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    library.objects.put("saltmarrow", "late/a.jsonl", LINE)
    started: list[str] = []
    start = library.imports.start

    def begin(tenant_id: str, import_id: str, asked: ImportAsked) -> None:
        started.append(import_id)
        start(tenant_id, import_id, asked)

    counted = Counted(begin, 8)
    monkeypatch.setattr(library.imports, "start", counted)
    door = FrontDoor(library)
    answers = _at_once(door, counted, "/records:import", {"key": "late/a.jsonl"})
    assert counted.calls == len(started) == 1
    assert sorted(answered.status for answered in answers) == [202, *[409] * 7]
    refused = next(answered for answered in answers if answered.status == 409)
    assert (refused.problem, refused.headers["Retry-After"]) == ("idempotency-key-in-progress", "1")
    again = door.ask("POST", "/records:import", {"key": "late/a.jsonl"}, headers=KEY)
    assert (again.status, again.json()["id"]) == (202, started[0])
    assert len(started) == 1


def test_eight_writes_at_once_under_one_key_write_once(library: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Counted(library.write, 8)
    monkeypatch.setattr(library, "write", counted)
    door = FrontDoor(library)
    answers = _at_once(door, counted, "/records", RECORD)
    assert counted.calls == 1
    assert sorted(answered.status for answered in answers) == [200, *[409] * 7]
    (written,) = [answered for answered in answers if answered.status == 200]
    assert door.ask("POST", "/records", RECORD, headers=KEY).json() == written.json()
    assert counted.calls == 1


def test_another_request_under_a_key_that_is_in_use_is_refused_as_another(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, refused = FrontDoor(library), list[str]()
    write = library.write

    def during(request: Any) -> Any:
        other = {"records": [{"id": "note-2", "content": "Something else."}]}
        refused.append(door.ask("POST", "/records", other, headers=KEY).problem)
        return write(request)

    monkeypatch.setattr(library, "write", during)
    assert door.ask("POST", "/records", RECORD, headers=KEY).status == 200
    assert refused == ["idempotency-key-reused"]


def test_a_request_that_failed_leaves_its_key_free(library: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    write, calls = library.write, list[int]()

    def fails_once(request: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            message = "by accident"
            raise RuntimeError(message)
        return write(request)

    monkeypatch.setattr(library, "write", fails_once)
    door = FrontDoor(library)
    assert door.ask("POST", "/records", RECORD, headers=KEY).status == 500
    assert door.ask("POST", "/records", RECORD, headers=KEY).status == 200
    assert len(calls) == 2


def test_a_process_that_ended_in_between_holds_the_key_for_a_minute_and_no_longer(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    cache: Any = library.cache._cache
    monkeypatch.setattr(cache, "_clock", clock.seconds if isinstance(cache, DynamoCache) else clock.now)
    exchange = library.cache.exchange
    monkeypatch.setattr(library.cache, "exchange", lambda *given: exchange(*given) if given[2] is None else given[2])
    monkeypatch.setattr(library, "write", _end)
    with pytest.raises(SystemExit):  # neither the answer nor the end of the claim is kept
        FrontDoor(library).ask("POST", "/records", RECORD, headers=KEY)
    monkeypatch.undo()
    monkeypatch.setattr(cache, "_clock", clock.seconds if isinstance(cache, DynamoCache) else clock.now)
    door = FrontDoor(library)
    assert door.ask("POST", "/records", RECORD, headers=KEY).problem == "idempotency-key-in-progress"
    clock.advance(idempotency.CLAIM_S)
    assert door.ask("POST", "/records", RECORD, headers=KEY).status == 200


def _end(_: Any) -> Any:
    raise SystemExit


@pytest.mark.parametrize("damaged", [b"5", b"[1]", b"[" * 100_000], ids=["number", "short", "deep"])
def test_what_cannot_be_read_under_a_key_is_taken_over(library: DemoStages, damaged: bytes) -> None:
    place = f"once/{hashlib.sha256(KEY['idempotency-key'].encode()).hexdigest()}"
    library.cache.put("saltmarrow", place, damaged, 60)
    answers = [FrontDoor(library).ask("POST", "/records", RECORD, headers=KEY) for _ in range(2)]
    assert [answered.json()["written"] for answered in answers] == [1, 1]


def test_a_claim_whose_answer_is_lost_and_that_is_sent_again_keeps_nobody_out(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, sent = library.cache.exchange, list[object]()

    def sent_again(*given: Any) -> Any:
        if not sent:
            sent.append(exchange(*given))
        return exchange(*given)

    monkeypatch.setattr(library.cache, "exchange", sent_again)
    answers = [FrontDoor(library).ask("POST", "/records", RECORD, headers=KEY) for _ in range(2)]
    assert [(answered.status, answered.json()["written"]) for answered in answers] == [(200, 1), (200, 1)]


def test_a_lost_cache_makes_a_repeated_request_a_repeated_write_and_no_error(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library.cache, "_ask", lambda _: None)
    door = FrontDoor(library)
    for _ in range(2):
        assert door.ask("POST", "/records", RECORD, headers=KEY).status == 200


def test_the_same_written_twice_at_once_without_a_key_is_counted_once(tmp_path: Path) -> None:
    items = {
        "vertices": [{"id": f"v{number}", "name": f"Beacon {number}"} for number in range(30)],
        "relationships": [{"source": f"v{number}", "type": "SEES", "target": f"v{number + 1}"} for number in range(29)],
    }
    with closing(DemoStages(Settings(home=tmp_path))) as stages, ThreadPoolExecutor(4) as pool:
        door = FrontDoor(stages)
        asked = pool.map(lambda _: door.ask("POST", "/records", items).status, range(4))
        assert list(asked) == [200] * 4
        counted = stages.graph.stats("saltmarrow")
        assert (counted.vertices, counted.edges) == (30, 29)
        gone = pool.map(lambda _: door.ask("POST", "/records:delete", {"ids": ["v0", "v1", "v2"]}).status, range(4))
        assert list(gone) == [200] * 4
        counted = stages.graph.stats("saltmarrow")
        assert (counted.vertices, counted.edges) == (27, 26)


def test_a_key_of_another_tenant_is_another_key(library: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    door, asked = FrontDoor(library), {"records": [{"id": "theirs", "content": "The ferry was late."}]}
    counted = Counted(library.write, 1)
    monkeypatch.setattr(library, "write", counted)
    tenants = ("saltmarrow", "wrenfield", "saltmarrow|once")
    answers = [door.ask("POST", "/records", asked, headers=KEY, authorizer=claims(tenant)) for tenant in tenants]
    assert [answered.status for answered in answers] == [200, 200, 403]
    assert counted.calls == 2
    other = door.ask("POST", "/records", RECORD, headers=KEY, authorizer=claims("wrenfield"))
    assert (other.status, other.problem) == (422, "idempotency-key-reused")
    assert door.ask("POST", "/records", RECORD, headers=KEY, authorizer=claims("pellworth")).status == 200
    assert library.index.stats("wrenfield").records == 1


def test_who_may_only_ask_gets_nobodys_answer_by_its_key(library: DemoStages) -> None:
    door = FrontDoor(library)
    written = door.ask("POST", "/records", RECORD, headers=KEY)
    assert written.status == 200
    library.settings = library.settings.model_copy(update={"membership": Membership.STORE})
    library.members.add(Member(subject="user:ada", tenant_id="saltmarrow", role=Role.READER))
    refused = FrontDoor(library).ask("POST", "/records", RECORD, headers=KEY)
    assert (refused.status, written.json()["written"]) == (403, 1)
