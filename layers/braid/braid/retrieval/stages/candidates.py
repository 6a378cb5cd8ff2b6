"""Hydrates candidates with their records in one call, drops those that are not admissible, and applies path coherence.

Dropped are candidates without a record of the tenant, not valid at the question's date (its ``as_of``, or now), or
outside of the question's filters, ``trusted_only`` among them.

A record of an older schema version scores less by the factors of ``ranking.scoring``, whether its score is that of
fusion (``Ranked.factor``) or of a reranker (``Ranked.rescored``), or is dropped (``hydrate``).

Path coherence: "Where was the composer of Back in the U.S.A. born?" The song's page says "… written by Chuck Berry", so
of all the pages that it mentions, that of Chuck Berry is the next to read. It is measured without a model, by how many
of the question's words, names left out, are near the mention.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.models import Candidate, Filters, Query, Record, Source, StoredRecord, earliest
from braid.models.metadata_filters import meet
from braid.ranking import scoring
from braid.ranking.fusion import in_order, sum_of_texts
from braid.ranking.scoring import DRIFT_FACTORS, clamp
from braid.understanding.name_forms import without_brackets
from braid.understanding.tokens import (
    STOP_WORDS,
    TranslationTable,
    has_ideographs,
    normalise,
    search_words,
    without_marks,
    words,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from braid.models import EntityLink, Path, TimeRange, Weights
    from braid.ports.search_index import SearchIndex


MAX_HYDRATED = 200
"""Most candidates whose records are read."""
SUPPLIED_FACTOR: Final = 0.85
"""Score factor of a hit by a supplied vector, as for moderate drift: it may not be the vector of the text."""


class Ranked(NamedTuple):
    """A candidate with its record."""

    candidate: Candidate
    stored: StoredRecord
    fused_rank: int
    drift: scoring.Drift
    relevance: float
    rerank_score: float | None = None
    vector_supplied: bool = False
    """Whether it was found by a vector that came with the record, and was not made by the model of its space."""

    @property
    def record(self) -> Record:
        """The whole record."""
        return self.stored.record

    @property
    def kind(self) -> str:
        """The kind of its record."""
        return self.record.kind

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths on which the graph reached it."""
        return self.candidate.paths

    @property
    def aged_from(self) -> datetime | None:
        """The time from which its age counts: the record's last update, else its timestamp, else its creation."""
        return self.record.updated_at or self.record.timestamp or self.record.created_at

    @property
    def factor(self) -> float:
        """Factor of the fused score, for an older schema version and for a supplied vector."""
        return _factor(self.drift, vector_supplied=self.vector_supplied)

    def rescored(self, score: float) -> Ranked:
        """Return it with a reranker's score, which is lowered for an older schema, but not for a supplied vector."""
        return self._replace(relevance=clamp(score * DRIFT_FACTORS[self.drift]), rerank_score=clamp(score))


def _factor(drift: scoring.Drift, *, vector_supplied: bool) -> float:
    return DRIFT_FACTORS[drift] * (SUPPLIED_FACTOR if vector_supplied else 1.0)


@dataclass(frozen=True)
class Hydrated:
    """Candidates with their records, best first, and counts of those that were dropped."""

    ranked: list[Ranked]
    superseded: int = 0
    """Candidates that were dropped as not valid at the question's date, those that are not valid yet among them."""
    begins_at: datetime | None = None
    """When the first candidate that was dropped as not valid yet becomes valid."""
    outdated: tuple[str, ...] = ()
    """Ids of candidates that were dropped as older than the schema window."""
    moderate: tuple[str, ...] = ()
    """Ids of candidates of moderate drift, which are kept and to be re-embedded."""
    evidence: dict[str, Record] = field(default_factory=dict)
    """Records that are evidence of facts, by id, as far as they exist."""
    text_lost: bool = False
    """Whether the index did not answer, so that no text was read."""


def hydrate(
    query: Query,
    fused: Sequence[Candidate],
    index: SearchIndex,
    *,
    now: datetime,
    schema_version: int | None,
    drift_threshold: int,
    max_versions_behind: int,
    space: str | None = None,
    evidence: Sequence[str] = (),
) -> Hydrated:
    """Read the candidates' records in one call, drop those not valid or outside of the filters, and apply drift.

    Graph hits have to meet the same conditions that the search index applied to its hits, and the tenant is checked
    again. A candidate without a record is only a vertex, and no answer.

    Parameters
    ----------
    now
        The question's date where it has no ``as_of``.
    schema_version
        The tenant's current schema version; None if it is not known.
    drift_threshold
        Most versions behind of moderate drift; see :func:`~braid.ranking.scoring.drift`.
    max_versions_behind
        Most versions behind that are inside the schema window.
    space
        The embedding space that was searched; None if none was.
    evidence
        Ids of records that are evidence of facts, read in the same call.

    Raises
    ------
    StoreError
        If the index does not answer.
    """
    as_of, filtered = query.as_of or now, query.filters != Filters()
    candidates = fused[:MAX_HYDRATED]
    wanted = dict.fromkeys([*[candidate.id for candidate in candidates], *evidence])
    found = index.candidates(query.tenant_id, list(wanted))
    records = {identity: stored for identity, stored in found.items() if stored.tenant_id == query.tenant_id}
    ranked: list[Ranked] = []
    superseded = 0
    begins: list[datetime | None] = []
    outdated: list[str] = []
    drifts: dict[int, scoring.Drift] = {}
    """Drift by schema version."""
    for candidate in candidates:
        stored = records.get(candidate.id)
        if stored is None or (filtered and not meets(stored.record, query.filters)):
            continue
        bounded = stored.valid_at is not None or stored.invalid_at is not None
        if bounded and not valid(stored, as_of):
            superseded += 1
            begins.append(stored.valid_at if stored.valid_at is not None and as_of < stored.valid_at else None)
            continue
        version = stored.schema_version
        current = schema_version or version
        drift = drifts.get(version)
        if drift is None:
            drift = drifts[version] = scoring.drift(version, current, drift_threshold)
        if drift is not scoring.Drift.NONE and version < scoring.oldest_searched(current, max_versions_behind):
            outdated.append(candidate.id)
            continue
        supplied = candidate.vector_score is not None and space in stored.supplied_spaces
        relevance = clamp(candidate.combined_score * _factor(drift, vector_supplied=supplied))
        ranked.append(Ranked(candidate, stored, len(ranked) + 1, drift, relevance, vector_supplied=supplied))
    ranked.sort(key=lambda item: (-item.relevance, item.candidate.id))
    moderate = [item.candidate.id for item in ranked if item.drift is scoring.Drift.MODERATE]
    known = {identity: records[identity].record for identity in evidence if identity in records}
    return Hydrated(ranked, superseded, earliest(begins), tuple(outdated), tuple(moderate), known)


def without_text(query: Query, fused: Sequence[Candidate], *, has_record: Collection[str]) -> list[Ranked]:
    """Return the candidates without their text, for an index that was lost after the search.

    Text hits met the query's filters inside the index, and graph hits are trusted if the query asks for that. Any other
    filter drops the graph hits.

    Parameters
    ----------
    has_record
        Ids of the graph hits that have a record.
    """
    ranked: list[Ranked] = []
    for candidate in fused[:MAX_HYDRATED]:
        from_index = Source.VECTOR in candidate.sources or Source.LEXICAL in candidate.sources
        if from_index or (candidate.id in has_record and not query.filters.restrict):
            stored = StoredRecord.of(Record(id=candidate.id, tenant_id=query.tenant_id))
            ranked.append(Ranked(candidate, stored, len(ranked) + 1, scoring.Drift.NONE, candidate.combined_score))
    return ranked


def valid(record: Record | StoredRecord, as_of: datetime) -> bool:
    """Whether a record is valid at a moment: ``valid_at <= as_of < invalid_at``, a missing bound being open."""
    if record.valid_at is not None and as_of < record.valid_at:
        return False
    return record.invalid_at is None or as_of < record.invalid_at


def meets(record: Record, filters: Filters) -> bool:
    """Whether a record meets a question's filters: kind, type, task, tool, trust, time and metadata.

    The search index has applied the filters to its own hits; those of the graph, and the evidence of facts, meet them
    here. Validity is checked by :func:`valid`.
    """
    return (
        (not filters.kinds or record.kind in filters.kinds)
        and (not filters.entity_types or record.entity_type in filters.entity_types)
        and filters.task_id in {None, record.task_id}
        and filters.tool_name in {None, record.tool_name}
        and (record.trusted or not filters.trusted_only)
        and (filters.time_range is None or _is_within(record.timestamp, filters.time_range))
        and (not filters.metadata or meet(record.metadata, filters.metadata, filters.metadata_tests))
    )


def _is_within(at: datetime | None, span: TimeRange) -> bool:
    if at is None:
        return False
    return (span.start is None or at >= span.start) and (span.end is None or at < span.end)


COMPARED = 15
"""Number of best candidates whose mentions are searched for."""
SEARCHED_TEXTS = 5
"""Number of best candidates in whose texts they are searched."""
AROUND = 15
"""Words on either side of a mention."""
MAX_WORDS = 1_000
MAX_CHARACTERS = 20_000
"""Longest prefix of a text that is searched for mentions."""
SHORTEST_STEM = 4
_ENDINGS = ("ations", "ation", "ings", "ing", "ers", "ors", "er", "or", "ed", "es", "s", "ion", "e")


def cohere(question: str, links: Sequence[EntityLink], ranked: Sequence[Ranked], *, weight: float) -> list[Ranked]:
    """Apply path coherence: prefer candidates that another's text mentions near the question's words, and reorder.

    A candidate's relevance becomes that of :func:`raised`. Its coherence is the largest share of the question's words,
    names left out, that are within :data:`AROUND` words of a mention of it in the text of one of the best candidates.
    """
    mentions = Mentions(question, links)
    if not mentions.asked or weight <= 0:
        return list(ranked)
    scores = mentions.coherences([item.stored for item in ranked])
    again: list[tuple[float, int, Ranked]] = []
    for item, score in zip(ranked, scores, strict=True):
        candidate, stored, fused_rank, drift, _, rerank_score, supplied = item
        relevance = raised(candidate.combined_score, score, weight, item.factor)
        raised_item = Ranked(candidate, stored, fused_rank, drift, relevance, rerank_score, supplied)
        again.append((-relevance, fused_rank, raised_item))
    return [item for *_, item in sorted(again)]  # no two have one rank


def raised(score: float, coherence: float, weight: float, factor: float) -> float:
    """Return a candidate's relevance: its fused score and coherence combined, times :attr:`Ranked.factor`."""
    return clamp((score + weight * coherence) / (1.0 + weight) * factor)


class Mentions:
    """Mentions of one question's candidates in one another's texts.

    Each pair of records is compared only once, so that further orders of the same candidates cost little.

    Attributes
    ----------
    asked
        Stems of the question's words, names left out.
    """

    def __init__(self, question: str, links: Iterable[EntityLink]) -> None:
        self.asked = _asked(question, links)
        self._shares: dict[tuple[str, str], float] = {}
        """By the ids of a text's record and of a mentioned one: the share of the words that is near the mention."""
        self._names_by_id: dict[str, list[list[str]]] = {}
        """The words of each name of a record."""

    def coherences(self, stored: Sequence[StoredRecord]) -> list[float]:
        """Return the coherence of each record, in [0, 1]; 0 for those after the first :data:`COMPARED`.

        Parameters
        ----------
        stored
            The candidates' records, best first.
        """
        scores = [0.0] * len(stored)
        if not self.asked:
            return scores
        first = [one.record for one in stored[:COMPARED]]
        for source in first[:SEARCHED_TEXTS]:
            others = [one for one in first if one is not source and (source.id, one.id) not in self._shares]
            self._search(source, others)
        for place, one in enumerate(first):
            shares = (self._shares[source.id, one.id] for source in first[:SEARCHED_TEXTS] if source is not one)
            scores[place] = max(shares, default=0.0)
        return scores

    def _search(self, source: Record, others: Sequence[Record]) -> None:
        """Search a record's text for mentions of others, and keep the share of each."""
        first_words = {name[0] for one in others for name in self._names_of(one)}
        # Splitting a text into words is most of the work, and most texts have none of the names.
        text = source.text()[:MAX_CHARACTERS]
        plain = without_marks(text).casefold()
        first_words = {word for word in first_words if word in plain}
        text_words = words(text)[:MAX_WORDS] if first_words else []
        starts: defaultdict[str, list[int]] = defaultdict(list)
        for place, word in enumerate(text_words):
            if word in first_words:
                starts[word].append(place)
        for one in others:
            shares = [
                _share(text_words, starts[name[0]], name, self.asked)
                for name in self._names_of(one)
                if name[0] in starts
            ]
            self._shares[source.id, one.id] = max(shares, default=0.0)

    def _names_of(self, record: Record) -> list[list[str]]:
        known = self._names_by_id.get(record.id)
        if known is None:
            known = self._names_by_id[record.id] = [name.split() for name in _names(record)]
        return known


def _asked(question: str, links: Iterable[EntityLink]) -> frozenset[str]:
    """Return the stems of the question's words, names left out."""
    left = f" {normalise(question)} "
    for phrase in sorted({link.phrase for link in links}, key=len, reverse=True):
        left = left.replace(f" {phrase} ", " ")
    return frozenset(stem(word) for word in search_words(left) if len(word) > 2)  # noqa: PLR2004 - "of", "by"


def _names(record: Record) -> set[str]:
    """Return the normalised names by which another text may mention a record."""
    names = [record.name, record.source.title, *record.aliases]
    plain = [without_brackets(name) for name in names if name]
    return {name for name in map(normalise, plain) if name}


def _share(text: Sequence[str], starts: Iterable[int], name: Sequence[str], asked: frozenset[str]) -> float:
    """Return the largest share of the asked words that are near one mention of a name.

    Parameters
    ----------
    starts
        Positions in the text of the name's first word.
    """
    best, size = 0, len(name)
    for start in starts:
        if text[start : start + size] == name:
            around = (
                *text[max(0, start - AROUND) : start],
                *text[start + size : start + size + AROUND],
            )
            best = max(best, len(asked.intersection(map(stem, around))))
    return best / len(asked)


@lru_cache(maxsize=8_192)
def stem(word: str) -> str:
    """Return a crude stem, such as that of "directed" and "director"; only for comparing with other such stems."""
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            return word[: -len(ending)]
    return word


READ_CHARACTERS: Final = 6_000
"""Longest prefix of a text that is searched for the question's words."""
_SHORT_ENDINGS: Final = ("", "d", "ed", "r", "er", "ing")
"""Endings of other forms of a word of three letters and "s", such as "owned" of "owns"."""
_OF_WORDS: Final = TranslationTable(lambda character: ord(character if character.isalnum() else " "))


def searchable(text: str) -> str:
    """Return the beginning of a text in lower case, each word between spaces."""
    words = without_marks(text[:READ_CHARACTERS]).lower().translate(_OF_WORDS).split()
    return f" {' '.join(words)} "


def has_word(text: str, beginning: str) -> bool:
    """Return whether a :func:`searchable` text has a word that begins with a stem.

    For a stem that is too short to be cut, such as "owns", other forms of it count too.
    """
    if has_ideographs(beginning):
        return beginning.replace(" ", "") in text
    is_short = len(beginning) == SHORTEST_STEM and beginning.endswith("s")
    return f" {beginning}" in text or (
        is_short and any(f" {beginning[:-1]}{ending} " in text for ending in _SHORT_ENDINGS)
    )


TEXTS_WEIGHED: Final = 20
"""Number of best texts in which the question's words are counted."""
MOST_WORDS, MOST_WORDS_AGREED = 2 / 3, 1 / 2
"""Least weighted share of the question's words that a text must have to be put first; the second value holds where
vectors and words both rank it first."""


def keep_best_text(
    question: str,
    ranked: Sequence[Ranked],
    vector: Mapping[str, float],
    lexical: Mapping[str, float],
    weights: Weights,
    *,
    cut_off: bool,
) -> list[Ranked]:
    """Put the best text of vectors and words first, if it has most of the question's words by itself.

    Such a text answers the question alone; what the graph adds comes after it.

    Parameters
    ----------
    ranked
        Candidates, best first.
    vector, lexical, weights, cut_off
        As of :func:`best_text`.
    """
    read = {item.candidate.id: item for item in ranked}
    first = ranked[0].candidate.id if ranked else None
    found = best_text(question, read, vector, lexical, weights, cut_off=cut_off, first=first)
    if found is None:
        return list(ranked)
    best = read[found]
    return [best._replace(relevance=ranked[0].relevance), *(item for item in ranked if item is not best)]


def best_text(
    question: str,
    read: Mapping[str, Ranked],
    vector: Mapping[str, float],
    lexical: Mapping[str, float],
    weights: Weights,
    *,
    cut_off: bool,
    first: str | None,
) -> str | None:
    """Return the id of the text to put first; None if the order stays.

    Parameters
    ----------
    read
        Records that can be results, by id.
    vector, lexical
        Scores of the text strands by id.
    weights, cut_off
        As of :func:`braid.ranking.fusion.fuse`.
    first
        Id of the best candidate.
    """
    summed = sum_of_texts(vector, lexical, weights.vector, weights.lexical, cut_off=cut_off)
    order, by_vector, by_words = (
        in_order({one: score * read[one].factor for one, score in scores.items() if one in read})
        for scores in (summed, vector, lexical)
    )
    if not order or order[0] == first:
        return None
    agreed = order[:1] == by_vector[:1] == by_words[:1]
    least = MOST_WORDS_AGREED if agreed else MOST_WORDS
    share = share_of_words(question, [read[one].record for one in order[:TEXTS_WEIGHED]])
    return order[0] if share >= least else None


def share_of_words(question: str, records: Sequence[Record]) -> float:
    """Return the weighted share of a question's words that the first record's title and text have, in [0, 1].

    A word's weight is its inverse document frequency among the records; it is 0 if no record has the word.
    """
    searched = search_words(without_marks(question))
    asked = {stem(word) for word in searched if word not in STOP_WORDS} or set(searched)
    texts = [searchable(f"{record.source.title or ''} {record.text()}") for record in records]
    weight: dict[str, float] = {}
    for word in asked:
        held = sum(has_word(text, word) for text in texts)
        weight[word] = math.log(1.0 + len(texts) / (held + 0.5)) if held else 0.0
    total = sum(weight.values())
    return sum(weight[word] for word in asked if has_word(texts[0], word)) / total if total else 0.0
