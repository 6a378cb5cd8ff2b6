"""Finds and checks the edges, and thereby facts, that a request's edges supersede, with their ends of validity.

An edge names the edges that it supersedes. Supersessions are refused if they would close a cycle, if the superseded
edge does not exist, or if an untrusted edge would end a trusted one. The ends are stored by ``ending_validity``, which
also ends edges whose evidence ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from braid.ingestion.supersession.superseded_records import (
    RefusedEdge,
    earliest,
    one_cycle,
    unwritten_evidence,
    unwritten_problem,
)
from braid.models import Relationship

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from braid.models import EdgeId, Record, RelationshipKey
    from braid.ports.ingestion import WriteStore


def ended_edges(
    edges: Mapping[EdgeId, Relationship], records: Mapping[str, Record], store: WriteStore, tenant_id: str
) -> tuple[dict[EdgeId, datetime], list[RefusedEdge]]:
    """Return when the edges end that a request's edges supersede, and the request's edges that may not supersede."""
    pairs = [(edge, key) for edge in edges.values() for key in edge.supersedes]
    if not pairs:
        return {}, []
    stored = as_trusted_as_written(edges_named({key.identity() for _, key in pairs}, store, tenant_id), records)
    known = dict(edges)
    for edge in stored:
        given = edges.get(edge.identity())
        if given is None or stored_edge_stays(edge, given):
            known[edge.identity()] = edge
    unwritten = unwritten_evidence((edge for edge, _ in pairs), records, store, tenant_id)
    problems: dict[EdgeId, str] = {}
    for edge, key in pairs:
        if message := _edge_problem(edge, key, known, unwritten):
            problems.setdefault(edge.identity(), message)
    ends = earliest((key.identity(), edge.valid_at or edge.timestamp or store.now()) for edge, key in pairs)
    if not problems and (cycle := one_cycle([(edge.identity(), key.identity()) for edge, key in pairs])):
        identity, _ = next(iter(cycle))
        source, kind, target, _ = identity
        problems[identity] = f"{source!r} {kind} {target!r} would be superseded by itself"
    return {} if problems else ends, [RefusedEdge(identity, message) for identity, message in problems.items()]


def _edge_problem(
    edge: Relationship, key: RelationshipKey, known: Mapping[EdgeId, Relationship], unwritten: Collection[str]
) -> str | None:
    """Return why an edge must not supersede another; None if it may.

    Parameters
    ----------
    known
        Superseded edges by identity.
    unwritten
        Evidence of superseding edges that is not written yet.
    """
    if key.identity() not in known:
        return f"there is no edge {key.source!r} {key.type} {key.target!r}"
    if not known[key.identity()].trusted:
        return None
    superseded = f"{key.source!r} {key.type} {key.target!r}"
    if not edge.trusted:
        superseding = f"{edge.source!r} {edge.type} {edge.target!r}, which supersedes it,"
        return f"{superseded} is trusted and {superseding} is not; only what is trusted ends it"
    return unwritten_problem(superseded, edge, unwritten)


def edge_to_store(edge: Relationship) -> Relationship:
    """Return an edge as it is stored, without the edges that it supersedes.

    If it has any, it begins by its ``timestamp``, unless it states its beginning or has ended before.
    """
    if not edge.supersedes:
        return edge
    at = edge.valid_at or edge.timestamp
    if at and edge.invalid_at and edge.invalid_at <= at:
        at = edge.valid_at
    return edge.altered(supersedes=(), valid_at=at)


def stored_edge_stays(stored: Relationship | None, new: Relationship) -> TypeGuard[Relationship]:
    """Return whether a stored edge stays as it is when a new one with its identity is written.

    A trusted edge stays even if its validity has ended: answers about the time before that still need it.

    The first case that applies:

    ===================================================  ==================================
    Nothing is stored                                    no
    The new edge was found in a text, the stored given   unless only the new one is trusted
    The new edge is trusted, or the stored one is not    no
    Both have the same evidence                          no
    Both were given, and the new one has no evidence     no
    Otherwise                                            yes
    ===================================================  ==================================
    """
    if stored is None:
        return False
    if new.found and not stored.found:
        return stored.trusted or not new.trusted
    if new.trusted or not stored.trusted:
        return False
    if new.evidence == stored.evidence:
        return False
    return stored.found or new.evidence is not None


def as_trusted_as_written(stored: Iterable[Relationship], records: Mapping[str, Record]) -> list[Relationship]:
    """Return stored edges; one whose evidence is an untrusted record of the request is untrusted.

    No edge becomes trusted by this.
    """
    untrusted = {record.id for record in records.values() if not record.trusted}
    return [edge.altered(trusted=False) if edge.evidence in untrusted else edge for edge in stored]


def edges_named(identities: Collection[EdgeId], store: WriteStore, tenant_id: str) -> list[Relationship]:
    """Return the edges of some identities, as far as they are stored."""
    stated = [
        Relationship(tenant_id=tenant_id, source=source, type=kind, target=target, predicate=predicate or None)
        for source, kind, target, predicate in identities
    ]
    return store.graph.as_stored(tenant_id, stated) if stated else []
