"""Port: finds the names of entities in texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class SourceText(NamedTuple):
    """A text in which names are looked for."""

    id: str
    title: str
    content: str
    document: str
    """Texts of one document are read as one: a surname in the second means who is named in full in the first."""


class FoundMention(NamedTuple):
    """A text in which a name stands."""

    text_id: str
    position: int
    """Of its first character in the content; 0 for a name that stands in the title."""
    confidence: float
    """How much the text is about what is named, in (0, 1]: its title, its first sentence, or a passing mention."""


class FoundName(NamedTuple):
    """A name and all texts that have it."""

    key: str
    """The same for all spellings that mean the same name."""
    name: str
    """As it is written where it stands first."""
    entity_type: str
    mentions: tuple[FoundMention, ...]
    """One a text, in the order of the texts."""


class NameFinder(Protocol):
    """Finds names."""

    def find(self, texts: Sequence[SourceText], given: Mapping[str, str]) -> list[FoundName]:
        """Return the names in some texts, in the order in which they stand there first.

        What is found in a document does not depend on what other documents are given with it.

        Parameters
        ----------
        texts
            Those of a document adjacent and in their order.
        given
            Names and aliases that are known, normalised by :func:`braid.understanding.tokens.normalise`, each with the
            key that its mentions get. They are found wherever they stand, however they are written.
        """
