"""Which entities a question names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid import linking

if TYPE_CHECKING:
    from datetime import datetime

    from braid.engines.ports import KnowledgeGraph
    from braid.models import EntityLink, TenantId

MAX_LINKS = 10


def linked_names(graph: KnowledgeGraph, tenant_id: TenantId, question: str, *, as_of: datetime) -> list[EntityLink]:
    """Return the entities that a question names, the best match first, each once and at most ten.

    One look-up of the graph. ``certainty`` says how surely the words are meant as a name.
    """
    names = linking.phrases(question)
    if not names:
        return []
    best: dict[str, EntityLink] = {}
    for link in linking.longest_match(question, graph.link(tenant_id, names, as_of=as_of)):
        # The best comes first: an entity named twice, by name and by alias, is linked by its name.
        best.setdefault(link.entity_id, link)
    return [
        link.model_copy(update={"certainty": linking.certainty(question, link.phrase)})
        for link in list(best.values())[:MAX_LINKS]
    ]
