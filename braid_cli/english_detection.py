"""Detects whether the texts of a folder are English, by script and by function words; if not, ingest warns.

The language of a question is told by :mod:`braid.understanding.tokens`, that of a written text by
:mod:`braid.understanding.sentence_openers`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from braid.understanding.tokens import FUNCTION_WORDS, STOP_WORDS, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable

_OTHER: Final = word_set("""
    der die das und ist nicht ein eine einen dem den des zu mit auf für von sich auch werden wird wurde bei nach oder
    le la les et est une dans pour sur pas que qui avec sont par plus au aux du ce cette il elle nous vous
    el los las y es un una en por con para no se del lo como más pero sus fue
    il lo gli e è un una di che non per con sono della nel alla come anche più
    o os as e é um uma de que não em por com para na no da do dos mais foi
    het een van en niet met voor op zijn werd ook maar bij naar
""").difference(STOP_WORDS)
"""Function words of German, French, Spanish, Italian, Portuguese and Dutch that are not English stop words."""
_WORD = re.compile(r"[^\W\d_]+")
_READ_CHARACTERS = 2_000
_FEWEST = 2
"""Minimum of function words by which a language is detected."""
_OTHER_SCRIPT = 0.3
"""Share of letters outside the Latin script above which a text is not English."""
_LAST_LATIN = "\u024f"


def is_english(text: str) -> bool | None:
    """Return whether the first 2,000 characters of a text are English; None if they have too few function words."""
    found = [word.casefold() for word in _WORD.findall(text[:_READ_CHARACTERS])]
    letters = "".join(found)
    if sum(letter > _LAST_LATIN for letter in letters) > _OTHER_SCRIPT * len(letters):
        return False
    english, other = sum(word in FUNCTION_WORDS for word in found), sum(word in _OTHER for word in found)
    return english >= other if max(english, other) >= _FEWEST else None


def mostly_foreign(texts: Iterable[str]) -> bool:
    """Return whether more than half of the texts are not English, of those whose language can be detected."""
    told = [english for english in map(is_english, texts) if english is not None]
    return 2 * sum(told) < len(told)
