"""Excerpts (highlights) of texts: the sentence that most probably answers the question, and the text around it.

A sentence is scored by the question's words in it, weighted by their inverse sentence frequency in the text; words of
the title count little, since the whole text is about them. Names in the question and on the paths to the results count
too, and so does the expected kind of answer: a number if the question asks when or how many, a name if it asks who or
where.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.understanding.tokens import FUNCTION_WORDS, has_ideographs, normalise, search_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from braid.models import Record, Span

EXCERPT_CHARACTERS: Final = 240
MAX_READ: Final = 400_000
"""Most characters, over all texts of an answer, whose sentences are compared: those around the rarest word."""
MAX_TERMS: Final = 64
"""Most words and names that are searched for, the question's first."""
MAX_NAME_WORDS: Final = 4
"""Number of a name's first words that are searched for, which bounds the comparisons at each word of a text."""
MAX_NAME_CHARACTERS: Final = 16
"""The same in characters for a name without spaces, which is compared at each character."""
_SHORTEST_STEM: Final = 3
_ENDINGS: Final = r"(?:ations?|ings?|ers?|ors?|ed|es|e|s|ions?|ies|y)?"
_ENDING: Final = re.compile(r"(?:ations?|ings?|ers?|ors?|ed|es|e|s|ions?|ies|y)$")
_SENTENCE_END: Final = re.compile(
    r"[.!?…](?<!\b[A-Z]\.)(?<!\b(?:Mr|Dr|St|Jr|Mt|vs)\.)(?<!\bMrs\.)[.!?…]{0,8}[\"'”’»)\]]{0,4}\s+"
    r"|[。\uff01\uff1f]+|\n\s*"
)
_NUMBER: Final = re.compile(r"\d")
_NAME: Final = re.compile(r"(?<=[^.!?\s]\s)[A-Z\u00c0-\u00de][^\W\d_]+")
_ASKS_NUMBER: Final = re.compile(r"(?i)\b(?:when|year|date|how (?:many|much|long|old|far|often)|number|wann|quand)\b")
_ASKS_NAME: Final = re.compile(r"(?i)\b(?:who|whom|whose|where|which|wer|wo|qui|où)\b")
_PART_CHARACTERS: Final = 1_200
"""Approximate length of a part that fits an encoder's window, in characters."""
_BEFORE_WORDS: Final = 40
"""Most characters before the first of the question's words in an excerpt of a long sentence."""
_FOLDED_KEPT: Final = 4_096
_MAX_WORDS: Final = 1_000
_OF_TITLE, _OF_PATH, _ASKED_FOR, _IN_PART, _LEADS = 0.25, 0.5, 0.5, 1.25, 1.0
"""Weights in the score of a sentence: of a word of the title, a name on a path, the expected kind of answer, the part
nearest to the question, and the text's first sentence unless it is a row of a table."""
_ALIKE: Final = (
    ("born", "birth", "birthplace"),
    ("die", "died", "dies", "death", "dead"),
    ("wife", "husband", "spouse", "married", "marry"),
    ("begin", "began", "begun", "start", "started"),
    ("buy", "bought"),
    ("build", "built"),
    ("lead", "led"),
    ("make", "made"),
    ("write", "wrote", "written"),
    ("win", "won"),
)
"""Words of one meaning that do not have one stem."""


class Excerpt(NamedTuple):
    """A part of a text on one line."""

    text: str
    marked: Span | None = None
    """Position in it of the sentence that fits the question best; None if no sentence has any of its words."""


class Excerpts:
    """Finds the excerpts of one answer's results.

    Parameters
    ----------
    question
        The question's text.
    names
        Names in the question, each as a phrase of the question and the name of its entity; each counts as one word.
    on_paths
        Names on the paths to the results.
    results
        Number of texts to be read, which bounds how much of each is read.
    """

    def __init__(
        self, question: str, names: Iterable[tuple[str, str]] = (), on_paths: Iterable[str] = (), *, results: int = 1
    ) -> None:
        called, rest = _names_and_rest(question, names)
        words = [word for word in search_words(_folded(rest)) if not called or word not in FUNCTION_WORDS]
        asked = list(dict.fromkeys(map(_stem, words)))
        weighted = [(called, 1.0), (asked, 1.0), (map(normalise, on_paths), _OF_PATH)]
        terms = ((_beginning(term), weight) for group, weight in weighted for term in group if term)
        self._weights: dict[str, float] = {}
        """By term, a stem or a name."""
        for term, weight in islice(terms, MAX_TERMS):
            self._weights.setdefault(term, weight)
        self._pattern = _pattern_of(self._weights)
        self._asks_number, self._asks_name = _ASKS_NUMBER.search(question), _ASKS_NAME.search(question)
        self._room = max(EXCERPT_CHARACTERS, MAX_READ // max(1, results))

    def sentence(self, record: Record, part_start: int = 0) -> Span | None:
        """Return the span of the sentence of a record's content that fits the question best; None if none has a word.

        Parameters
        ----------
        part_start
            Character of the content at which the part with the vector nearest to the question begins.
        """
        if self._pattern is None or not record.content:
            return None
        begin, end = self._stretch(record.content, part_start)
        content = record.content[begin:end]
        ends = [0, *(found.end() for found in _SENTENCE_END.finditer(content)), len(content)]
        terms_of: dict[int, set[str]] = defaultdict(set)
        """The terms in each sentence that has any, by its place."""
        for match in self._pattern.finditer(_folded(content)):
            terms_of[bisect_right(ends, match.start()) - 1].add(_term(match.group()))
        if not terms_of:
            return None
        title = {_stem(word) for word in search_words(_folded(record.heading()))}
        sentences_with = Counter(term for terms in terms_of.values() for term in terms)
        of_rare_word = math.log(1 + len(ends))
        """What a word adds that only one sentence has."""

        leads = begin == 0 and not _begins_with_rows(content)

        def score(place: int) -> float:
            total = 0.0
            for term in sorted(terms_of[place]):  # sums of floats depend on their order
                weight = self._weights.get(term, _OF_PATH) * (_OF_TITLE if term in title else 1.0)
                total += weight * math.log(1 + len(ends) / sentences_with[term])
            text = content[ends[place] : ends[place + 1]]
            if leads and place == 0 and not terms_of[place] <= title:
                total += _LEADS * of_rare_word
            if self._asks_number and _NUMBER.search(text):
                total += _ASKED_FOR * of_rare_word
            if self._asks_name and _NAME.search(text):
                total += _ASKED_FOR
            is_in_part = part_start and 0 <= begin + ends[place] - part_start < _PART_CHARACTERS
            return total * (_IN_PART if is_in_part else 1.0)

        best = max(sorted(terms_of), key=score)
        first, last = ends[best], ends[best + 1]
        stripped = content[first:last].rstrip()
        first += len(stripped) - len(stripped.lstrip())
        return begin + first, begin + ends[best] + len(stripped)

    def within(self, text: str, sentence: Span) -> list[Span]:
        """Return the spans of the question's words and names in a sentence of a text."""
        first, last = sentence
        found = self._pattern.finditer(_folded(text[first:last])) if self._pattern else iter(())
        return [(first + match.start(), first + match.end()) for match in islice(found, _MAX_WORDS)]

    def _stretch(self, content: str, part_start: int) -> Span:
        """Return the span of a content in which sentences are compared: the whole, or as much as the bound allows."""
        if len(content) <= self._room:
            return 0, len(content)
        around = part_start
        if not around:
            lowered = _folded(content)
            places = [lowered.find(stem.replace(" ", "")) for stem in self._weights]
            around = max(places, default=0)  # the word that first occurs last is taken for the rarest
        begin = max(0, min(around - self._room // 4, len(content) - self._room))
        return begin, begin + self._room


def _begins_with_rows(content: str) -> bool:
    """Return whether a text begins with rows of a table: the first one says no more of the whole than another."""
    first, second, *_ = *content.split("\n", 2), ""
    name, colon, _ = first.partition(": ")
    has_cells = first.startswith("|") or (" | " in first and " | " in second)
    return has_cells or (bool(colon) and second.startswith(name + colon))


def _names_and_rest(question: str, names: Iterable[tuple[str, str]]) -> tuple[list[str], str]:
    """Return the names in a question, normalised, as written there and as stored, and the question without them."""
    rest = f" {normalise(question)} "
    called: list[str] = []
    for phrase, name in sorted(names, key=lambda pair: len(pair[0]), reverse=True):
        said = normalise(phrase)
        rest = rest.replace(f" {said} ", " ")
        called += said, normalise(name)
    return called, rest


def _pattern_of(terms: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern that matches any form of these stems and names in folded text; None if there are none."""
    # The longest first, since an alternation takes the first that matches.
    forms = sorted({form for term in terms for form in _FORMS.get(term, (term,))}, key=len, reverse=True)
    spaced = "|".join(re.escape(form).replace(r"\ ", r"[\W_]+") for form in forms if not has_ideographs(form))
    others = "|".join(re.escape(form.replace(" ", "")) for form in forms if has_ideographs(form))
    spaced = rf"\b(?:{spaced}){_ENDINGS}\b" if spaced else ""
    pattern = "|".join(filter(None, (spaced, others)))
    return re.compile(pattern) if pattern else None


def excerpt(text: str, sentence: Span | None = None, words: Sequence[Span] = (), *, start: int = 0) -> Excerpt:
    """Return a part of a text on one line of at most :data:`EXCERPT_CHARACTERS`, cut between words.

    It has the sentence and as much around it as fits: the whole text before it if that fits, else the text after it. Of
    a longer sentence it has the part with most of the ``words``. Without a sentence it begins at ``start``.

    Parameters
    ----------
    sentence
        Span of the sentence in the text.
    words
        Spans of the question's words in the sentence.
    """
    limit = EXCERPT_CHARACTERS
    if sentence is None:
        return Excerpt(_line(text[start:], limit, cut=start > 0))
    given = text[slice(*sentence)]
    first = sentence[0] + len(given) - len(given.lstrip())
    last = sentence[1] - len(given) + len(given.rstrip())
    said, before = _one_line(given), _one_line(text[max(0, first - 2 * limit) : first])
    apart = " " if text[:first][-1:].isspace() else ""
    if first <= 2 * limit and len(before) + 1 + len(said) <= limit:
        head = before + apart if before else ""
    else:
        head = "…" if first else ""
    if len(head) + len(said) > limit:
        head, begin = _cut_to_words(text, sentence, words, limit)
        said = _line(text[begin:last], limit - len(head))
        return Excerpt(head + said, (len(head), len(head) + len(said)))
    follows = _beginning_after(text, last, limit - len(head) - len(said))
    if head == "…" and (room := limit - len(said) - len(follows)) > _BEFORE_WORDS:
        head = f"…{_end_of(text[max(0, first - 2 * limit) : first], room - 2)}{apart}"
    return Excerpt(f"{head}{said}{follows}", (len(head), len(head) + len(said)))


def _beginning_after(text: str, last: int, room: int) -> str:
    """Return the first ``room`` characters after a position on one line, an ellipsis if there is no room for words."""
    after = text[last : last + 2 * EXCERPT_CHARACTERS]
    line = _line(after, room - 1, more=len(text) > last + len(after)).strip() if room > 1 else ""
    if line in {"", "…"}:
        return "…" if room and after.strip() else ""
    return (" " if after[:1].isspace() else "") + line


def _end_of(text: str, room: int) -> str:
    """Return the last ``room`` characters of a text on one line, from the beginning of a sentence, else of a word."""
    line = _one_line(text)[-room:]
    begins = next((found.end() for found in _SENTENCE_END.finditer(line) if found.end() < len(line)), None)
    return line[begins:] if begins is not None else line[line.find(" ") + 1 :]


def _cut_to_words(text: str, sentence: Span, words: Sequence[Span], limit: int) -> tuple[str, int]:
    """Return the ellipsis before an excerpt of a long sentence, and the character where the excerpt begins.

    It begins where most of the words follow within the limit.
    """
    first, _ = sentence
    ends = [end for _, end in words]

    def held(place: int) -> int:
        return bisect_right(ends, words[place][0] + limit - _BEFORE_WORDS) - place

    place = max(range(len(words)), key=held, default=0)
    if not words or words[place][0] - first < limit // 2:
        return ("…" if first else "", first)
    near = words[place][0]
    return "…", text.rfind(" ", near - _BEFORE_WORDS + 2, near - 1) + 1 or near


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _line(text: str, limit: int, *, cut: bool = False, more: bool = False) -> str:
    """Return the beginning of a text on one line, of at most ``limit`` characters.

    Parameters
    ----------
    cut, more
        Whether the text was cut before it, and after it: an ellipsis marks the cut.
    """
    # ``limit`` words are longer than the limit, so that no more of a long text is split.
    line = ("…" if cut else "") + " ".join(text.split(maxsplit=limit))
    if len(line) <= limit and not more:
        return line
    head = line[: limit - 1]
    return f"{head[: head.rfind(' ')] if ' ' in head else head}…"


class _Folding(dict[int, str]):
    """Table for ``str.translate`` to lower case without accents, one character for one, so that positions are kept."""

    def __missing__(self, code: int) -> str:
        lower = chr(code).lower()
        apart = unicodedata.normalize("NFKD", lower)
        base = (apart if all(map(unicodedata.combining, apart[1:])) else lower)[0]
        if len(self) < _FOLDED_KEPT:
            self[code] = base
        return base


_FOLDING: Final = _Folding()


def _folded(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_FOLDING)


@lru_cache(maxsize=4_096)
def _term(found: str) -> str:
    """Return the term, a stem or name, that the pattern matched as this part of a text."""
    words = normalise(found)
    return words if " " in words else _stem(words)


def _beginning(term: str) -> str:
    """Return the part of a term that is searched for, of a long name the first words."""
    if has_ideographs(term):
        return term[:MAX_NAME_CHARACTERS].rstrip()
    return " ".join(term.split(" ", MAX_NAME_WORDS)[:MAX_NAME_WORDS])


def _stem(word: str) -> str:
    """Return a word without common endings; for words of one meaning in :data:`_ALIKE`, the first of them.

    The endings are those by which a word of the text may be longer in the pattern that finds its places. The stems of
    :func:`braid.understanding.tokens.stem` are only compared with the beginnings of words.
    """
    bare = _ENDING.sub("", word)
    bare = bare if len(bare) >= _SHORTEST_STEM else word
    return _FIRST_ALIKE.get(bare, bare)


_FIRST_ALIKE: Final = {
    form: words[0]
    for words in _ALIKE
    for word in words
    for form in (word, _ENDING.sub("", word))
    if len(form) >= _SHORTEST_STEM
}
_FORMS: Final = {words[0]: words for words in _ALIKE}
