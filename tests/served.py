"""The server on a free loopback port, in this process."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn
from braid.api.handler import make_handler

from braid_cli.http_server.connections import Connection, configured
from braid_cli.http_server.server import Bounds, Server, development_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.api.router import Library

KEY = b"served" * 8


def token(*tenant_ids: str) -> str:
    """Return a token that the server lets in."""
    return development_token(*tenant_ids, key=KEY, now=time.time())


@contextmanager
def listening(config: uvicorn.Config) -> Iterator[str]:
    """Serve an application until the block ends; yields the address."""
    # asyncio sends what it has at once only on a socket that says it is TCP: else the body of each answer waits 40 ms.
    with socket.socket(proto=socket.IPPROTO_TCP) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen()
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


@contextmanager
def served(library: Library, bounds: Bounds | None = None, *, kind: type[Connection] = Connection) -> Iterator[str]:
    """Serve the HTTP interface until the block ends; yields the address."""
    application = Server(make_handler(library), key=KEY, bounds=bounds)
    try:
        with listening(configured(application, kind=kind)) as address:
            yield address
    finally:
        application.close()
