"""Tokens and Unicode normalisation of texts, in time linear in their length.

Runs of combining marks are cut, since Python's normalisation sorts each run by insertion: a text of nothing but marks
would take time quadratic in its length.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONGEST_RUN: Final = 30
"""Combining marks in a row, as of Unicode's Stream-Safe Text Format (UAX #15); no language writes ten."""


def composed(text: str) -> str:
    """Return a text in the form NFC, with at most :data:`LONGEST_RUN` combining marks in a row."""
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
    # Marks are dropped before too: the other characters decompose into short runs of marks.
    return _unmarked(unicodedata.normalize("NFKD", _unmarked(text)))


class TranslationTable(dict[int, int | None]):
    """Table for ``str.translate`` that computes each character's replacement by a function, and caches it."""

    def __init__(self, of: Callable[[str], int | None]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, code: int) -> int | None:
        kept = self._of(chr(code))
        if len(self) < _CHARACTERS_KNOWN:
            self[code] = kept
        return kept


_CHARACTERS_KNOWN: Final = 4_096
_MARKS: Final = TranslationTable(lambda character: None if unicodedata.combining(character) else ord(character))


def _unmarked(text: str) -> str:
    return text.translate(_MARKS)


_HAN: Final = "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_HIRAGANA: Final = "\u3041-\u3096\u309d-\u309f"
_HAN_CHARACTER: Final = re.compile(f"[{_HAN}]")
_IDEOGRAPH: Final = re.compile(f"[{_HAN}{_HIRAGANA}]")
_PART: Final = re.compile(f"[{_HAN}{_HIRAGANA}]+|[^{_HAN}{_HIRAGANA}]+")

MIN_HAN: Final = 2
"""Fewest Han characters that make a word."""
MAX_WORDS: Final = 256
"""Most distinct words of a question that are searched, the first ones; bounds the work of a 10,000-character one."""


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text between spaces."""
    return frozenset(text.split())


FUNCTION_WORDS: Final = word_set("""
    a an and are as at be been but by did do does for from had has have how if in into is it its of on
    or that the their then there these they this to was were what when where which who whom whose why
    will with
""")
"""Function words (stop words), which searches leave out."""
FOREIGN_FUNCTION_WORDS: Final = (
    word_set("""
        der die das den dem des ein eine einen einem einer eines und oder aber ist sind war waren wird werden wurde
        wurden hat haben hatte nicht auch im am vom zum zur beim ins bei mit nach von aus für auf über unter vor seit
        durch gegen ohne um wie als wenn wir ihr sie er es ich unser unsere ihre sein seine dieser diese dieses jeder
        jede alle kein keine
    """),
    word_set("""
        le la les un une des du de au aux et ou est sont dans sur pour par avec sans ce cette ces son sa ses leur leurs
        nous vous il elle ils elles notre votre qui que été
    """),
    word_set("""
        el la los las un una unos unas de del al y es son en con por para sin su sus este esta estos estas nuestro
        nuestra que se lo fue
    """),
    word_set("""
        il lo la gli le un uno una di del della dei delle al alla è sono con per su da dal dalla nel nella questo
        questa suo sua che
    """),
    word_set("""
        os as um uma uns umas de da dos das ao é são em na nos nas com por para sem seu sua este esta que
    """),
    word_set("""
        de het een van der den en zijn op met voor naar bij door uit aan dit deze die dat wij hij zij ze niet ook onze
        hun
    """),
)
"""Articles, prepositions, pronouns and the like of German, French, Spanish, Italian, Portuguese and Dutch."""
_FOREIGN_QUESTION_WORDS: Final = (
    word_set("""
        wer wen wem wessen was wann wo wohin woher wie wieviel warum wieso weshalb welche welcher welches welchen
        welchem
    """),
    word_set("qui quoi que quand où comment pourquoi combien quel quelle quels quelles"),
    word_set("quién quiénes qué cuándo dónde cómo cuál cuáles cuánto cuánta cuántos cuántas"),
    word_set("chi che cosa quando dove come perché quale quali quanto quanta quanti quante"),
    word_set("quem quando onde como qual quais quanto quanta quantos quantas"),
    word_set("wie wat wanneer waar hoe waarom welk welke hoeveel"),
)
"""Question words of the same languages."""
STOP_WORDS: Final = FUNCTION_WORDS | word_set("""
    about after all also any because before between both can could during each find her his last list
    many me most much new not one other our out over show since some such tell than them those two under
    until use used without would you your
""")
"""Words that are no names by themselves."""

_WORD = re.compile(r"[^\W_]+(?:[.'’&+#-]+[^\W_]+)*[+#]*", re.UNICODE)
_POSSESSIVE = re.compile(r"['’]s?$", re.IGNORECASE)
_INNER = re.compile(r"[.'’&-][.'’&+#-]*")
_KEPT = ("L", "N", "M", "Co")  # the characters of which FTS5's unicode61 makes tokens
_SEARCHED: Final = TranslationTable(
    lambda character: ord(character) if unicodedata.category(character).startswith(_KEPT) else ord(" ")
)
_NAME_CHARACTERS: Final = 256
_NAMES_KNOWN: Final = 4_096


def words(text: str) -> list[str]:
    """Split text into normalised words: lower case, no diacritics, no possessive, inner punctuation dropped."""
    return [word.casefold() for word in cased_words(text)]


def terms(text: str) -> list[str]:
    """Return the normalised words of a text, with ideographs as :func:`character_bigrams`."""
    return [term for word in words(text) for term in character_bigrams(word)]


def cased_words(text: str) -> list[str]:
    """Split text into the same words as :func:`words`, in the case in which they are written."""
    written: list[str] = _WORD.findall(without_marks(text))
    if all(map(str.isalnum, written)):  # most texts have nothing to cut off
        return written
    found: list[str] = []
    for word in written:
        if word.isalnum():
            found.append(word)
        else:
            found.extend(_INNER.sub(" ", _POSSESSIVE.sub("", word)).split())
    return found


def normalise(name: str) -> str:
    """Return the form in which a name is stored and looked up; empty for a name without words."""
    return _normalised(name) if len(name) <= _NAME_CHARACTERS else " ".join(words(name))


@lru_cache(maxsize=_NAMES_KNOWN)
def _normalised(name: str) -> str:
    # An answer normalises the same few names many times: of links, titles and paths.
    return " ".join(words(name))


def occurrences(run: Sequence[str], words: Sequence[str]) -> list[int]:
    """Return the positions at which a run of words begins in a sequence of words."""
    size, first = len(run), run[:1]
    starts = range(len(words) - size + 1)
    # Most positions are ruled out by their first word, without a slice for each.
    return [start for start in starts if (not first or words[start] == first[0]) and words[start : start + size] == run]


def search_words(text: str) -> list[str]:
    """Return the distinct words of a question, in order, as FTS5's tokenizer splits them.

    Ideographs become :func:`character_bigrams`. Function words of the question's language are dropped unless there are
    no others: they are in most texts, so that they take most of the time and hardly change a score, and where they are
    in few, they outweigh the other words. A word in capitals is not taken for one: "NAS or DAS".
    """
    found = composed(text).lower().translate(_SEARCHED).split()
    if not text.isascii():
        found = [part for word in found for part in character_bigrams(word)]
    found = list(dict.fromkeys(found))
    capitals = set(map(str.lower, _CAPITALS.findall(text)))
    dropped = FUNCTION_WORDS | (_foreign_function_words([word for word in found if word not in capitals]) - capitals)
    return ([word for word in found if word not in dropped] or found)[:MAX_WORDS]


def _foreign_function_words(found: Sequence[str]) -> frozenset[str]:
    """Return the function and question words of a question's language; none if it is English, or not certain.

    It is certain if at least two of the question's words are such words of one language and not of English, and fewer
    are of English: "de la Cruz" alone is no question in Spanish.
    """
    known = [word for word in found if word in _ANY_FOREIGN]
    if len(known) < _FEWEST_FOREIGN:
        return frozenset()
    best = max(_FOREIGN, key=lambda words: sum(word in words for word in known))
    foreign = sum(word in best for word in known if word not in FUNCTION_WORDS)
    english = sum(word in FUNCTION_WORDS for word in found if word not in best)
    return best if foreign >= _FEWEST_FOREIGN and foreign > english else frozenset()


_CAPITALS: Final = re.compile(r"(?<!\w)[A-Z]{2,}+(?!\w)")
_FEWEST_FOREIGN: Final = 2
_FOREIGN: Final = tuple(
    words | {without_marks(word) for word in words}
    for words in map(frozenset.union, FOREIGN_FUNCTION_WORDS, _FOREIGN_QUESTION_WORDS)
)
_ANY_FOREIGN: Final = frozenset().union(*_FOREIGN) - FUNCTION_WORDS
_GROUPED_NUMBER: Final = re.compile(r"(?<![\w.,])[0-9]{1,3}(?:[.,'’\u00a0\u202f ][0-9]{3})+(?!\w|[.,][0-9])")
_JOINED_CODE: Final = re.compile(r"(?<![\w-])([A-Za-z]{1,8})([0-9]{3,15})(?![\w-])")
_DIVIDED_CODE: Final = re.compile(r"(?<![\w-])([A-Za-z]{1,8})-([0-9]{3,15})(?![\w-])")
_LONG_NUMBER: Final = re.compile(r"(?<![\w.,-])(?!(?:19|20)[0-9]{2}(?![0-9]))[1-9][0-9]{3,14}(?![\w-]|[.,][0-9])")


def lexical_words(text: str) -> list[str]:
    """Return the words of :func:`search_words`, with numbers and identifiers also as they are otherwise written.

    "50000" finds "50,000" too, which has the words "50" and "000", and "50,000" finds "50000"; so do all numbers from
    1000 on that are no years. "INC322" finds "INC-322", and the other way round.
    """
    joined = ["".join(filter(str.isdecimal, number)) for number in _GROUPED_NUMBER.findall(text)]
    groups = [group for number in _LONG_NUMBER.findall(text) for group in f"{int(number):,}".split(",")]
    codes = [part.lower() for code in _JOINED_CODE.findall(text) for part in code]
    codes += ["".join(code).lower() for code in _DIVIDED_CODE.findall(text)]
    return list(dict.fromkeys([*search_words(text), *joined, *groups, *codes]))[:MAX_WORDS]


def space_ideographs(text: str) -> str:
    """Return a text with a space on either side of each ideograph."""
    return _IDEOGRAPH.sub(r" \g<0> ", text) if has_ideographs(text) else text


def has_ideographs(text: str) -> bool:
    """Return whether a text has an ideograph."""
    return not text.isascii() and _IDEOGRAPH.search(text) is not None


def split_ideographs(word: str) -> list[str]:
    """Split a word into its single ideographs and the parts between them."""
    return space_ideographs(word).split() if has_ideographs(word) else [word]


def character_bigrams(word: str) -> list[str]:
    """Split a word into bigrams of adjacent ideographs, with a space between the two; the rest stays whole."""
    if not has_ideographs(word):
        return [word]
    found: list[str] = []
    for part in _PART.findall(word):
        if len(part) > 1 and has_ideographs(part):
            found.extend(f"{first} {second}" for first, second in pairwise(part))
        else:
            found.append(part)
    return found


def count_han(text: str) -> int:
    """Return how many Han characters a text has."""
    return 0 if text.isascii() else len(_HAN_CHARACTER.findall(text))


SHORTEST_STEM: Final = 4
_ENDINGS: Final = ("ations", "ation", "ings", "ing", "ers", "ors", "er", "or", "ed", "es", "s", "ion", "e")
READ_CHARACTERS: Final = 6_000
"""Longest prefix of a text that is searched for the question's words."""
_SHORT_ENDINGS: Final = ("", "d", "ed", "r", "er", "ing")
"""Endings of other forms of a word of three letters and "s", such as "owned" of "owns"."""
_OF_WORDS: Final = TranslationTable(lambda character: ord(character if character.isalnum() else " "))


@lru_cache(maxsize=8_192)
def stem(word: str) -> str:
    """Return a crude stem, such as that of "directed" and "director"; only for comparing with other such stems.

    One of three stemmers beside those of the search engines, each for one kind of comparison, with weights that were
    fitted with it. This one keeps four letters or more: :func:`has_word` searches texts for words that begin so.
    :func:`braid.understanding.multi_hop.label_stem` cuts all endings, to compare with labels; the stemmer of
    ``braid.retrieval.stages.excerpts`` cuts only endings that a word in a text may have.
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= SHORTEST_STEM:
            return word[: -len(ending)]
    return word


def searchable(text: str) -> str:
    """Return the beginning of a text in lower case, each word between spaces."""
    read = without_marks(text[:READ_CHARACTERS]).lower().translate(_OF_WORDS).split()
    return f" {' '.join(read)} "


def has_word(text: str, beginning: str) -> bool:
    """Return whether a :func:`searchable` text has a word that begins with a stem.

    For a stem that is too short to be cut, such as "owns", other forms of it count too. A number is no beginning of a
    longer one: 2024 is not 2.
    """
    if has_ideographs(beginning):
        return beginning.replace(" ", "") in text
    if beginning.isdecimal():
        return re.search(rf" {beginning}(?!\d)", text) is not None
    is_short = len(beginning) == SHORTEST_STEM and beginning.endswith("s")
    return f" {beginning}" in text or (
        is_short and any(f" {beginning[:-1]}{ending} " in text for ending in _SHORT_ENDINGS)
    )
