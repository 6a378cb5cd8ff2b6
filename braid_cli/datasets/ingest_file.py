"""Ingests a JSON Lines file in batches, in the phases of the deployed bulk import."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from braid.errors import DatasetError
from braid.ingestion.bulk.batch_phases import distrust_edges_of, fingerprints_of, part_of, phases_of, refused_records
from braid.ingestion.bulk.fingerprints import Fingerprints
from braid.ingestion.bulk.import_steps import in_batches
from braid.ingestion.bulk.step_messages import Phase
from braid.ingestion.item_parsing import Items
from braid.ingestion.regular_files import open_regular
from braid.ingestion.writing import write
from braid.ports.object_store import MAX_LINE_BYTES

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from braid.app import Application
    from braid.ingestion.writing import ItemError, MissingEnds, WriteReport


@dataclass
class FileReport:
    """Counts and timings of one file."""

    lines: int = 0
    written: int = 0
    unchanged: int = 0
    embedded: int = 0
    relationships: int = 0
    superseded: int = 0
    errors: int = 0
    embed_seconds: float = 0.0
    write_seconds: float = 0.0

    def add(self, report: WriteReport, errors: Sequence[ItemError], phase: Phase, *, lines: int) -> None:
        """Add the outcome of a batch in one phase."""
        self.lines += lines if phase is Phase.ITEMS else 0
        self.errors += len(errors)
        for name in ("written", "unchanged", "embedded", "superseded"):
            setattr(self, name, getattr(self, name) + getattr(report, name))
        self.relationships += report.relationships if phase is not Phase.ENDS else 0  # counted in an earlier phase
        self.embed_seconds += report.embed_seconds
        self.write_seconds += report.write_seconds


def ingest_file(
    path: Path,
    tenant_id: str,
    application: Application,
    *,
    missing: MissingEnds,
    threads: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    on_error: Callable[[ItemError], None] = lambda _: None,
) -> FileReport:
    """Write the valid lines of a file, in the phases of :mod:`braid.ingestion.bulk.batch_phases`; report invalid ones.

    Memory holds one batch, the places and ids of refused lines, and eight bytes for each edge that another edge
    supersedes or that supersedes a record.

    Parameters
    ----------
    path
        File with one JSON object a line, in the format of :mod:`braid.ingestion.item_parsing`.
    missing
        What to do with edges whose ends are not stored.
    on_progress
        Called with the bytes read and the size of the file.
    on_error
        Called with each error of a line.

    Raises
    ------
    DatasetError
        If the file changes while it is read; lines written until then stay.
    StoreError, ModelError
        As :func:`braid.ingestion.writing.write`; ingesting the file again continues.
    """
    begun = path.stat()
    done = FileReport()
    phases_by_batch: list[set[Phase]] = []
    refused: set[str] = set()
    untrusted: dict[str, None] = {}
    fingerprints, in_order = Fingerprints(), b""
    for phase in Phase:
        for lines, first, read in _batches_of_phase(path, begun, phase, phases_by_batch):
            items = Items(tenant_id)
            for at, line in enumerate(lines, start=first):
                items.add_line(f"{path}:{at}", line)
            whole = items.request(partial=True, missing=missing)
            if phase is Phase.ITEMS:
                for fingerprint in fingerprints_of(whole):
                    fingerprints.add(fingerprint)
            report = write(part_of(whole, phase, refused, in_order), application, threads=threads)
            errors = (*items.errors, *report.errors) if phase is Phase.ITEMS else report.errors
            refused.update(error.place for error in report.errors)
            if phase is Phase.ITEMS:
                untrusted |= dict.fromkeys(refused_records(whole, errors, items.unread))
            done.add(report, errors, phase, lines=len(lines))
            for error in errors:
                on_error(error)
            if on_progress and phase is Phase.ITEMS:
                on_progress(read, begun.st_size)
        if phase is Phase.ITEMS:
            in_order = fingerprints.in_order()
    distrust_edges_of(untrusted, tenant_id, application)
    application.graph.prepare_walks(tenant_id)
    return done


def _require_unchanged(path: Path, begun: os.stat_result) -> None:
    now = path.stat()
    if (now.st_mtime_ns, now.st_size) != (begun.st_mtime_ns, begun.st_size):
        raise DatasetError(f"{path} changed while it was read; ingest it again")


def _batches_of_phase(
    path: Path, begun: os.stat_result, phase: Phase, phases_by_batch: list[set[Phase]]
) -> Iterator[tuple[list[bytes], int, int]]:
    """Yield the batches with lines for a phase; the first phase fills ``phases_by_batch``."""
    if phase is not Phase.ITEMS and not any(phase in phases for phases in phases_by_batch):
        return
    for number, batch in enumerate(_batches(path)):
        _require_unchanged(path, begun)
        if phase is Phase.ITEMS:
            phases_by_batch.append(set[Phase]().union(*map(phases_of, batch[0])))
        if phase in phases_by_batch[number]:
            yield batch
    _require_unchanged(path, begun)  # after the last batch too, as the file may have been truncated


def _batches(path: Path) -> Iterator[tuple[list[bytes], int, int]]:
    """Yield batches of lines, each with the number of its first line and the bytes read so far."""
    first = 1
    with open_regular(path) as file:
        for lines in in_batches(_lines(file)):
            yield lines, first, file.tell()
            first += len(lines)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield lines; only the beginning of one that is too long."""
    while line := file.readline(MAX_LINE_BYTES + 2):
        rest = line
        while not rest.endswith(b"\n") and len(rest) > MAX_LINE_BYTES:
            rest = file.readline(MAX_LINE_BYTES + 2)
        yield line.rstrip(b"\n")
