"""What a dataset folder last put into the stores, kept beside them, so that what it no longer holds can be removed."""

from __future__ import annotations

import json
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from braid.errors import ConfigurationError, ObjectMissing

from braid_cli.datasets.staging import Whose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.app import Wired
    from braid.ports.object_store import ObjectStore

    from braid_cli.datasets.staging import Ledger

FOLDER = "datasets/"
UNFINISHED = ""


class Heading(NamedTuple):
    """The first line of a manifest; ids of records, of vertices, and identities of edges follow, one a line."""

    fingerprint: str = UNFINISHED
    """Of the content and the models; empty while it is being written."""
    generation: int = 0
    """The tenant's write generation at its end; 0 where none is kept."""


def manifests(wired: Wired) -> ObjectStore | None:
    """Return where manifests are kept; None where the deployed engine has no bucket."""
    try:
        return wired.objects
    except ConfigurationError:
        return None


def read_heading(objects: ObjectStore, tenant_id: str, key: str) -> Heading:
    """Return the heading of a manifest, that of an unfinished one when there is none."""
    try:
        first = json.loads(next(iter(objects.open(tenant_id, key))))
    except ObjectMissing:
        return Heading()
    return Heading(first["fingerprint"], first["generation"])


def read_manifest(objects: ObjectStore, tenant_id: str, key: str, ledger: Ledger, whose: Whose) -> None:
    """Note what a manifest says; nothing when there is none."""
    try:
        lines = iter(objects.open(tenant_id, key))
        next(lines)
        ledger.hold(whose, map(json.loads, lines))
    except ObjectMissing:
        return


def read_others(objects: ObjectStore, tenant_id: str, key: str, ledger: Ledger) -> None:
    """Note what the tenant's other datasets hold."""
    for info in objects.list(tenant_id, FOLDER):
        if info.key != key:
            read_manifest(objects, tenant_id, info.key, ledger, Whose.OTHERS)


def write_manifest(
    objects: ObjectStore, tenant_id: str, key: str, heading: Heading, ledger: Ledger, *whose: Whose
) -> None:
    """Keep a manifest of what these hold."""
    with TemporaryFile() as file:
        for line in _lines(heading, ledger, whose):
            file.write(json.dumps(line).encode() + b"\n")
        file.seek(0)
        objects.put(tenant_id, key, cast("BinaryIO", file))


def _lines(heading: Heading, ledger: Ledger, whose: tuple[Whose, ...]) -> Iterator[object]:
    yield heading._asdict()
    yield from ledger.lines(*whose)
