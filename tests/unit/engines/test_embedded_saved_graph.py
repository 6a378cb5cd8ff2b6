"""The file of a tenant's graph: walks of it are those of the rows, after writes and when it is damaged too."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import threading
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded import graph_change_log
from braid.engines.embedded.graph import adjacency, mapped_graph, rows_around_seeds, tenant_graphs
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.store import EmbeddedStore
from braid.ports.graph_query import GraphQuery
from braid.ports.knowledge_graph import ExpandRequest, PropagateRequest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.shapes import ACME, AS_OF, edge, vertex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from braid.models import Relationship

NAMES = ("a", "b", "ä", "b̈", "日本", "z" * 80, "0", "~")
EDGES = st.builds(
    edge,
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from(["CAUSES", "MENTIONS"]),
    confidence=st.sampled_from([1.0, 0.5, 0.25]),
    evidence=st.sampled_from([None, "a", "elsewhere"]),
    predicate=st.sampled_from([None, "p", "ß"]),
    trusted=st.booleans(),
)


@pytest.fixture(autouse=True, scope="module")
def _every_graph_is_large() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tenant_graphs, "_MIN_SAVED", 0)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved")


def saving(store: EmbeddedStore) -> EmbeddedKnowledgeGraph:
    return EmbeddedKnowledgeGraph(store, max_loaded_first=0)


def answers(graph: EmbeddedKnowledgeGraph, *, trusted_only: bool = False) -> list[Any]:
    bounds: dict[str, Any] = {"tenant_id": ACME, "as_of": AS_OF, "trusted_only": trusted_only}
    query = {**bounds, "start": {"ids": ["a", "~"]}, "steps": [{"direction": "both"}] * 2, "returns": "paths"}
    return [
        graph.expand(ExpandRequest(seeds=("a", "日本"), max_hops=3, records_only=False, **bounds)),
        graph.expand(ExpandRequest(seeds=("ä",), direction="in", types=("CAUSES",), by_confidence=True, **bounds)),
        graph.propagate(PropagateRequest(names=(("a", 1.0), ("none", 1.0)), hits=(("~", 0.5),), hub=3, **bounds)),
        graph.query(GraphQuery.model_validate(query)),
    ]


def from_rows(store: EmbeddedStore, *, trusted_only: bool = False) -> list[Any]:
    """Return the answers without the file."""
    file, aside = store.folder / "graphs" / "1.graph", store.folder / "aside"
    file.rename(aside)
    try:
        return answers(saving(store), trusted_only=trusted_only)
    finally:
        aside.rename(file)


@settings(max_examples=60, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edges=st.lists(EDGES, min_size=1, max_size=14),
    named=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([None, "A", "a", "日本"])),
    written=st.lists(EDGES, max_size=2),
    removed=st.sets(st.sampled_from(NAMES), max_size=1),
    trusted_only=st.booleans(),
)
def test_walks_of_a_saved_graph_are_those_of_the_rows(  # noqa: PLR0917 - Hypothesis gives them by name
    folder: Path,
    edges: list[Relationship],
    named: dict[str, str | None],
    written: list[Relationship],
    removed: set[str],
    trusted_only: bool,
) -> None:
    with EmbeddedStore(folder) as store:
        graph = EmbeddedKnowledgeGraph(store)
        graph.delete(ACME, NAMES)
        graph.upsert([vertex(name, name=named.get(name, name)) for name in NAMES], edges)
        saving(store).prepare_walks(ACME)
        mapped = saving(store)
        assert answers(mapped, trusted_only=trusted_only) == from_rows(store, trusted_only=trusted_only)
        graph.upsert([], written)
        graph.delete(ACME, sorted(removed))
        after = from_rows(store, trusted_only=trusted_only)
        assert answers(mapped, trusted_only=trusted_only) == after
        assert answers(saving(store), trusted_only=trusted_only) == after


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    """Give a store whose graph is saved."""
    with EmbeddedStore(tmp_path) as store:
        chain = [edge(one, other) for one, other in itertools.pairwise(NAMES)]
        graph = saving(store)
        graph.upsert([vertex(name) for name in NAMES], chain)
        graph.prepare_walks(ACME)
        yield store


def test_deleting_the_last_vertex_deletes_the_file_which_has_its_name(store: EmbeddedStore) -> None:
    graph = saving(store)
    graph.delete(ACME, NAMES[1:])
    assert file_of(store).exists()
    graph.delete(ACME, NAMES[:1])
    assert list((store.folder / "graphs").iterdir()) == []
    assert answers(graph) == answers(saving(store))


def file_of(store: EmbeddedStore) -> Path:
    (path,) = (store.folder / "graphs").iterdir()
    return path


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give what is read from rows, while it is read."""
    found: list[str] = []
    for module, name in ((adjacency, "load"), (rows_around_seeds, "read")):
        original = getattr(module, name)

        def call(*given: Any, _original: Callable[..., Any] = original, _name: str = name) -> Any:
            found.append(_name)
            return _original(*given)

        monkeypatch.setattr(module, name, call)
    return found


def test_another_process_reads_no_rows_of_a_saved_graph_nor_after_a_write(
    store: EmbeddedStore, read: list[str]
) -> None:
    graph = saving(store)
    answers(graph)
    graph.upsert([], [edge("~", "a")])
    answers(graph)
    answers(saving(store))
    assert not read


def test_what_is_saved_and_followed_is_not_saved_again(store: EmbeddedStore, read: list[str]) -> None:
    graph = saving(store)
    graph.upsert([], [edge("~", "a")])
    graph.prepare_walks(ACME)
    assert not read


def test_a_process_that_is_far_behind_takes_the_file_that_another_saved(
    store: EmbeddedStore, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = saving(store)
    answers(graph)
    monkeypatch.setattr(graph_change_log, "MAX_LOGGED", 0)
    EmbeddedKnowledgeGraph(store).upsert([], [edge("~", "a")])
    saving(store).prepare_walks(ACME)
    assert read == ["load"]
    after = answers(graph)
    assert read == ["load"]
    assert after == from_rows(store)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def lengthened(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(64))


@pytest.mark.parametrize("damage", [cut, emptied, flipped, lengthened])
def test_a_damaged_file_is_read_from_the_rows_again_and_said_to_be_so(
    store: EmbeddedStore, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    before = answers(saving(store))
    damage(file_of(store))
    with caplog.at_level(logging.WARNING):
        assert answers(saving(store)) == before
    assert len([record for record in caplog.records if "is damaged" in record.message]) == 1


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))


@pytest.mark.parametrize("damage", [emptied, overwritten])
def test_a_file_that_is_cut_or_written_to_while_it_is_mapped_is_not_read(
    store: EmbeddedStore, damage: Callable[[Path], None]
) -> None:
    graph = saving(store)
    before = answers(graph)
    damage(file_of(store))
    assert answers(graph) == before


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(store: EmbeddedStore, make: Callable[[Path], None]) -> None:
    before = answers(saving(store))
    file_of(store).unlink()
    make(store.folder / "graphs" / "1.graph")
    asked = threading.Thread(target=lambda: found.extend(answers(saving(store))), daemon=True)
    found: list[Any] = []
    asked.start()
    asked.join(20)
    assert found == before


def test_a_header_that_is_said_to_be_without_end_is_not_read(store: EmbeddedStore) -> None:
    before = answers(saving(store))
    with file_of(store).open("r+b") as file:
        file.truncate(2**33)
        file.seek(2**33 - mapped_graph._END.size)
        file.write(mapped_graph._END.pack(2**33 - mapped_graph._END.size, 0, mapped_graph._KIND))
    tracemalloc.start()
    assert answers(saving(store)) == before
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_the_file_of_another_store_is_not_read(
    store: EmbeddedStore, tmp_path_factory: pytest.TempPathFactory, read: list[str]
) -> None:
    with EmbeddedStore(tmp_path_factory.mktemp("other")) as other:
        graph = saving(other)
        graph.upsert([vertex(name) for name in NAMES], [edge("a", "~")])
        graph.prepare_walks(ACME)
        file_of(store).write_bytes(file_of(other).read_bytes())
    read.clear()
    assert answers(saving(store)) == from_rows(store)
    assert read


def test_a_saved_graph_is_for_its_owner_alone(store: EmbeddedStore) -> None:
    assert file_of(store).stat().st_mode & 0o777 == 0o600
    assert file_of(store).parent.stat().st_mode & 0o777 == 0o700


def test_a_store_that_was_put_back_does_not_read_what_was_saved_later(
    store: EmbeddedStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("put back") / "home"
    store.close()
    shutil.copytree(store.folder, folder)
    with EmbeddedStore(store.folder) as lost:
        graph = saving(lost)
        graph.upsert([vertex("lost")], [edge("a", "lost"), edge("lost", "日本")])
        later = folder / "graphs" / file_of(lost).name
        file_of(lost).unlink()
        saving(lost).prepare_walks(ACME)
        content = file_of(lost).read_bytes()
    with EmbeddedStore(folder) as again:
        later.write_bytes(content)
        EmbeddedKnowledgeGraph(again).upsert([], [edge("~", "a")])
        assert answers(saving(again)) == from_rows(again)
