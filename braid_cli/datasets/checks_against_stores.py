"""Checks a dataset against the stores, before any of it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.errors import DatasetError, NewerSchema
from braid.ingestion.supersession.ending_validity import find_supersession
from braid.ingestion.supersession.superseded_records import RefusedRecord
from braid.models.enums_and_scalars import printable

from braid_cli.datasets.json_lines import first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.app import Application
    from braid.ingestion.writing import WriteReport
    from braid.ports.schema_registry import SchemaVersion

    from braid_cli.datasets.staging import Staging


def refuse_contradictions(
    tenant_id: str,
    schemas: Sequence[SchemaVersion],
    staging: Staging,
    application: Application,
    superseded_but_removed: Iterable[tuple[str, str]],
) -> None:
    """Check that a dataset does not contradict the stored data.

    Parameters
    ----------
    schemas
        Versions that the dataset registers.
    superseded_but_removed
        As :meth:`braid_cli.datasets.staging.Staging.superseded_but_removed` yields it.

    Raises
    ------
    NewerSchema
        If a record's schema is newer than the tenant's current one.
    DatasetError
        If a superseded record or edge does not exist, would be deleted, or supersedes itself.
    """
    current = max([application.schemas.current(tenant_id), *(schema.version for schema in schemas)])
    newer = [
        printable(
            f"{place}: schema_version: {version} is newer than the current version {current} of tenant {tenant_id!r}"
        )
        for place, version in staging.newer_than(current)
    ]
    if newer:
        raise NewerSchema(f"{first_of(newer)}; state it in schemas.jsonl", field="schema_version")
    records, places = staging.superseding_records()
    edges, edge_places = staging.superseding_edges()
    gone = "is no longer in the folder and would be removed"
    wrong = [f"{place}: supersedes: {old} {gone}" for place, old in superseded_but_removed]
    refused_ids: set[str] = set()
    while records or edges:
        in_graph = [vertex.id for vertex in application.graph.get_many(tenant_id, sorted(records))]
        refused = find_supersession(records, edges, in_graph, application, tenant_id, refused=refused_ids).refused
        if not refused:
            break
        for one in refused:
            if isinstance(one, RefusedRecord):
                place, _ = places[one.id], records.pop(one.id)
                refused_ids.add(one.id)
            else:
                place, _ = edge_places[one.identity], edges.pop(one.identity)
            wrong.append(f"{place}: supersedes: {one.message}")
    if wrong:
        raise DatasetError(first_of([printable(one) for one in wrong]))


def require_accepted(report: WriteReport) -> None:
    """Check that a write has no errors: another writer may have changed the stores since the checks.

    Raises DatasetError if the report has errors.
    """
    if report.errors:
        raise DatasetError(first_of([printable(str(error)) for error in report.errors]))
