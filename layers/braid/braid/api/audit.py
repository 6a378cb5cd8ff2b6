"""Audit log: refused requests, and requests that change or list stored data, with tenant and size; never content.

Invalid requests, and those above a quota, change nothing and have no entry: however many of them a tenant sends, they
cannot displace another tenant's entries.

One JSON object a line, each with ``"log": "audit"``. In Lambda the lines go to the function's log group, where a
subscription or metric filter selects them by that field. Elsewhere they go to :data:`FILE` in the home folder, readable
by its owner only, and rotated: at most :data:`FILES` files of :data:`FILE_BYTES` are kept, and the owners with most
entries lose theirs first (:func:`fair_share`). Unauthenticated requests go to :data:`UNKNOWN_FILE`, so that they
displace no other entries.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import sys
import threading
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from http import HTTPStatus
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from braid.models import Frozen
from braid.settings.folders import in_lambda

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from braid.settings import Settings

FILE: Final = "audit.jsonl"
UNKNOWN_FILE: Final = "audit-unknown.jsonl"
FILE_BYTES: Final = 10_000_000
FILES: Final = 10


class AuditEvent(StrEnum):
    """Kind of an audit entry."""

    AUTHENTICATION_FAILED = "authentication_failed"
    REFUSED = "refused"
    WRITE = "write"
    DELETE = "delete"
    LIST = "list"
    IMPORT = "import"
    SCHEMA = "schema"
    REEMBED = "reembed"


_EVENTS: Final[Mapping[tuple[str, str | None], AuditEvent]] = {
    ("POST", "/records"): AuditEvent.WRITE,
    ("GET", "/records"): AuditEvent.LIST,
    ("POST", "/records:read"): AuditEvent.LIST,
    ("GET", "/documents"): AuditEvent.LIST,
    ("GET", "/entities"): AuditEvent.LIST,
    ("DELETE", "/records/<record_id>"): AuditEvent.DELETE,
    ("POST", "/records:delete"): AuditEvent.DELETE,
    ("POST", "/records:import"): AuditEvent.IMPORT,
    ("POST", "/documents"): AuditEvent.IMPORT,
    ("POST", "/schemas"): AuditEvent.SCHEMA,
    ("POST", "/reembed"): AuditEvent.REEMBED,
}
_NOT_AUDITED: Final = frozenset(
    {
        HTTPStatus.BAD_REQUEST,
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        HTTPStatus.UNPROCESSABLE_ENTITY,
        HTTPStatus.TOO_MANY_REQUESTS,
    }
)


class AuditEntry(Frozen):
    """Audit entry of one request."""

    event: AuditEvent
    status: int
    """HTTP status of the response; 400 and above is a failed attempt."""
    method: str
    route: str | None
    """Route of the path, without ids; None if no route matches."""
    subject: str | None = None
    tenant_id: str | None = None
    count: int | None = None
    """Number of items written, deleted or listed; None if the request was refused before it was known."""
    reason: str | None = None
    """Reason of a refusal, such as ``role``."""
    source_ip: str | None = None
    request_id: str | None = None


def audited(method: str, route: str | None, status: int) -> AuditEvent | None:
    """Return the kind of audit entry of a request, by its route and status; None if it is not audited."""
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return AuditEvent.AUTHENTICATION_FAILED
        case HTTPStatus.FORBIDDEN:
            return AuditEvent.REFUSED
        case status if status in _NOT_AUDITED:
            return None
        case _:
            return _EVENTS.get((method, route))


class AuditLog:
    """Writes audit entries; an entry that cannot be written goes to standard error, and the request does not fail.

    Parameters
    ----------
    write_known, write_unknown
        Write one line, given without its line feed, of an authenticated and an unauthenticated caller.
    """

    def __init__(self, write_known: Callable[[str], None], write_unknown: Callable[[str], None]) -> None:
        self._write_known, self._write_unknown = write_known, write_unknown

    def add(self, entry: AuditEntry) -> None:
        """Write one entry."""
        about = {"log": "audit", "level": "INFO", "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")}
        line = json.dumps(about | entry.model_dump(mode="json", exclude_none=True))
        try:
            (self._write_known if entry.subject else self._write_unknown)(line)
        except OSError as error:
            sys.stderr.write(f"audit log: {error.strerror or error}\n{line}\n")


def open_audit_log(settings: Settings) -> AuditLog:
    """Return the audit log of this process. Files are opened at the first entry."""
    if in_lambda():
        return AuditLog(_to_standard_output, _to_standard_output)
    return AuditLog(_File(settings.home / FILE).add, _File(settings.home / UNKNOWN_FILE).add)


def _to_standard_output(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class _File:
    """A log file with access for its owner only, rotated when full.

    Several processes may write to it: each line is one append to a newly opened file, and rotation takes a lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        """Append one line.

        Raises OSError if it cannot be written completely; the next one then begins on a new line.
        """
        with self._lock:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._full():
                folder = os.open(self._path.parent, os.O_RDONLY)
                try:
                    fcntl.flock(folder, fcntl.LOCK_EX)
                    if self._full():  # not renamed by another process meanwhile
                        self._rename_full()
                finally:
                    os.close(folder)
            with open(self._path, "a+b", buffering=0, opener=_open_private) as file:
                whole = f"{line}\n".encode()
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    whole = whole if file.read(1) == b"\n" else b"\n" + whole
                if file.write(whole) < len(whole):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _full(self) -> bool:
        return self._path.exists() and self._path.stat().st_size >= FILE_BYTES

    def _rename_full(self) -> None:
        files = [self._path, *(self._path.with_name(f"{self._path.stem}.{number}.jsonl") for number in range(1, FILES))]
        if files[-1].exists():
            *files, older, oldest = files
            self._shorten(older, oldest)
            files.append(older)
        for newer, older in reversed(list(pairwise(files))):
            with suppress(FileNotFoundError):
                newer.replace(older)

    def _shorten(self, older: Path, oldest: Path) -> None:
        """Merge the two oldest files into one, within :data:`FILE_BYTES` by :func:`fair_share`."""
        there = [file for file in (oldest, older) if file.exists()]
        both = [line for file in there for line in file.read_bytes().splitlines(keepends=True)]
        shortened = oldest.with_name(f"{oldest.name}.new")
        with open(shortened, "wb", opener=_open_private) as file:
            file.writelines(fair_share(both, FILE_BYTES))
        shortened.replace(oldest)
        older.unlink(missing_ok=True)


def fair_share(lines: Sequence[bytes], most_bytes: int) -> list[bytes]:
    """Return the audit entries that fit into ``most_bytes``, in their order, with equal shares for all owners.

    An owner with less than an equal share keeps all entries, and the others divide the rest and keep their newest. An
    entry's owner is its tenant; that of a refused request is its caller, who may have named any tenant.
    """
    owners = [_owner(line) for line in lines]
    sizes: Counter[str] = Counter()
    for owner, line in zip(owners, lines, strict=True):
        sizes[owner] += len(line)
    left, share = most_bytes, dict[str, int]()
    for count, (owner, size) in enumerate(sorted(sizes.items(), key=lambda one: (one[1], one[0]))):
        share[owner] = min(size, left // (len(sizes) - count))
        left -= share[owner]
    kept: list[bytes] = []
    for owner, line in zip(reversed(owners), reversed(lines), strict=True):
        share[owner] -= len(line)
        if share[owner] >= 0:
            kept.append(line)
    return kept[::-1]


def _owner(line: bytes) -> str:
    """Return the owner of an entry, as :func:`fair_share` defines it."""
    try:
        entry = json.loads(line)
    except ValueError:  # an incomplete line, of a process that was killed
        return ""
    refused = entry.get("event") == AuditEvent.REFUSED
    return f"subject {entry.get('subject')}" if refused else f"tenant {entry.get('tenant_id')}"


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)
