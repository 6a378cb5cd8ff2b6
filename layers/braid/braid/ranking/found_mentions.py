"""What mentions that were found in texts are worth to PageRank, and whether a question should go by them at all.

A text that mentions an entity and one that is *about* it are told apart: the latter has its name as the title. From a
text the walk prefers entities that another text is about, and from an entity the text that is about it; a name that
many texts mention says little. Where texts stand alone, as abstracts and chats do, no title is mentioned elsewhere, and
where a question names only what is mentioned everywhere, nothing leads on: there vectors and words answer.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from braid.models import MENTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from braid.ports.knowledge_graph import PropagateRequest
    from braid.ranking.graph_walks import Node, StoredEdge

TITLE = 1.0
"""Confidence of the mention of a name by the text that has it as its title."""
MOST_TITLED = 2
"""Most texts that can be about one entity; what more have as their title, such as a chat's speaker, heads them only."""
ABOUT, LEADS = 10.0, 5.0
"""Weight of the way from an entity to the text about it, and from a text to an entity that another text is about."""
FIRST_HITS = 3
HIT_POWER = 1.5
"""Of the weights of hits, which are squares of scores: so hits that stand out pull more."""
ALONE, LINKED_TEXTS = 0.02, 0.05
"""Share of a neighbourhood's texts whose title another one mentions: up to which the graph is not trusted at all, and
from which on it is fully."""
SPECIFIC_NAME = 0.9
"""Weight of a question's name over the number of texts that mention it, from which on the graph is trusted fully."""


class FoundMentions:
    """The found mentions of a neighbourhood.

    Parameters
    ----------
    request
        What was asked.
    nodes
        Every vertex by id.
    edges
        All edges between them.
    """

    def __init__(self, request: PropagateRequest, nodes: Mapping[str, Node], edges: Iterable[StoredEdge]) -> None:
        self._request, self._nodes = request, nodes
        self._texts: Counter[str] = Counter()
        titled: defaultdict[str, set[str]] = defaultdict(set)
        seeds, self._given = request.seeds(), False
        self._any = False
        for edge in edges:
            self._any = self._any or edge.found
            if edge.type == MENTIONS:
                self._texts[edge.source] += 1
                if edge.confidence >= TITLE and (edge.found or _same_name(nodes, edge)):
                    titled[edge.source].add(edge.target)
            if not edge.found and (edge.source in seeds or edge.target in seeds):
                self._given = True
        self._titled = {entity: texts for entity, texts in titled.items() if len(texts) <= MOST_TITLED}
        self._titles: defaultdict[str, list[str]] = defaultdict(list)
        for entity, texts in titled.items():
            for text in texts:
                self._titles[text].append(entity)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self._any

    def weights(self, edge: StoredEdge) -> tuple[float, float]:
        """Return the weights of an edge from its source to its target, and back."""
        if not self._any or edge.type != MENTIONS:
            return edge.confidence, edge.confidence
        about = self._titled.get(edge.source, set())
        there = edge.confidence * (ABOUT if edge.target in about else 1.0)
        back = edge.confidence / math.sqrt(self._texts[edge.source])
        return there, back * (LEADS if about and edge.target not in about else 1.0)

    def seeds(self) -> dict[str, float]:
        """Return how much each seed counts: the first hits, and names by how few texts mention them."""
        hits = sorted(self._request.hits, key=lambda hit: (-hit[1], hit[0]))[:FIRST_HITS]
        weights = {identity: weight**HIT_POWER for identity, weight in hits}
        total = sum(weights.values()) or 1.0
        weights = {identity: weight / total for identity, weight in weights.items()}
        for identity, weight in self._request.names:
            weights[identity] = weights.get(identity, 0.0) + weight / self._mentions(identity)
        return weights

    def trust(self) -> float:
        """Return how far the answer should go by the graph, in [0, 1]; the rest is for vectors and words.

        What is given is trusted. Else it is the product of two: how common it is that a text's title is mentioned by
        another, and how specific the question's best name is.
        """
        if self._given or not self:
            return 1.0
        texts = [identity for identity, node in self._nodes.items() if node.has_record]
        linked = sum(
            any(entity in self._titled and self._texts[entity] > 1 for entity in self._titles.get(text, ()))
            for text in texts
        )
        names = ((identity, weight) for identity, weight in self._request.names if self._texts[identity])
        specific = max((weight / self._texts[identity] for identity, weight in names), default=0.0)
        together = (linked / max(1, len(texts)) - ALONE) / (LINKED_TEXTS - ALONE)
        return min(1.0, max(0.0, together)) * min(1.0, specific / SPECIFIC_NAME)

    def _mentions(self, identity: str) -> int:
        """Return how many texts mention a name; of a text, the name that is its title."""
        return max(1, self._texts[identity], *(self._texts[entity] for entity in self._titles.get(identity, ())))


def _same_name(nodes: Mapping[str, Node], edge: StoredEdge) -> bool:
    """Return whether a given mention is by a text that has the entity's name as its title."""
    entity, text = nodes.get(edge.source), nodes.get(edge.target)
    return bool(entity and text and entity.name and text.name and entity.name.casefold() == text.name.casefold())
