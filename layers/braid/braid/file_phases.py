"""What of a file's batch is written when, so that the order of the lines does not matter.

All records and entities first; then all edges, and what records supersede; then what edges supersede.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.file_jobs import Phase
from braid.models import Relationship
from braid.writes import Places, WriteRequest
from braid.writes_supersession import SUPERSEDES

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_EDGE, _ENDING = b'"relationship"', b'"supersedes"'


def may_link(line: bytes) -> bool:
    """Return whether a line may be an edge, or a record that supersedes."""
    return _EDGE in line or _ENDING in line


def may_end(line: bytes) -> bool:
    """Return whether a line may be an edge that supersedes others."""
    return _EDGE in line and _ENDING in line


def part_of(request: WriteRequest, phase: Phase, refused: Collection[str]) -> WriteRequest:
    """Return what of a batch is written in a phase.

    Parameters
    ----------
    refused
        Places of which something was refused in the phase before.
    """
    match phase:
        case Phase.ITEMS:
            return _items(request)
        case Phase.LINKS:
            return _links(request)
        case Phase.ENDS:
            return _ends(request, refused)


def _items(request: WriteRequest) -> WriteRequest:
    """Return the records and vertices of a request; what they supersede is written later."""
    places = Places(records=request.places.records, vertices=request.places.vertices)
    return request.model_copy(update={"relationships": (), "places": places, "supersede_later": True})


def _links(request: WriteRequest) -> WriteRequest:
    """Return the edges of a request, those that say what its records supersede among them.

    What they themselves supersede may be written by another batch at this moment, and is seen to later.
    """
    edges = [edge.model_copy(update={"supersedes": ()}) for edge in request.relationships]
    places = list(request.places.relationships)
    for place, record in zip(request.places.records, request.records, strict=True):
        for old in record.supersedes:
            since = record.valid_at or record.timestamp
            edges.append(
                Relationship(tenant_id=record.tenant_id, source=record.id, type=SUPERSEDES, target=old, valid_at=since)
            )
            places.append(place)
    return _edges(request, edges, places)


def _ends(request: WriteRequest, refused: Collection[str]) -> WriteRequest:
    """Return the edges of a request that supersede others, but for those at places that were refused as links."""
    ending = [
        (edge, place)
        for edge, place in zip(request.relationships, request.places.relationships, strict=True)
        if edge.supersedes and place not in refused
    ]
    return _edges(request, [edge for edge, _ in ending], [place for _, place in ending])


def _edges(request: WriteRequest, edges: Sequence[Relationship], places: Sequence[str]) -> WriteRequest:
    return WriteRequest(
        tenant_id=request.tenant_id,
        relationships=tuple(edges),
        places=Places(relationships=tuple(places)),
        missing=request.missing,
        partial=True,
    )
