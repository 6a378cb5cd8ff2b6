"""A deployed Braid over the wire: what is sent again, what a refusal says, and how trouble is met."""

from __future__ import annotations

import gzip
import socket
import threading
import tracemalloc
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from braid import ApiError, Braid, Query, Question
from braid.client.bounded_responses import MAX_READ_BYTES
from braid.ingestion.writing import WriteRequest, write
from braid.models import Relationship, Vertex

from tests.served import served, token
from tests.stages import demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION = "What caused the Beacon text storm?"


def test_an_answer_over_the_wire_is_the_librarys(tmp_path: Path) -> None:
    stages = demo_stages(tmp_path)
    with served(stages) as address, Braid.deployed(address, token("saltmarrow"), attempts=1) as braid:
        expected = stages.answer(Query(tenant_id="saltmarrow", text=QUESTION, top_k=3)).results
        assert braid.search(QUESTION, top_k=3).answer.results == expected
        assert braid.search(Question(text=QUESTION, top_k=3)).answer.results == expected
    stages.close()


def test_a_forged_token_is_refused_and_says_so(tmp_path: Path) -> None:
    stages = demo_stages(tmp_path)
    with served(stages) as address, Braid.deployed(address, "forged", attempts=1) as stranger:
        with pytest.raises(ApiError) as refused:
            stranger.search(QUESTION)
        assert (refused.value.status, refused.value.problem is not None) == (401, True)
    stages.close()


def test_an_entity_that_is_called_like_a_part_of_a_path_is_found(tmp_path: Path) -> None:
    stages = demo_stages(tmp_path)
    dots = [Vertex(id=identity, tenant_id="saltmarrow", name=f"Dot {identity}") for identity in (".", "..")]
    edges = [Relationship(tenant_id="saltmarrow", source=".", type="BELOW", target="..")]
    written = write(WriteRequest(tenant_id="saltmarrow", vertices=tuple(dots), relationships=tuple(edges)), stages)
    assert written.errors == ()
    with served(stages) as address, Braid.deployed(address, token("saltmarrow"), attempts=1) as braid:
        assert [hit.id for hit in braid.related("..").hits] == ["."]
        assert [hit.id for hit in braid.related(".").hits] == [".."]
    stages.close()


class Grudging(BaseHTTPRequestHandler):
    """Answers with what its class says, one after another."""

    answers: list[tuple[int, bytes]]
    asked = 0
    retry_after = "0"
    encoding = "identity"
    connections = 0
    missing = 0
    """Bytes that the next answer breaks off without."""

    def setup(self) -> None:
        type(self).connections += 1
        super().setup()

    def do_GET(self) -> None:
        type(self).asked += 1
        missing, type(self).missing = self.missing, 0
        status, body = self.answers.pop(0)
        self.send_response(status)
        self.send_header("Retry-After", self.retry_after)
        self.send_header("Location", "https://elsewhere/")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Encoding", self.encoding)
        self.end_headers()
        with suppress(OSError):  # whoever asked has heard enough
            self.wfile.write(body[: len(body) - missing])

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def grudging() -> Iterator[tuple[type[Grudging], str]]:
    kind = type("Once", (Grudging,), {"answers": [], "asked": 0})
    with HTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield kind, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


STATS = b'{"records": 1, "vertices": 0, "relationships": 0}'


def test_a_busy_server_is_asked_again_and_not_for_ever(grudging: tuple[type[Grudging], str]) -> None:
    kind, address = grudging
    kind.answers = [(503, b""), (429, b""), (200, STATS)]
    with Braid.deployed(address, "t") as client:
        assert client.stats().records == 1
        kind.answers = [(503, b'{"message": "later"}')] * 5
        kind.asked = 0
        with pytest.raises(ApiError, match="later"):
            client.stats()
    assert kind.asked == 3


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("asked", "waited"), [("7", 7), ("86400", 60), ("Fri, 31 Dec 9999 23:59:59 GMT", 60)])
def test_the_wait_that_a_busy_server_asks_for_is_kept_up_to_a_minute(
    grudging: tuple[type[Grudging], str], monkeypatch: pytest.MonkeyPatch, status: int, asked: str, waited: float
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("urllib3.util.retry.time.sleep", slept.append)
    kind, address = grudging
    kind.retry_after = asked
    kind.answers = [(status, b""), (status, b""), (200, STATS)]
    with Braid.deployed(address, "t") as client:
        assert client.stats().records == 1
    assert slept == [waited, waited]


def test_a_write_that_is_being_done_is_asked_after_again(grudging: tuple[type[Grudging], str]) -> None:
    kind, address = grudging
    kind.answers = [(409, b""), (409, b""), (200, STATS)]
    with Braid.deployed(address, "t") as client:
        assert client.stats().records == 1


def test_an_answer_that_cannot_be_read_is_an_error_of_the_client(grudging: tuple[type[Grudging], str]) -> None:
    kind, address = grudging
    kind.answers = [(200, b"<html>"), (500, b"<html>"), (418, b"[]"), (500, b"[" * 200_000)]
    with Braid.deployed(address, "t", attempts=1) as client:
        for _ in range(4):
            with pytest.raises(ApiError):
                client.stats()


def test_what_a_newer_server_adds_to_an_answer_is_passed_over(grudging: tuple[type[Grudging], str]) -> None:
    kind, address = grudging
    kind.answers = [(200, STATS.replace(b"}", b', "named_since": "2.0", "more": [{"a": 1}]}'))]
    with Braid.deployed(address, "t", attempts=1) as client:
        assert client.stats().records == 1


@pytest.mark.parametrize("status", [200, 503])
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_an_answer_of_any_length_takes_little_memory(
    grudging: tuple[type[Grudging], str], status: int, encoding: str
) -> None:
    kind, address = grudging
    kind.encoding = encoding
    content = b" " * (MAX_READ_BYTES + (1 << 20))
    kind.answers = [(status, gzip.compress(content) if encoding == "gzip" else content)]
    tracemalloc.start()
    with Braid.deployed(address, "t") as client, pytest.raises(ApiError, match="longer than Braid's"):
        client.stats()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert kind.asked == 1
    assert peak < 3 * MAX_READ_BYTES


def test_an_answer_that_does_not_end_is_given_up(
    grudging: tuple[type[Grudging], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, address = grudging
    monkeypatch.setattr("braid.client.bounded_responses.TIMES", 0)
    kind.answers = [(200, STATS)]
    with Braid.deployed(address, "t") as client, pytest.raises(ApiError, match="does not end"):
        client.stats()


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n"
NOTHING = gzip.compress(b"")


@pytest.mark.parametrize(
    "sent",
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED + b"\r\n0\r\n", b"X: y\r\n"),
        (CHUNKED + b"Content-Encoding: gzip\r\n\r\n", b"%x\r\n%b\r\n" % (len(NOTHING), NOTHING)),
    ],
    ids=["before the answer", "trailers", "compressed parts with nothing in them"],
)
@pytest.mark.parametrize(
    ("most_bytes", "times", "said"), [(100_000, 1_000, "longer than Braid's"), (1 << 30, 0.1, "does not end")]
)
def test_what_a_server_sends_around_an_answer_is_bounded_too(
    sent: tuple[bytes, bytes], most_bytes: int, times: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braid.client.bounded_responses._MAX_SENT_BYTES", most_bytes)
    monkeypatch.setattr("braid.client.bounded_responses.TIMES", times)

    def send() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(65_536)
            connection.sendall(sent[0])
            while True:
                connection.sendall(sent[1] * 100)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        sending = threading.Thread(target=send)
        sending.start()
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with Braid.deployed(address, "t", timeout_s=5.0, attempts=1) as client, pytest.raises(ApiError, match=said):
            client.stats()
        sending.join()


def test_a_connection_is_used_again(grudging: tuple[type[Grudging], str]) -> None:
    kind, address = grudging
    kind.protocol_version = "HTTP/1.1"
    kind.answers = [(200, STATS)] * 3
    with Braid.deployed(address, "t") as client:
        assert [client.stats().records for _ in range(3)] == [1, 1, 1]
    assert kind.connections == 1


def test_an_answer_that_breaks_off_is_asked_for_again(grudging: tuple[type[Grudging], str]) -> None:
    kind, address = grudging
    kind.missing = 1
    kind.answers = [(200, STATS)] * 2
    with Braid.deployed(address, "t") as client:
        assert client.stats().records == 1
    assert kind.asked == 2


def test_what_is_asked_goes_nowhere_but_to_the_server_that_was_named(grudging: tuple[type[Grudging], str]) -> None:
    kind, address = grudging
    kind.answers = [(307, b""), (200, STATS)]
    with Braid.deployed(address, "t") as client, pytest.raises(ApiError, match="redirects to 'https://elsewhere/'"):
        client.stats()
    assert kind.asked == 1


def test_a_server_that_does_not_answer_is_given_up() -> None:
    with HTTPServer(("127.0.0.1", 0), Grudging) as silent:
        address = f"http://127.0.0.1:{silent.server_port}"
        with Braid.deployed(address, "t", timeout_s=0.05, attempts=2) as client:
            with pytest.raises(ApiError, match="no answer in time") as caught:
                client.stats()
            assert caught.value.status == 0
    with Braid.deployed(address, "t", attempts=1) as client, pytest.raises(ApiError, match="nothing answers there"):
        client.stats()
