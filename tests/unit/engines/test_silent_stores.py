"""A server that accepts connections and says nothing takes no more time than whoever asks it has."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest
from braid import deadline
from braid.engines.neptune.connection import GremlinConnection
from braid.errors import StoreTooSlow, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Iterator


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
