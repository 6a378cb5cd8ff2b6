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


def token(tenant_id: str) -> str:
    """Return a token that the server lets in."""
    return development_token(tenant_id, key=KEY, now=time.time())


@contextmanager
def served(library: Library, bounds: Bounds | None = None, *, kind: type[Connection] = Connection) -> Iterator[str]:
    """Serve until the block ends; yields the address."""
    application = Server(make_handler(library), key=KEY, bounds=bounds)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = uvicorn.Server(configured(application, kind=kind))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)
            application.close()
