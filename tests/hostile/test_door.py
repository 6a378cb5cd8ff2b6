"""The way in: connections, bodies, tokens and shares that would keep others out."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import h11
import pytest
from braid.api import audit, health_and_explorer_routes
from braid.errors import StoreCorrupt, StoreFull, StoreReadOnly, TransientStoreError
from braid.ingestion.bulk import import_queue, import_steps
from braid.ingestion.item_parsing import read_lines
from braid.settings import Settings

from braid_cli.http_server import server
from braid_cli.http_server.connections import Connection
from braid_cli.http_server.parsing import Requests
from braid_cli.http_server.server import Bounds
from tests.front_door import FrontDoor, claims, jwt
from tests.served import served, token
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

QUESTION = {"text": "What caused the Beacon text storm?", "top_k": 1}
RECORD = json.dumps({"records": [{"id": "short", "content": "Cut short."}]}).encode()
LINE = b'{"record": {"id": "late", "content": "Beacon was late."}}\n'


class Hasty(Connection):
    """Connections that are given half a second."""

    headers_s = 0.5
    answer_s = 0.5


@pytest.fixture
def library(tmp_path: Path) -> Iterator[DemoStages]:
    stages = demo_stages(tmp_path)
    yield stages
    stages.close()


@pytest.fixture
def door(library: DemoStages) -> FrontDoor:
    return FrontDoor(library)


def _connect(address: str) -> socket.socket:
    parts = urlsplit(address)
    assert parts.hostname
    return socket.create_connection((parts.hostname, parts.port or 80), timeout=15)


def _post(path: str, length: int, *, bearer: str | None = None) -> bytes:
    authorization = f"Authorization: Bearer {bearer}\r\n" if bearer else ""
    return (
        f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        f"{authorization}Content-Length: {length}\r\n\r\n"
    ).encode()


def _asked(address: str, tenant: str = "saltmarrow") -> int:
    """Ask a question over a connection of its own, and return the status."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=15)
    headers = {"Authorization": f"Bearer {token(tenant)}", "Content-Type": "application/json"}
    connection.request("POST", "/search", json.dumps(QUESTION), headers)
    status = connection.getresponse().status
    connection.close()
    return status


def _answer(client: socket.socket) -> tuple[int, dict[str, str], Any]:
    """Read one answer to the end of its connection."""
    response = http.client.HTTPResponse(client)
    response.begin()
    return response.status, dict(response.getheaders()), json.loads(response.read())


@pytest.mark.parametrize("bearer", [None, "forged"])
def test_forty_slow_bodies_without_a_valid_token_keep_nobody_out(library: DemoStages, bearer: str | None) -> None:
    with served(library) as address, contextlib.ExitStack() as held:
        for _ in range(40):
            client = held.enter_context(_connect(address))
            client.sendall(_post("/search", 1_000, bearer=bearer) + b"{")
        assert [_asked(address) for _ in range(5)] == [200] * 5


def test_whoever_has_no_token_learns_it_before_the_body_is_sent(library: DemoStages) -> None:
    with served(library) as address, _connect(address) as client:
        client.sendall(_post("/search", 1_000))
        status, headers, problem = _answer(client)
        assert (status, problem["type"]) == (401, "urn:braid:problem:unauthenticated")
        assert headers["connection"] == "close"


def test_slow_bodies_of_one_tenant_leave_places_to_another(library: DemoStages) -> None:
    bounds = Bounds(at_once=4, per_tenant=3)
    with served(library, bounds) as address, contextlib.ExitStack() as held:
        for _ in range(6):
            client = held.enter_context(_connect(address))
            client.sendall(_post("/search", 1_000, bearer=token("saltmarrow")) + b"{")
        assert _asked(address, "pellworth") == 200


def test_slow_bodies_of_three_tenants_leave_places_to_another(library: DemoStages) -> None:
    with served(library, Bounds(at_once=4, per_tenant=3)) as address, contextlib.ExitStack() as held:
        for tenant in ("saltmarrow", "acme", "globex") * 3:
            client = held.enter_context(_connect(address))
            client.sendall(_post("/search", 1_000, bearer=token(tenant)) + b"{")
        assert _asked(address, "pellworth") == 200


def _begin_bodies(address: str, tenants: Iterable[str], held: contextlib.ExitStack) -> list[socket.socket]:
    """Begin a body of each tenant that goes no further than its first byte."""
    clients = []
    for tenant in tenants:
        clients.append(held.enter_context(_connect(address)))
        clients[-1].sendall(_post("/search", 1_000, bearer=token(tenant)) + b"{")
    return clients


def test_slow_bodies_of_however_many_tenants_keep_nobody_out(library: DemoStages) -> None:
    tenants = [f"slow{number}" for number in range(6)]
    with served(library, Bounds(at_once=4, per_tenant=3)) as address, contextlib.ExitStack() as held:
        _begin_bodies(address, tenants * 3, held)
        assert [_asked(address, "pellworth") for _ in range(5)] == [200] * 5


def test_of_a_tenants_own_slow_bodies_the_slowest_makes_room(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "READ_AHEAD", 0)  # a body of one byte is slow from its first moment
    with served(library, Bounds(at_once=4, per_tenant=3)) as address, contextlib.ExitStack() as held:
        first, *_ = _begin_bodies(address, ["saltmarrow"] * 3, held)
        assert _asked(address, "saltmarrow") == 200
        status, _, problem = _answer(first)
        assert (status, problem["type"]) == (408, "urn:braid:problem:request-timeout")


def test_a_body_that_is_not_slow_keeps_its_place(library: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "READ_RATE", 0)
    with served(library, Bounds(at_once=4, per_tenant=3)) as address, contextlib.ExitStack() as held:
        _begin_bodies(address, ["saltmarrow"] * 3, held)
        assert _asked(address, "saltmarrow") == 429
        _begin_bodies(address, [f"tenant{number}" for number in range(13)], held)
        assert _asked(address, "pellworth") == 200  # one of three makes room for the first of another tenant


def test_an_answer_is_read_to_its_end_whatever_strangers_connect(library: DemoStages) -> None:
    for number in range(5):
        record = {"id": f"long{number}", "content": "x" * 1_000_000}
        door = FrontDoor(library)
        assert door.ask("POST", "/records", {"records": [record]}, authorizer=claims("globex")).status == 200
    with served(library) as address, contextlib.ExitStack() as held:
        reading = socket.socket()
        reading.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        held.enter_context(reading)
        parts = urlsplit(address)
        reading.connect((parts.hostname, parts.port))
        reading.settimeout(15)
        reading.sendall(f"GET /records HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token('globex')}\r\n\r\n".encode())
        assert reading.recv(1) == b"H"
        for _ in range(300):
            held.enter_context(_connect(address))
        assert _asked(address) == 200
        read = 1
        while read < 5_000_000:
            part = reading.recv(1_000_000)
            assert part, f"cut after {read} bytes"
            read += len(part)


@pytest.mark.parametrize("ahead", [1, 3], ids=["one request", "three requests sent ahead"])
def test_answers_that_nobody_reads_are_bounded_in_bytes(library: DemoStages, ahead: int) -> None:
    """A tenant's clients that read nothing lose their oldest answers, and another's keeps its own."""
    for tenant in ("globex", "acme"):
        records = [{"id": f"long{number}", "content": "x" * 900_000} for number in range(2)]
        assert FrontDoor(library).ask("POST", "/records", {"records": records}, authorizer=claims(tenant)).status == 200
    length = len(FrontDoor(library).ask("GET", "/records", authorizer=claims("globex")).text)
    made: list[Connection] = []
    most = 0

    class Bounded(Connection):
        unread_of_tenant = 3 * length

        def connection_made(self, transport: Any) -> None:
            made.append(self)
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
            super().connection_made(transport)

        def on_response_complete(self) -> None:
            nonlocal most
            super().on_response_complete()
            most = max(most, sum(one.transport.get_write_buffer_size() for one in made if one.tenant == "globex"))

    with served(library, kind=Bounded) as address, contextlib.ExitStack() as held:
        reading = _lazy(address, "acme", held)
        clients = [_lazy(address, "globex", held, ahead) for _ in range(20)]
        assert _asked(address) == 200
        assert sum(_read_whole(client, length) for client in clients) <= 10
        assert 0 < most <= 3 * length
        assert _read_whole(reading, length)


def _lazy(address: str, tenant: str, held: contextlib.ExitStack, ahead: int = 1) -> socket.socket:
    """Ask for long answers and read the first byte of one alone."""
    client = held.enter_context(socket.socket())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    parts = urlsplit(address)
    client.connect((parts.hostname, parts.port))
    client.settimeout(15)
    asked = f"GET /records HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token(tenant)}\r\n\r\n".encode()
    client.sendall(asked * ahead)
    assert client.recv(1) == b"H"
    return client


def _read_whole(client: socket.socket, length: int) -> bool:
    """Read what there is of an answer, and return whether it was all of it."""
    read = 1
    with contextlib.suppress(ConnectionResetError):
        while read < length and (part := client.recv(1_000_000)):
            read += len(part)
    return read >= length


def test_requests_that_are_wrong_push_no_entry_out_of_the_audit_log(library: DemoStages, door: FrontDoor) -> None:
    door.ask("POST", "/records", {"records": [{"id": "kept", "content": "x"}]})
    before = (library.settings.home / audit.FILE).read_text()
    for raw in ("{}", "{", '{"records": [{}]}'):
        assert door.ask("POST", "/records", raw=raw).status in {400, 422}
    assert (library.settings.home / audit.FILE).read_text() == before


def test_the_openapi_document_is_made_once(door: FrontDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    first = door.ask("GET", "/openapi.json", authorizer=None)
    monkeypatch.setattr(health_and_explorer_routes, "document", None)
    assert door.ask("GET", "/openapi.json", authorizer=None).text == first.text


LONG_NUMBERS: tuple[tuple[str, str], ...] = (
    ('"source": {"page": %s}', "source.page"),
    ('"source": {"chunk_index": %s}', "source.chunk_index"),
    ('"schema_version": %s', "schema_version"),
    ('"metadata": {"a": %s}', "metadata"),
    ('"metadata": {"a": -%s}', "metadata"),
)


@pytest.mark.parametrize(("members", "field"), LONG_NUMBERS)
def test_a_whole_number_of_more_than_64_bits_is_refused(door: FrontDoor, members: str, field: str) -> None:
    record = '{"id": "a", "content": "x", ' + members % ("9" * 4_000) + "}"
    refused = door.ask("POST", "/records", raw='{"records": [' + record + "]}")
    assert (refused.status, refused.fields) == (422, [f"records.0.{field}"])
    assert "64 bits" in refused.text
    (error,) = read_lines([("line 1", record.encode())], "saltmarrow").errors
    assert "64 bits" in error.message


def test_six_hundred_half_open_connections_keep_nobody_out(library: DemoStages) -> None:
    with served(library) as address, contextlib.ExitStack() as held:
        for number in range(600):
            client = held.enter_context(_connect(address))
            with contextlib.suppress(OSError):  # the oldest are dropped
                client.sendall(b"POST /search HTTP/1.1\r\nHost: a\r\n" if number % 2 else b"")
            if number % 100 == 99:
                assert _asked(address) == 200


def test_headers_that_come_byte_by_byte_are_not_waited_for(library: DemoStages) -> None:
    with served(library, kind=Hasty) as address, _connect(address) as client:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in b"GET /health HTTP/1.1\r\nX-Long: " + b"a" * 10_000:
                client.sendall(bytes((byte,)))
                client.settimeout(0.02)
                with contextlib.suppress(TimeoutError):
                    if not client.recv(1):
                        break
        assert time.monotonic() - began < 5


def test_the_time_for_headers_begins_anew_with_each_request(library: DemoStages) -> None:
    with served(library, kind=Hasty) as address, _connect(address) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        client.sendall(b"GET /health HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionResetError):
            while client.recv(1_000):
                pass


def _send_on_and_on(client: socket.socket, requests: bytes) -> None:
    while True:  # what is sent stays in buffers until the connection is dropped
        client.sendall(requests)


def test_a_client_that_reads_no_answer_is_dropped(library: DemoStages) -> None:
    with served(library, kind=Hasty) as address, _connect(address) as client:
        request = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n"
        client.settimeout(5)
        with pytest.raises(OSError, match=r"reset|pipe"):
            _send_on_and_on(client, request * 100)


@pytest.mark.parametrize(
    "sent",
    [
        b"no http\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
        b"POST /search HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /search HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 100_000,
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["no request", "target", "header", "negative", "two lengths", "long", "no host"],
)
def test_what_is_no_http_is_refused_as_a_problem(library: DemoStages, sent: bytes) -> None:
    with served(library) as address, _connect(address) as client:
        client.sendall(sent)
        status, headers, problem = _answer(client)
        assert (status, problem["status"], problem["type"]) == (400, 400, "urn:braid:problem:malformed-request")
        assert headers["content-type"] == "application/problem+json"


_CHUNKED = b"POST /search HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
_HEALTH = b"GET /health HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        _HEALTH + b"a:\r\n" * 130 + b"\r\n",
        _HEALTH + b"a:\n" * 130 + b"\n",
        b"GET /health?" + b"a=&" * 5_500 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /health?" + b"a=&" * 5_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        _CHUNKED + b"1\r\na\r\n" * 300,
        _CHUNKED + b"%x\r\n%b\r\n" % (64, b"a" * 64) * 200,
        _CHUNKED + b"1\r\na\r\n" * 300 + b"0\r\n\r\n",
        _CHUNKED + b"0\r\n" + b"a:\n" * 130 + b"\n",
        _CHUNKED + b"1\r\na\r\n00;x\r\n" + b"a:\r\n" * 130 + b"\r\n",
    ],
    ids=[
        "headers",
        "bare line ends",
        "long query",
        "parameters",
        "tiny chunks",
        "small chunks",
        "all tiny",
        "trailers",
        "and a body",
    ],
)
def test_what_takes_everybodys_time_to_be_taken_apart_is_refused_before(library: DemoStages, sent: bytes) -> None:
    with served(library) as address, _connect(address) as client:
        client.sendall(sent)
        status, headers, problem = _answer(client)
        assert (status, problem["type"]) == (400, "urn:braid:problem:malformed-request")
        assert headers["connection"] == "close"


def test_headers_that_are_sent_ahead_are_bounded_too(library: DemoStages) -> None:
    with served(library) as address, _connect(address) as client:
        client.sendall(_HEALTH + b"\r\n" + _HEALTH + b"a:\r\n" * 130 + b"\r\n")
        answers = b"".join(iter(lambda: client.recv(65_536), b""))
        assert re.findall(rb"HTTP/1.1 (\d+) ", answers) == [b"200", b"400"]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 100_000])
def test_trailers_are_bounded_however_they_arrive_and_what_looks_like_them_in_a_chunk_is_not(piece: int) -> None:
    content = b"0\r\n" + b"a:\r\n" * 200 + b"\r\n"
    body = b"%x\r\n%b\r\n" % (len(content), content)

    def read(sent: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        requests, data = Requests(), b""
        for at in range(0, len(sent), piece):
            requests.receive_data(sent[at : at + piece])
            while (event := requests.next_event()) is not h11.NEED_DATA:
                if isinstance(event, h11.EndOfMessage):
                    return data, list(event.headers)
                data += event.data if isinstance(event, h11.Data) else b""
        raise AssertionError("it has no end")

    assert read(_CHUNKED + body * 2 + b"0\r\na: b\r\n\r\n") == (content * 2, [(b"a", b"b")])
    with pytest.raises(h11.RemoteProtocolError, match="trailers"):
        read(_CHUNKED + body * 2 + content)


@pytest.mark.parametrize("size", [1, 512, 100_000])
def test_a_body_in_few_chunks_or_in_chunks_of_some_size_is_read(library: DemoStages, size: int) -> None:
    body = json.dumps(QUESTION | ({} if size == 1 else {"hints": {"padding": "x" * 30_000}})).encode()
    chunks = [body[at : at + size] for at in range(0, len(body), size)]
    head = _post("/search", 0, bearer=token("saltmarrow")).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with served(library) as address, _connect(address) as client:
        client.sendall(head + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in chunks) + b"0\r\n\r\n")
        status, _, problem = _answer(client)
        assert (status, problem.get("errors")) == ((200, None) if size == 1 else (422, problem["errors"]))


def test_a_body_of_two_lengths_is_refused_as_a_problem(library: DemoStages) -> None:
    head = _post("/search", 0, bearer=token("saltmarrow")).replace(
        b"\r\n\r\n", b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with served(library) as address, _connect(address) as client:
        client.sendall(head + b"0\r\n\r\n")
        status, headers, problem = _answer(client)
        assert (status, problem["type"]) == (400, "urn:braid:problem:malformed-request")
        assert headers["connection"] == "close"


def test_a_chunk_that_is_none_is_refused_as_a_problem(library: DemoStages) -> None:
    head = _post("/records", 0, bearer=token("saltmarrow")).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    with served(library) as address, _connect(address) as client:
        client.sendall(head + b"zz\r\n")
        assert _answer(client)[2]["type"] == "urn:braid:problem:malformed-request"


@pytest.mark.parametrize("half", [True, False], ids=["half-closed", "closed"])
def test_a_body_shorter_than_its_length_is_not_processed(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch, *, half: bool
) -> None:
    written: list[Any] = []
    monkeypatch.setattr(library, "write", written.append)
    with served(library) as address, _connect(address) as client:
        client.sendall(_post("/records", len(RECORD) + 10, bearer=token("saltmarrow")) + RECORD)
        if half:
            client.shutdown(socket.SHUT_WR)
            assert _answer(client)[2]["type"] == "urn:braid:problem:malformed-request"
        else:
            client.close()
        assert _asked(address) == 200
    assert written == []


def test_a_name_with_a_space_in_a_list_makes_nobody_a_member_of_two_tenants(door: FrontDoor) -> None:
    listed = claims("[saltmarrow pellworth]")  # so API Gateway writes ["saltmarrow pellworth"], too
    bearer = {"authorization": f"Bearer {jwt(['saltmarrow pellworth'])}"}
    for tenant in ("saltmarrow", "pellworth"):
        asked = bearer | {"braid-tenant": tenant}
        assert door.ask("POST", "/search", QUESTION, authorizer=listed, headers=asked).status == 403


def test_a_name_in_brackets_makes_nobody_a_member_of_the_tenant_between_them(door: FrontDoor) -> None:
    listed, asked = claims("[saltmarrow]"), {"braid-tenant": "saltmarrow"}  # so API Gateway writes both of these
    for told, status in ((["saltmarrow"], 200), ("[saltmarrow]", 403)):
        bearer = {"authorization": f"Bearer {jwt(told)}"}
        assert door.ask("POST", "/search", QUESTION, authorizer=listed, headers=bearer | asked).status == status


FORGED = f"Bearer {jwt(['saltmarrow pellworth'])}, {jwt(['saltmarrow', 'pellworth'])}"


@pytest.mark.parametrize(
    "bearer",
    [
        "",
        "Bearer",
        "Bearer a.b.c",
        "Bearer a.W10.c",
        f"Bearer {jwt('saltmarrow')}",
        f"Bearer {jwt(['saltmarrow'])}",
        FORGED,
    ],
    ids=["none", "empty", "no token", "a list", "a name", "another list", "a second header"],
)
def test_a_list_that_the_token_does_not_bear_out_names_nobody(door: FrontDoor, bearer: str) -> None:
    asked = {"authorization": bearer, "braid-tenant": "saltmarrow"}
    answered = door.ask("POST", "/search", QUESTION, authorizer=claims("[saltmarrow pellworth]"), headers=asked)
    assert answered.status == 403


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let no import end until the event is set."""
    go, batch = threading.Event(), import_steps.batch

    def waiting(*arguments: Any) -> Any:
        assert go.wait(20)
        return batch(*arguments)

    monkeypatch.setattr(import_steps, "batch", waiting)
    yield go
    go.set()


def test_imports_of_one_tenant_leave_room_for_another_and_a_refusal_says_why(
    library: DemoStages, held: threading.Event
) -> None:
    door, body = FrontDoor(library), {"key": "late/a.jsonl"}
    for tenant in ("saltmarrow", "pellworth"):
        library.objects.put(tenant, "late/a.jsonl", LINE)
    for _ in range(import_queue.WAITING_PER_TENANT):
        assert door.ask("POST", "/records:import", body).status == 202
    refused = door.ask("POST", "/records:import", body)
    assert (refused.status, refused.problem) == (429, "too-many-requests")
    assert "5 imports of this tenant wait already" in refused.json()["detail"]
    assert refused.headers["Retry-After"] == "10"
    assert door.ask("POST", "/records:import", body, authorizer=claims("pellworth")).status == 202
    held.set()


def test_when_all_tenants_together_have_too_many_imports_it_says_so(
    library: DemoStages, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_queue, "WAITING", 1)
    door, body = FrontDoor(library), {"key": "late/a.jsonl"}
    library.objects.put("saltmarrow", "late/a.jsonl", LINE)
    assert door.ask("POST", "/records:import", body).status == 202
    refused = door.ask("POST", "/records:import", body, authorizer=claims("pellworth"))
    assert (refused.status, refused.headers["Retry-After"]) == (503, "10")
    assert "1 imports wait already, of all tenants" in refused.json()["detail"]
    held.set()


@pytest.mark.parametrize(
    ("error", "again"), [(StoreReadOnly, False), (StoreFull, False), (StoreCorrupt, False), (TransientStoreError, True)]
)
def test_only_what_passes_is_to_be_tried_again(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch, error: type[Exception], *, again: bool
) -> None:
    def fail(*_: object) -> Any:
        message = "secret"
        raise error(message)

    library.faults.update({"vector_search": fail, "graph_expand": fail})
    monkeypatch.setattr(library, "write", fail)
    door = FrontDoor(library)
    for path, body in (("/search", QUESTION), ("/records", json.loads(RECORD))):
        answered = door.ask("POST", path, body)
        assert (answered.status, answered.problem) == (503, "unavailable")
        assert ("Retry-After" in answered.headers) is again


def _audited(library: DemoStages) -> list[dict[str, Any]]:
    files = [library.settings.home / name for name in (audit.UNKNOWN_FILE, audit.FILE)]
    return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]


def test_the_audit_log_says_who_did_what_to_which_tenant_and_never_what_it_said(library: DemoStages) -> None:
    door, before = FrontDoor(library), time.time()
    door.ask("POST", "/records", json.loads(RECORD))
    door.ask("GET", "/records", query={"limit": 3})
    door.ask("POST", "/records:read", {"ids": ["short", "never-there"]})
    door.ask("POST", "/records:delete", {"ids": ["short", "never-there"]})
    door.ask("DELETE", "/records/short")
    door.ask("POST", "/records:import", {"key": "late/secret.jsonl"})
    door.ask("POST", "/records", {"records": [{"id": "half"}, {"content": 5}]})
    door.ask("POST", "/search", QUESTION)
    entries = _audited(library)
    assert [(entry["event"], entry["status"], entry.get("count")) for entry in entries] == [
        ("write", 200, 1),
        ("list", 200, 3),
        ("list", 200, 2),
        ("delete", 200, 2),
        ("delete", 200, 1),
        ("import", 202, 1),
    ]
    for entry in entries:
        assert (entry["log"], entry["subject"], entry["tenant_id"]) == ("audit", "user:ada", "saltmarrow")
        assert entry["request_id"]
        assert datetime.fromisoformat(entry["timestamp"]).timestamp() >= int(before)
    text = (library.settings.home / audit.FILE).read_text()
    assert not any(content in text for content in ("Cut short", "short", "secret", "Beacon"))


def test_the_audit_log_has_every_failed_authentication_and_refusal(library: DemoStages) -> None:
    with served(library) as address, _connect(address) as client:
        client.sendall(_post("/records", 0, bearer="forged"))
        assert _answer(client)[0] == 401
    FrontDoor(library).ask("GET", "/records", headers={"braid-tenant": "pellworth"})
    failed, refused = _audited(library)
    assert (failed["event"], failed["status"], failed["source_ip"]) == ("authentication_failed", 401, "127.0.0.1")
    assert "subject" not in failed
    assert (refused["event"], refused["subject"], refused["tenant_id"]) == ("refused", "user:ada", "pellworth")


def test_the_audit_log_is_its_owners_alone_and_keeps_no_more_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "FILE_BYTES", 500)
    monkeypatch.setattr(audit, "FILES", 3)
    log = audit.open_audit_log(Settings(home=tmp_path / "home"))
    for number in range(40):
        entry = audit.AuditEntry(event=audit.AuditEvent.LIST, status=200, method="GET", route="/records", count=number)
        log.add(entry.model_copy(update={"subject": "user:ada"}))
    files = sorted((tmp_path / "home").iterdir())
    assert [file.name for file in files] == ["audit.1.jsonl", "audit.2.jsonl", "audit.jsonl"]
    assert all(file.stat().st_mode & 0o777 == 0o600 and file.stat().st_size < 800 for file in files)
    assert json.loads(files[-1].read_text().splitlines()[-1])["count"] == 39


def test_of_the_audit_log_no_tenant_and_no_caller_takes_more_than_their_share_from_another(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "FILE_BYTES", 2_000)
    monkeypatch.setattr(audit, "FILES", 3)
    door = FrontDoor(library)
    for number in range(2):
        assert door.ask("DELETE", f"/records/quiet{number}", authorizer=claims("pellworth")).status == 200
    for _ in range(60):
        assert door.ask("GET", "/records", authorizer=claims("saltmarrow")).status == 200
        refused = door.ask("GET", "/records", headers={"braid-tenant": "pellworth"}, authorizer=claims("saltmarrow"))
        assert refused.status == 403
    files = [library.settings.home / f"audit{number}.jsonl" for number in (".2", ".1", "")]
    entries = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [entry["event"] for entry in entries if entry["tenant_id"] == "pellworth"].count("delete") == 2
    assert {entry["event"] for entry in entries[2:]} == {"list", "refused"}
    assert len(list(library.settings.home.glob("audit*"))) == len(files)
    assert sum(file.stat().st_size for file in files) < 3 * 2_400
    assert [entry["timestamp"] for entry in entries] == sorted(entry["timestamp"] for entry in entries)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)


def test_however_many_requests_of_nobody_push_no_other_entry_out(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "FILE_BYTES", 500)
    door = FrontDoor(library)
    door.ask("DELETE", "/records/never")
    for _ in range(50):
        assert door.ask("DELETE", "/records/never", authorizer=None).status == 401
    assert [entry["event"] for entry in _audited(library)][-1] == "delete"
    assert len(list(library.settings.home.glob("audit-unknown*"))) == audit.FILES


def test_an_audit_log_that_cannot_be_written_is_told_and_fails_no_request(
    library: DemoStages, capsys: pytest.CaptureFixture[str]
) -> None:
    (library.settings.home / audit.FILE).mkdir()
    assert FrontDoor(library).ask("GET", "/records").status == 200
    told = capsys.readouterr().err
    assert "audit log: Is a directory" in told
    assert '"event": "list"' in told


def test_deployed_audit_entries_are_marked_lines_of_the_functions_log(
    library: DemoStages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "search_api")
    log = audit.open_audit_log(library.settings)
    log.add(audit.AuditEntry(event=audit.AuditEvent.LIST, status=200, method="GET", route="/records"))
    line = json.loads(capsys.readouterr().out)
    assert (line["log"], line["level"], line["event"]) == ("audit", "INFO", "list")
    assert not (library.settings.home / audit.FILE).exists()


@pytest.mark.parametrize("path", ["/health", "/explorer", "/nope", "/records"])
def test_over_https_browsers_are_told_to_stay_with_it(door: FrontDoor, path: str) -> None:
    answered = door.ask("GET", path, headers={"x-forwarded-proto": "https"})
    assert answered.headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "Strict-Transport-Security" not in door.ask("GET", path).headers
