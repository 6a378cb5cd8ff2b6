"""The tools for agents over HTTP, asked by the official client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from braid import Braid, InvalidRequest
from braid.client.added_items import id_of
from braid.client.in_process import InProcess
from braid.settings import Settings
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from braid_cli.commands.mcp import mcp
from braid_cli.http_server.mcp_http import AnyToken, mcp_over_http, of_callers
from tests.served import listening, served, token
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FACT = (
    {"id": "ledger", "type": "Service", "name": "Ledger"},
    {"id": "team", "type": "Team", "name": "Harbour team"},
    {"source": "ledger", "type": "KEPT_BY", "target": "team"},
)


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path_factory.mktemp("mcp")))  # whose encoder needs no weights
    Braid._of(InProcess(stages.settings, stages), "ours").add(FACT)
    yield stages
    stages.close()


def called(url: str, bearer: str, tool: str, **arguments: Any) -> tuple[bool, str]:
    """Return whether a tool failed, and its text, as the official client gets them."""

    async def hold() -> Any:
        headers = {"Authorization": f"Bearer {bearer}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return await client.call_tool(tool, arguments)

    result = asyncio.run(hold())
    return bool(result.is_error), "\n".join(part.text for part in result.content)


def refused(url: str, **headers: str) -> int:
    """Return the status of a request with some headers."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    given = {"Accept": "application/json, text/event-stream", **headers}
    return httpx2.post(url, json=request, headers=given, timeout=30).status_code


@contextmanager
def command(home: Path, *arguments: str, **variables: str) -> Iterator[dict[str, str]]:
    """Run the server on a free port until the block ends; yields what it prints."""
    process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
        [sys.executable, "-m", "braid_cli.main", "mcp", "--http", "--port", "0", "--json", *arguments],
        env=os.environ | {"BRAID_HOME": str(home), "BRAID_MODELS": str(home / "none"), "PIP_NO_INDEX": "1"} | variables,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        assert process.stdout
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_the_command_answers_over_http_whoever_has_its_token_and_knows_this_machine_by_its_name(
    stages: DemoStages,
) -> None:
    with command(stages.settings.home, "--tenant", "ours") as printed:
        url, bearer = printed["url"], printed["token"]
        assert url.startswith("http://127.0.0.1:")
        failed, text = called(url, bearer, "facts", entity="Ledger")
        assert not failed
        assert "Ledger kept by Harbour team." in text
        assert called(url, bearer, "add", text="x")[0]
        assert refused(url) == refused(url, Authorization="Bearer other") == 401
        assert refused(url, Authorization="Bearer é".encode()) == 401
        rebound = {"Authorization": f"Bearer {bearer}", "Host": "evil.example"}
        assert refused(url, **rebound) == 421
        assert refused(url, **rebound | {"Host": "localhost:1", "Origin": "https://evil.example"}) == 403


def test_agents_ask_a_deployed_braid_with_their_own_tokens_and_so_of_their_own_tenants(stages: DemoStages) -> None:
    with served(stages) as address:
        config = mcp_over_http(of_callers(address, None), AnyToken(), may_add=True)
        with listening(config) as here:
            url = f"{here}/mcp"
            assert "Harbour team" in called(url, token("ours"), "facts", entity="Ledger")[1]
            failed, text = called(url, token("theirs"), "facts", entity="Ledger")
            assert failed
            assert "Ledger" in text
            stored = id_of({"text": "The quay opens in May.", "title": ""})
            assert called(url, token("theirs"), "add", text="The quay opens in May.") == (
                False,
                f"Stored as [{stored}].",
            )
            assert "The quay" in called(url, token("theirs"), "search", question="When does the quay open?")[1]
            assert "The quay" not in called(url, token("ours"), "search", question="When does the quay open?")[1]
            failed, text = called(url, "forged", "facts", entity="Ledger")
            assert failed
            assert "a valid token is needed" in text
            assert refused(url) == 401


def test_an_address_that_is_none_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidRequest, match=r"^url: "):
        mcp(url="braid.example.com", http=True)
