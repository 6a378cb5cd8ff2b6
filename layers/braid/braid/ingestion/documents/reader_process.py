"""Reads files in a subprocess, so that no file can exceed the limits of time and memory, or crash the ingest.

Run as a module it is that subprocess: it reads one request per line from standard input, and answers each with the
length of a JSON object, in eight bytes, and the object.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from errno import EFBIG
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from braid.ingestion.documents.document import Document, Empty, ReadingLimits, Source, Unreadable, UnreadableNow
from braid.ingestion.documents.metadata_files import read_beside
from braid.ingestion.documents.reader_selection import read
from braid.ingestion.regular_files import NotRegular, open_regular

if TYPE_CHECKING:
    from collections.abc import Mapping

_LENGTH_BYTES = 8
_PART_BYTES = 1024 * 1024
_ANSWER_BYTES = 8
"""Most bytes of an answer for each character that a document may have, and for each byte of ``_ANSWER_SPARE``."""
_ANSWER_SPARE = 8 * 1024 * 1024
_AFTER_PARENT_S = 2.0
"""Seconds after which the subprocess ends by itself, counted from the time at which its parent kills it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Outcome of reading a file: a document, or the reason why there is none."""

    sha256: str = ""
    """Of the content; empty of a file that could not be opened."""
    document: Document | None = None
    """None also if the content has the known hash."""
    unreadable: str = ""
    permanent: bool = True
    """Whether reading the same content again would fail again."""
    empty: bool = False
    """Whether it is unreadable because it has no content."""


@dataclass
class ReaderProcess:
    """A subprocess that reads one file after the other; started by the first one, and again after one that broke it."""

    limits: ReadingLimits = field(default_factory=ReadingLimits)
    mapping: Mapping[str, str] = field(default_factory=dict)
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, path: str, name: str, known_sha256: str = "") -> Reading:
        """Read one file.

        Parameters
        ----------
        path
            Path to open, without links.
        name
            Its path in the ingested folder, from which a document without a title has its name.
        known_sha256
            Hash of the content that was read before; if it is unchanged, no document is returned.
        """
        seconds = self.limits.seconds_for(0)
        with contextlib.suppress(OSError):  # the subprocess reports a file that cannot be opened
            seconds = self.limits.seconds_for(Path(path).lstat().st_size)
        ends_after = seconds + _AFTER_PARENT_S
        request = {"path": os.fsencode(path).hex(), "name": name, "known": known_sha256, "ends_after": ends_after}
        try:
            process = self._started()
            _stream(process.stdin).write(json.dumps(request).encode() + b"\n")
            _stream(process.stdin).flush()
            most = _ANSWER_BYTES * (self.limits.characters + _ANSWER_SPARE)
            answer = self._answer(process, time.monotonic() + seconds, most)
        except TimeoutError:
            self.close()
            return Reading(unreadable=f"takes longer than {seconds:.3g} seconds to read", permanent=False)
        except OSError:
            self.close()
            return Reading(unreadable="broke its reader, or needs more memory than one file may take", permanent=False)
        document = answer.pop("document", None)
        return Reading(**answer, document=Document.from_json(document) if document else None)

    def close(self) -> None:
        """Kill the subprocess."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    _stream(stream).close()
            process.wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            paths = os.pathsep.join(path for path in sys.path if path)
            setup = json.dumps({"limits": asdict(self.limits), "mapping": dict(self.mapping)})
            self._process = subprocess.Popen(  # noqa: S603 - this module, in this Python
                # Without the working folder on its path (-P): that may be the folder whose documents are read.
                [sys.executable, "-P", "-m", __spec__.name if __spec__ else __name__, setup],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": paths},
                start_new_session=True,  # Ctrl-C is for the process that ingests, which ends this one
            )
        return self._process

    @staticmethod
    def _answer(process: subprocess.Popen[bytes], until: float, most: int) -> dict[str, Any]:
        """Return the next answer.

        Raises
        ------
        TimeoutError
            If it is not there in time.
        OSError
            If the process ended, or its answer is longer than ``most`` bytes.
        """
        stream = _stream(process.stdout)
        content = bytearray()
        length = _LENGTH_BYTES
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while len(content) < length:
                if not selector.select(max(0.0, until - time.monotonic())):
                    raise TimeoutError
                part = os.read(stream.fileno(), min(_PART_BYTES, length - len(content)))
                if not part:
                    raise BrokenPipeError
                content += part
                if len(content) == length == _LENGTH_BYTES:
                    length += int.from_bytes(content, "big")
                    if length > most:
                        raise OSError(EFBIG, os.strerror(EFBIG))
        del content[:_LENGTH_BYTES]
        return dict(json.loads(content))


def _stream(stream: Any) -> Any:  # noqa: ANN401 - a pipe that was asked for
    return stream


def read_file(
    path: str | bytes, name: str, known_sha256: str, limits: ReadingLimits, mapping: Mapping[str, str]
) -> Reading:
    """Read one file and its metadata file, if there is one, in this process, without a time limit.

    Anything but a regular file, or a path with a link, is refused: it may have been put there since it was listed.
    """
    sha256 = ""
    try:
        with open_regular(path, follow_links=False) as file:
            content = file.read(limits.file_bytes + 1)
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 == known_sha256:
            return Reading(sha256)
        return Reading(sha256, read(Source(name, content, limits, mapping, read_beside(path, name))))
    except Unreadable as error:
        permanent, empty = not isinstance(error, UnreadableNow), isinstance(error, Empty)
        return Reading(sha256, unreadable=str(error), permanent=permanent, empty=empty)
    except NotRegular as error:
        return Reading(unreadable=str(error.strerror))
    except OSError as error:
        return Reading(unreadable=f"cannot be opened: {error.strerror}", permanent=False)
    except MemoryError:
        return Reading(sha256, unreadable="needs more memory than one file may take")


def main() -> None:
    """Answer requests until standard input ends."""
    setup = json.loads(sys.argv[1])
    limits = ReadingLimits(**setup["limits"])
    _limit_memory(limits.memory_bytes)
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(2, sys.stdout.fileno())  # so that output of a library is not read as a response
    for line in sys.stdin.buffer:
        request = json.loads(line)
        # The parent kills this process in time; if it was killed itself, this ends it.
        signal.setitimer(signal.ITIMER_REAL, request["ends_after"])
        reading = read_file(bytes.fromhex(request["path"]), request["name"], request["known"], limits, setup["mapping"])
        fields = ("sha256", "unreadable", "permanent", "empty")
        answer: dict[str, Any] = {name: getattr(reading, name) for name in fields}
        if reading.document is not None:
            answer["document"] = reading.document.as_json()
        content = json.dumps(answer, ensure_ascii=False).encode()
        out.write(len(content).to_bytes(_LENGTH_BYTES, "big") + content)
        out.flush()
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit_memory(size: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    except (ImportError, ValueError, OSError):  # not on every system
        return


if __name__ == "__main__":
    main()
