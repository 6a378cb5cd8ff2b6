"""What of a dataset contradicts the stores, found before any of it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.errors import DatasetError, NewerSchema
from braid.ingestion.items import printable
from braid.ingestion.supersession import RefusedRecord, find

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.app import Wired
    from braid.ingestion.writing import WriteReport

    from braid_cli.datasets.ingest import Source
    from braid_cli.datasets.staging import Ledger

SHOWN = 10


def refuse_contradictions(dataset: Source, ledger: Ledger, wired: Wired, leaving: Iterable[tuple[str, str]]) -> None:
    """Look for what only the stores can tell is wrong, before anything is written.

    Parameters
    ----------
    leaving
        What is superseded and would be removed, as :meth:`braid_cli.datasets.staging.Ledger.leaving` has it.

    Raises
    ------
    NewerSchema
        If a record's schema is newer than the tenant's current one.
    DatasetError
        If something is superseded that is not there or would be removed, or by itself.
    """
    tenant_id = dataset.tenant_id
    current = max([wired.schemas.current(tenant_id), *(schema.version for schema in dataset.schemas)])
    newer = [
        f"{place}: schema_version: {version} is newer than the current version {current} of tenant {tenant_id!r}"
        for place, version in ledger.newer(current)
    ]
    if newer:
        raise NewerSchema(f"{_shown(newer)}; state it in schemas.jsonl", field="schema_version")
    records, places = ledger.superseding()
    edges, edge_places = ledger.superseding_edges()
    gone = "is no longer in the folder and would be removed"
    wrong = [f"{place}: supersedes: {old} {gone}" for place, old in leaving]
    refused_ids: set[str] = set()
    while records or edges:
        in_graph = [vertex.id for vertex in wired.graph.get_many(tenant_id, sorted(records))]
        refused = find(records, edges, in_graph, wired, tenant_id, refused=refused_ids).refused
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
        raise DatasetError(_shown(wrong))


def require_accepted(report: WriteReport) -> None:
    """Refuse what became wrong since it was looked at, because somebody else wrote meanwhile.

    Raises
    ------
    DatasetError
        If a report has errors.
    """
    if report.errors:
        raise DatasetError(_shown([str(error) for error in report.errors]))


def _shown(messages: Sequence[str]) -> str:
    more = len(messages) - SHOWN
    return "\n".join([*map(printable, messages[:SHOWN]), *([f"and {more} more"] if more > 0 else [])])
