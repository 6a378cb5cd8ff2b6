"""Shared-entity boost: raises records that share an entity with one of the best and are similar to the question.

"When was the country that produced Fist Power taken by the British?": the film's page says that it is from Hong Kong,
and of all pages that mention Hong Kong that about the British is wanted. A walk alone cannot tell those apart, nor can
likeness alone, since the question does not say Hong Kong.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from braid.models import MENTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from braid.ports.knowledge_graph import PropagateRequest
    from braid.ranking.graph_walks import Node, StoredEdge

BOOSTING_RECORDS = 3
"""How many of the best records raise others."""


def boost_shared_entities(
    scores: Mapping[str, float], request: PropagateRequest, nodes: Mapping[str, Node], edges: Iterable[StoredEdge]
) -> dict[str, float]:
    """Return the scores of records, raised where a bridge leads to one.

    A score becomes ``score + (1 − score) × bridging × likeness × bridge``. Likeness is what the request's texts say,
    and a bridge counts the score of the record that it leads from over the root of how many others of the neighbourhood
    mention the entity. The best bridge counts. Names of the question are none, since what mentions them is reached from
    them, nor are entities with a record, which are reached themselves.

    Parameters
    ----------
    scores
        Of every record that was reached, best first, 0 to 1.
    nodes
        Every vertex of the neighbourhood by id.
    edges
        Edges between them.
    """
    if not request.bridging or not request.texts:
        return dict(scores)
    records = {identity for identity, node in nodes.items() if node.has_record}
    entities = nodes.keys() - records - {identity for identity, _ in request.names}
    shared: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for one, another in {(edge.source, edge.target) for edge in edges if edge.type == MENTIONS}:
        for entity, other in ((one, another), (another, one)):
            if entity in entities and other in records:
                shared.setdefault(other, set()).add(entity)
                counts[entity] += 1
    texts, first = dict(request.texts), [*scores.items()][:BOOSTING_RECORDS]
    raised = dict(scores)
    for record in shared.keys() & scores.keys() & texts.keys():
        bridges = [
            score / math.sqrt(counts[entity] - 1)
            for other, score in first
            if other != record
            for entity in shared[record] & shared.get(other, set())
        ]
        gain = request.bridging * texts[record] * max(bridges, default=0.0)
        raised[record] = scores[record] + (1 - scores[record]) * gain
    return raised
