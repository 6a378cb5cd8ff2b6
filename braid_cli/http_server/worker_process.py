"""Worker process of ``braid serve``: answers requests that the server sends over the socket at its standard input."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from braid.api.handler import make_handler
from braid.api.problems import internal
from braid.app import Application
from braid.errors import BraidError
from braid.settings import load_settings
from pydantic import SecretStr

from braid_cli.http_server.fair_shares import ProcessorTime
from braid_cli.http_server.malloc_arenas import share_memory
from braid_cli.http_server.startup_links import ask_once
from braid_cli.http_server.worker_protocol import PING, PONG, READY, Start, framed, framed_answer, read_frame
from braid_cli.state_machine.invoke_endpoint import LocalContext
from braid_cli.terminal import EXIT_FAILED, GARBAGE, Warnings, complain

if TYPE_CHECKING:
    from typing import BinaryIO

    from braid_cli.state_machine.invoke_endpoint import Handler

_LOG = logging.getLogger(__name__)
END_S: Final = 10.0
"""Seconds in which a worker finishes started requests once the server is gone; less than the server waits for it."""


def main() -> None:
    """Answer requests until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C at the terminal; the server ends its workers
    gc.set_threshold(*GARBAGE)
    share_memory()
    logging.getLogger("braid").addHandler(Warnings())
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as server, server.makefile("rb") as frames:
        given = read_frame(frames)
        if given is None:
            return
        try:
            _answer(Start(*given), server, frames)
        except BraidError as error:
            complain(str(error))
            sys.exit(EXIT_FAILED)


def _answer(start: Start, server: socket.socket, frames: BinaryIO) -> None:
    library = Application(load_settings().model_copy(update={"cursor_key": SecretStr(start.cursor_key)}))
    pool = ThreadPoolExecutor(start.at_once, thread_name_prefix="braid")
    sending, processor = threading.Lock(), ProcessorTime()

    def send(content: bytes) -> None:
        # Errors are ignored: if the server is gone, no response is needed.
        with sending, suppress(OSError):
            server.sendall(content)

    def answer(number: int, event: dict[str, Any]) -> None:
        reply = internal().response()
        with processor.measured() as spent:
            try:
                reply = handle(event, LocalContext("search_api"))
            except BaseException as error:  # noqa: BLE001 - native code may raise it; the request would hold its place for ever
                _LOG.warning("a request failed with %s", type(error).__name__)  # a message may quote the request
        send(framed_answer(number, reply, spent.seconds))

    try:
        ask_once(library, start.tenants)
        handle: Handler = make_handler(library)
        send(framed(READY))
        while (request := read_frame(frames)) is not None:
            if request == PING:
                send(framed(PONG))
            else:
                pool.submit(answer, *request)
    finally:
        too_long = threading.Timer(END_S, os._exit, (EXIT_FAILED,))
        too_long.daemon = True
        too_long.start()
        pool.shutdown()
        library.close()


if __name__ == "__main__":
    main()
