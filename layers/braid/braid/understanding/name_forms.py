"""Keys of names, by which writes store an entity and questions look it up.

They are not the ``name_key`` of :mod:`braid.understanding.name_patterns`, which the spellings of a name in texts share.
The first character of a key tells its kind; :data:`FORM_SCORES` has the marks of the last four:

===========  =======================================================================
no mark      a normalised name or alias itself
``~atlas``   a name without its brackets, or without what follows its first comma
``^atlas``   a part of a name: its first or last word, or all words but the first
``@abc``     the initials of a name
``%…``       a hash, in Base64, of a name or of a name without one of its letters
===========  =======================================================================

The embedded store keeps the hashes as integers in a table of their own: :func:`misspelling_number` converts one.

Also here: how certain it is that words of a question are meant as a name. Names in the texts of a write are found by
:mod:`braid.understanding.name_finding`.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from braid.understanding.tokens import (
    MIN_HAN,
    STOP_WORDS,
    cased_words,
    composed,
    count_han,
    normalise,
    occurrences,
    split_ideographs,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from braid.models import EntityLink


NAME_SCORE, ALIAS_SCORE = 1.0, 0.9
SHORTENED, PART, INITIALS, MISSPELT = "~", "^", "@", "%"
FORM_SCORES = {SHORTENED: 0.8, MISSPELT: 0.75, PART: 0.6, INITIALS: 0.6}
"""Scores of a match by another form of a name, by its mark."""
ALTERED_SHARE = 0.8
"""Score factor of a name that the question has in another number, written apart or together, or with umlauts."""
LEAST_CERTAINTY_OF_FORMS = 0.5
"""Least certainty with which a phrase is looked up by other forms than itself."""
MAX_PART_WORDS, MAX_NAME_WORDS, MAX_INITIALS, MAX_JOINED_WORDS = 3, 4, 6, 3
MIN_MISSPELT, MAX_MISSPELT, MAX_MISSPELT_PHRASES = 5, 32, 60
"""Fewest letters of a word, and most characters of a name, that may be misspelt; most such phrases of a question."""
MAX_TRANSPOSED_WORDS = 10
"""Most words of a question that are also looked up, as parts of names, with two adjacent letters swapped."""
MAX_MISSPELT_NAMES = 5
"""Names of one entity that may be misspelt: it may have a hundred names, and each of these has up to 33 more keys."""
_HASH_BYTES = 6
_SEAM = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
"""Where names such as "KeelsonApi" and "LX500" may also be written apart."""
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_WRITTEN_OUT = re.compile(r"(?<![aeq])([aou])e(?![aeou])")
"""An umlaut written as a vowel and an e, as on a keyboard without umlauts."""
_LONG_WORD = re.compile(rf"\b[a-z\u00df-\u058f\u10d0-\u10ff]{{{MIN_MISSPELT},}}\b")
"""A word of an alphabet, which may be misspelt; one character of a syllabary is too large a part of a word."""
_LONG_PLURAL = re.compile(r"(?:s|x|z|ch|sh)es$")


class LookupKey(NamedTuple):
    """A key that is looked up in the graph's names, with the phrase of the question that it was made of."""

    phrase: str
    """The words of the question."""
    score_factor: float
    """Factor of the match's score, in (0, 1]; below 1 for an altered form of the phrase."""
    misspelt: bool = False
    """Whether it is another spelling of a phrase that may be misspelt."""


def stored_forms(*names: str) -> list[str]:
    """Return the keys of other forms of an entity's names, each with its mark.

    "Humboldt Peak (Colorado)" and "Nicholas I, Lord of Mecklenburg" are shortened to the part before the bracket and
    the first comma. A name of two to four words with capitals is known by its first and last word, and without its
    first; one of three to six, by its initials. The first :data:`MAX_MISSPELT_NAMES` names have :func:`misspellings`.
    """
    misspelt = [key for name in names[:MAX_MISSPELT_NAMES] for key in misspellings(normalise(name))]
    return other_forms(*names) + misspelt


def other_forms(*names: str) -> list[str]:
    """Return the keys of :func:`stored_forms` apart from misspellings."""
    return [form for name in names for form in _forms(name)]


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


def _forms(name: str) -> list[str]:
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


def misspellings(name: str) -> list[str]:
    """Return keys of a normalised name, of which a name that differs in one letter has at least one too.

    As in SymSpell, they are keys of the name, and of the name without one letter of its words of five letters and more,
    each in turn: names with a missing, extra, wrong or transposed letter share one. Digits are not left out: LX-400 is
    not LX-500. A name without such words has none. Each key is the mark and a hash of 48 bits, to save space.
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


def without_brackets(name: str) -> str:
    """Return a name without the round brackets at its end and their content."""
    whole = name.rstrip()
    opened = whole.rfind("(")
    if opened < 0 or whole.find(")", opened) != len(whole) - 1:
        return name
    return whole[:opened].rstrip()


def _joined(spelled: list[str]) -> str:
    return " ".join(map(str.casefold, spelled))


def match_score(key: str, *, is_name: bool) -> float:
    """Return the score of a match by a key, in (0, 1]: of an entity's name, an alias, or another form of either."""
    return FORM_SCORES.get(key[:1], NAME_SCORE if is_name else ALIAS_SCORE)


def is_form(key: str) -> bool:
    """Return whether a key is another form of a name, by its prefix."""
    return key[:1] in FORM_SCORES


def lookup_keys(question: str) -> dict[str, LookupKey]:
    """Return the keys to look up for a question: its phrases as they are, and other forms of those written as names.

    Altered forms and parts of names are looked up only for phrases that are not inside a longer name: "A Whirl Of Sex
    And Politics" names no "Gentle Sex".
    """
    offered = phrases(question)
    keys = {phrase: LookupKey(phrase, 1.0) for phrase in offered}
    capitals = {normalise(word) for word in cased_words(question) if word.isupper()}
    for phrase in offered:
        if name_certainty(question, phrase) < LEAST_CERTAINTY_OF_FORMS:
            continue
        size = phrase.count(" ") + 1
        keys[SHORTENED + phrase] = LookupKey(phrase, 1.0)
        if phrase in capitals:
            keys[INITIALS + phrase] = LookupKey(phrase, 1.0)
        if not is_whole_name(question, phrase):
            continue
        if size <= MAX_PART_WORDS:
            keys[PART + phrase] = LookupKey(phrase, 1.0)
        altered = [*inflections(phrase), *([phrase.replace(" ", "")] if 1 < size <= MAX_JOINED_WORDS else [])]
        altered += respellings(question, phrase)
        for form in altered:
            keys.setdefault(form, LookupKey(phrase, ALTERED_SHARE))
    for phrase in _could_be_misspelt(offered):
        for form in misspellings(phrase):
            keys.setdefault(form, LookupKey(phrase, 1.0))
    for form, key in _transposed_parts(keys).items():
        keys.setdefault(form, key)
    return keys


def _transposed_parts(keys: Mapping[str, LookupKey]) -> dict[str, LookupKey]:
    """Return keys of parts of names, for the first words that are looked up as parts, with two letters swapped."""
    words = [key[1:] for key in keys if key[:1] == PART and _LONG_WORD.fullmatch(key[1:])]
    return {
        PART + form: LookupKey(word, FORM_SCORES[MISSPELT], misspelt=True)
        for word in words[:MAX_TRANSPOSED_WORDS]
        for form in transpositions(word)
    }


def similar_keys(name: str) -> list[str]:
    """Return the keys of names similar to a normalised one: other forms, singular or plural, misspellings."""
    marked = [mark + name for mark in FORM_SCORES if mark != MISSPELT]
    swapped = [PART + form for form in transpositions(name)] if _LONG_WORD.fullmatch(name) else []
    return [*marked, *inflections(name), name.replace(" ", ""), *misspellings(name), *swapped]


def transpositions(word: str) -> list[str]:
    """Return the words that differ from a word in the order of two adjacent letters; none of a long word.

    Graphs keep no :func:`misspellings` of the parts of names, so that a question asks for these spellings instead.
    """
    if len(word) > MAX_MISSPELT:
        return []
    swapped = (word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1))
    return [form for form in dict.fromkeys(swapped) if form != word]


def _could_be_misspelt(offered: Sequence[str]) -> list[str]:
    """Return the shorter phrases of a question that neither begin nor end with a stop word, the shortest first."""
    found = []
    for phrase in reversed(offered):
        run = phrase.split()
        if len(run) <= MAX_NAME_WORDS and not STOP_WORDS & {run[0], run[-1]}:
            found.append(phrase)
    return found[:MAX_MISSPELT_PHRASES]


def respellings(question: str, phrase: str) -> list[str]:
    """Return other spellings of a phrase of a question: split where case or digits change, or with other umlauts.

    "LX500" and "KeelsonApi" are also "lx 500" and "keelson api", "Mueller" is "muller" and "Müller" is "mueller".
    """
    run, begins = _run(question, phrase)
    if not begins:
        return []
    here = slice(begins[0], begins[0] + len(run))
    found = [" ".join(spelling[here]) for spelling in _spellings(question)] + [_WRITTEN_OUT.sub(r"\1", phrase)]
    return [form for form in dict.fromkeys(found) if form not in {"", phrase}]


@lru_cache(maxsize=8)
def _spellings(question: str) -> list[list[str]]:
    """Return the words of a question, without case, in each way in which :func:`respellings` spells them."""
    found = [[_SEAM.sub(" ", word).casefold() for word in _written_words(question).words]]
    written_out = composed(question).translate(_UMLAUTS)
    if written_out != question:
        found.append([piece.text.casefold() for piece in tokenize(written_out)])
    return found


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


MAX_PHRASE_WORDS = 8
MAX_PHRASE_IDEOGRAPHS = 12
MIN_WORD_CHARACTERS = 3
MAX_QUESTION_WORDS = 200
FIRST_WORD, IN_PLAIN_WRITING, SEVERAL_COMMON_WORDS, COMMON_WORD = 0.5, 0.1, 0.2, 0.05
"""Certainties of a phrase whose spelling does not distinguish it from common words."""


class Token(NamedTuple):
    """A word of a question, or one character of a script that writes no spaces between words."""

    text: str
    glued: bool = False
    """Whether there is no space before it."""


def tokenize(text: str) -> list[Token]:
    """Return the words of a text as :func:`cased_words` does, with each ideograph by itself."""
    return [
        Token(part, glued=place > 0) for word in cased_words(text) for place, part in enumerate(split_ideographs(word))
    ]


@lru_cache(maxsize=1_024)
def _folded(text: str) -> tuple[str, ...]:
    # Cached, since each phrase of a question is split several times.
    return tuple(piece.text.casefold() for piece in tokenize(text))


def phrases(question: str) -> list[str]:
    """Return every run of 1 to 8 words of a question that could be a name, the longest first.

    A phrase needs one word of more than two characters that is not a function word, two Han characters, or three
    letters of another script without case; a question is read up to its 200th word, which bounds the look-up. In
    scripts without spaces, runs have up to 12 characters.
    """
    return list(_runs(question))


@lru_cache(maxsize=8)
def _runs(question: str) -> dict[str, tuple[tuple[str, ...], list[int]]]:
    """Return the words, without case, of each of a question's :func:`phrases`, and the positions where they begin."""
    tokens = tokenize(question)[:MAX_QUESTION_WORDS]
    folded = [piece.text.casefold() for piece in tokens]
    telling = [is_content_word(piece.text) for piece in tokens]
    glued = any(piece.glued for piece in tokens)
    found: dict[str, tuple[tuple[str, ...], list[int]]] = {}
    for size in range(min(MAX_PHRASE_IDEOGRAPHS if glued else MAX_PHRASE_WORDS, len(tokens)), 0, -1):
        for start in range(len(tokens) - size + 1):
            run = tokens[start : start + size]
            if size > MAX_PHRASE_WORDS and not all(piece.glued for piece in run[1:]):
                continue
            if True in telling[start : start + size] or _is_name_without_case([piece.text for piece in run]):
                words_of_run = folded[start : start + size]
                phrase = _written(run, words_of_run) if glued else " ".join(words_of_run)
                if glued:
                    found[phrase] = (tuple(words_of_run), occurrences(words_of_run, folded))
                else:
                    found.setdefault(phrase, (tuple(words_of_run), []))[1].append(start)
    return found


def _written(run: Sequence[Token], words_of_run: Sequence[str]) -> str:
    """Return a run as text, with a space before each word that is not glued."""
    return "".join(f"{'' if piece.glued else ' '}{word}" for piece, word in zip(run, words_of_run, strict=True)).strip()


def _run(question: str, phrase: str) -> tuple[tuple[str, ...], list[int]]:
    """Return the words of a phrase, without case, and the positions where they begin in a question."""
    known = _runs(question).get(phrase)
    if known is not None:
        return known
    run = _folded(phrase)
    return run, occurrences(run, _written_words(question).folded)


def _is_name_without_case(run: Sequence[str]) -> bool:
    whole = "".join(run)
    if whole.isascii():
        return False
    letters = sum(len(word) for word in run if word.isalpha() and not _has_case(word))
    return letters >= MIN_WORD_CHARACTERS or count_han(whole) >= MIN_HAN


def name_certainty(question: str, phrase: str) -> float:
    """Return how certain it is that a phrase of a question is meant as a name, by its spelling there, in [0, 1].

    "Which country is Aristarete from?" certainly names Aristarete, but hardly an entity called "Country". A name has a
    capital, a digit or a script without case. Where capitals do not distinguish, since all words or none have one,
    several words together count as a name.

    Parameters
    ----------
    phrase
        Normalised phrase, as it was linked.
    """
    written = _written_words(question)
    if not written.has_case:
        # In a script without case, spelling does not distinguish names, and a word with case is a foreign name.
        return 1.0
    run, starts = _run(question, phrase)
    standing = written.like_names
    capitals_tell = len(set(standing[1:])) > 1
    if capitals_tell:
        for start in starts:
            if True in standing[max(start, 1) : start + len(run)]:
                return 1.0
    several = sum(word not in STOP_WORDS for word in run) > 1
    if run and starts[:1] == [0] and standing[0] and not all(standing):
        # The first word of a sentence is capitalised even if it is no name.
        return 1.0 if several else FIRST_WORD
    if not capitals_tell:
        return 1.0 if several else IN_PLAIN_WRITING
    return SEVERAL_COMMON_WORDS if several else COMMON_WORD


def is_whole_name(question: str, phrase: str) -> bool:
    """Return whether a phrase is, somewhere in a question, the whole of a run of words written as a name.

    "Sex" in "A Whirl Of Sex And Politics" is not. The capital of a stop word that begins the question is ignored.
    """
    written = _written_words(question)
    standing = written.like_names
    run, starts = _run(question, phrase)
    for start in starts:
        before = standing[max(start - 1, 0) : start] if start > 1 or is_content_word(written.words[0]) else ()
        if True not in before and True not in standing[start + len(run) : start + len(run) + 1]:
            return True
    return False


def looks_like_name(word: str) -> bool:
    """Return whether a word is written as names are: with a capital, a digit, or in a script without case."""
    return not word[0].islower()


def is_content_word(word: str) -> bool:
    """Return whether a word has at least three characters and is no stop word."""
    return len(word) >= MIN_WORD_CHARACTERS and word.casefold() not in STOP_WORDS


class _WrittenWords(NamedTuple):
    """The words of a question as they are written."""

    words: tuple[str, ...]
    folded: tuple[str, ...]
    """The words without case."""
    like_names: list[bool]
    """Whether each looks like a name."""
    has_case: bool
    """Whether most are of a script with case."""


@lru_cache(maxsize=8)
def _written_words(question: str) -> _WrittenWords:
    # Cached, since it is called for every phrase of a question.
    words = tuple(piece.text for piece in tokenize(question)[:MAX_QUESTION_WORDS])
    return _WrittenWords(
        words,
        folded=tuple(word.casefold() for word in words),
        like_names=[looks_like_name(word) for word in words],
        has_case=sum(map(str.isalpha, words)) < 2 * sum(map(_has_case, words)),
    )


def _has_case(word: str) -> bool:
    return word.lower() != word.upper()


def longest_match(question: str, links: Sequence[EntityLink]) -> list[EntityLink]:
    """Keep the links whose phrase is not inside a longer linked phrase of the same question.

    "Harbour Freight API" must not also link "Harbour". Two entities that share a name are both kept.
    """
    tokens = _folded(question)
    taken = [False] * len(tokens)
    kept: list[str] = []
    runs = {link.phrase: _folded(link.phrase) for link in links}
    for phrase in sorted(runs, key=lambda text: (-len(runs[text]), text)):
        run = runs[phrase]
        starts = [start for start in occurrences(run, tokens) if not any(taken[start : start + len(run)])]
        if starts:
            kept.append(phrase)
            for start in starts:
                taken[start : start + len(run)] = [True] * len(run)
    return [link for link in links if link.phrase in kept]
