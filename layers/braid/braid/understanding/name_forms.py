"""Variants of a name: shortened, a part of it, its initials, its plural or singular, written as one word.

A store keeps the variants of each name beside it, with a prefix that no normalised name has. So they are found by the
same exact look-up, only when a question asks for them, and never in place of a name itself.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from braid.understanding.linking import (
    MIN_WORD_CHARACTERS,
    is_content_word,
    is_whole_name,
    looks_like_name,
    name_certainty,
    phrases,
)
from braid.understanding.tokens import cased_words, normalise, words

NAME_SCORE, ALIAS_SCORE = 1.0, 0.9
SHORTENED, PART, INITIALS = "~", "^", "@"
FORM_SCORES = {SHORTENED: 0.8, PART: 0.6, INITIALS: 0.6}
"""Scores of a match by a variant of a name, by its prefix."""
ALTERED_SHARE = 0.8
"""Of the score of a name that the question has in the plural or the singular, or writes apart."""
CERTAIN = 0.5
"""Least certainty of a phrase to be looked up as a variant."""
MAX_PART_WORDS, MAX_NAME_WORDS, MAX_INITIALS, MAX_JOINED_WORDS = 3, 4, 6, 3
_LONG_PLURAL = re.compile(r"(?:s|x|z|ch|sh)es$")


class LookupKey(NamedTuple):
    """A key that is looked up in the graph's names, and the phrase that it stands for."""

    phrase: str
    """The words of the question."""
    share: float
    """Of the score of the match, in (0, 1]; below 1 when the words were altered."""


def stored_forms(name: str) -> list[str]:
    """Return the keys by which an entity is found in another form of its name, each behind its mark.

    "Humboldt Peak (Colorado)" and "Nicholas I, Lord of Mecklenburg" are shortened to what stands before the bracket and
    the first comma. A name of two to four words with capitals is known by its first and last word, and without its
    first; one of three to six, by its initials.
    """
    spelled = cased_words(name)
    full = _joined(spelled)
    keys: list[str] = []
    if "(" in name or "," in name:
        bare = without_brackets(name)
        short = bare.partition(",")[0]
        spelled = cased_words(short)
        keys += [SHORTENED + normalise(bare), SHORTENED + _joined(spelled)]
    telling = [word for word in spelled if is_content_word(word)]
    if telling and all(map(looks_like_name, telling)):
        if 1 < len(spelled) <= MAX_NAME_WORDS:
            parts = (spelled[:1], spelled[-1:], spelled[1:])
            keys += [PART + _joined(part) for part in parts if any(map(is_content_word, part))]
        if MIN_WORD_CHARACTERS <= len(telling) <= MAX_INITIALS:
            keys.append(INITIALS + "".join(word[0] for word in telling).casefold())
    return [key for key in dict.fromkeys(keys) if key[1:] not in {"", full}]


def without_brackets(name: str) -> str:
    """Return a name without what stands in round brackets at its end."""
    whole = name.rstrip()
    opened = whole.rfind("(")
    if opened < 0 or whole.find(")", opened) != len(whole) - 1:
        return name
    return whole[:opened].rstrip()


def _joined(spelled: list[str]) -> str:
    return " ".join(word.casefold() for word in spelled)


def match_score(key: str, *, is_name: bool) -> float:
    """Return how well an entity matched by a key, in (0, 1]: its name, an alias, or a form of either."""
    return FORM_SCORES.get(key[:1], NAME_SCORE if is_name else ALIAS_SCORE)


def is_form(key: str) -> bool:
    """Return whether a key is a marked form of a name."""
    return key[:1] in FORM_SCORES


def lookup_keys(question: str) -> dict[str, LookupKey]:
    """Return the keys to look up for a question: its phrases as they are, and other forms of those written as names.

    What is altered or a part of a name stands alone: "A Whirl Of Sex And Politics" names no "Gentle Sex".
    """
    offered = phrases(question)
    keys = {phrase: LookupKey(phrase, 1.0) for phrase in offered}
    capitals = {normalise(word) for word in cased_words(question) if word.isupper()}
    for phrase in offered:
        if name_certainty(question, phrase) < CERTAIN:
            continue
        size = len(words(phrase))
        keys[SHORTENED + phrase] = LookupKey(phrase, 1.0)
        if phrase in capitals:
            keys[INITIALS + phrase] = LookupKey(phrase, 1.0)
        if not is_whole_name(question, phrase):
            continue
        if size <= MAX_PART_WORDS:
            keys[PART + phrase] = LookupKey(phrase, 1.0)
        altered = [*inflections(phrase), *([phrase.replace(" ", "")] if 1 < size <= MAX_JOINED_WORDS else [])]
        for form in altered:
            keys.setdefault(form, LookupKey(phrase, ALTERED_SHARE))
    return keys


def inflections(phrase: str) -> list[str]:
    """Return the singulars of a phrase whose last word looks like an English plural, or else its plural."""
    if len(phrase.rpartition(" ")[2]) <= MIN_WORD_CHARACTERS:
        return []
    if phrase.endswith("ies"):
        return [phrase[:-3] + "y"]
    if phrase.endswith("ss"):
        return [phrase + "es"]
    if phrase.endswith("s"):
        return [phrase[:-1], *([phrase[:-2]] if _LONG_PLURAL.search(phrase) else [])]
    return [phrase + "s"]
