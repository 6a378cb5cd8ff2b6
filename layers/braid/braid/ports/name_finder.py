"""Port: finds the names of entities in texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


GIVEN: Final = "="
"""First character of :attr:`FoundName.meaning` where a name means a given entity; no normalised name has it."""


class SourceText(NamedTuple):
    """A text to find names in."""

    id: str
    title: str
    content: str
    document: str
    """Texts of one document are read together: a surname in one may refer to a full name in an earlier one."""


class FoundMention(NamedTuple):
    """The mention of a name in one text: its first occurrence."""

    text_id: str
    position: int
    """Offset of the name's first character in the content; 0 for a name in the title."""
    confidence: float
    """How central the name is to the text, in (0, 1]: in its title, its first sentence, or a passing mention."""


class FoundName(NamedTuple):
    """A name with its mentions in all texts."""

    meaning: str
    """:data:`GIVEN` and the id of the given entity that it means. Of a name that means none, its key, which all its
    spellings share: :func:`braid.understanding.name_patterns.name_key`."""
    name: str
    """Spelling of its first occurrence."""
    entity_type: str
    mentions: tuple[FoundMention, ...]
    """One per text, in the order of the texts."""

    @property
    def entity_id(self) -> str | None:
        """Id of the given entity that it means; None if it means none."""
        return self.meaning.removeprefix(GIVEN) if self.meaning.startswith(GIVEN) else None


class NameFinder(Protocol):
    """Finds the names of entities in texts."""

    def find(self, texts: Sequence[SourceText], given: Mapping[str, str]) -> list[FoundName]:
        """Return the names in texts, in the order of their first occurrence.

        The result for a document does not depend on the other documents of the call.

        Parameters
        ----------
        texts
            The texts, those of a document adjacent and in order.
        given
            Known names and aliases, normalised by :func:`braid.understanding.tokens.normalise`, each with its
            meaning, as of :class:`FoundName`. They are found in any position and spelling.
        """
