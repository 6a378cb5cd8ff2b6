"""Confidence of an answer: how certain it is that the question is about anything stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.models import RelatedEntity, Result


def confidence(results: Sequence[Result], related: Iterable[RelatedEntity]) -> float:
    """Return the strongest evidence that a question is about what is stored: similarity, words or a name in it.

    Fusion tells which record is the best of those there are, and not how good that is; what one strand says of one
    record by itself does.

    Returns
    -------
    float
        The best, in [0, 1], of the results' similarities and scores of words, and of the certainty with which the
        question names an entity; 0 without results, and 1 where they were reached from what the caller gave.
    """
    if not results:
        return 0.0
    named = [entity.certainty for entity in related]  # only what the question names has one
    # Of a vector that came with its record nobody knows that it is the text's.
    similar = [0.0 if result.vector_supplied else result.vector_score for result in results]
    found = [*similar, *(result.lexical_score for result in results)]
    return max((score for score in (*named, *found) if score is not None), default=1.0)
