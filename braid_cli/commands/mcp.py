"""``braid mcp``: a server of tools for agents, by the Model Context Protocol."""

from __future__ import annotations

import os
from typing import Annotated

import typer
from braid import Braid
from braid.errors import ConfigurationError

from braid_cli.options import DEFAULT_TENANT, FLAG, Tenant, examples

app = typer.Typer()
TOKEN = "BRAID_TOKEN"  # noqa: S105 - the variable's name


@app.command(
    epilog=examples("braid mcp --tenant saltmarrow", f"{TOKEN}=… braid mcp --url https://braid.example.com --add")
)
def mcp(
    *,
    tenant: Tenant = DEFAULT_TENANT,
    url: Annotated[
        str | None, typer.Option(help=f"Ask this deployed Braid instead, with the token in {TOKEN}.", metavar="URL")
    ] = None,
    add: Annotated[bool, typer.Option("--add", help="Let the agent write as well.", metavar=FLAG)] = False,
) -> None:
    """Offer search, context, related, facts and list_documents to an agent, over standard input and output."""
    from braid_cli.mcp_server import make_server

    if url is None:
        braid = Braid(tenant=tenant)
    else:
        token = os.environ.get(TOKEN, "")
        if not token:
            message = f"{TOKEN}: is not set; --url needs the token that it holds"
            raise ConfigurationError(message)
        braid = Braid.deployed(url, token, tenant=None if tenant == DEFAULT_TENANT else tenant)
    with braid:
        make_server(braid, may_add=add).run("stdio")
