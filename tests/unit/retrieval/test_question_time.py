"""A question does not wait for a store that hangs as long as a write does."""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.errors import StoreTooSlow, TransientStoreError
from braid.ports.search_index import SearchRequest
from braid.settings import Settings

from tests.contract.shapes import ACME, AS_OF, embedding, vertex

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VECTOR = struct.pack("<2f", 1.0, 0.0)


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Settings]:
    """Return the settings of stores that take connections and never say a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        yield Settings(
            home=tmp_path,
            opensearch_endpoint=f"http://{address}",
            opensearch_timeout_s=0.2,
            opensearch_question_s=0.3,
            neptune_endpoint=f"ws://{address}/gremlin",
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


def test_an_index_that_hangs_is_given_up_when_the_time_of_a_question_is_over(silent: Settings) -> None:
    """All that a search asks has that time together, the mapping too, which is read again after a failure."""
    index = OpenSearchIndex.connect(silent, {})
    for vector in (None, embedding(VECTOR), embedding(VECTOR)):
        begun = time.monotonic()
        # On a busy machine the time is over between two calls.
        with pytest.raises(StoreTooSlow, match=r"within 0\.3 s|time limit .* has passed"):
            index.search(SearchRequest(tenant_id=ACME, text="valve", embedding=vector, k=5, as_of=AS_OF))
        assert time.monotonic() - begun < silent.opensearch_attempts * silent.opensearch_timeout_s
    index.close()


def test_reading_records_has_the_time_of_all_attempts(silent: Settings) -> None:
    index = OpenSearchIndex.connect(silent, {})
    with pytest.raises(TransientStoreError):
        index.get_many(ACME, ["a"])
    index.close()
