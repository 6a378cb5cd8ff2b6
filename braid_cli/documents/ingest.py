"""Ingests documents, and shows progress and results."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from braid.errors import InvalidRequest, TransientStoreError
from braid.ingestion.documents.folder_listing import find
from braid.ingestion.documents.folder_state import FolderState
from braid.ingestion.documents.ingesting import Options, ingest_documents
from braid.ingestion.documents.progress import (
    EncodingGuessed,
    FileSkipped,
    FolderBegun,
    FolderDone,
    Progress,
    RunFailed,
)
from braid.models.enums_and_scalars import on_one_line

from braid_cli.answer_rendering import print_found_names
from braid_cli.terminal import complain, counted, err, out, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from braid.app import Application
    from braid.ingestion.documents.ingesting import DocumentStore
    from braid.ingestion.documents.progress import Event

_LINE_EVERY_S = 5.0
"""Interval of progress lines, in seconds, if standard error is not a terminal."""
LEAST_INTERVAL_S: Final = 1.0
MAX_INTERVAL_S: Final = 86_400.0


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """Parse option values of the form ``key=value``.

    Raises InvalidRequest if one is not of that form, or a key is given twice.
    """
    found: dict[str, str] = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not (key.strip() and equals and value.strip()):
            raise InvalidRequest.of(option, f"{one!r} is not of the form key=value")
        if key.strip() in found:
            more = "; one column is the text. Without it, all columns that are not mapped are"
            told = more if (option, key.strip()) == ("--map", "text") else ""
            raise InvalidRequest.of(option, f"{key.strip()!r} is given twice{told}")
        found[key.strip()] = value.strip()
    return found


def check_same_folder(path: Path, store: DocumentStore, tenant: str, name: str, moved_from: Path | None) -> None:
    """Check that ingesting a folder under a name does not delete or replace another folder's documents by mistake.

    Where the folder that was last ingested under the name is gone, it has moved. Documents that will be deleted are
    reported.

    Raises
    ------
    InvalidRequest
        If that folder still exists and has documents, unless ``moved_from`` names it; or if ``moved_from`` names
        another one.
    OSError
        If the path cannot be read.
    """
    state = FolderState(store.objects, tenant, name).load()
    here, before = os.path.realpath(path), state.place
    if moved_from and before and os.path.realpath(moved_from) not in {before, here}:
        raise InvalidRequest.of("--moved-from", f"{name!r} was ingested from {before}")
    stored = [known for known, file in state.files.items() if file.chunks]
    if not (before and stored) or before == here:
        return
    found = find(path)
    lost = sum(known not in found.files and not found.may_hold(known) for known in stored)
    if os.path.lexists(before) and not moved_from:
        raise InvalidRequest.of(
            "--name",
            f"{name!r} was ingested from {before}, which still exists; {lost:,} of its documents would be "
            f"deleted and {len(stored) - lost:,} replaced. Give {here} a name of its own, or, if it takes the place of "
            f"that folder, --moved-from {before}",
        )
    if lost:
        told = f"{name!r} was ingested from {before}; {counted(lost, 'document')} that {here} has not will be deleted"
        complain(told, style="yellow")


def watch(
    ingest: Callable[[], Iterator[Event]], *, interval_s: float, wait: Callable[[float], bool]
) -> Iterator[Event]:
    """Ingest repeatedly, with a pause after each run, and yield the events of all runs.

    A run that fails because another process writes, or, after the first run, because the folder is away, is reported,
    and followed by the next one.

    Raises InvalidRequest if the interval is out of bounds, and OSError if the folder cannot be read at first.

    Parameters
    ----------
    ingest
        Runs one ingest, such as :func:`braid.ingestion.documents.ingesting.ingest_documents` of the same paths.
    interval_s
        Seconds from the end of one run to the next, 1 to 86,400.
    wait
        Waits the given seconds; returns whether to continue.
    """
    if not LEAST_INTERVAL_S <= interval_s <= MAX_INTERVAL_S:
        raise InvalidRequest(
            f"--every: must be {LEAST_INTERVAL_S:g} to {MAX_INTERVAL_S:,.0f} seconds", field="interval_s"
        )
    passing: tuple[type[Exception], ...] = (TransientStoreError,)
    while True:
        try:
            yield from ingest()
        except passing as error:
            if isinstance(error, OSError) and error.filename:
                yield RunFailed(f"{error.filename}: {error.strerror}")
            else:
                yield RunFailed(str(error))
        if not wait(interval_s):
            return
        passing = (TransientStoreError, OSError)


def ingest(
    path: Path,
    application: Application,
    tenant: str,
    *,
    options: Options,
    every_s: float | None = None,
    as_json: bool = False,
    wait: Callable[[float], bool] | None = None,
) -> bool:
    """Ingest a folder or file, once or repeatedly until interrupted, and print progress and results.

    Parameters
    ----------
    every_s
        Seconds between two runs; None runs once.
    as_json
        Whether to print one JSON object for each run.
    wait
        Waits the given seconds, and returns whether to continue.

    Returns
    -------
    bool
        Whether all files could be read in the last run.
    """

    def once() -> Iterator[Event]:
        yield from ingest_documents(path, application, tenant_id=tenant, options=options, on_embedded=show.embedded)
        application.graph.prepare_walks(tenant)

    whole = True
    with _shown(quiet=as_json) as show:
        events = once() if every_s is None else watch(once, interval_s=every_s, wait=wait or _wait)
        try:
            for event in events:
                show.event(event)
                if isinstance(event, FolderDone):
                    whole = not event.skipped
                    show.pause()
                    _tell(event, tenant, application, as_json=as_json, first=show.first)
                    show.first = False
        except KeyboardInterrupt:
            show.pause()
            complain(f"stopped: {show.kept()}", style="yellow")
            raise
    return whole


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return True


def _tell(done: FolderDone, tenant: str, application: Application, *, as_json: bool, first: bool) -> None:
    if as_json:
        print_json({"folder": done.name, "tenant": tenant, **{k: v for k, v in asdict(done).items() if k != "name"}})
        return
    if not first and not (done.read or done.removed):
        return
    changes = [
        f"{done.read:,} read ({counted(done.written, 'chunk')} new or changed)" if done.read else "",
        f"{done.unchanged:,} unchanged" if done.unchanged else "",
        f"{done.removed:,} removed" if done.removed else "",
        f"{len(done.skipped):,} skipped" if done.skipped else "",
        f"{done.hidden:,} hidden left out" if done.hidden else "",
    ]
    told = "; ".join(change for change in changes if change) or "nothing to read"
    stored = f"{counted(done.documents, 'document')} in {counted(done.chunks, 'chunk')}"
    took = f"{done.seconds:.1f} s (embedding {done.embed_seconds:.1f} s)"
    out.print(
        f"{on_one_line(done.name)}: {stored} for {tenant}: {told}; {took}",
        markup=False,
        soft_wrap=True,
    )
    print_found_names(done, application, tenant)


class _Display:
    """Progress display on standard error: a bar on a terminal, otherwise lines."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self.first = True
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[told]}", markup=False),
            TimeElapsedColumn(),
            console=err,
            disable=quiet or not err.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None, told="")
        self._lines = not quiet and not err.is_terminal
        self._last_line = 0.0
        self._files = self._chunks = 0
        self._done = False
        self._said, self._said_before = set[FileSkipped | EncodingGuessed](), set[FileSkipped | EncodingGuessed]()
        self._failed: RunFailed | None = None

    def event(self, event: Event) -> None:
        """Show one event."""
        match event:
            case FolderBegun():
                self._done = False
                self._said_before, self._said = self._said, set()
                self._files = self._chunks = 0
                self._last_line = 0.0
                if event.changed:
                    told = f"{event.name}: {counted(event.files, 'file')}, {event.changed:,} to read"
                    self._line(told)
                    self._bar.start()
                    self._update(on_one_line(event.name), f"0 of {event.changed:,} files", 0, None)
            case Progress():
                self._files, self._chunks = event.files, event.chunks
                told = (
                    f"{event.files:,} of {event.all_files:,} files, {event.chunks:,} of about {event.all_chunks:,} "
                    f"chunks, about {_duration(event.seconds_left)} left"
                )
                self._update(on_one_line(event.name), told, event.chunks, event.all_chunks)
                if event.seconds - self._last_line >= _LINE_EVERY_S:
                    self._last_line = event.seconds
                    self._line(f"{event.name}: {told}")
            case FileSkipped() | EncodingGuessed():
                self._tell_of_file(event)
            case FolderDone():
                self._done, self._failed = True, None
            case RunFailed():
                self.pause()
                if event != self._failed:
                    complain(f"{on_one_line(event.reason)}; --watch goes on", style="yellow")
                self._failed = event

    def _tell_of_file(self, event: FileSkipped | EncodingGuessed) -> None:
        """Print what a user should know of a file, unless the run before said so."""
        self._said.add(event)
        if event not in self._said_before:
            complain(on_one_line(str(event)), style="yellow")

    def embedded(self, done: int, _of: int) -> None:
        """Show how many chunks of the current page are embedded."""
        self._bar.update(self._task, completed=self._chunks + done)

    def pause(self) -> None:
        """Remove the bar."""
        self._bar.stop()

    def kept(self) -> str:
        """Return the numbers of written files and chunks; between two runs, that all are written."""
        if self._done:
            return "all that was found is stored; the same command looks for changes"
        files = "1 file is" if self._files == 1 else f"{self._files:,} files are"
        return f"{files} read and {counted(self._chunks, 'chunk')} kept; the same command goes on from there"

    def _update(self, what: str, told: str, done: int, total: int | None) -> None:
        self._bar.update(self._task, description=what, told=told, completed=done, total=total)

    def _line(self, told: str) -> None:
        if self._lines:
            err.print(on_one_line(told), markup=False, soft_wrap=True)


@contextmanager
def _shown(*, quiet: bool) -> Iterator[_Display]:
    display = _Display(quiet=quiet)
    try:
        yield display
    finally:
        display.pause()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
