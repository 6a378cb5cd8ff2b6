"""Tells what a question says beside its names and relationships that makes their facts no answer, or only a part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from braid.understanding.multi_hop import label_words
from braid.understanding.tokens import word_set

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from braid.models import Label
    from braid.understanding.question_relations import Occurrence

ARTICLES: Final = word_set("a an the")
_NARROWING: Final = word_set("in of at for from by with")
_BEHIND: Final = word_set("of from by with")
"""Those of them that belong to the word before: "is a part *of*", "is used *by*", but not "no owner *in*"."""
_CONJUNCTIONS: Final = word_set("and or nor but than")


def is_end(tokens: Sequence[str], name: Collection[int], relations: Iterable[tuple[Label, Occurrence]]) -> bool:
    """Return whether a name is one end of a relationship, and not what narrows the set: "no owner in Beacon".

    Parameters
    ----------
    name
        The positions of its words.
    relations
        The relationships that the question expresses, and where.
    """
    place = min(name) - 1
    while place > 0 and tokens[place] in ARTICLES:
        place -= 1
    before = tokens[place] if place > 0 else ""
    return before not in _NARROWING or any(
        before in label_words(label) or place in one.places or (before in _BEHIND and place - 1 in one.places)
        for label, one in relations
    )


def has_conjunction(tokens: Sequence[str], names: Collection[int]) -> bool:
    """Return whether a question joins several things: names, relationships, or two questions.

    Parameters
    ----------
    names
        The positions of the words of its names.
    """
    return any(token in _CONJUNCTIONS for place, token in enumerate(tokens) if place not in names)
