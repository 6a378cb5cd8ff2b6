"""Builds the searches of one question, which ``one_index`` sends as one multi-search, and parses their results.

They search the vector and the lexical strand, and find superseded and outdated records. Nothing is sent here; failures
are handled by :mod:`braid.retrieval.pipeline`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from braid.engines.opensearch.filters import filter_clause
from braid.engines.opensearch.mapping import (
    PAIRS,
    PART_START,
    PARTS,
    VALID_FROM,
    WORDS,
    floats,
    part_field,
    vector_field,
)
from braid.models import Hit
from braid.models.enums_and_scalars import microseconds, moment_of
from braid.ports.search_index import MAX_OUTDATED, SearchHits
from braid.ranking import scoring
from braid.understanding.tokens import lexical_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from braid.models import Embedding
    from braid.ports.search_index import SearchRequest

_EXPLORED = 100
"""Fewest neighbours requested: it keeps recall high, and ties at the k-th place are settled by id."""
_BM25_SCALE = 2.2
"""The factor ``k1 + 1`` of BM25 as published, which Lucene leaves out and SQLite keeps."""


_WITH_START: Final = {"docvalue_fields": [VALID_FROM]}
"""Has a search return when each hit begins to be valid."""


def from_lucene_bm25(score: float) -> float:
    """Map Lucene's BM25 to a score, on the scale of the other engines' BM25."""
    return scoring.from_bm25(_BM25_SCALE * score)


@dataclass(frozen=True)
class Strands:
    """The searches of a request: each strand once among valid records and once among invalid ones.

    Attributes
    ----------
    request
        The request.
    vector, lexical
        The two searches of each strand; empty when the request has no such strand.
    beyond
        The searches for the best records that only the schema window excludes.
    """

    request: SearchRequest
    vector: tuple[dict[str, Any], ...]
    lexical: tuple[dict[str, Any], ...]
    beyond: tuple[dict[str, Any], ...]

    def bodies(self) -> list[dict[str, Any]]:
        """Return all searches, in the order in which :meth:`hits` wants their answers."""
        return [*self.vector, *self.lexical, *self.beyond]

    def hits(self, answers: Sequence[Mapping[str, Any]]) -> SearchHits:
        """Return the hits in the responses. Whether the question's space is empty takes a further search."""
        by_vector, by_words, beyond = self._by_strand(answers)
        vector: tuple[Hit, ...] = ()
        lexical: tuple[Hit, ...] = ()
        superseded: set[str] = set()
        if by_vector:
            vector, superseded = strand(*map(hits_of, by_vector), k=self.request.k, score=scoring.from_lucene_cosine)
            starts = {str(hit["sort"][1]): part_start_of(hit) for hit in by_vector[0]["hits"]["hits"]}
            vector = tuple(hit.altered(part_start=starts[hit.id]) for hit in vector)
        if by_words:
            lexical, retired = (
                newest_strand(*by_words, k=self.request.k)
                if self.request.newest_first
                else strand(*map(hits_of, by_words), k=self.request.k, score=from_lucene_bm25)
            )
            superseded = superseded | retired
        outdated = dict.fromkeys(name for answer in beyond for _, name in hits_of(answer))
        now = microseconds(self.request.as_of)
        begins = [start for start in _starts((*by_vector[1:], *by_words[1:]), superseded) if start > now]
        return SearchHits(
            vector=vector,
            lexical=lexical,
            superseded=len(superseded),
            begins_at=moment_of(min(begins)) if begins else None,
            outdated=tuple(outdated),
        )

    def any_near(self, answers: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether any vector was found, valid or not."""
        by_vector, _, _ = self._by_strand(answers)
        return any(answer["hits"]["hits"] for answer in by_vector)

    def _by_strand(self, answers: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], ...]:
        first, second = len(self.vector), len(self.vector) + len(self.lexical)
        return answers[:first], answers[first:second], answers[second:]


def strands(request: SearchRequest, *, with_vector: bool, with_pairs: bool = True) -> Strands:
    """Return the searches that answer a request.

    Parameters
    ----------
    with_vector
        Whether to search by vector: the index has a field for it, and it is not all zeros.
    with_pairs
        Whether the index has a field of pairs of ideographs: one that was made before there were any has not.
    """
    valid = filter_clause(request, valid=True)
    retired = filter_clause(request, valid=False)
    words = lexical_words(request.text) if request.text is not None else []
    embedding = request.embedding if with_vector else None
    vector: tuple[dict[str, Any], ...] = ()
    lexical: tuple[dict[str, Any], ...] = ()
    beyond: list[dict[str, Any]] = []
    if embedding is not None:
        vector = (knn(embedding, request.k, valid), knn(embedding, request.k, retired) | _WITH_START)
    if words:
        texts = partial(newest if request.newest_first else match, with_pairs=with_pairs)
        lexical = (texts(words, request.k, valid), texts(words, request.k, retired) | _WITH_START)
    if request.min_schema_version > 1:
        clause = filter_clause(request, valid=True, outdated=True)
        if embedding is not None:
            beyond.append(knn(embedding, MAX_OUTDATED, clause))
        if words:
            beyond.append(match(words, MAX_OUTDATED, clause, with_pairs=with_pairs))
    return Strands(request, vector, lexical, tuple(beyond))


def _body(query: dict[str, Any], k: int) -> dict[str, Any]:
    return {
        "size": k,
        "_source": False,
        "track_total_hits": False,
        "sort": [{"_score": "desc"}, {"id": "asc"}],
        "query": query,
    }


def knn(embedding: Embedding, k: int, clause: dict[str, Any]) -> dict[str, Any]:
    """Return the search for the ``k`` records with the nearest vectors within a filter, applied before ``k``.

    A long text has further vectors in nested documents; the nearest counts, and ``inner_hits`` returns it.
    """
    field = vector_field(embedding.space)
    nearest = {"vector": floats(embedding.vector), "k": max(_EXPLORED, 2 * k), "filter": clause}
    further = {
        "path": PARTS,
        "query": {"knn": {part_field(field): nearest}},
        "score_mode": "max",
        "inner_hits": {"size": 1, "_source": False, "docvalue_fields": [PART_START]},
        "ignore_unmapped": True,  # an index that was made before there were parts
    }
    return _body({"dis_max": {"queries": [{"knn": {field: nearest}}, {"nested": further}]}}, k)


def match(words: Sequence[str], k: int, clause: dict[str, Any], *, with_pairs: bool) -> dict[str, Any]:
    """Return the search for the ``k`` best texts by BM25 with any of the words, within a filter.

    A word with a space in it is a pair of ideographs.
    """
    single = " ".join(word for word in words if " " not in word)
    pairs = [word for word in words if " " in word]
    wanted: list[dict[str, Any]] = [{"match": {WORDS: {"query": single}}}] if single else []
    if not with_pairs:
        wanted += [{"match_phrase": {WORDS: pair}} for pair in pairs]
    elif pairs:
        wanted.append({"match": {PAIRS: {"query": " ".join(pair.replace(" ", "") for pair in pairs)}}})
    any_of_them = wanted[0] if len(wanted) == 1 else {"bool": {"should": wanted, "minimum_should_match": 1}}
    return _body({"bool": {"must": [any_of_them], "filter": [clause]}}, k)


def newest(words: Sequence[str], k: int, clause: dict[str, Any], *, with_pairs: bool) -> dict[str, Any]:
    """Return the search for the ``k`` newest texts with any of the words, within a filter."""
    by_time = {"timestamp_us": {"order": "desc", "missing": "_last"}}
    return {**match(words, k, clause, with_pairs=with_pairs), "sort": [by_time, {"id": "asc"}], "track_scores": True}


def _starts(answers: Sequence[Mapping[str, Any]], names: Collection[str]) -> list[int]:
    """Return the beginning of validity of the records called ``names``, in microseconds since 1970, from responses."""
    return [
        int(hit["fields"][VALID_FROM][0])
        for answer in answers
        for hit in answer["hits"]["hits"]
        if hit["sort"][1] in names
    ]


def hits_of(answer: Mapping[str, Any]) -> list[tuple[float, str]]:
    """Return (Lucene's score, record id) pairs of a response, best first."""
    return [(float(hit["sort"][0]), str(hit["sort"][1])) for hit in answer["hits"]["hits"]]


def part_start_of(hit: Mapping[str, Any]) -> int:
    """Return the character of its record's text at which the nearest part of a hit of :func:`knn` begins."""
    for part in hit.get("inner_hits", {}).get(PARTS, {}).get("hits", {}).get("hits", ()):
        if float(part["_score"]) >= float(hit["sort"][0]):
            return int(part["fields"][PART_START][0])
    return 0


def newest_strand(valid: Mapping[str, Any], retired: Mapping[str, Any], *, k: int) -> tuple[tuple[Hit, ...], set[str]]:
    """Return the hits of two responses to :func:`newest`, and the retired records that would have been among them."""
    found = [
        (-int(hit["sort"][0]), str(hit["sort"][1]), is_retired, float(hit["_score"]))
        for answer, is_retired in ((valid, False), (retired, True))
        for hit in answer["hits"]["hits"]
    ]
    found.sort()
    kept = [(name, score) for _, name, is_retired, score in found if not is_retired][:k]
    hits = tuple(Hit(id=name, score=from_lucene_bm25(score), rank=rank) for rank, (name, score) in enumerate(kept, 1))
    return hits, {name for _, name, is_retired, _ in found[:k] if is_retired}


def strand(
    valid: Sequence[tuple[float, str]],
    retired: Sequence[tuple[float, str]],
    *,
    k: int,
    score: Callable[[float], float],
) -> tuple[tuple[Hit, ...], set[str]]:
    """Return the hits of one strand, and the retired records that would have been among its first ``k``."""
    ranked = sorted((-score(raw), name, False) for raw, name in valid)
    hits = tuple(
        Hit(id=name, score=-negative, rank=rank) for rank, (negative, name, _) in enumerate(ranked[:k], start=1)
    )
    everything = sorted(ranked + [(-score(raw), name, True) for raw, name in retired])
    return hits, {name for _, name, is_retired in everything[:k] if is_retired}
