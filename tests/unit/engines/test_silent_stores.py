"""A server that accepts connections and says nothing takes no more time than whoever asks it has."""

from __future__ import annotations

import json
import socket
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

import pytest
from braid import deadline
from braid.engines.neptune.connection import GremlinConnection
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.errors import StoreTooSlow, TransientStoreError
from braid.settings import Settings

from tests.contract.shapes import ACME, DIMENSIONS
from tests.loopback import listening

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Slow(BaseHTTPRequestHandler):
    """A search index that begins to answer at once, and takes longer for its answer than a question has for it."""

    def do_GET(self) -> None:
        """Say which index an alias leads to."""
        self._answer({"braid-records-000001": {"aliases": {"braid-records": {}}}}, pause_s=0.0)

    def do_POST(self) -> None:
        """Find nothing, slowly."""
        self._answer({"responses": [{"hits": {"hits": []}, "_shards": {}}]}, pause_s=0.02)

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, content: object, *, pause_s: float) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):  # nobody waits any longer
            for byte in body:
                self.wfile.write(bytes([byte]))
                time.sleep(pause_s)


def index(address: str, home: Path) -> OpenSearchIndex:
    """Return a search index at an address, of which a question takes half a second."""
    settings = Settings(home=home, opensearch_endpoint=address, opensearch_timeout_s=0.4, opensearch_question_s=0.5)
    return OpenSearchIndex.connect(settings, DIMENSIONS)


@pytest.fixture
def silent() -> Iterator[str]:
    """Return host and port of a listener whose connections are open, and are never read."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_a_traversal_takes_no_more_time_than_its_request_has(silent: str) -> None:
    connection = GremlinConnection(f"ws://{silent}/gremlin", connect_timeout_s=0.5, attempts=5)
    begun = time.monotonic()
    with pytest.raises(StoreTooSlow), deadline.within(0.3):
        connection.submit(lambda source: source.V())
    assert time.monotonic() - begun < 0.5
    connection.close()


def test_a_traversal_of_a_request_with_more_time_than_its_attempts_need_may_be_sent_again(silent: str) -> None:
    connection = GremlinConnection(f"ws://{silent}/gremlin", connect_timeout_s=0.1, read_timeout_s=0.1, attempts=2)
    with pytest.raises(TransientStoreError) as caught, deadline.within(60.0):
        connection.submit(lambda source: source.V())
    assert not isinstance(caught.value, StoreTooSlow)
    connection.close()


def test_texts_are_waited_for_no_longer_than_a_question_has(silent: str, tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(StoreTooSlow):
        index(f"http://{silent}", tmp_path).candidates(ACME, ["a"])
    assert time.monotonic() - begun < 0.8


def test_texts_that_are_coming_are_waited_for_until_the_request_ends(tmp_path: Path) -> None:
    with listening(Slow) as address:
        begun = time.monotonic()
        assert index(address, tmp_path).candidates(ACME, ["a"]) == {}
        assert time.monotonic() - begun > 0.8
        with pytest.raises(StoreTooSlow), deadline.within(0.3):
            index(address, tmp_path).candidates(ACME, ["a"])
