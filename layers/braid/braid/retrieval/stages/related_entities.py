"""The entities that contribute to an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.models import Kind, RelatedEntity, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from braid.models import Result
    from braid.retrieval.stages.states import FuseRequest


def related_entities(request: FuseRequest, results: Sequence[Result]) -> tuple[RelatedEntity, ...]:
    """Return the entities that the question names, where its steps led, and those that the results' paths pass."""
    named = {link.entity_id: link for link in request.linked.links} if request.linked else {}
    if request.expanded:
        named |= {link.entity_id: link for link in request.expanded.links}
    related = {
        identity: RelatedEntity(
            id=identity, name=link.name, entity_type=link.entity_type, linked=True, certainty=link.certainty
        )
        for identity, link in named.items()
    }
    if request.plan.strategy is Strategy.MULTI_HOP and request.linked is None and request.expanded:
        # Where the steps led, which is an answer even where no record is.
        for hit in request.expanded.hits:
            if not hit.has_record and hit.id not in related:
                related[hit.id] = RelatedEntity(
                    id=hit.id, name=hit.name or hit.id, entity_type=hit.entity_type, linked=False
                )
    shown = {result.id for result in results}
    types = {hit.id: hit.entity_type for found in (request.linked, request.expanded) if found for hit in found.hits}
    for result in results:
        for path in result.paths:
            names = path.names or path.ids
            for identity, name in zip(path.ids, names, strict=True):
                if identity not in related and identity not in shown and result.kind is not Kind.MESSAGE:
                    related[identity] = RelatedEntity(
                        id=identity, name=name, entity_type=types.get(identity, "Concept"), linked=False
                    )
    return tuple(related.values())
