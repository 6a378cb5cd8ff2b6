"""Weights of found mentions in PageRank, and the share of propagation over them in the fused score.

A text is *about* an entity if it has the entity's name as its title; any other text only mentions it. From a text the
walk prefers entities that another text is about, and from an entity the text about it; a name counts less the more
texts mention it. Where texts do not mention one another's titles, as abstracts and chats do not, or where the question
names only entities that most texts mention, propagation has little or no share: vectors and words answer.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from braid.ranking.neighbourhood_arrays import are_among

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ports.knowledge_graph import PropagateRequest
    from braid.ranking.neighbourhood_arrays import Mask, Neighbourhood, Numbers, Scores

TITLE = 1.0
"""Confidence of the mention of a name by the text that has it as its title."""
MAX_TITLED = 2
"""Most texts that can be about one entity; a title of more texts, such as a chat's speaker, is only their heading."""
ABOUT, LEADS = 10.0, 5.0
"""Factors of an edge's weight: from an entity to the text about it; from a text to an entity that another is about."""
FIRST_HITS = 3
"""Hits that are seeds, best first."""
HIT_POWER = 1.5
"""Exponent of the hits' weights, which are squares of scores: outstanding hits have more influence."""
ALONE, LINKED_TEXTS = 0.02, 0.05
"""Share of a neighbourhood's texts whose title another text mentions: up to the first of these propagation has no share
in the fused score, from the second on its full share."""
SPECIFIC_NAME = 0.9
"""Quotient of a name's weight and the number of texts that mention it, from which propagation has its full share."""
CERTAIN_NAME = 2.5
"""Least weight of a question's name that is certainly a name and matched whole, not by another form of it."""


class FoundMentions:
    """The found mentions of a neighbourhood.

    Parameters
    ----------
    request
        The seeds of the propagation: hits and names.
    around
        The neighbourhood's vertices and edges.
    """

    def __init__(self, request: PropagateRequest, around: Neighbourhood) -> None:
        self._request, self._around = request, around
        self._any = bool(around.found.any())

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self._any

    def weights(self, edges: Numbers) -> tuple[Scores, Scores]:
        """Return the walk's weights of some edges: from source to target, and back.

        Parameters
        ----------
        edges
            Indices of the edges in the neighbourhood.
        """
        around = self._around
        confidence = around.confidence[edges]
        if not self:
            return confidence, confidence
        sources, targets, mentions = around.sources[edges], around.targets[edges], around.mentions[edges]
        size = len(around.ids)
        titled = np.zeros(size, dtype=np.bool_)
        titled[list(self._texts_about)] = True
        abouts = sorted(entity * size + text for entity, texts in self._texts_about.items() for text in texts)
        about = are_among(sources * size + targets, np.array(abouts, dtype=np.int64))
        there = confidence * np.where(mentions & about, ABOUT, 1.0)
        back = confidence / np.sqrt(np.where(mentions, self._mention_counts[sources], 1))
        return there, back * np.where(mentions & titled[sources] & ~about, LEADS, 1.0)

    def seeds(self) -> dict[str, float]:
        """Return the weight of each seed by id: a name's is divided by the number of texts that mention it.

        They are the request's own weights if there are no found mentions, or these have no weight and a seed has a
        given edge; otherwise the seeds are the first :data:`FIRST_HITS` hits and all names.
        """
        if not self or (self._is_given_at_seeds and not self._weight_of_found_mentions):
            return self._request.seeds()
        hits = sorted(self._request.hits, key=lambda hit: (-hit[1], hit[0]))[:FIRST_HITS]
        weights = {identity: weight**HIT_POWER for identity, weight in hits}
        total = sum(weights.values()) or 1.0
        weights = {identity: weight / total for identity, weight in weights.items()}
        for identity, weight in self._request.names:
            weights[identity] = weights.get(identity, 0.0) + weight / self._texts_mentioning(identity)
        return weights

    def propagation_weight(self) -> float:
        """Return the share of propagation in the fused score, in [0, 1]; vectors and words have the rest.

        1 where there are no found mentions, or a seed has a given edge.
        """
        return 1.0 if not self or self._is_given_at_seeds else self._weight_of_found_mentions

    @cached_property
    def _weight_of_found_mentions(self) -> float:
        """Weight of propagation over found mentions, in [0, 1].

        The product of two factors: how many of the texts have a title that another one mentions, and how specific the
        question's most specific name is. The first is 1 where a text has a certain name of the question as its whole
        title. Descriptions of entities do not count among these texts, since other texts name every entity.
        """
        around, counts = self._around, self._mention_counts
        is_page = around.is_page
        linked = sum(
            any(entity in self._texts_about and counts[entity] > 1 for entity in entities)
            for text, entities in self._title_entities.items()
            if is_page[text]
        )
        named = [(place, weight) for one, weight in self._request.names if (place := around.place(one)) is not None]
        specific = max((weight / int(counts[place]) for place, weight in named if counts[place]), default=0.0)
        linkedness = (linked / max(1, int(around.has_record.sum())) - ALONE) / (LINKED_TEXTS - ALONE)
        certain = (place for place, weight in named if weight >= CERTAIN_NAME)
        abouts = ((place, text) for place in certain for text in self._texts_about.get(place, ()))
        if any(about in self._whole_titles and is_page[about[1]] for about in abouts):
            linkedness = 1.0
        return min(1.0, max(0.0, linkedness)) * min(1.0, specific / SPECIFIC_NAME)

    @cached_property
    def _is_given_at_seeds(self) -> bool:
        """Whether a seed has an edge that was given."""
        around, seeds = self._around, self._request.seeds()
        is_seed = np.zeros(len(around.ids), dtype=np.bool_)
        is_seed[[place for one in seeds if (place := around.place(one)) is not None]] = True
        return bool((~around.found & (is_seed[around.sources] | is_seed[around.targets])).any())

    def _texts_mentioning(self, identity: str) -> int:
        """Return how many texts mention a vertex, or an entity whose name is its title; at least 1."""
        place = self._around.place(identity)
        if place is None:
            return 1
        return max(1, *(int(self._mention_counts[one]) for one in (place, *self._title_entities.get(place, ()))))

    @cached_property
    def _mention_counts(self) -> Numbers:
        """Number of texts that mention each vertex."""
        return np.bincount(self._around.sources[self._around.mentions], minlength=len(self._around.ids))

    @cached_property
    def _title_entities(self) -> dict[int, list[int]]:
        """Entities whose name is a text's title, by text."""
        entities: defaultdict[int, list[int]] = defaultdict(list)
        around = self._around
        for entity, text in self._title_mentions(around.found | around.same_name):
            if entity not in entities[text]:
                entities[text].append(entity)
        return entities

    @cached_property
    def _texts_about(self) -> dict[int, list[int]]:
        """Texts that are about an entity, by entity."""
        about: defaultdict[int, list[int]] = defaultdict(list)
        for text, entities in self._title_entities.items():
            for entity in entities:
                about[entity].append(text)
        return {entity: texts for entity, texts in about.items() if len(texts) <= MAX_TITLED}

    @cached_property
    def _whole_titles(self) -> set[tuple[int, int]]:
        """Pairs of an entity and a text that has the entity's name as its whole title."""
        return set(self._title_mentions(self._around.same_name))

    def _title_mentions(self, among: Mask) -> Iterator[tuple[int, int]]:
        """Yield entity and text of each mention by a title, of the edges in a mask, in their order."""
        around = self._around
        edges = np.flatnonzero(around.mentions & (around.confidence >= TITLE) & among)
        return zip(around.sources[edges].tolist(), around.targets[edges].tolist(), strict=True)
