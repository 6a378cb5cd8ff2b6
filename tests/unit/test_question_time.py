"""A question does not wait for a graph that hangs as long as a write does."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest
from braid.engines.gremlin import GremlinGraph
from braid.errors import StoreTooSlow, TransientStoreError
from braid.settings import Settings

from tests.contract.shapes import ACME, AS_OF, vertex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Settings]:
    """Return the settings of a graph that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield Settings(
            home=tmp_path,
            neptune_endpoint=f"ws://127.0.0.1:{server.getsockname()[1]}/gremlin",
            neptune_connect_timeout_s=0.5,
            neptune_question_s=0.3,
        )


def test_a_graph_that_hangs_is_given_up_when_the_time_of_a_question_is_over(silent: Settings) -> None:
    graph = GremlinGraph.connect(silent)
    begun = time.monotonic()
    with pytest.raises(StoreTooSlow, match=r"within 0\.3 s"):
        graph.link(ACME, ["valve"], as_of=AS_OF)
    assert time.monotonic() - begun < silent.neptune_attempts * silent.neptune_connect_timeout_s
    graph.close()


def test_a_write_has_the_time_of_all_its_attempts(silent: Settings) -> None:
    graph = GremlinGraph.connect(silent)
    with pytest.raises(TransientStoreError):
        graph.upsert([vertex("a")], [])
    graph.close()
