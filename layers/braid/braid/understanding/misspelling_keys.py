"""Keys that a name and its misspellings share, by which a misspelt name of a question finds its entity.

:mod:`braid.retrieval.stages.name_linking` decides whether a word is a misspelt name, and ``name_keys`` makes the keys
that a question looks up.

As in SymSpell (W. Garbe), a name is stored under hashes of itself and of its variants without one letter. Parts of
names have no such keys: a question looks them up with two adjacent letters swapped as well.
The embedded store keeps the hashes as integers in a table of their own: :func:`misspelling_number` converts one.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from hashlib import blake2b
from typing import TYPE_CHECKING

from braid.understanding.sentence_openers import IMPERATIVES, OPENERS
from braid.understanding.tokens import STOP_WORDS, normalise

if TYPE_CHECKING:
    from collections.abc import Sequence

MISSPELT = "%"
"""Mark of these keys, their first character."""
MIN_MISSPELT, MAX_MISSPELT, MAX_MISSPELT_WORDS, MAX_MISSPELT_PHRASES = 5, 32, 4, 60
"""Fewest letters of a word, most characters and words of a name, that may be misspelt; most phrases that may be."""
MAX_MISSPELT_NAMES = 5
"""Names of one entity that may be misspelt: it may have a hundred names, and each of these has up to 33 more keys."""
_NO_NAMES = STOP_WORDS | OPENERS | IMPERATIVES
_HASH_BYTES = 6
_LONG_WORD = re.compile(rf"\b[a-z\u00df-\u058f\u10d0-\u10ff]{{{MIN_MISSPELT},}}\b")
"""A word of an alphabet, which may be misspelt; one character of a syllabary is too large a part of a word."""


def misspelling_numbers(*names: str) -> list[int]:
    """Return the :func:`misspellings` of an entity's first :data:`MAX_MISSPELT_NAMES` names as integers of 48 bits."""
    return [
        int.from_bytes(digest, "big")
        for name in names[:MAX_MISSPELT_NAMES]
        for digest in _misspelling_digests(normalise(name))
    ]


def misspelling_number(key: str) -> int:
    """Return the integer of one of the :func:`misspellings`, by decoding it."""
    return int.from_bytes(a2b_base64(key[len(MISSPELT) :]), "big")


def misspellings(name: str) -> list[str]:
    """Return keys of a normalised name; a name that differs in one letter shares at least one of them.

    As in SymSpell, they are keys of the name, and of the name without each single letter of its words of five letters
    and more: names with a missing, extra, wrong or transposed letter share one. Digits are not left out: LX-400 is not
    LX-500. A name without such words has none. Each key is the mark and a hash of 48 bits, to save space.
    """
    return [MISSPELT + b2a_base64(digest, newline=False).decode() for digest in _misspelling_digests(name)]


def _misspelling_digests(name: str) -> list[bytes]:
    if len(name) > MAX_MISSPELT:
        return []
    long = [match.span() for match in _LONG_WORD.finditer(name)]
    left_out = [name[:at] + name[at + 1 :] for start, end in long for at in range(start, end)]
    keys = dict.fromkeys((name, *left_out)) if left_out else ()
    return [blake2b(key.encode(), digest_size=_HASH_BYTES).digest() for key in keys]


def names_with_keys(*names: str) -> tuple[str, ...]:
    """Return which of an entity's names have :func:`misspellings`, normalised: short ones among the first few."""
    return tuple(name for name in map(normalise, names[:MAX_MISSPELT_NAMES]) if _misspelling_digests(name))


def one_letter_apart(phrase: str, name: str) -> bool:
    """Return whether a phrase is a name with a letter missing, too many, wrong or moved, by :func:`misspellings`.

    Names that share a key may differ in two letters: "boiling" without an o is "billing" without an l.
    """
    if set(misspellings(phrase)).isdisjoint(misspellings(name)):
        return False
    if len(phrase) != len(name) or phrase == name:
        return True
    return any(
        phrase[:at] + phrase[at + 1 :] == name[:other] + name[other + 1 :] and (at == other or letter == name[other])
        for at, letter in enumerate(phrase)
        for other in range(len(name))
    )


def may_be_misspelt(word: str) -> bool:
    """Return whether a normalised word is long enough, and of an alphabet, so that it may be misspelt."""
    return _LONG_WORD.fullmatch(word) is not None


def transpositions(word: str) -> list[str]:
    """Return the words that differ from a word in the order of two adjacent letters; none of a long word.

    Graphs store no :func:`misspellings` of the parts of names; a question looks up these spellings instead.
    """
    if len(word) > MAX_MISSPELT:
        return []
    swapped = (word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1))
    return [form for form in dict.fromkeys(swapped) if form != word]


def could_be_misspelt(offered: Sequence[str]) -> list[str]:
    """Return the phrases of a question that are looked up as misspelt names, the shortest first.

    They have at most :data:`MAX_MISSPELT_WORDS` words, and do not begin or end with a stop word or with a word that
    begins sentences, such as "please". ``offered`` has the longest phrases first.
    """
    found = []
    for phrase in reversed(offered):
        run = phrase.split()
        if len(run) <= MAX_MISSPELT_WORDS and not _NO_NAMES & {run[0], run[-1]}:
            found.append(phrase)
    return found[:MAX_MISSPELT_PHRASES]
