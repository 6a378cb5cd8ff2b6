"""Takes requests apart, and refuses those whose parts are so small or many that this would take everybody's time.

It happens on the thread that serves all connections, before anything is known of who asks: 60 kB of headers without
names and values, or a body in chunks of one byte, took a tenth of a second of it each.
"""

from __future__ import annotations

import re
from typing import Any, Final, NoReturn

import h11

HEADER_BYTES: Final = 16_384
"""Most bytes of a request's line and headers together, and of its trailers; API Gateway takes 10,240."""
HEADER_LINES: Final = 128
"""Most lines of headers, and of trailers: each takes the same time, however short it is."""
CHUNKS: Final = 256
"""Chunks of a body that may be of any size; there is one more for each :data:`CHUNK_BYTES` bytes that came."""
CHUNK_BYTES: Final = 64
READ_BYTES: Final = 16_384
"""Bytes that are read of a connection before another one's turn."""
_END: Final = re.compile(rb"\n\r?\n")
_LAST_CHUNK: Final = re.compile(rb"[\r\n]{0,2}0+(?:;[^\n]*)?[ \t]*\r\n")
"""What trailers follow, with the end of the chunk before it, as far as that was not read with the chunk."""


class Requests(h11.Connection):
    """The requests of one connection, in their parts."""

    def __init__(self) -> None:
        super().__init__(h11.SERVER, max_incomplete_event_size=HEADER_BYTES)
        self.refused = ""
        """Why a request was refused here; empty where h11 refused it, or nobody did."""
        self._chunks = self._bytes = 0
        self._between_chunks = self._in_trailers = False

    def next_event(self) -> Any:  # noqa: ANN401 - as h11 says
        """Return the next part. Raises RemoteProtocolError of a request that is refused."""
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
        """Refuse trailers before h11 looks at them. Between chunks, either a chunk follows or they do."""
        if not self._in_trailers and (last := _LAST_CHUNK.match(waiting)):
            self._in_trailers = True
            waiting = waiting[last.end() :]
        if self._in_trailers:
            self._check_lines("trailers", waiting)

    def _check_lines(self, what: str, waiting: bytes) -> None:
        """Refuse headers or trailers before h11 looks at them, whether they came in one piece or not."""
        lines = waiting[: HEADER_BYTES + 1]
        if end := _END.search(lines):
            lines = lines[: end.end()]
        if len(lines) > HEADER_BYTES or lines.count(b"\n") > HEADER_LINES:
            self._refuse(f"the {what} have more than {HEADER_BYTES:,} bytes or {HEADER_LINES} lines")

    def _refuse(self, why: str) -> NoReturn:
        self.refused = why
        raise h11.RemoteProtocolError(why)
