"""``braid mcp``: a server of tools for agents, over the Model Context Protocol (MCP)."""

from __future__ import annotations

import json
import os
import secrets
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer
from braid import Braid
from braid.errors import ConfigurationError, StoreError

from braid_cli.options import DEFAULT_TENANT, FLAG, Tenant
from braid_cli.terminal import complain, examples, out, print_json

if TYPE_CHECKING:
    import uvicorn

app = typer.Typer()
TOKEN = "BRAID_TOKEN"  # noqa: S105 - the variable's name


@app.command(
    epilog=examples(
        "braid mcp --tenant saltmarrow",
        f"{TOKEN}=… braid mcp --url https://braid.example.com --add",
        "braid mcp --http --tenant saltmarrow",
        "braid mcp --openapi --url https://braid.example.com",
    )
)
def mcp(
    *,
    tenant: Tenant = DEFAULT_TENANT,
    url: Annotated[
        str | None,
        typer.Option(help="Use this deployed Braid, with the token of --token-env, not a local store.", metavar="URL"),
    ] = None,
    token_env: Annotated[
        str,
        typer.Option(
            help="Environment variable with the token: for --url the one to send, for --http the one that agents must "
            "send; if it is not set, --http generates a token and prints it.",
            metavar="NAME",
        ),
    ] = TOKEN,
    add: Annotated[bool, typer.Option("--add", help="Add a tool that writes.", metavar=FLAG)] = False,
    http: Annotated[
        bool,
        typer.Option(
            "--http",
            help="Serve over HTTP, on the loopback address only. With --url, agents send their own tokens of the "
            "deployed Braid.",
            metavar=FLAG,
        ),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of --http; 0 chooses a free one.")] = 8701,
    openapi: Annotated[
        bool,
        typer.Option(
            "--openapi",
            help="Only print an OpenAPI document of the tools at --url, for gateways such as AgentCore.",
            metavar=FLAG,
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print address and token of --http as one JSON object.", metavar=FLAG)
    ] = False,
) -> None:
    """Serve the MCP tools search, context, related, facts and list_documents, over stdin and stdout or HTTP."""
    token = os.environ.get(token_env, "")
    if openapi:
        from braid_cli.agent_gateway_openapi import gateway_document

        sys.stdout.write(f"{gateway_document(url or '')}\n")
        return
    of_token = None if tenant == DEFAULT_TENANT else tenant
    if not http:
        from braid_cli.mcp_server import make_server

        if url and not token:
            raise ConfigurationError(f"{token_env}: is not set; --url needs the token that it holds")
        with Braid.deployed(url, token, tenant=of_token) if url else Braid(tenant=tenant) as braid:
            if not url:
                _warn_if_empty(braid, tenant)
            make_server(lambda: braid, may_add=add).run("stdio")
        return
    from braid_cli.http_server.mcp_http import AnyToken, OneToken, mcp_over_http, of_callers

    if url:
        Braid.deployed(url, "checked", tenant=of_token).close()  # reports an invalid URL or tenant now
        _serve(mcp_over_http(of_callers(url, of_token), AnyToken(), may_add=add), port, None, as_json=as_json)
        return
    token = token or secrets.token_urlsafe(32)
    with Braid(tenant=tenant) as braid:
        _warn_if_empty(braid, tenant)
        _serve(mcp_over_http(lambda: braid, OneToken(token), may_add=add), port, token, as_json=as_json)


def _warn_if_empty(braid: Braid, tenant: str) -> None:
    """Print a warning to standard error if nothing is stored for a tenant of a local store."""
    with suppress(StoreError):  # the first call of a tool reports it
        if next(braid.records(), None) is None and not braid.stats().vertices:
            complain(f"--tenant: nothing is stored for {tenant!r} in {braid!r}", style="yellow")


def _serve(config: uvicorn.Config, port: int, token: str | None, *, as_json: bool) -> None:
    """Print the configuration with which an agent reaches the server, and serve until it is stopped."""
    import uvicorn

    from braid_cli.http_server.connections import address_of, listen

    with listen("127.0.0.1", port) as listening:
        url = f"{address_of(listening)}/mcp"
        bearer = {"Authorization": f"Bearer {token or 'TOKEN'}"}
        if as_json:
            print_json({"url": url, "token": token})
        else:
            registered = {"mcpServers": {"braid": {"type": "http", "url": url, "headers": bearer}}}
            out.print(json.dumps(registered, indent=2), soft_wrap=True)
            out.print("Register it so; Ctrl+C stops the server.")
            sys.stdout.flush()  # for a process that reads the address through a pipe
        uvicorn.Server(config).run(sockets=[listening])
