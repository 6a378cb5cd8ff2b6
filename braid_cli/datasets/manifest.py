"""Manifest of a dataset in the object store: ids that its last ingest wrote, so that a later one can delete them."""

from __future__ import annotations

import json
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from braid.errors import ConfigurationError, ObjectMissing

from braid_cli.datasets.staging import Snapshot

if TYPE_CHECKING:
    from braid.app import Application
    from braid.ports.object_store import ObjectInfo, ObjectStore

    from braid_cli.datasets.staging import Staging

FOLDER = "datasets/"
UNFINISHED = ""


class Header(NamedTuple):
    """First line of a manifest; ids of records and vertices and identities of edges follow, one a line."""

    fingerprint: str = UNFINISHED
    """Hash of the content and the models; empty while an ingest is running."""
    generation: int = 0
    """The tenant's write generation after the ingest; 0 if there is none."""


def manifests(application: Application) -> ObjectStore | None:
    """Return the object store of manifests; None for a deployed engine without a bucket."""
    try:
        return application.objects
    except ConfigurationError:
        return None


def read_header(objects: ObjectStore, tenant_id: str, key: str) -> Header:
    """Return the header of a manifest; if there is none, that of an unfinished ingest."""
    try:
        first = json.loads(next(iter(objects.open(tenant_id, key))))
    except ObjectMissing:
        return Header()
    return Header(first["fingerprint"], first["generation"])


def read_manifest(objects: ObjectStore, tenant_id: str, key: str, staging: Staging, snapshot: Snapshot) -> None:
    """Add a manifest's lines to a snapshot; none if there is no manifest."""
    try:
        lines = iter(objects.open(tenant_id, key))
        next(lines)
        staging.add_to_snapshot(snapshot, map(json.loads, lines))
    except ObjectMissing:
        return


def read_others(objects: ObjectStore, tenant_id: str, key: str, staging: Staging) -> None:
    """Add the manifests of the tenant's other datasets to the snapshot ``OTHERS``."""
    for info in objects.list(tenant_id, FOLDER):
        if info.key != key:
            read_manifest(objects, tenant_id, info.key, staging, Snapshot.OTHERS)


def write_manifest(
    objects: ObjectStore, tenant_id: str, key: str, header: Header, staging: Staging, *snapshots: Snapshot
) -> ObjectInfo:
    """Write a manifest with the union of some snapshots, and return its version."""
    with TemporaryFile() as file:
        file.write(json.dumps(header._asdict()).encode() + b"\n")
        file.writelines(f"{line}\n".encode() for line in staging.manifest_lines(*snapshots))
        file.seek(0)
        return objects.put(tenant_id, key, cast("BinaryIO", file))


def is_replaced(objects: ObjectStore, begun: ObjectInfo, tenant_id: str, fingerprint: str) -> bool:
    """Return whether a manifest that an ingest began with is gone, or another ingest's of other content."""
    try:
        if objects.open(tenant_id, begun.key).info.version == begun.version:
            return False
    except ObjectMissing:
        return True
    return read_header(objects, tenant_id, begun.key).fingerprint != fingerprint
