"""HTTP/1.1 parser that refuses requests which are slow to parse: many header lines, or many tiny chunks.

Parsing runs on the event loop's thread, before authentication: 60 kB of empty headers, or a body in chunks of one byte,
each blocked all connections for a tenth of a second. A body that is too large is refused by ``_body`` in
:mod:`braid_cli.http_server.server`.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

import h11

HEADER_BYTES: Final = 16_384
"""Size limit of a request's line and headers together, and of its trailers; API Gateway's is 10,240."""
HEADER_LINES: Final = 128
"""Limit of header lines, and of trailer lines: parsing time grows with their number, not their length."""
CHUNKS: Final = 64
"""Limit of a body's chunks, plus one for each :data:`CHUNK_BYTES` bytes received."""
CHUNK_BYTES: Final = 512
READ_BYTES: Final = 16_384
"""Bytes that are read from a connection at a time, before other connections have their turn."""
_END: Final = re.compile(rb"\n\r?\n")
_LAST_CHUNK: Final = re.compile(rb"[\r\n]{0,2}0+(?:;[^\n]*)?[ \t]*\r\n")
"""The last chunk, of size 0, which trailers follow; with the line end of the chunk before it, if it is unread."""


class Requests(h11.Connection):
    """Parser of the requests of one connection."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=HEADER_BYTES)
        self.refused = ""
        """Reason of a refusal by this class; empty if h11 refused the request, or it was not refused."""
        self._chunks = self._bytes = 0
        self._between_chunks = self._in_trailers = False

    def next_event(self) -> Any:  # noqa: ANN401 - as h11 says
        """Return the next event of a request. Raises RemoteProtocolError if the request is refused."""
        if self.their_state is h11.IDLE:
            self._check_lines("headers", self.trailing_data[0])
        elif self._between_chunks and self.their_state is h11.SEND_BODY:
            self._check_trailers(self.trailing_data[0])
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._chunks = self._bytes = 0
            self._between_chunks = any(name == b"transfer-encoding" for name, _ in event.headers)
            self._in_trailers = False
        elif isinstance(event, h11.Data):
            self._between_chunks = event.chunk_end
            self._chunks += event.chunk_start
            self._bytes += len(event.data)
            if self._bytes < CHUNK_BYTES * (self._chunks - CHUNKS):
                self._refuse(f"the body has very many chunks of fewer than {CHUNK_BYTES} bytes")
        return event

    def _check_trailers(self, waiting: bytes) -> None:
        """Check trailers before h11 parses them. ``waiting`` begins between two chunks, or behind the last one."""
        if not self._in_trailers and (last := _LAST_CHUNK.match(waiting)):
            self._in_trailers = True
            waiting = waiting[last.end() :]
        if self._in_trailers:
            self._check_lines("trailers", waiting)

    def _check_lines(self, what: str, waiting: bytes) -> None:
        """Check headers or trailers, complete or not, before h11 parses them."""
        lines = waiting[: HEADER_BYTES + 1]
        if end := _END.search(lines):
            lines = lines[: end.end()]
        if len(lines) > HEADER_BYTES or lines.count(b"\n") > HEADER_LINES:
            self._refuse(f"the {what} have more than {HEADER_BYTES:,} bytes or {HEADER_LINES} lines")

    def _refuse(self, why: str) -> NoReturn:
        self.refused = why
        raise h11.RemoteProtocolError(why)
