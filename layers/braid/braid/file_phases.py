"""What of a file's batch is written when, so that the order of the lines does not matter.

All records and entities first; then all edges; then what records supersede; then what edges supersede, which writes
none of these edges again. An edge that the file ends keeps the end that is stored of it, which is there when the file
was written before.
"""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from typing import TYPE_CHECKING

from braid.file_jobs import Phase
from braid.models import Relationship
from braid.writes import Places, WriteRequest
from braid.writes_supersession import SUPERSEDES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from braid.writes_supersession import Identity

_EDGE, _ENDING, _LINK = b'"relationship"', b'"supersedes"', f'"{SUPERSEDES}"'.encode()
_SHORT = 16
_ESCAPED = re.compile(rb"\\u00[4-7]")
"""A letter of ASCII that JSON has as a number, as it may in any word; no writer does that to plain text."""


def phases_of(line: bytes) -> set[Phase]:
    """Return the phases in which a line may have something to write, without reading it; any where that is hidden."""
    if _ESCAPED.search(line):
        return set(Phase)
    edge, ending = _EDGE in line, _ENDING in line
    may = {
        Phase.ITEMS: True,
        Phase.EDGES: edge,
        Phase.LINKS: ending or (edge and _LINK in line),
        Phase.ENDS: edge and ending,
    }
    return {phase for phase, holds in may.items() if holds}


def ended_by(request: WriteRequest) -> list[bytes]:
    """Return which edges the edges of a request supersede, in sixteen bytes each, for :func:`part_of`."""
    return [_short(key.identity()) for _, edge in _last(request) for key in edge.supersedes]


def part_of(request: WriteRequest, phase: Phase, refused: Collection[str], ended: bytes) -> WriteRequest:
    """Return what of a batch is written in a phase.

    Parameters
    ----------
    refused
        Places of which something was refused in a phase before; nothing more of them is written.
    ended
        The edges that any line of the file ends, as :func:`ended_by` has them, one after the other.
    """
    if phase is Phase.ITEMS:
        places = Places(records=request.places.records, vertices=request.places.vertices)
        return request.model_copy(update={"relationships": (), "places": places, "supersede_later": True})
    chosen = [(place, edge) for place, edge in _edges(request, phase) if place not in refused]
    named = {_short(edge.identity()): edge.identity() for _, edge in chosen}
    each = (ended[at : at + _SHORT] for at in range(0, len(ended), _SHORT))
    return WriteRequest(
        tenant_id=request.tenant_id,
        ended_apart=frozenset(named[short] for short in each if short in named),
        relationships=tuple(edge for _, edge in chosen),
        places=Places(relationships=tuple(place for place, _ in chosen)),
        missing=request.missing,
        partial=True,
        supersede_only=phase is Phase.ENDS,
    )


def _short(identity: Identity) -> bytes:
    return blake2b(json.dumps(identity).encode(), digest_size=_SHORT // 2).hexdigest().encode()


def _edges(request: WriteRequest, phase: Phase) -> Iterator[tuple[str, Relationship]]:
    """Yield the edges of a phase with their places.

    What they themselves supersede may be written by another batch at this moment, until the last phase.
    """
    if phase is Phase.LINKS:
        yield from _made(request)
    for place, edge in _last(request):
        if phase is Phase.ENDS:
            if edge.supersedes:
                yield place, edge
        elif (edge.type == SUPERSEDES) is (phase is Phase.LINKS):
            yield place, edge.model_copy(update={"supersedes": ()})


def _last(request: WriteRequest) -> Iterable[tuple[str, Relationship]]:
    """Return edges with their places; of one identity the last stands."""
    placed = zip(request.places.relationships, request.relationships, strict=True)
    return {edge.identity(): (place, edge) for place, edge in placed}.values()


def _made(request: WriteRequest) -> Iterator[tuple[str, Relationship]]:
    """Yield the edges that say what the records of a request supersede."""
    for place, record in zip(request.places.records, request.records, strict=True):
        since = record.valid_at or record.timestamp
        for old in record.supersedes:
            yield (
                place,
                Relationship(tenant_id=record.tenant_id, source=record.id, type=SUPERSEDES, target=old, valid_at=since),
            )
