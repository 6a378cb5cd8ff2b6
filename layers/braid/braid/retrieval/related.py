"""What stands in relation to an entity, as a walk that the graph knows already."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from braid.errors import InvalidRequest
from braid.models import Direction
from braid.models.scalars import can_be_id
from braid.ports.knowledge_graph import ExpandRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from braid.models import EntityLink

MOST_RELATED = 200
_CALLED = {"max_hops": "depth", "seeds.0": "entity"}
"""What the walk's fields are called by whoever asks for relations."""


def related_request(
    tenant_id: str,
    entity: str,
    *,
    as_of: datetime,
    links: Sequence[EntityLink] = (),
    types: Sequence[str] = (),
    direction: Direction = Direction.BOTH,
    depth: int = 1,
    limit: int = 50,
    fan_out: int = 200,
) -> ExpandRequest:
    """Return the walk to all that is related to an entity, whether it has a record or not, the nearest first.

    Parameters
    ----------
    entity
        Id of the entity; a name where ``links`` say whose it is.
    links
        What the graph links to the entity's normalised name; none leaves ``entity`` an id.
    types
        Only these relationship types; none means any.
    depth
        Most hops, 1 to 3.
    limit
        Most entities returned, 1 to 200.

    Raises
    ------
    InvalidRequest
        If an argument is out of its bounds, or an entity that has no such name can be no id; it is named.
    """
    if limit > MOST_RELATED:
        raise InvalidRequest(f"limit: {limit} is more than {MOST_RELATED}", field="limit")
    if entity and not (links or can_be_id(entity)):
        raise nothing_called(entity)
    seeds = tuple(dict.fromkeys(link.entity_id for link in links)) or (entity,)
    try:
        return ExpandRequest(
            tenant_id=tenant_id,
            seeds=seeds,
            types=tuple(types),
            direction=direction,
            max_hops=depth,
            limit=limit,
            fan_out=fan_out,
            records_only=False,
            as_of=as_of,
        )
    except ValidationError as error:
        raise InvalidRequest.from_validation(error, _CALLED) from error


def nothing_called(entity: str) -> InvalidRequest:
    """Return the error of an entity that is not there."""
    return InvalidRequest(f"entity: nothing in the graph is called {entity!r}", field="entity")
