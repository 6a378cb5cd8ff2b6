"""``braid serve``: serves the HTTP API and the explorer page on this machine."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer
from braid.settings import EngineKind
from rich.console import Console

from braid_cli.options import AsJson, Engine  # noqa: TC001 - typer reads annotations
from braid_cli.question_validation import check_known, check_tenant
from braid_cli.terminal import examples, print_json

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

app = typer.Typer()
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
WORKERS = 2
"""Default number of worker processes, if there are as many cores; each loads its own models and caches, some 200 MB."""
BEGUN = 2
"""Concurrent requests of a process: one computes while the other waits for the disk or is in native code."""


@app.command(epilog=examples("braid serve", "braid serve -t saltmarrow -t pellworth --port 8700 --json"))
def serve(
    *,
    tenants: Annotated[
        list[str] | None,
        typer.Option(
            "--tenant",
            "-t",
            help="Print a link for this tenant; may be repeated. Default: all stored tenants; if there are none, the "
            "demo's are ingested.",
            metavar="NAME",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but a loopback address is reachable from the network.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 chooses a free one.")] = 8700,
    at_once: Annotated[
        int, typer.Option(min=1, max=256, help="Maximum of concurrent requests; more are refused.")
    ] = 16,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Worker processes. Default: 2 if there are two cores. With 1, the server's own process answers.",
            metavar="N",
        ),
    ] = None,
    hours: Annotated[float, typer.Option(min=0.01, max=720, help="Lifetime of the tokens, in hours.")] = 12,
    engine: Engine = None,
    as_json: AsJson = False,
) -> None:
    """Serve the HTTP API of the deployed function, and the explorer page at /explorer.

    The printed tokens are for development: each allows reading and writing its tenant, until the server stops.
    """
    for name in tenants or ():
        check_tenant(name)
    if engine:
        os.environ["BRAID_ENGINE"] = engine  # where the settings are read
    if os.environ.get("POWERTOOLS_LOG_LEVEL") == "CRITICAL":
        os.environ["POWERTOOLS_LOG_LEVEL"] = "WARNING"  # show refusals and failures while the server runs
    from braid_cli.http_server.connections import listen
    from braid_cli.http_server.malloc_arenas import share_memory

    share_memory()
    workers = workers or min(WORKERS, os.cpu_count() or 1)
    with listen(host, port) as listening:
        _serve(listening, tenants or (), at_once=at_once, workers=workers, hours=hours, as_json=as_json)


def _serve(
    listening: socket.socket,
    named: Sequence[str],
    *,
    at_once: int,
    workers: int,
    hours: float,
    as_json: bool,
) -> None:
    with ExitStack() as ended:
        processes = None
        if workers > 1:
            from braid_cli.http_server.workers import Workers

            processes = Workers(workers, at_once=at_once)  # they import modules while this process does
            ended.callback(processes.close)
        import uvicorn
        from braid.api.handler import make_handler
        from braid.app import application

        from braid_cli.http_server.connections import configured
        from braid_cli.http_server.server import Bounds, Server, development_token
        from braid_cli.http_server.startup_links import ask_once, tenants_to_serve

        library = application()
        ended.callback(library.close)
        for name in named:
            check_known(name, library)
        library.make_models()
        names = named or tenants_to_serve(library, lambda text: Console(stderr=True, soft_wrap=True).print(text))
        if processes:
            processes.start(names)
        else:
            ask_once(library, names)
        key = secrets.token_bytes(32)
        begun = BEGUN * workers if library.settings.engine is EngineKind.EMBEDDED else None
        server = Server(
            make_handler(library),
            key=key,
            tenant_claim=library.settings.tenant_claim,
            bounds=Bounds(at_once, max(1, at_once * 3 // 4), library.settings.api_max_body_bytes, begun),
            workers=processes,
        )
        ended.callback(server.close)
        now = time.time()
        tokens = {name: development_token(name, key=key, now=now, hours=hours) for name in names}
        of_all = development_token(*names, key=key, now=now, hours=hours) if len(names) > 1 else None
        _announce(listening, tokens, of_all, as_json=as_json)
        # uvicorn raises SIGTERM again after its shutdown; the default handler would end the process without cleanup.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        uvicorn.Server(configured(server, at_once=at_once, lifespan="on")).run(sockets=[listening])


def _announce(listening: socket.socket, tokens: dict[str, str], of_all: str | None, *, as_json: bool) -> None:
    from braid_cli.http_server.connections import address_of

    url = address_of(listening)
    if as_json:
        print_json({"url": url, "tokens": tokens})
        return
    out = Console(highlight=False, soft_wrap=True)
    if listening.getsockname()[0] not in _LOOPBACK:
        Console(stderr=True, soft_wrap=True).print("Others than this machine can reach this server.", style="yellow")
    for tenant, token in tokens.items():
        out.print(f"[bold]{tenant}[/bold]")
        out.print(f"  open   {url}/explorer#tenant={tenant}&token={token}")
        out.print(f"  token  {token}")
    if of_all:
        out.print(f"[bold]all {len(tokens)}, to switch between them in the browser[/bold]")
        out.print(f"  open   {url}/explorer#tenant={next(iter(tokens))}&token={of_all}")
    out.print("Open a link to ask in a browser; Ctrl+C stops the server.")
    sys.stdout.flush()  # for a process that reads the address through a pipe
