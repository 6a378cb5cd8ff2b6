"""A request ends by its deadline, the work behind it stops, and neighbours hardly notice."""

from __future__ import annotations

import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from braid import deadline
from braid.deadline import Locks
from braid.engines.embedded.graph import adjacency
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.search import row_reads
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import StoreTooSlow
from braid.ingestion import record_vectors
from braid.models import Record, Relationship, Vertex
from braid.ports.search_index import SearchRequest
from braid.settings import EngineKind, Settings
from braid.understanding import encoder_windows

from tests.contract.shapes import AS_OF
from tests.front_door import FrontDoor, claims
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from braid.engines.embedded.graph.adjacency import Adjacency
    from braid.models import Embedding
    from braid.ports.encoder import Encoder

HEAVY, QUIET = "saltmarrow", "pellworth"
DENSE = 220
BOUND_S = 0.4
SLACK_S = 6.0
"""For a machine with other work to do; without a bound the walks below take many times as long."""
PATIENT_S = 3.0
"""What a question has beside six that walk, on a machine with other work: a seventh of a core."""
WALK: dict[str, Any] = {
    "start": {"entity_types": ["Concept"]},
    "steps": [{"direction": "both"}] * 5,
    "returns": "paths",
    "limit": 200,
    "fan_out": 200,
}


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    home = tmp_path_factory.mktemp("deadlines")
    stages = DemoStages(Settings(home=home, embedded_question_s=BOUND_S).uncached())
    names = [f"v{number:03}" for number in range(DENSE)]
    vertices = [Vertex(id=name, tenant_id=HEAVY, name=f"Heron {name}", has_record=True) for name in names]
    edges = [
        Relationship(tenant_id=HEAVY, source=one, type="KNOWS", target=other)
        for place, one in enumerate(names)
        for other in names[place + 1 :]
    ]
    stages.graph.upsert(vertices, edges)
    for tenant in (HEAVY, QUIET):
        stages.index.upsert([Record(id=name, tenant_id=tenant, content=f"Heron {name}") for name in names[:30]])
    stages.graph.upsert(
        [Vertex(id=name, tenant_id=QUIET, name=name) for name in ("a", "b")],
        [Relationship(tenant_id=QUIET, source="a", type="KNOWS", target="b")],
    )
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def door(stages: DemoStages) -> FrontDoor:
    return FrontDoor(stages)


def test_a_heavy_walk_is_ended_and_said_to_have_taken_too_long(door: FrontDoor) -> None:
    begun = time.monotonic()
    answered = door.ask("POST", "/graph/query", WALK)
    assert (answered.status, answered.problem) == (504, "timeout")
    assert time.monotonic() - begun < BOUND_S + SLACK_S


def test_a_question_whose_walk_is_ended_is_answered_without_it(
    stages: DemoStages, door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages.graph, "_question_s", 1e-6)
    answered = door.ask("POST", "/search", {"text": "What about Heron v001?"}).json()
    assert "graph_expand" in answered["degraded"] or "link" in answered["degraded"]
    assert answered["results"]


def test_a_question_whose_search_is_ended_is_answered_without_it(
    stages: DemoStages, door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages.index, "_question_s", 1e-6)
    monkeypatch.setattr("braid.engines.embedded.sqlite_files._STEPS", 1)
    with EmbeddedStore(stages.settings.home) as store:  # whose connections look at the clock at each step
        monkeypatch.setattr(stages.index, "_store", store)
        answered = door.ask("POST", "/search", {"text": "Heron v001"}).json()
    assert "vector_search" in answered["degraded"]


def test_a_request_has_one_deadline_whatever_it_asks(
    stages: DemoStages, door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    monkeypatch.setattr(stages.graph, "_question_s", 1_000.0)
    for stage in ("plan", "embed", "vector_search", "graph_expand", "fuse_rerank"):
        stages.faults[stage] = lambda: seen.append(deadline.left())
    answered = door.ask("POST", "/search", {"text": "Heron v001"})
    stages.healthy()
    assert answered.status == 200
    assert len(seen) >= 5
    assert max(seen) <= stages.settings.request_timeout_s


def test_neighbours_are_answered_while_a_tenant_walks(
    stages: DemoStages, door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages.graph, "_question_s", PATIENT_S)
    stop = threading.Event()

    def walk_on() -> int:
        walked = 0
        while not stop.is_set():
            assert door.ask("POST", "/graph/query", WALK).status in {200, 504}
            walked += 1
        return walked

    with ThreadPoolExecutor(6) as pool:
        walkers = [pool.submit(walk_on) for _ in range(6)]
        try:
            for _ in range(5):
                answered = door.ask("GET", "/entities/a/related", query={"depth": 2}, authorizer=claims(QUIET))
                assert (answered.status, [hit["id"] for hit in answered.json()["hits"]]) == (200, ["b"])
        finally:
            stop.set()
        assert all(walker.result() for walker in walkers)


def test_a_statement_is_interrupted_and_a_write_is_not(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {0}) SELECT max(i) FROM n"
    with EmbeddedStore(tmp_path) as store:
        begun = time.monotonic()
        with pytest.raises(StoreTooSlow), deadline.within(0.05), store.read() as connection:
            connection.execute(endless.format(10**12)).fetchall()
        assert time.monotonic() - begun < 0.05 + SLACK_S
        with deadline.within(1e-6), store.transaction() as connection:
            assert connection.execute(endless.format(200_000)).fetchall() == [(200_000,)]


def test_a_search_in_texts_of_nothing_but_its_words_ends_in_time(tmp_path: Path) -> None:
    words = [f"{one}{other}" for one in "bcdfghjklmnpqrst" for other in "bcdfghjklmnpqrst"]
    content = " ".join(words) * 100
    question = SearchRequest(tenant_id=HEAVY, text=" ".join(words), k=5, as_of="2026-01-01")
    with EmbeddedStore(tmp_path) as store:
        index = EmbeddedSearchIndex(store, {}, question_s=0.01)
        index.upsert([Record(id=f"r{number}", tenant_id=HEAVY, content=content) for number in range(60)])
        with pytest.raises(StoreTooSlow):
            index.search(question)
        assert len(EmbeddedSearchIndex(store, {}).search(question).lexical) == 5


def test_a_graph_that_takes_longer_to_read_than_a_question_has_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[int] = []
    load = adjacency.load

    def slowly(*given: Any) -> Adjacency:
        loads.append(1)
        assert not deadline.is_over()
        with deadline.within(0.2):
            while not deadline.is_over():
                pass
        return load(*given)

    monkeypatch.setattr(adjacency, "load", slowly)
    with EmbeddedStore(tmp_path) as store:
        graph = EmbeddedKnowledgeGraph(store, question_s=0.1)
        graph.upsert([Vertex(id="a", tenant_id=HEAVY)], [])
        from braid.ports.knowledge_graph import ExpandRequest

        request = ExpandRequest(tenant_id=HEAVY, seeds=("a",), as_of="2026-01-01")
        graph.upsert(
            [Vertex(id="b", tenant_id=HEAVY)], [Relationship(tenant_id=HEAVY, source="a", type="T", target="b")]
        )
        with pytest.raises(StoreTooSlow):
            graph.expand(request)
        assert not graph.expand(request).truncated
    assert loads == [1]


def test_of_one_tenant_s_questions_one_counts_the_values_of_fields_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()

    def count(*_: Any) -> dict[str, Any]:
        if not begun.is_set():
            begun.set()
            go.wait(60)
        return {}

    monkeypatch.setattr(row_reads, "count_values", count)
    with EmbeddedStore(tmp_path) as store:
        index = EmbeddedSearchIndex(store, {}, question_s=BOUND_S)
        index.upsert([Record(id="a", tenant_id=tenant, content="heron") for tenant in (HEAVY, QUIET)])

        def counted(tenant: str) -> dict[str, Any]:
            return index.count_values(SearchRequest(tenant_id=tenant, k=1, as_of=AS_OF), ["floor"])

        first = threading.Thread(target=counted, args=(HEAVY,), daemon=True)
        try:
            first.start()
            assert begun.wait(30)
            assert counted(QUIET) == {}
            with pytest.raises(StoreTooSlow):
                counted(HEAVY)
        finally:
            go.set()
            first.join(60)
        assert counted(HEAVY) == {}


def test_locks_of_keys_are_kept_as_long_as_anybody_has_them() -> None:
    locks = Locks(threading.Lock)
    held = locks.of(HEAVY)
    assert locks.of(HEAVY) is held
    assert locks.of(QUIET) is not held
    assert list(locks._locks) == [HEAVY]
    del held
    assert not locks._locks


def test_alarms_of_many_threads_ring_once_at_their_time_and_never_after_their_block() -> None:
    rang: list[int] = []

    def waits(number: int) -> None:
        rings = threading.Event()

        def ring() -> None:
            rang.append(number)
            rings.set()

        with deadline.within(0.05 * (1 + number % 3)), deadline.alarmed(ring):
            assert rings.wait(20)
        with deadline.within(0.05), deadline.alarmed(lambda: rang.append(-1)):
            pass

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(waits, range(48)))
    later = threading.Event()
    with deadline.alarmed(later.set, seconds=0.2):  # whatever was to ring before has rung
        assert later.wait(20)
    assert sorted(rang) == list(range(48))


def test_an_alarm_that_fails_keeps_no_other_from_ringing() -> None:
    rings = threading.Event()
    with deadline.alarmed(lambda: 1 / 0, seconds=0.01), deadline.alarmed(rings.set, seconds=0.1):
        assert rings.wait(20)


def test_a_forked_process_has_alarms_of_its_own() -> None:
    with deadline.alarmed(lambda: None, seconds=60):
        child = os.fork()
        if not child:
            rings = threading.Event()
            with deadline.alarmed(rings.set, seconds=0.01):
                os._exit(0 if rings.wait(20) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_whoever_waits_for_what_others_hold_waits_no_longer_than_its_time() -> None:
    lock = threading.Lock()
    with lock, deadline.within(0.05), pytest.raises(StoreTooSlow), deadline.holding(lock):
        pass


def test_texts_that_take_too_long_to_embed_are_refused_and_a_write_that_has_begun_is_completed(
    stages: DemoStages, door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, left = True, list[float]()

    def embed(records: Sequence[Record], encoder: Encoder) -> list[Embedding]:
        left.append(deadline.left())
        if slow:
            raise StoreTooSlow("the time that a request has is over")
        return encoder_windows.embed(records, encoder)

    def upsert(records: Sequence[Record]) -> None:
        left.append(deadline.left())
        really(records)

    really = stages.index.upsert
    monkeypatch.setattr(record_vectors, "embed", embed)
    monkeypatch.setattr(stages.index, "upsert", upsert)
    body = {"records": [{"id": "long", "content": "long"}]}
    answered = door.ask("POST", "/records", body)
    assert (answered.status, answered.problem) == (504, "timeout")
    assert "write less at a time" in answered.json()["detail"]
    assert not stages.index.get_many(HEAVY, ["long"])
    slow = False
    assert door.ask("POST", "/records", body).status == 200
    request_s = stages.settings.request_timeout_s
    assert all(seconds <= request_s for seconds in (left[0], left[1]))
    assert left[2] > request_s


def test_a_request_that_comes_too_late_begins_no_write(stages: DemoStages, door: FrontDoor) -> None:
    late = stages.settings.model_copy(update={"request_timeout_s": 1e-9})
    patient = stages.settings
    stages.settings = late
    try:
        answered = door.ask("POST", "/records", {"records": [{"id": "late", "content": "late"}]})
    finally:
        stages.settings = patient
    assert (answered.status, answered.problem) == (504, "timeout")
    assert door.ask("GET", "/entities/late").status == 404


def test_a_deployed_deletion_ends_before_its_function_does_and_one_of_a_laptop_is_completed(
    stages: DemoStages, door: FrontDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, slow = list[float](), False

    def found_mentions(tenant_id: str, ids: Sequence[str]) -> list[Relationship]:
        left.append(deadline.left())
        if slow:
            raise StoreTooSlow("the time that a request has is over")
        return really(tenant_id, ids)

    really = stages.graph.found_mentions
    monkeypatch.setattr(stages.graph, "found_mentions", found_mentions)
    assert door.ask("POST", "/records:delete", {"ids": ["nowhere"]}).status == 200
    assert set(left) == {math.inf}
    left.clear()
    monkeypatch.setattr(stages, "settings", stages.settings.model_copy(update={"engine": EngineKind.AWS}))
    assert door.ask("POST", "/records:delete", {"ids": ["nowhere"]}).status == 200
    assert max(left) <= stages.settings.request_timeout_s
    slow = True
    answered = door.ask("POST", "/records:delete", {"ids": ["v000"]})
    assert (answered.status, answered.problem) == (504, "timeout")
