"""Unicode normalisation in time linear in the length of a text.

Normalising sorts each run of combining marks, which Python does by insertion: a text of nothing but marks takes time
with the square of its length.
"""

from __future__ import annotations

import unicodedata
from typing import Final

LONGEST_RUN: Final = 30
"""Combining marks in a row, as of Unicode's Stream-Safe Text Format (UAX #15); no language writes ten."""


def composed(text: str) -> str:
    """Return a text in the form NFC; of a run of combining marks the first :data:`LONGEST_RUN`."""
    if text.isascii():
        return text
    kept: list[str] = []
    run = 0
    for character in text:
        run = run + 1 if unicodedata.combining(character) else 0
        if run <= LONGEST_RUN:
            kept.append(character)
    return unicodedata.normalize("NFC", "".join(kept))


def without_marks(text: str) -> str:
    """Return a text in the form NFKD, without combining marks such as accents."""
    if text.isascii():
        return text
    # Marks are dropped before as well: what is left decomposes into runs of a few.
    return _unmarked(unicodedata.normalize("NFKD", _unmarked(text)))


def _unmarked(text: str) -> str:
    return "".join(character for character in text if not unicodedata.combining(character))
