"""What a question does in the embedded graph does not grow with the tenant: in memory, or read after a write."""

from __future__ import annotations

import itertools
import sys
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from braid.engines.embedded.graph import tenant_graphs, write_overlay
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.store import EmbeddedStore

from tests.contract.shapes import ACME, edge, vertex
from tests.graph_questions import CORE, SIZES, TIED, questions

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest


HOUSEKEEPING = {"in memory": 0, "read": 0, "after a write": 5}
"""Calls by which two equal questions may differ: what was replaced is let go of."""


class Work(NamedTuple):
    """What a question took."""

    calls: int
    """Of functions, those in C too."""
    steps: int
    """Instructions of SQLite's machine."""
    memory: int
    """Bytes, at the most at once."""


@contextmanager
def measured(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Work]]:
    """Count what happens inside; the function that it gives says how much."""
    counted = {"calls": 0, "steps": 0}
    read = store.read

    def step() -> None:
        counted["steps"] += 1

    @contextmanager
    def watched() -> Iterator[sqlite3.Connection]:
        with read() as connection:
            connection.set_progress_handler(step, 1)
            try:
                yield connection
            finally:
                connection.set_progress_handler(None, 0)

    def called(_frame: Any, event: str, _argument: object) -> None:
        counted["calls"] += event in ("call", "c_call")

    with monkeypatch.context() as patch:
        patch.setattr(store, "read", watched)
        profiler = sys.getprofile()
        tracemalloc.start()
        sys.setprofile(called)
        try:
            yield lambda: Work(counted["calls"], counted["steps"], tracemalloc.get_traced_memory()[1])
        finally:
            sys.setprofile(profiler)
            tracemalloc.stop()


def work(store: EmbeddedStore, ask: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> Work:
    """Return what a question takes of which nothing is asked for the first time."""
    ask()
    with measured(store, monkeypatch) as so_far:
        ask()
        return so_far()


def after_writes(store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], Work]:
    """Return what each question takes of which everything was asked before, but before a write."""
    graph = EmbeddedKnowledgeGraph(store, max_loaded_first=900_000)
    took = {}
    for name, ask in questions(graph).items():
        ask()
        for new in ("new", "newer"):
            graph.upsert([vertex(new)], [edge("core0", new, "SINCE")])
            with measured(store, monkeypatch) as so_far:
                ask()
                took["after a write", name] = so_far()
        graph.delete(ACME, ["new", "newer"])
    return took


def test_a_question_does_no_more_in_a_large_graph_than_in_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenant_graphs, "_LOADED_PER_EDGE_READ", 0)  # however often it is asked
    monkeypatch.setattr(write_overlay, "EDGES_JOINED_PER_REQUEST", 0)
    store = EmbeddedStore(tmp_path)
    ways = {
        "in memory": EmbeddedKnowledgeGraph(store, max_loaded_first=900_000),
        "read": EmbeddedKnowledgeGraph(store, max_loaded_first=0),
    }
    graph = ways["read"]
    graph.upsert(CORE, TIED)
    worked = {}
    for before, size in itertools.pairwise((0, *SIZES)):
        names = [f"other{number}" for number in range(max(0, before - 1), size)]
        graph.upsert([vertex(name, name=name) for name in names], [edge(a, b) for a, b in itertools.pairwise(names)])
        worked[size] = {
            (way, name): work(store, ask, monkeypatch)
            for way, asked in ways.items()
            for name, ask in questions(asked).items()
        }
        for _ in range(2):  # at first much is asked for the first time
            worked[size] |= after_writes(store, monkeypatch)
    least, *others = worked.values()
    for work_of in others:
        for name, took in work_of.items():
            assert took.steps == least[name].steps, name
            assert abs(took.calls - least[name].calls) <= HOUSEKEEPING[name[0]], name
            assert took.memory < least[name].memory + 10_000, name
    store.close()
