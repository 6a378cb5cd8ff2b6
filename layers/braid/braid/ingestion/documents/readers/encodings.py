"""Detection of the encoding of text that is not UTF-8 and has no byte order mark.

The text is decoded in each candidate encoding, and its characters beyond ASCII are scored: is each of them a letter of
one language that is written in that encoding, or a usual sign, and can it stand where it does? The best mean wins. Many
files have few such characters, too few for statistics of pairs of letters.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from braid.ingestion.documents.readers import language_letters as letters_of


class Detected(NamedTuple):
    """The encoding that a text probably has."""

    encoding: str
    certain: bool
    """Whether the text reads well in it, and worse in every encoding in which it would be another text."""


class _Candidate(NamedTuple):
    encoding: str
    script: Literal["latin", "other letters", "east asian"]
    languages: tuple[str, ...]
    """Letters of each language, or its frequent characters."""
    prior: float = 0.0
    """Added as if so many more characters had been right: for encodings that are more frequent than others."""


_CANDIDATES: Final = (
    _Candidate("cp1252", "latin", letters_of.WESTERN, 0.5),
    _Candidate("iso8859_15", "latin", letters_of.WESTERN),
    _Candidate("cp1250", "latin", letters_of.CENTRAL, 0.05),
    _Candidate("iso8859_2", "latin", letters_of.CENTRAL),
    _Candidate("cp1254", "latin", letters_of.TURKISH),
    _Candidate("cp1257", "latin", letters_of.BALTIC),
    _Candidate("mac_roman", "latin", letters_of.WESTERN, -0.1),
    _Candidate("cp850", "latin", letters_of.WESTERN, -0.1),
    _Candidate("cp1251", "other letters", letters_of.CYRILLIC, 0.05),
    _Candidate("koi8_u", "other letters", letters_of.CYRILLIC),
    _Candidate("iso8859_5", "other letters", letters_of.CYRILLIC),
    _Candidate("cp866", "other letters", letters_of.CYRILLIC),
    _Candidate("cp1253", "other letters", letters_of.GREEK),
    _Candidate("iso8859_7", "other letters", letters_of.GREEK),
    _Candidate("cp1255", "other letters", letters_of.HEBREW),
    _Candidate("cp1256", "other letters", letters_of.ARABIC),
    _Candidate("iso8859_6", "other letters", letters_of.ARABIC),
    _Candidate("cp874", "other letters", letters_of.THAI),
    _Candidate("cp932", "east asian", (letters_of.JAPANESE,)),
    _Candidate("euc_jp", "east asian", (letters_of.JAPANESE,)),
    _Candidate("gb18030", "east asian", (letters_of.SIMPLIFIED,)),
    _Candidate("big5", "east asian", (letters_of.TRADITIONAL,)),
    _Candidate("cp949", "east asian", (letters_of.KOREAN,)),
)
_FIRST_LEVEL: Final = {
    "cp932": ("euc_jp", 0xCF),
    "euc_jp": ("euc_jp", 0xCF),
    "gb18030": ("gb2312", 0xD7),
    "big5": ("big5", 0xC6),
}
"""Encoding by whose first byte a Chinese character is of the first level, the usual ones, and the last such byte."""
_SAMPLE_BYTES: Final = 16 * 1024
_WRONG_OF_UTF_8: Final = 0.1
"""Largest share of wrong characters, of those beyond ASCII, in text that is read as damaged UTF-8."""
_LEAST_MEAN: Final = 0.5
"""Mean value of characters below which a text is in no known encoding."""
_CERTAIN_MEAN: Final = 0.7
_CERTAIN_LEAD: Final = 0.4
"""Lead over the next encoding, in characters, from which a detection is certain."""

_SIGNS: Final = frozenset("\xa0\u2018\u2019“”„\u201a«»\u2039\u203a–—…•·§°©®™€£²³½¼¾×±¿¡ªº№\xb4¹")
"""Usual signs."""
_IN_WORDS: Final = frozenset("\u2019\u2011\xad·\u2013—…")
"""Signs that can be between two letters."""
_BESIDE_NUMBERS: Final = frozenset("€£½¼¾×±\xb4¹ªº")
_SIGNS_OF_LETTERS: Final = frozenset("ªºµˆƒ")
"""Characters that are letters in Unicode and signs in a text."""
_LONE: Final = frozenset("àáâäåæéèêëíìóòôöøúùÿ")
"""Letters beyond ASCII that are words of some Western language."""
_FINAL: Final = frozenset("ςםןץףך")
"""Letters of Greek and Hebrew that are only at the end of a word."""
_NOT_FINAL: Final = frozenset("βγδζθλμπστφχ")
"""Letters of Greek that are at the end of no word."""
_WORD_CHARACTERS: Final = 20
"""Characters on either side that are looked at as one word."""
_CAPITAL: Final = 0.1
"""Taken off for a capital inside a word: in the wrong one of two encodings of a script, all letters may be capitals."""


def detect(content: bytes, first_wrong: int = 0) -> Detected | None:
    """Return the encoding that a text probably has, or None if it reads badly in each known one.

    ``first_wrong`` is the offset of the first byte that is not UTF-8: before it there may be nothing but ASCII.
    """
    line = content.rfind(b"\n", max(0, first_wrong - _SAMPLE_BYTES // 2), first_wrong) + 1
    start = line or max(0, first_wrong - _SAMPLE_BYTES // 2)
    sample = content[start : start + _SAMPLE_BYTES]
    if _is_damaged_utf_8(sample):
        return Detected("utf-8", certain=False)
    texts = [sample.decode(one.encoding, "replace") for one in _CANDIDATES]
    values = [_mean(text, one) for text, one in zip(texts, _CANDIDATES, strict=True)]
    scores = [mean + one.prior / count for (mean, count), one in zip(values, _CANDIDATES, strict=True)]
    best = max(range(len(scores)), key=scores.__getitem__)
    mean, count = values[best]
    if mean < _LEAST_MEAN:
        return None
    lead = scores[best] - max(score for score, text in zip(scores, texts, strict=True) if text != texts[best])
    return Detected(_CANDIDATES[best].encoding, mean >= _CERTAIN_MEAN and lead * count >= _CERTAIN_LEAD)


def _is_damaged_utf_8(sample: bytes) -> bool:
    """Return whether nearly all of a sample is UTF-8, as of a text that was cut or pasted into."""
    text = sample.decode("utf-8", "replace")
    return text.count("�") <= _WRONG_OF_UTF_8 * sum(character > "\x7f" for character in text)


def _mean(text: str, candidate: _Candidate) -> tuple[float, int]:
    """Return the mean value of a text's characters beyond ASCII, in the language it fits best, and their number."""
    padded = f" {text} "
    places = [place for place, character in enumerate(padded) if character > "\x7f"]
    if not places:
        return 0.0, 1
    if candidate.script == "east asian":
        total = sum(_of_east_asia(padded, place, candidate) for place in places)
    else:
        total, letters = 0.0, dict[str, int]()
        for place in places:
            value = _by_neighbours(padded, place, candidate.script)
            if value is not None:
                total += value
                continue
            character = padded[place]
            letter = character if character == "İ" else character.lower()  # in lower case that one is two characters
            letters[letter] = letters.get(letter, 0) + 1
            if candidate.script == "other letters" and character.isupper() and padded[place - 1].isalpha():
                total -= _CAPITAL
        total += max(_in_language(letters, language, candidate) for language in candidate.languages)
    return total / len(places), len(places)


def _in_language(letters: dict[str, int], language: str, candidate: _Candidate) -> float:
    """Return the sum of the values of letters in one language."""
    total = 0.0
    for letter, count in letters.items():
        rank = language.find(letter)
        if rank < 0:
            total += count * (0.5 if any(letter in other for other in candidate.languages) else -0.2)
        else:
            total += count * (1.0 if candidate.script == "latin" else 1 - 0.7 * rank / len(language))
    return total


def _by_neighbours(text: str, place: int, script: str) -> float | None:
    """Return the value of a sign, or of a letter that cannot be where it is; None of any other letter."""
    character, before, after = text[place], text[place - 1], text[place + 1]
    if character == "�" or unicodedata.category(character) in {"Cc", "Co", "Cn"}:
        return -1.0
    is_letter = character.isalpha() or character in letters_of.THAI[0]
    if not is_letter or character in _SIGNS_OF_LETTERS:
        return _of_sign(character, before, after)
    if character.isupper() and before.isalpha() and (before.islower() or after.islower()):
        return -0.5
    if script == "latin":
        return _in_latin_word(text, place)
    beside_ascii = any(one.isascii() and one.isalpha() for one in (before, after))
    if beside_ascii or (character in _FINAL and after.isalpha()) or (character in _NOT_FINAL and not after.isalpha()):
        return -0.5
    return None if before.isalpha() or after.isalpha() else 0.3


def _of_sign(character: str, before: str, after: str) -> float:
    """Return the value of a character that is no letter."""
    if character not in _SIGNS and character not in _IN_WORDS:
        return -0.2
    if _is_sign(before) or _is_sign(after):
        return 0.3
    if character in _IN_WORDS or not (before.isalpha() or after.isalpha()):
        return 1.0
    if (before.isalpha() and after.isalpha()) or (character in "²³" and not before.isalpha()):
        return -0.5
    return -0.2 if character in _BESIDE_NUMBERS or (character in "¿¡" and before.isalpha()) else 1.0


def _is_sign(character: str) -> bool:
    return not (character.isascii() or character.isalnum() or character.isspace())


def _in_latin_word(text: str, place: int) -> float | None:
    """Return the value of a letter of a word that has too few letters of ASCII; None of another word's."""
    begin = end = place
    while place - begin < _WORD_CHARACTERS and text[begin - 1].isalpha():
        begin -= 1
    while end - place < _WORD_CHARACTERS and text[end + 1].isalpha():
        end += 1
    word = text[begin : end + 1]
    if len(word) == 1:
        return None if word.lower() in _LONE else 0.0
    beyond = sum(letter > "\x7f" for letter in word)
    return None if beyond <= len(word) - beyond + 1 else -0.2


def _of_east_asia(text: str, place: int, candidate: _Candidate) -> float:
    """Return the value of a character of an East Asian text."""
    if all(one.isascii() and one.isalpha() for one in (text[place - 1], text[place + 1])):
        return -0.5
    return _usual(text[place], candidate.encoding, candidate.languages[0])


@lru_cache(maxsize=20_000)
def _usual(character: str, encoding: str, frequent: str) -> float:
    """Return how usual a character is in texts of an East Asian encoding."""
    if character in frequent:
        return 1.0
    if "가" <= character <= "힣":
        return 0.6 if encoding == "cp949" and _first_byte(character, "euc_kr") else -0.5
    if "一" <= character <= "\u9fff":
        known_by, last = _FIRST_LEVEL.get(encoding, ("", 0))
        return 0.6 if last and 0 < _first_byte(character, known_by) <= last else 0.0
    if "ぁ" <= character <= "ヿ":
        return 1.0 if encoding in {"cp932", "euc_jp"} else 0.0
    if "\u3001" <= character <= "\u3011" or "\uff01" <= character <= "\uff5e" or character in _IN_WORDS:
        return 0.8
    return -1.0 if character == "�" else -0.2


def _first_byte(character: str, encoding: str) -> int:
    """Return the first byte of a character, 0 if the encoding has no such character."""
    return next(iter(character.encode(encoding, "ignore")), 0)
