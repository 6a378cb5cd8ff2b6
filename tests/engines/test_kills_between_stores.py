"""A deployed write that is killed between any two requests to its stores: repairing or repeating it makes it whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.neptune.connection import GremlinConnection
from braid.ingestion.archive_export import export_tenant
from braid.ingestion.archive_import import import_tenant
from braid.ingestion.deleting import delete_records, delete_texts
from braid.ingestion.repair import repair
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ingestion.writing import WriteRequest, write
from braid.models import GraphSource, Kind, Query
from braid.models.records import FOUND_PREFIX
from opensearchpy import Transport

from tests.contract.shapes import ACME, day, edge, record, vertex

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.deployed_stages import DeployedStages


NEVER = 10**9


class Killed(BaseException):
    """The process ended."""


class Requests:
    """Counts the requests to both stores, and ends the process at one of them: before it is sent, or after."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.number, self.last, self.after = 0, NEVER, False
        for owner, name in ((Transport, "perform_request"), (GremlinConnection, "submit")):
            patch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, sent: Callable[..., Any]) -> Callable[..., Any]:
        def send(*args: Any, **kwargs: Any) -> Any:
            self.number += 1
            if self.number > self.last or (self.number == self.last and not self.after):
                raise Killed
            answer = sent(*args, **kwargs)
            if self.number == self.last:
                raise Killed
            return answer

        return send


@pytest.fixture
def store(make_deployed: Callable[..., DeployedStages]) -> DeployedStages:
    return make_deployed(graph=GraphSource.BOTH, objects_bucket="kept-here")


BEFORE = WriteRequest(
    tenant_id=ACME,
    records=(
        record("ada", "Ada Lovelace works.", kind=Kind.ENTITY, name="Ada Lovelace"),
        record("note", "A note on the Heron Hall."),
        record("fact", "Ada Lovelace owns the mill.", kind=Kind.FACT, valid_at=day(1)),
    ),
    vertices=(vertex("mill", name="Osprey Mill", has_record=False),),
    relationships=(edge("ada", "mill", "OWNS", evidence="fact", valid_at=day(1)),),
)
NEXT = WriteRequest(
    tenant_id=ACME,
    records=(
        record("note", "A note on the Osprey Mill, by Grace Hopper."),
        record("grace", "Grace Hopper works.", kind=Kind.ENTITY, name="Grace Hopper"),
        record("sold", "Grace Hopper owns the mill.", kind=Kind.FACT, valid_at=day(9), supersedes=("fact",)),
    ),
    vertices=(vertex("quay", name="Quayside", has_record=False),),
    relationships=(
        edge("grace", "mill", "OWNS", evidence="sold", valid_at=day(9)),
        edge("grace", "quay", "OWNS", evidence="sold"),
        edge("ada", "quay", "VISITS", evidence="note"),
    ),
)


def state(store: DeployedStages) -> dict[str, Any]:
    """Return what is stored, without times of writing and vectors."""
    records = {one.id: (one.content, one.valid_at, one.invalid_at) for one in store.index.scan(ACME).records}
    page = store.graph.scan(ACME)
    edges = {(e.source, e.type, e.target, e.evidence, e.valid_at, e.invalid_at) for e in page.relationships}
    vertices = {(v.id, v.name, v.has_record, v.valid_at, v.invalid_at) for v in page.vertices}
    return {"records": records, "vertices": vertices, "edges": edges}


def names_found(stored: dict[str, Any]) -> set[str]:
    """Return the ids of the names that were found in texts."""
    return {identity for identity, *_ in stored["vertices"] if identity.startswith(FOUND_PREFIX)}


KILLS = 12
"""Of some hundred places; all of them were tried once."""


def test_a_write_that_is_killed_is_repaired_as_far_as_it_came_and_made_whole_by_repeating_it(
    store: DeployedStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = Requests(monkeypatch)
    write(BEFORE, store)
    before, requests.number = state(store), 0
    write(NEXT, store)
    whole, count = state(store), requests.number
    arrived = 0
    for kill in range(KILLS):
        requests.last = NEVER
        delete_tenant(ACME, store)
        write(BEFORE, store)
        assert state(store) == before
        # The last few may not be needed again: some of what is read is remembered.
        requests.number, requests.last, requests.after = 0, 1 + kill * (count - 5) // KILLS, bool(kill % 2)
        with pytest.raises(Killed):
            write(NEXT, store)
        requests.last = NEVER
        repair(ACME, store)
        repaired = state(store)
        assert repair(ACME, store, dry_run=True).counts == {}
        has_arrived = repaired["records"] != before["records"]
        arrived += has_arrived
        expected = whole if has_arrived else before
        assert repaired["records"] == expected["records"]
        assert repaired["edges"] == expected["edges"]
        assert repaired["vertices"] >= expected["vertices"]
        assert names_found(repaired) == names_found(expected)
        write(NEXT, store)
        assert state(store) == whole
    assert KILLS // 4 < arrived < KILLS


@pytest.mark.parametrize("change", ["write", "delete", "text"])
def test_no_name_of_a_text_that_is_gone_stays_when_what_removed_it_is_killed_and_repeated(
    store: DeployedStages, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    texts = (record("a", "We saw the Heron Hall with Grace Hopper."), record("b", "A note on Grace Hopper."))
    before = WriteRequest(tenant_id=ACME, records=texts)

    def do() -> None:
        if change == "write":
            write(WriteRequest(tenant_id=ACME, records=(record("a", "We saw nothing at all."),)), store)
        elif change == "delete":
            delete_records(ACME, ["a"], store)
        else:
            delete_texts(ACME, ["a"], store)

    requests = Requests(monkeypatch)
    write(before, store)
    requests.number = 0
    do()
    whole, count = state(store), requests.number
    assert len(names_found(whole)) == 1
    for kill in range(2, count - 5, 3):  # the last few may not be needed again
        delete_tenant(ACME, store)
        write(before, store)
        requests.number, requests.last, requests.after = 0, kill, bool(kill % 2)
        with pytest.raises(Killed):
            do()
        requests.last = NEVER
        do()
        assert state(store) == whole


def test_a_first_write_that_is_killed_before_it_is_counted_is_counted_once_it_is_repeated(
    store: DeployedStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as broken:
        broken.setattr(store.graph_counts, "replace", killed)
        with pytest.raises(Killed):
            write(BEFORE, store)
    write(BEFORE, store)
    assert store.graph.stats(ACME).edges > 0
    assert not store.graph.recount(ACME)


@pytest.mark.parametrize("way", ["write", "import"])
def test_what_is_killed_before_its_edges_are_counted_is_planned_with_once_it_is_repeated(
    store: DeployedStages, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    def do() -> None:
        write(NEXT, store) if way == "write" else import_tenant(tmp_path / "archive", store)

    def killed(tenant_id: str, changes: Mapping[str, int]) -> bool:
        if any(name.startswith("edges/") for name in changes):
            raise Killed
        return add(tenant_id, changes)

    add = store.graph_counts.add
    write(BEFORE, store)
    write(NEXT, store)
    whole = store.graph.stats(ACME)
    export_tenant(ACME, store, tmp_path / "archive")
    delete_tenant(ACME, store)
    if way == "write":
        write(BEFORE, store)
    with monkeypatch.context() as broken:
        broken.setattr(store.graph_counts, "add", killed)
        with pytest.raises(Killed):
            do()
    assert store.graph.stats(ACME).by_relationship_type.keys() < whole.by_relationship_type.keys()
    do()
    counted = store.graph.stats(ACME)
    assert counted.by_relationship_type.keys() == whole.by_relationship_type.keys()
    assert counted == whole or way == "write"
    assert store.answer(Query(text="Who owns the Osprey Mill?", tenant_id=ACME)).results[0].facts
