"""The searches that answer one request, sent together, and the hits that their answers hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from braid.engines.opensearch import queries as query
from braid.ports.search_index import MAX_OUTDATED, SearchHits
from braid.ranking import scoring
from braid.understanding.tokens import search_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from braid.models import Hit
    from braid.ports.search_index import SearchRequest


@dataclass(frozen=True)
class Strands:
    """The searches of a request, each strand once among what is valid and once among what is not.

    Attributes
    ----------
    request
        What is asked.
    vector, lexical
        The two searches of each strand; none where it is not asked.
    beyond
        The searches for the best records that only the schema window keeps out.
    """

    request: SearchRequest
    vector: tuple[dict[str, Any], ...]
    lexical: tuple[dict[str, Any], ...]
    beyond: tuple[dict[str, Any], ...]

    def bodies(self) -> list[dict[str, Any]]:
        """Return all searches, in the order in which :meth:`hits` wants their answers."""
        return [*self.vector, *self.lexical, *self.beyond]

    def hits(self, answers: Sequence[Mapping[str, Any]]) -> SearchHits:
        """Return what the answers hold. Whether the question's space is empty is for who asks to find out."""
        by_vector, by_words, beyond = self._apart(answers)
        vector: tuple[Hit, ...] = ()
        lexical: tuple[Hit, ...] = ()
        superseded: set[str] = set()
        if by_vector:
            vector, superseded = query.strand(
                *map(query.hits_of, by_vector), k=self.request.k, score=scoring.from_lucene_cosine
            )
        if by_words:
            lexical, retired = (
                query.newest_strand(*by_words, k=self.request.k)
                if self.request.newest_first
                else query.strand(*map(query.hits_of, by_words), k=self.request.k, score=query.from_lucene_bm25)
            )
            superseded = superseded | retired
        outdated = dict.fromkeys(name for answer in beyond for _, name in query.hits_of(answer))
        return SearchHits(vector=vector, lexical=lexical, superseded=len(superseded), outdated=tuple(outdated))

    def any_near(self, answers: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether any vector was found, valid or not."""
        by_vector, _, _ = self._apart(answers)
        return any(answer["hits"]["hits"] for answer in by_vector)

    def _apart(self, answers: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], ...]:
        first, second = len(self.vector), len(self.vector) + len(self.lexical)
        return answers[:first], answers[first:second], answers[second:]


def strands(request: SearchRequest, *, with_vector: bool) -> Strands:
    """Return the searches that answer a request.

    Parameters
    ----------
    with_vector
        Whether the index has a field for the request's vector, and the vector a direction.
    """
    valid = query.filter_clause(request, valid=True)
    retired = query.filter_clause(request, valid=False)
    words = search_words(request.text) if request.text is not None else []
    embedding = request.embedding if with_vector else None
    vector: tuple[dict[str, Any], ...] = ()
    lexical: tuple[dict[str, Any], ...] = ()
    beyond: list[dict[str, Any]] = []
    if embedding is not None:
        vector = tuple(query.knn(embedding, request.k, clause) for clause in (valid, retired))
    if words:
        texts = query.newest if request.newest_first else query.match
        lexical = tuple(texts(words, request.k, clause) for clause in (valid, retired))
    if request.min_schema_version > 1:
        clause = query.filter_clause(request, valid=True, outdated=True)
        if embedding is not None:
            beyond.append(query.knn(embedding, MAX_OUTDATED, clause))
        if words:
            beyond.append(query.match(words, MAX_OUTDATED, clause))
    return Strands(request, vector, lexical, tuple(beyond))
