"""What a dataset folder last put into the stores, kept beside them, so that what it no longer holds can be removed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from braid.errors import ConfigurationError, ObjectMissing

if TYPE_CHECKING:
    from braid.engines.ports_state import ObjectStore
    from braid.wiring import Wired

    from local.dataset import Dataset

    Identity = tuple[str, str, str, str]

FOLDER = "datasets/"
UNFINISHED = ""


@dataclass
class Manifest:
    """Ids of records, of vertices, and identities of edges."""

    fingerprint: str = UNFINISHED
    """Of the content and the models; empty while it is being written."""
    generation: int = 0
    """The tenant's write generation at its end; 0 where none is kept."""
    records: set[str] = field(default_factory=set)
    vertices: set[str] = field(default_factory=set)
    edges: set[Identity] = field(default_factory=set)

    def joined(self, other: Manifest) -> Manifest:
        """Return what either holds, as unfinished."""
        return Manifest(
            records=self.records | other.records,
            vertices=self.vertices | other.vertices,
            edges=self.edges | other.edges,
        )

    def without(self, other: Manifest) -> Manifest:
        """Return what only this one holds."""
        return Manifest(
            records=self.records - other.records,
            vertices=self.vertices - other.vertices,
            edges=self.edges - other.edges,
        )


def manifest_of(dataset: Dataset) -> Manifest:
    """Return what a dataset puts into the stores."""
    return Manifest(
        records={record.id for record in dataset.records},
        vertices={vertex.id for vertex in dataset.vertices},
        edges={edge.identity() for edge in dataset.relationships},
    )


def manifests(wired: Wired) -> ObjectStore | None:
    """Return where manifests are kept; None where the deployed engine has no bucket."""
    try:
        return wired.objects
    except ConfigurationError:
        return None


def read_manifest(objects: ObjectStore, tenant_id: str, key: str) -> Manifest | None:
    """Return a manifest, None when there is none."""
    try:
        lines = [json.loads(line) for line in objects.open(tenant_id, key)]
    except ObjectMissing:
        return None
    manifest = Manifest(fingerprint=lines[0]["fingerprint"], generation=lines[0]["generation"])
    for line in lines[1:]:
        if "edge" in line:
            source, kind, target, predicate = line["edge"]
            manifest.edges.add((source, kind, target, predicate))
        elif "record" in line:
            manifest.records.add(line["record"])
        else:
            manifest.vertices.add(line["vertex"])
    return manifest


def write_manifest(objects: ObjectStore, tenant_id: str, key: str, manifest: Manifest) -> None:
    """Keep a manifest."""
    lines: list[object] = [{"fingerprint": manifest.fingerprint, "generation": manifest.generation}]
    lines += [{"record": name} for name in sorted(manifest.records)]
    lines += [{"vertex": name} for name in sorted(manifest.vertices)]
    lines += [{"edge": identity} for identity in sorted(manifest.edges)]
    objects.put(tenant_id, key, "".join(json.dumps(line) + "\n" for line in lines).encode())


def others(objects: ObjectStore, tenant_id: str, key: str) -> Manifest:
    """Return what the tenant's other datasets hold."""
    joined = Manifest()
    for info in objects.list(tenant_id, FOLDER):
        if info.key != key:
            joined = joined.joined(read_manifest(objects, tenant_id, info.key) or Manifest())
    return joined
