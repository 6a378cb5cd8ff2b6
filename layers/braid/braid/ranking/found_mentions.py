"""Weights of found mentions in PageRank, and the share of propagation over them in the fused score.

A text that mentions an entity and one that is *about* it are told apart: the latter has its name as the title. From a
text the walk prefers entities that another text is about, and from an entity the text that is about it; a name that
many texts mention says little. Where texts stand alone, as abstracts and chats do, no title is mentioned elsewhere, and
where a question names only what is mentioned everywhere, nothing leads on: there vectors and words answer.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from braid.ranking.neighbourhood import are_among

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.ports.knowledge_graph import PropagateRequest
    from braid.ranking.neighbourhood import Mask, Neighbourhood, Numbers, Scores

TITLE = 1.0
"""Confidence of the mention of a name by the text that has it as its title."""
MAX_TITLED = 2
"""Most texts that can be about one entity; what more have as their title, such as a chat's speaker, heads them only."""
ABOUT, LEADS = 10.0, 5.0
"""Weight of the way from an entity to the text about it, and from a text to an entity that another text is about."""
FIRST_HITS = 3
HIT_POWER = 1.5
"""Of the weights of hits, which are squares of scores: so hits that stand out pull more."""
ALONE, LINKED_TEXTS = 0.02, 0.05
"""Share of a neighbourhood's texts whose title another one mentions: up to which propagation has no share at all, and
from which on its full one."""
SPECIFIC_NAME = 0.9
"""Weight of a question's name over the number of texts that mention it, from which propagation has its full share."""
CERTAIN_NAME = 2.5
"""Weight of a question's name from which on it is surely meant, and whole: not of one that is a form of it."""


class FoundMentions:
    """The found mentions of a neighbourhood.

    Parameters
    ----------
    request
        What was asked.
    around
        All vertices and edges.
    """

    def __init__(self, request: PropagateRequest, around: Neighbourhood) -> None:
        self._request, self._around = request, around
        self._any = bool(around.found.any())

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self._any

    def weights(self, edges: Numbers) -> tuple[Scores, Scores]:
        """Return the weights of some edges from their sources to their targets, and back."""
        around = self._around
        confidence = around.confidence[edges]
        if not self:
            return confidence, confidence
        sources, targets, mentions = around.sources[edges], around.targets[edges], around.mentions[edges]
        size = len(around.ids)
        titled = np.zeros(size, dtype=np.bool_)
        titled[list(self._titled)] = True
        abouts = sorted(entity * size + text for entity, texts in self._titled.items() for text in texts)
        about = are_among(sources * size + targets, np.array(abouts, dtype=np.int64))
        there = confidence * np.where(mentions & about, ABOUT, 1.0)
        back = confidence / np.sqrt(np.where(mentions, self._texts[sources], 1))
        return there, back * np.where(mentions & titled[sources] & ~about, LEADS, 1.0)

    def seeds(self) -> dict[str, float]:
        """Return how much each seed counts: the first hits, and names by how few texts mention them.

        As the request says where nothing was found, or what was given is walked and found mentions weigh nothing.
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

        1 where relationships at the seeds were given, and not found in texts.
        """
        return 1.0 if not self or self._is_given_at_seeds else self._weight_of_found_mentions

    @cached_property
    def _weight_of_found_mentions(self) -> float:
        """Weight of propagation over found mentions, in [0, 1].

        The product of two: how common it is that a text's title is mentioned by another, and how specific the
        question's best name is. Where a text has a name of the question as its whole title, texts are about what is
        asked, and the first factor is 1. Descriptions of entities are no such texts: all others name them.
        """
        around = self._around
        is_page = around.is_page
        linked = sum(
            any(entity in self._titled and self._texts[entity] > 1 for entity in entities)
            for text, entities in self._titles.items()
            if is_page[text]
        )
        named = [(place, weight) for one, weight in self._request.names if (place := around.place(one)) is not None]
        specific = max((weight / int(self._texts[place]) for place, weight in named if self._texts[place]), default=0.0)
        linkedness = (linked / max(1, int(around.has_record.sum())) - ALONE) / (LINKED_TEXTS - ALONE)
        certain = (place for place, weight in named if weight >= CERTAIN_NAME)
        abouts = ((place, text) for place in certain for text in self._titled.get(place, ()))
        if any(about in self._same_name and is_page[about[1]] for about in abouts):
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
        """Return how many texts mention a name; of a text, the name that is its title."""
        place = self._around.place(identity)
        if place is None:
            return 1
        return max(1, *(int(self._texts[one]) for one in (place, *self._titles.get(place, ()))))

    @cached_property
    def _texts(self) -> Numbers:
        """How many texts mention each vertex."""
        return np.bincount(self._around.sources[self._around.mentions], minlength=len(self._around.ids))

    @cached_property
    def _titles(self) -> dict[int, list[int]]:
        """The entities that have the name which is a text's title, by the text."""
        titles: defaultdict[int, list[int]] = defaultdict(list)
        around = self._around
        for entity, text in self._ends_of_titles(around.found | around.same_name):
            if entity not in titles[text]:
                titles[text].append(entity)
        return titles

    @cached_property
    def _titled(self) -> dict[int, list[int]]:
        """The texts that are about an entity, by the entity."""
        titled: defaultdict[int, list[int]] = defaultdict(list)
        for text, entities in self._titles.items():
            for entity in entities:
                titled[entity].append(text)
        return {entity: texts for entity, texts in titled.items() if len(texts) <= MAX_TITLED}

    @cached_property
    def _same_name(self) -> set[tuple[int, int]]:
        """The entities with the texts that have the entity's name as their whole title."""
        return set(self._ends_of_titles(self._around.same_name))

    def _ends_of_titles(self, among: Mask) -> Iterator[tuple[int, int]]:
        """Yield the ends of mentions by a title, of those among some edges, in order."""
        around = self._around
        edges = np.flatnonzero(around.mentions & (around.confidence >= TITLE) & among)
        return zip(around.sources[edges].tolist(), around.targets[edges].tolist(), strict=True)
