"""Generates synthetic records, relationships and questions, deterministically from a seed.

Vectors are in clusters with a low intrinsic dimension, as those of real encoders are; word frequencies are as skewed as
in real texts; a few vertices are hubs. The texts have no meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from braid.models import Embedding, Kind, Record, Relationship, Vertex
from braid.understanding.intent import CAUSAL_TYPES, TEMPORAL_TYPES
from braid.understanding.name_keys import lookup_keys
from braid.understanding.question_phrases import phrases
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

TENANT, OTHER_TENANT = "bench", "neighbour"
MODEL, SPACE = "all-minilm-l6-v2", "all_minilm_l6_v2"
DIMENSION = 384
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RELATIONSHIPS_PER_RECORD = 4
HUB_TYPES = (CAUSAL_TYPES, TEMPORAL_TYPES, ("MENTIONS", "RELATES_TO"))
"""One hub for each of these, whose edges are all of these types."""
HUB_DEGREE = 4_000

_TENANT_SHARE = 0.9
_RETIRED_SHARE = 0.05
_KIND_OF = (Kind.CHUNK,) * 5 + (Kind.ENTITY,) * 2 + (Kind.FACT,) * 2 + (Kind.MESSAGE,)
_PER_TOPIC = 250
_INTRINSIC = 32
_SPREAD, _NOISE = 0.5, 0.15
"""Standard deviation inside a topic, where topics lie 1 apart, and of what is added in all dimensions."""
_VOCABULARY = 20_000
_TEXT_WORDS, _TOPIC_WORDS_IN_TEXT, _WORDS_OF_TOPIC = 48, 16, 30
_SYLLABLES = [first + vowel for first in "bdfgklmnprstvz" for vowel in "aeiou"]


@dataclass(frozen=True, eq=False)
class Ask:
    """What the questions of one size are made of; all arrays have one row a question."""

    vectors: NDArray[np.float32]
    texts: list[str]
    names: list[list[str]]
    """The phrases of a question which holds two names."""
    keys: list[list[str]]
    """All that linking asks of it: phrases, and the forms of names that some of them may be."""
    named: list[tuple[str, ...]]
    """The two records that it names."""
    seeds: list[tuple[str, ...]]
    """Ten vertices to walk from, of which the first three each lead to a hub."""
    ids: list[tuple[str, ...]]
    """Fifty records to read."""


class Synthetic:
    """One corpus.

    Parameters
    ----------
    size
        Records, of which nine in ten are the tenant's and the others its neighbour's. There is a vertex for each.
    seed
        Of the random numbers.
    """

    def __init__(self, size: int, *, seed: int = 20) -> None:
        self.size = size
        self.of_tenant = int(size * _TENANT_SHARE)
        self._seed = seed
        self._random = random = np.random.default_rng([seed, size])
        self._topics = max(8, size // _PER_TOPIC)
        self.topic_of = random.integers(self._topics, size=size)
        self._centres = random.normal(size=(self._topics, _INTRINSIC))
        self._projection = random.normal(size=(_INTRINSIC, DIMENSION)) / np.sqrt(_INTRINSIC)
        self.vectors = self._place(self.topic_of, random)
        self._vocabulary = _vocabulary()
        frequency = 1.0 / np.arange(1, _VOCABULARY + 1)
        self._cumulative = np.cumsum(frequency / frequency.sum())
        self._words_of_topic = random.integers(50, _VOCABULARY, size=(self._topics, _WORDS_OF_TOPIC))
        self.kinds = [_KIND_OF[number] for number in random.integers(len(_KIND_OF), size=size)]
        self.retired = random.random(size) < _RETIRED_SHARE
        self._edges = list(self._relationships())

    def _place(self, topics: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.float32]:
        inner = self._centres[topics] + _SPREAD * random.normal(size=(len(topics), _INTRINSIC))
        points = inner @ self._projection + _NOISE * random.normal(size=(len(topics), DIMENSION))
        vectors: NDArray[np.float32] = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype("<f4")
        return vectors

    def _word_numbers(self, topic: int, total: int, of_topic: int, random: np.random.Generator) -> list[int]:
        common = np.searchsorted(self._cumulative, random.random(total - of_topic))
        special = random.choice(self._words_of_topic[topic], size=of_topic)
        return [min(int(number), _VOCABULARY - 1) for number in (*common, *special)]

    def _text(self, numbers: list[int]) -> str:
        return " ".join(self._vocabulary[number] for number in numbers)

    def tenant_of(self, number: int) -> str:
        """Return whose record it is."""
        return TENANT if number < self.of_tenant else OTHER_TENANT

    def name(self, number: int) -> str:
        """Return a name that only one record has."""
        first, second = divmod(number * 7_919 % (_VOCABULARY * 50), 50)
        return f"{self._vocabulary[first].title()} {self._vocabulary[-1 - second].title()} {number}"

    def records(self) -> Iterator[Record]:
        """Yield the records, with their vectors."""
        random = np.random.default_rng([self._seed, self.size, 1])
        for number in range(self.size):
            began = NOW - timedelta(hours=number % 20_000 + 1)
            yield Record(
                id=_id(number),
                tenant_id=self.tenant_of(number),
                kind=self.kinds[number],
                entity_type="Concept",
                name=self.name(number),
                content=self._text(
                    self._word_numbers(int(self.topic_of[number]), _TEXT_WORDS, _TOPIC_WORDS_IN_TEXT, random)
                ),
                embeddings=(Embedding(space=SPACE, model_id=MODEL, vector=self.vectors[number].tobytes()),),
                timestamp=began,
                valid_at=began,
                invalid_at=NOW - timedelta(minutes=30) if self.retired[number] else None,
            )

    def vertices(self) -> list[Vertex]:
        """Return one vertex a record."""
        return [
            Vertex(
                id=_id(number),
                tenant_id=self.tenant_of(number),
                name=self.name(number),
                has_record=True,
                timestamp=NOW - timedelta(hours=number % 20_000 + 1),
            )
            for number in range(self.size)
        ]

    def relationships(self) -> list[Relationship]:
        """Return four relationships a record, hubs included, each inside one tenant."""
        return self._edges

    @property
    def hub_degree(self) -> int:
        """Edges of each hub: 4,000, or half as many as there are vertices where there are fewer."""
        return min(HUB_DEGREE, self.of_tenant // 2)

    def _relationships(self) -> Iterator[Relationship]:
        random = self._random
        everything = [*CAUSAL_TYPES, *TEMPORAL_TYPES, *HUB_TYPES[-1]]
        hubs = len(HUB_TYPES)
        self._led_to_hub: list[list[int]] = []
        for hub, types in enumerate(HUB_TYPES):
            others = hubs + random.choice(self.of_tenant - hubs, size=self.hub_degree, replace=False)
            half = self.hub_degree // 2
            self._led_to_hub.append([int(other) for other in others[:half]])
            for place, other in enumerate(others):
                ends = (int(other), hub) if place < half else (hub, int(other))
                yield self._relationship(*ends, str(random.choice(types)))
        seen: set[tuple[int, int]] = set()
        wanted = RELATIONSHIPS_PER_RECORD * self.size - hubs * self.hub_degree
        while len(seen) < wanted:
            source = int(random.integers(hubs, self.size))
            first, end = (hubs, self.of_tenant) if source < self.of_tenant else (self.of_tenant, self.size)
            target = int(random.integers(first, end))
            if source != target and (source, target) not in seen:
                seen.add((source, target))
                yield self._relationship(source, target, str(random.choice(everything)))

    def _relationship(self, source: int, target: int, kind: str) -> Relationship:
        retired = self._random.random() < _RETIRED_SHARE
        return Relationship(
            tenant_id=self.tenant_of(source),
            source=_id(source),
            type=kind,
            target=_id(target),
            confidence=round(float(self._random.uniform(0.5, 1.0)), 3),
            valid_at=NOW - timedelta(days=30),
            invalid_at=NOW - timedelta(days=1) if retired else None,
        )

    def ask(self, count: int) -> Ask:
        """Return what ``count`` questions are made of: near the tenant's records, but none of them."""
        random = np.random.default_rng([self._seed, self.size, 2])
        topics = self.topic_of[random.integers(self.of_tenant, size=count)]
        texts, names, keys, named, seeds, ids = [], [], [], [], [], []
        for topic in topics:
            middling = random.integers(50, 2_000, size=2)
            words = [*self._word_numbers(int(topic), 3, 3, random), *(int(number) for number in middling)]
            texts.append(self._text(words))
            two = [int(number) for number in random.integers(self.of_tenant, size=2)]
            first, second = map(self.name, two)
            question = f"What links {first} and {second} with {self._text(words[:2])}?"
            names.append(phrases(question))
            keys.append(list(lookup_keys(question)))
            named.append(tuple(dict.fromkeys(map(_id, two))))
            leading = [int(random.choice(numbers)) for numbers in self._led_to_hub]
            others = [int(number) for number in random.integers(len(HUB_TYPES), self.of_tenant, size=7)]
            seeds.append(tuple(dict.fromkeys(_id(number) for number in (*leading, *others))))
            ids.append(tuple(_id(int(number)) for number in random.choice(self.of_tenant, size=50, replace=False)))
        return Ask(self._place(topics, random), texts, names, keys, named, seeds, ids)

    def exact(self, vector: NDArray[np.float32], k: int, kinds: tuple[Kind, ...] = ()) -> list[str]:
        """Return the ids of the ``k`` nearest records in force of the tenant, found by comparing with all."""
        allowed = ~self.retired[: self.of_tenant]
        if kinds:
            allowed &= np.array([kind in kinds for kind in self.kinds[: self.of_tenant]])
        numbers = np.flatnonzero(allowed)
        cosines = self.vectors[numbers].astype(np.float64) @ vector.astype(np.float64)
        return [_id(int(number)) for number in numbers[np.argsort(-cosines)[:k]]]


def _id(number: int) -> str:
    return f"r{number:07d}"


def _vocabulary() -> list[str]:
    """Return made-up words, each normalised already, so that a name is one and the same in every engine."""
    count = len(_SYLLABLES)
    words = [
        _SYLLABLES[number % count] + _SYLLABLES[number // count % count] + _SYLLABLES[number // count**2 % count] + "x"
        for number in range(_VOCABULARY)
    ]
    return [normalise(word) for word in words]
