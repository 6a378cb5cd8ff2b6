"""Keys of names, by which writes store an entity and questions look it up.

The ``name_key`` of :mod:`braid.understanding.name_patterns` is another key, shared by the spellings of a name in texts.
The first character of a key is the mark of its kind; :data:`FORM_SCORES` has the last four:

===========  =======================================================================
no mark      a normalised name or alias itself
``~atlas``   a name without its brackets or legal form, or what is before its first comma; its identifier
``^atlas``   a part of a name: its first or last word, or all words but the first
``@abc``     the initials of a name
``%…``       a hash, in Base64, of a name or of a name without one of its letters
===========  =======================================================================

Names are normalised, in case, accents and width, by :func:`braid.understanding.tokens.normalise`. The hashes are of
:mod:`braid.understanding.misspelling_keys`.

Phrases of a question that may be names are found by :mod:`braid.understanding.question_phrases`, names in the texts of
a write by :mod:`braid.understanding.name_finding`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from braid.understanding.misspelling_keys import (
    MAX_MISSPELT_NAMES,
    MISSPELT,
    could_be_misspelt,
    may_be_misspelt,
    misspellings,
    transpositions,
)
from braid.understanding.question_phrases import (
    MIN_WORD_CHARACTERS,
    is_content_word,
    is_two_letters,
    is_whole_name,
    looks_like_name,
    name_certainty,
    phrases,
    run_of,
    tokenize,
    written_words,
)
from braid.understanding.tokens import cased_words, composed, normalise, word_set

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME_SCORE, ALIAS_SCORE = 1.0, 0.9
SHORTENED, PART, INITIALS = "~", "^", "@"
FORM_SCORES = {SHORTENED: 0.8, MISSPELT: 0.75, PART: 0.6, INITIALS: 0.6}
"""Scores of a match by another form of a name, by its mark."""
ALTERED_SHARE = 0.8
"""Score factor of a name that the question has in another number, written apart or together, or with umlauts."""
LEAST_CERTAINTY_OF_FORMS = 0.5
"""Least certainty with which a phrase is looked up by other forms than itself."""
MAX_PART_WORDS, MAX_NAME_WORDS, MAX_INITIALS, MAX_JOINED_WORDS = 3, 4, 6, 3
MAX_TRANSPOSED_WORDS = 10
"""Most words of a question that are also looked up, as parts of names, with two adjacent letters swapped."""
_LEGAL_FORMS = word_set("""
    ab ag as asa bv cie co corp corporation ek gbr gmbh inc incorporated kg kgaa limited llc llp ltd nv ohg oy oyj plc
    pty sa sarl sas se sl spa srl ug
""")
"""Legal forms of companies, without full stops, that are left out when people speak of one."""
_LEGAL_FORM_LETTERS = 3
"""Most letters of a legal form that is written with full stops."""
_SEAM = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
"""Where names such as "KeelsonApi" and "LX500" may also be written apart."""
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"})
_DASHES = frozenset("-\u2013\u2014")
_WRITTEN_OUT = re.compile(r"(?<![aeq])([aou])e(?![aeou])")
"""An umlaut written as a vowel and an e, as on a keyboard without umlauts."""
_LONG_PLURAL = re.compile(r"(?:s|x|z|ch|sh)es$")


class LookupKey(NamedTuple):
    """A key that is looked up in the graph's names, with the phrase of the question that it was made of."""

    phrase: str
    """The words of the question."""
    score_factor: float
    """Factor of the match's score, in (0, 1]; below 1 for an altered form of the phrase."""
    misspelt: bool = False
    """Whether it is another spelling of a phrase that may be misspelt."""


def stored_forms(*names: str, is_text: bool = False) -> list[str]:
    """Return the keys of other forms of an entity's names, each with its mark.

    "Humboldt Peak (Colorado)" and "Nicholas I, Lord of Mecklenburg" are shortened to the part before the bracket and
    the first comma, "Hydra Cooling GmbH & Co. KG" to the part before the legal form, and "INC-131: Read outage" to its
    identifier. A name of two to four words with capitals is known by its first and last word, and without its first;
    one of three to six, by its initials. The first :data:`MAX_MISSPELT_NAMES` names have :func:`misspellings`.

    ``is_text`` is whether they are those of a text: all chunks of a document have its title, and a question that has
    the title's identifier names none of them. The identifier itself is a name that is found in each.
    """
    misspelt = [key for name in names[:MAX_MISSPELT_NAMES] for key in misspellings(normalise(name))]
    return other_forms(*names, is_text=is_text) + misspelt


def other_forms(*names: str, is_text: bool = False) -> list[str]:
    """Return the keys of :func:`stored_forms` apart from misspellings."""
    return [form for name in names for form in _forms(name, is_text=is_text)]


def _forms(name: str, *, is_text: bool) -> list[str]:
    spelled = cased_words(name)
    full = _joined(spelled)
    keys: list[str] = []
    if "(" in name or "," in name:
        bare = without_brackets(name)
        short = bare.partition(",")[0]
        spelled = cased_words(short)
        keys += [SHORTENED + normalise(bare), SHORTENED + _joined(spelled)]
    if not is_text and (identifier := identifier_before_dash(name)):
        keys.append(SHORTENED + normalise(identifier))
    company = _without_legal_form(spelled)
    if len(company) < len(spelled):
        spelled = company
        keys.append(SHORTENED + _joined(spelled))
    telling = [word for word in spelled if is_content_word(word)]
    if telling and all(map(looks_like_name, telling)):
        if 1 < len(spelled) <= MAX_NAME_WORDS:
            parts = (spelled[:1], spelled[-1:], spelled[1:])
            keys += [PART + _joined(part) for part in parts if any(map(is_content_word, part))]
        if MIN_WORD_CHARACTERS <= len(telling) <= MAX_INITIALS:
            keys.append(INITIALS + "".join(word[0] for word in telling).casefold())
    return [key for key in dict.fromkeys(keys) if key[1:] not in {"", full}]


def _without_legal_form(spelled: list[str]) -> list[str]:
    """Return a company's name without the legal forms at its end; a name that is nothing else as it is."""
    end = len(spelled)
    while size := _legal_form_size(spelled[max(0, end - _LEGAL_FORM_LETTERS) : end]):
        end -= size
    return spelled[:end] if any(map(is_content_word, spelled[:end])) else spelled


def _legal_form_size(last: list[str]) -> int:
    """Return how many last words of a name are one legal form: one, or the letters of "S.p.A."; 0 if none are."""
    if last and last[-1].casefold() in _LEGAL_FORMS:
        return 1
    letters = "".join(takewhile(lambda word: len(word) == 1, reversed(last)))[::-1].casefold()
    return next((size for size in (3, 2) if len(letters) >= size and letters[-size:] in _LEGAL_FORMS), 0)


def identifier_before_dash(name: str) -> str | None:
    """Return the identifier that a name begins with, which has digits and letters, if a colon or a dash follows it."""
    first = first_before_dash(name)
    return first if first and any(map(str.isdecimal, first)) and any(map(str.isalpha, first)) else None


def first_before_dash(name: str) -> str | None:
    """Return the first word of a longer name if a colon or a dash follows it: "INC-131" of "INC-131: Read outage"."""
    first, _, rest = name.strip().partition(" ")
    return first.rstrip(":") or None if rest and (first.endswith(":") or rest[0] in _DASHES) else None


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
    """Return the keys to look up for a question: its phrases, and other forms of phrases that are written like names.

    Altered forms and parts of names are looked up only for phrases that are not inside a longer name: "A Whirl Of Sex
    And Politics" names no "Gentle Sex".
    """
    offered = phrases(question)
    keys = {phrase: LookupKey(phrase, 1.0) for phrase in offered}
    capitals = {normalise(word) for word in cased_words(question) if word.isupper()}
    for phrase in offered:
        if is_two_letters(phrase) or name_certainty(question, phrase) < LEAST_CERTAINTY_OF_FORMS:
            continue
        keys[SHORTENED + phrase] = LookupKey(phrase, 1.0)
        if phrase in capitals:
            keys[INITIALS + phrase] = LookupKey(phrase, 1.0)
        if not is_whole_name(question, phrase):
            continue
        if phrase.count(" ") < MAX_PART_WORDS:
            keys[PART + phrase] = LookupKey(phrase, 1.0)
        for form in _altered(question, phrase):
            keys.setdefault(form, LookupKey(phrase, ALTERED_SHARE))
    for phrase in could_be_misspelt(offered):
        for form in misspellings(phrase):
            keys.setdefault(form, LookupKey(phrase, 1.0))
    for form, key in _transposed_parts(keys).items():
        keys.setdefault(form, key)
    return keys


def _altered(question: str, phrase: str) -> list[str]:
    """Return the keys of a phrase in the singular or plural, written together or apart, or with other umlauts."""
    joined = [phrase.replace(" ", "")] if 0 < phrase.count(" ") < MAX_JOINED_WORDS else []
    respelt = respellings(question, phrase)
    of_identifiers = [SHORTENED + form for form in respelt] if any(map(str.isdecimal, phrase)) else []
    return [*inflections(phrase), *joined, *respelt, *of_identifiers]


def _transposed_parts(keys: Mapping[str, LookupKey]) -> dict[str, LookupKey]:
    """Return keys of parts of names, for the first words that are looked up as parts, with two letters swapped."""
    words = [key[1:] for key in keys if key[:1] == PART and may_be_misspelt(key[1:])]
    return {
        PART + form: LookupKey(word, FORM_SCORES[MISSPELT], misspelt=True)
        for word in words[:MAX_TRANSPOSED_WORDS]
        for form in transpositions(word)
    }


def similar_keys(name: str) -> list[str]:
    """Return the keys of names similar to a normalised one: other forms, singular or plural, misspellings."""
    marked = [mark + name for mark in FORM_SCORES if mark != MISSPELT]
    swapped = [PART + form for form in transpositions(name)] if may_be_misspelt(name) else []
    return [*marked, *inflections(name), name.replace(" ", ""), *misspellings(name), *swapped]


def respellings(question: str, phrase: str) -> list[str]:
    """Return other spellings of a phrase of a question: split where case or digits change, or with other umlauts.

    "LX500" and "KeelsonApi" are also "lx 500" and "keelson api", "Mueller" is "muller" and "Müller" is "mueller".
    """
    run, begins = run_of(question, phrase)
    if not begins:
        return []
    here = slice(begins[0], begins[0] + len(run))
    found = [" ".join(spelling[here]) for spelling in _spellings(question)] + [_WRITTEN_OUT.sub(r"\1", phrase)]
    return [form for form in dict.fromkeys(found) if form not in {"", phrase}]


@lru_cache(maxsize=8)
def _spellings(question: str) -> list[list[str]]:
    """Return the words of a question, without case, in each way in which :func:`respellings` spells them."""
    found = [[_SEAM.sub(" ", word).casefold() for word in written_words(question).words]]
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
