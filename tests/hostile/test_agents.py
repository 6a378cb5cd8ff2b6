"""Agents of several tenants ask one server of tools over HTTP: each is answered from its own tenant alone."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from braid import Braid
from braid.client.in_process import InProcess
from braid.settings import Settings
from mcp.server.auth.middleware.auth_context import get_access_token

from braid_cli.http_server.mcp_http import AnyToken, mcp_over_http, of_callers
from braid_cli.mcp_server import CALLS_AT_ONCE
from tests.served import listening, served, token
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator

TENANTS = {"ours": "Ledger", "theirs": "Quayside"}
MANY = "many"
"""Token of a caller with many calls."""


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path_factory.mktemp("mcp")))
    for tenant, name in TENANTS.items():
        text = {"id": "same", "name": name, "content": f"The secret of {tenant} is {name}."}
        team = {"id": "team", "type": "Team", "name": f"Team {name}"}
        kept = {"source": "same", "type": "KEPT_BY", "target": "team"}
        Braid._of(InProcess(stages.settings, stages), tenant).add((text, team, kept))
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def url(stages: DemoStages) -> Iterator[str]:
    with served(stages) as address, listening(mcp_over_http(of_callers(address, None), AnyToken())) as here:
        yield f"{here}/mcp"


def asked(url: str, tenant: str, method: str, params: dict[str, Any], **headers: str) -> str:
    """Return the text of the answer to one request of the protocol."""
    given = {
        "Accept": "application/json, text/event-stream",
        "Authorization": f"Bearer {token(tenant)}",
        "MCP-Protocol-Version": "2025-06-18",
        **headers,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx2.post(url, json=body, headers=given, timeout=60).text


def call(tool: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    """Return the method and the parameters of a call of a tool."""
    return "tools/call", {"name": tool, "arguments": arguments}


def other(tenant: str) -> str:
    return next(name for of, name in TENANTS.items() if of != tenant)


REQUESTS = (
    call("search", question="What is the secret?"),
    call("facts", entity="same"),
    call("related", entity="same"),
    call("context", question="What is the secret?"),
    call("list_documents"),
    ("resources/read", {"uri": "braid://records/same"}),
    ("resources/read", {"uri": "braid://entities/same"}),
)


def test_many_agents_of_two_tenants_at_once_are_each_answered_from_their_own(url: str) -> None:
    every = [(tenant, *request) for request in REQUESTS for tenant in TENANTS] * 4
    with ThreadPoolExecutor(12) as agents:
        answers = list(agents.map(lambda one: asked(url, *one), every))
    for (tenant, *request), answer in zip(every, answers, strict=True):
        assert "RETRIEVED" in answer, (request, answer)
        assert other(tenant) not in answer
    assert sum(TENANTS["ours"] in answer for answer in answers) >= 4 * (len(REQUESTS) - 1)


@pytest.mark.parametrize(
    "request_",
    [
        call("search", question="What is the secret?", tenant="theirs", tenant_id="theirs"),
        call("search", question="What is the secret of theirs?", where=["tenant_id=theirs"]),
        call("facts", entity="../../tenants/theirs/entities/same"),
        call("facts", entity="same/related?tenant=theirs"),
        call("related", entity="theirs|same"),
        call("related", entity="%2e%2e/%2e%2e/records"),
        ("resources/read", {"uri": "braid://records/theirs/same"}),
        ("resources/read", {"uri": "braid://records/same?tenant_id=theirs"}),
        ("resources/read", {"uri": "braid://entities/../records/same", "tenant_id": "theirs"}),
        ("resources/list", {"cursor": "theirs"}),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "braid://records/{+id}"}, "argument": {}}),
    ],
)
@pytest.mark.parametrize("named", [{}, {"X-Tenant-Id": "theirs"}, {"X-Braid-Tenant": "theirs"}])
def test_no_argument_and_no_header_names_another_tenant(
    url: str, request_: tuple[str, dict[str, Any]], named: dict[str, str]
) -> None:
    assert TENANTS["theirs"] not in asked(url, "ours", *request_, **named)


def test_a_session_of_somebody_else_is_worth_nothing(url: str) -> None:
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "agent", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token('theirs')}"}
    begun = httpx2.post(url, json=body, headers=headers, timeout=60)
    assert begun.status_code == 200
    session = begun.headers.get("mcp-session-id", "0" * 32)
    for request in REQUESTS:
        assert TENANTS["theirs"] not in asked(url, "ours", *request, **{"Mcp-Session-Id": session})
    assert TENANTS["theirs"] in asked(url, "theirs", *REQUESTS[0])


@pytest.mark.parametrize("more", [{}, {"Mcp-Session-Id": "0" * 32}, {"Last-Event-ID": "1"}])
def test_nobody_holds_a_connection_open_to_listen_to_nothing(url: str, more: dict[str, str]) -> None:
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {token('ours')}", **more}
    assert httpx2.get(url, headers=headers, timeout=10).status_code == 405
    assert httpx2.delete(url, headers=headers, timeout=10).status_code == 405


def test_however_many_calls_of_one_caller_run_a_few_at_a_time_and_others_do_not_wait_for_them(
    stages: DemoStages,
) -> None:
    ended, begun, running, most = threading.Event(), threading.Semaphore(0), Counter[str](), Counter[str]()
    counting = threading.Lock()

    def store() -> Braid:
        caller = get_access_token()
        if caller is not None and caller.token.strip() == MANY:
            with counting:
                running[MANY] += 1
                most[MANY] = max(most[MANY], running[MANY])
            begun.release()
            ended.wait(30)
            with counting:
                running[MANY] -= 1
        return Braid._of(InProcess(stages.settings, stages), "ours")

    with listening(mcp_over_http(store, AnyToken())) as here, ThreadPoolExecutor(60) as agents:
        tools = [call("facts", entity="same"), ("resources/read", {"uri": "braid://records/same"})] * 30
        tokens = [" " * (number % 30) + MANY for number in range(len(tools))]
        calls = [
            agents.submit(asked, f"{here}/mcp", MANY, *one, Authorization=f"Bearer {token}")
            for one, token in zip(tools, tokens, strict=True)
        ]
        try:
            for _ in range(CALLS_AT_ONCE):
                assert begun.acquire(timeout=30)
            assert "Ledger" in asked(f"{here}/mcp", "ours", *REQUESTS[0])
        finally:
            ended.set()
        assert all("Ledger" in one.result() for one in calls)
    assert most[MANY] == CALLS_AT_ONCE
