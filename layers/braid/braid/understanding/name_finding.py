"""Finds names in texts by rules: by their form, by their position, and by a list of given names.

What is a name: a title; words with capitals, with particles between them ("University of Copenhagen"); identifiers
(``E42``, ``LX-400``), code symbols (``should_notify()``), versions, e-mail addresses and URLs; quoted titles; the short
form behind a long one ("World Health Organization (WHO)"). What is none: a word that has its capital only because a
sentence begins, months and weekdays, function words, and all words of a text in capitals.

Time is linear in the length of the text: it is split at white space, and no pattern is applied to more than
:data:`LONGEST_PIECE` characters.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.ports.name_finder import FoundMention, FoundName
from braid.understanding.names import MIN_WORD_CHARACTERS, without_brackets
from braid.understanding.tokens import (
    FUNCTION_WORDS,
    STOP_WORDS,
    cased_words,
    has_ideographs,
    normalise,
    split_ideographs,
    word_set,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from braid.ports.name_finder import SourceText

LONGEST_PIECE: Final = 200
"""Characters between two spaces; of a longer piece the rest is not read."""
LONGEST_NAME: Final = 120
MOST_NAME_WORDS: Final = 8
LONGEST_RUN: Final = 24
"""Words with capitals in a row; a longer run is no name, and another begins."""
MOST_TITLE_WORDS: Final = 12
MOST_PHRASE_WORDS, MOST_PHRASE_IDEOGRAPHS = 4, 8
"""Words, and ideographs, of a given name that is looked for however it is written."""
MOST_NAMES: Final = 200
"""Of one text, those that stand first."""
FEW_WORDS, MOSTLY_CAPITALS = 12, 0.6
"""In a text of that many words of which so many have capitals, capitals say nothing."""
LONGEST_TEXT: Final = 200_000
"""Characters of a text that are read."""
TITLE, FIRST_SENTENCE, SEVERAL_TIMES, MENTIONED = 1.0, 0.9, 0.85, 0.8
"""Confidence of a mention by what it says of the text."""
NAME_TYPE, IDENTIFIER_TYPE, CODE_TYPE, ADDRESS_TYPE = "Concept", "Identifier", "CodeEntity", "Address"
FOUND_TYPES: Final = (NAME_TYPE, IDENTIFIER_TYPE, CODE_TYPE, ADDRESS_TYPE)

_PARTICLES: Final = word_set("""
    of the de la le les du des von van der den di da del della do dos das al el bin ibn af av zu zur y e for &
""")
_CONNECTING: Final = FUNCTION_WORDS | _PARTICLES
"""Words without a capital in a title."""
_MOST_PARTICLES: Final = 2
_NO_SURNAME: Final = word_set("of the for")
_MONTHS: Final = word_set("""
    january february march april may june july august september october november december jan feb mar apr jun jul
    aug sep sept oct nov dec
""")
_WEEKDAYS: Final = word_set("monday tuesday wednesday thursday friday saturday sunday")
_DATES: Final = _MONTHS | _WEEKDAYS | {f"{day}s" for day in _WEEKDAYS}
_OPENERS: Final = word_set("""
    although however despite today yesterday tomorrow then thus also another later meanwhile moreover furthermore
    hence therefore here every several both either neither unlike like no yes well hi hey hello oh wow thanks
    thank please let maybe perhaps just so too very never always often sometimes she he we i you they my our his
    their its again once including see note according based given using next still even while within without upon
    among between against across along around below above toward towards per via plus first second third finally
    originally currently recently eventually initially together nothing something everything nobody somebody
    everybody anyone someone everyone many few most more less much each what why when where how which who whom
    whose it this that these those there
""")
"""Words that begin a sentence and belong to no name."""
_NEXT_SENTENCE: Final = _OPENERS | FUNCTION_WORDS
"""Words that begin the next one where no space stands before it."""
_GIVEN_NAMES: Final = word_set("april may june august jan")
"""Months that are names of people as well."""
_HONORIFICS: Final = word_set("""
    mr mrs ms miss dr prof professor president senator governor general colonel captain rev reverend sir dame
""")
_HEADINGS: Final = word_set("""
    abstract aim aims background conclusion conclusions design discussion findings funding interpretation introduction
    material materials method methods objective objectives outcome outcomes purpose result results setting summary
    note warning caution important todo
""")
"""Words in capitals that head a part of a text."""
_ABBREVIATED: Final = word_set("""
    dr mr mrs ms prof st mt ft gen lt col maj capt sgt rev hon sen rep gov pres jr sr vs inc co corp ltd no vol
""")
"""Words of names behind which a full stop ends no sentence."""

_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
"""Control characters besides white space, which no name may hold."""
_PIECE = re.compile(r"\S+")
_PART = re.compile(r"[^/|\u2013\u2014,;:()\[\]{}<>\"\u201c\u201d]+|[^\s]")
_CORE = re.compile(r"[^\W_]|[_@]")
_URL = re.compile(r"(?:https?://|www\.)[^\s<>\"\u201c\u201d]+")
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,5}")
_CALL = re.compile(r"[A-Za-z_]\w*(?:(?:\.|::|->)\w+)*\(\)")
_SYMBOL = re.compile(
    r"_*[a-z0-9]+(?:_+[A-Za-z0-9]+)+_*|[A-Z0-9]+(?:_+[A-Z0-9]+)+|[a-z]+(?:[A-Z][a-z0-9]+)+|(?:[A-Z][a-z0-9]+){2,}"
)
_DOTTED = re.compile(r"[A-Za-z_]\w+(?:(?:\.|::)[A-Za-z_]\w+)+")
_IDENTIFIER = re.compile(r"(?=[^\d]*\d)(?=[^A-Z]*[A-Z])[A-Za-z0-9]+(?:[-.][A-Za-z0-9]+)*")
_VERSION = re.compile(r"v?\d+(?:\.\d+){2,}(?:[-+]?[a-z]+\d*)?|v\d+(?:\.\d+)*")
_ADJECTIVE = re.compile(
    r"-(?:language|born|like|style|type|era|level|wide|side|only|\w{3,}ed|\w{4,}(?:ing|ive|ent)|\w{5,}al)$"
)
"""Ends a word that is made of a name and does not belong to it: "Hindi-language", "Oct4-transduced"."""
_NUMBER = re.compile(r"\d{1,4}(?:\.\d+)*|[IVX]+")
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]{2,80})[\"\u201d]")
_SENTENCE_END = (".", "!", "?", "\u3002", "\uff01", "\uff1f")


class _Word(NamedTuple):
    """A word of a text as it is written, with what stands before it."""

    text: str
    start: int
    begins: bool
    """Whether a sentence begins here."""
    apart: bool
    """Whether punctuation stands before it, so that a name cannot span it."""
    opened: bool
    """Whether that punctuation is an opening bracket."""


class _Candidate(NamedTuple):
    """A string of a text that may be a name."""

    key: str
    name: str
    entity_type: str
    start: int
    unambiguous: bool = True
    """Whether it is a name by itself; a word that begins a sentence is one only if the document has it elsewhere."""
    bracketed: bool = False
    """Whether it stands behind an opening bracket."""


@dataclass
class _Tally:
    """Mentions of one name in a document, counted by text."""

    name: str
    entity_type: str
    texts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """First position, and number of times, by the text's id; a title has the position -1."""


class RuleNameFinder:
    """Finds names by rules; implements :class:`braid.ports.name_finder.NameFinder`."""

    def find(self, texts: Sequence[SourceText], given: Mapping[str, str]) -> list[FoundName]:
        """Return the names in some texts, in the order of their first mention."""
        found: dict[str, FoundName] = {}
        longest_by_first_word = _longest_by_first_word(given)
        for _, document in groupby(texts, key=lambda text: text.document):
            for name in _names_of_document(list(document), given, longest_by_first_word):
                known = found.get(name.key)
                found[name.key] = name if known is None else known._replace(mentions=known.mentions + name.mentions)
        return list(found.values())


def name_key(name: str) -> str:
    """Return the name without case, accents, hyphens, possessives and a leading article, as its spellings share it."""
    words = normalise(name).split()
    while len(words) > 1 and words[0] in {"the", "a", "an"}:
        del words[0]
    return " ".join(words)


def title_names(title: str) -> list[str]:
    """Return the names that a title gives: itself, and itself without what follows a bracket or the first comma."""
    whole = " ".join(title.split())
    if not whole or len(whole) > LONGEST_NAME or len(whole.split()) > MOST_TITLE_WORDS:
        return []
    short = without_brackets(whole)
    return [name for name in dict.fromkeys((whole, short, short.partition(",")[0].strip())) if name_key(name)]


def _names_of_document(
    texts: Sequence[SourceText], given: Mapping[str, str], longest_by_first_word: Mapping[str, int]
) -> Iterator[FoundName]:
    tallies: dict[str, _Tally] = {}
    contents = [_CONTROL.sub(" ", text.content[:LONGEST_TEXT]) for text in texts]
    candidates = [(text, list(_candidates(content, text.title))) for text, content in zip(texts, contents, strict=True)]
    known_keys = {each.key for _, found in candidates for each in found if each.unambiguous}
    titles = [(text, name) for text in texts for name in title_names(text.title)]
    known_keys |= {name_key(name) for _, name in titles}
    for text, name in titles:
        _count(tallies, given.get(normalise(name), name_key(name)), _Tally(name, NAME_TYPE), text.id, -1)
    full_names = _short_forms([each for _, found in candidates for each in found])
    full_names |= _surnames([*(each.name for _, found in candidates for each in found), *(name for _, name in titles)])
    for text, found in candidates:
        kept = 0
        for each in found:
            if not each.unambiguous and each.key not in known_keys and each.key not in full_names:
                continue
            full = full_names.get(each.key)
            key, name = (name_key(full), full) if full else (each.key, each.name)
            key = given.get(normalise(name), given.get(key, key))
            _count(tallies, key, _Tally(name, each.entity_type), text.id, each.start)
            kept += 1
            if kept == MOST_NAMES:
                break
        if longest_by_first_word:
            for key, name, start in _given_in(text.content[:LONGEST_TEXT], given, longest_by_first_word):
                if key in tallies and text.id in tallies[key].texts:
                    continue
                _count(tallies, key, _Tally(name, NAME_TYPE), text.id, start)
    ends = {text.id: _first_sentence_end(text.content) for text in texts}
    for key, tally in tallies.items():
        mentions = tuple(
            FoundMention(text_id, max(start, 0), _confidence(start, times, ends[text_id]))
            for text_id, (start, times) in tally.texts.items()
        )
        yield FoundName(key, tally.name, tally.entity_type, mentions)


def _count(tallies: dict[str, _Tally], key: str, new: _Tally, text_id: str, start: int) -> None:
    tally = tallies.setdefault(key, new)
    first, times = tally.texts.get(text_id, (start, 0))
    tally.texts[text_id] = (min(first, start), times + 1)


def _confidence(start: int, times: int, first_sentence: int) -> float:
    if start < 0:
        return TITLE
    if start < first_sentence:
        return FIRST_SENTENCE
    return SEVERAL_TIMES if times > 1 else MENTIONED


def _first_sentence_end(content: str) -> int:
    begins = (word.start for word in _words(content[: 4 * LONGEST_PIECE]) if word.begins and word.start)
    return next(begins, len(content))


def _short_forms(found: Sequence[_Candidate]) -> dict[str, str]:
    """Return the long forms of a document's abbreviations by their keys: "World Health Organization (WHO)"."""
    return {
        short.key: long.name
        for long, short in pairwise(found)
        if short.bracketed and short.name.isupper() and short.key == _initials(long.name)
    }


def _initials(name: str) -> str:
    return "".join(word[0] for word in cased_words(name) if not word[0].islower()).casefold()


def _surnames(names: Iterable[str]) -> dict[str, str]:
    """Return the full names of a document by their last words, where these belong to one of them alone."""
    full: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys(names):
        words = without_brackets(name).partition(",")[0].split()
        if not 1 < len(words) <= 3 or not words[-1][:1].isupper() or not words[-1].isalpha():  # noqa: PLR2004 - a person's
            continue
        if _NO_SURNAME.isdisjoint(words) and all(word[:1].isalpha() for word in words):
            full.setdefault(words[-1].casefold(), {})[name_key(name)] = name
    return {normalise(last): next(iter(of.values())) for last, of in full.items() if len(of) == 1}


def _candidates(content: str, title: str = "") -> Iterator[_Candidate]:
    """Yield what is written like a name: quoted titles, then what has a form of its own, then words with capitals.

    Within a quoted title, and where the text's own title stands, no other names are looked for.
    """
    whole: list[tuple[int, int]] = []
    for quoted in _QUOTED.finditer(content):
        name = " ".join(quoted[1].split()).strip(" ,.!?;:")
        if name[:1].isupper() and 1 < len(name.split()) <= MOST_NAME_WORDS and (key := name_key(name)):
            yield _Candidate(key, name, NAME_TYPE, quoted.start(1))
            if _is_title(name):
                whole.append(quoted.span(1))
    own = without_brackets(title).strip()
    if " " in own and (start := content.find(own)) >= 0:
        whole.append((start, start + len(own)))
    words = list(_outside(whole, _words(content)))
    for word in words:
        if form_type := _type_by_form(word.text):
            yield _Candidate(normalise(word.text) or word.text.casefold(), word.text, form_type, word.start)
    letters = [word for word in words if word.text[:1].isalpha()]
    capitals = sum(word.text[:1].isupper() for word in letters)
    if len(letters) < FEW_WORDS or capitals < MOSTLY_CAPITALS * len(letters):
        yield from _capitalised(words, content)


def _outside(spans: Sequence[tuple[int, int]], words: Iterable[_Word]) -> Iterator[_Word]:
    """Yield the words that stand in none of some spans; no name goes on behind one."""
    ahead, apart = deque(sorted(spans)), False
    for word in words:
        while ahead and ahead[0][1] <= word.start:
            ahead.popleft()
        if ahead and ahead[0][0] <= word.start:
            apart = True
            continue
        yield word._replace(apart=word.apart or apart)
        apart = False


def _is_title(quoted: str) -> bool:
    """Return whether all words have capitals, apart from those that connect others."""
    return all(
        word[:1].isupper() or not word[:1].isalpha() or word.casefold() in _CONNECTING for word in quoted.split()
    )


def _capitalised(words: Sequence[_Word], content: str) -> Iterator[_Candidate]:
    """Yield the names in runs of capitalised words, which may have particles between them and numbers behind."""
    run: list[_Word] = []
    particles: list[_Word] = []
    for word in words:
        form_type = _type_by_form(word.text)
        if word.apart or word.begins:
            yield from _names_in_run(run, content)
            run, particles = [], []
        lowered = word.text.casefold()
        plain = word.text.isalpha() or form_type not in {CODE_TYPE, ADDRESS_TYPE}
        if word.text[:1].isupper() and plain and "=" not in word.text:
            run = [*run, *particles, word] if 0 < len(run) < LONGEST_RUN else [word]
            particles = []
            if lowered.endswith(("'s", "\u2019s")):
                yield from _names_in_run(run, content)
        elif run and not particles and _NUMBER.fullmatch(word.text):
            run.append(word)
        elif run and lowered in _PARTICLES and len(particles) < _MOST_PARTICLES:
            particles.append(word)
        else:
            yield from _names_in_run(run, content)
            run, particles = [], []
    yield from _names_in_run(run, content)


def _names_in_run(run: Sequence[_Word], content: str) -> Iterator[_Candidate]:
    """Yield the names that a run of capitalised words holds: as a whole, and on either side of an "of"."""
    words = list(run)
    bracketed = bool(words) and words[0].opened
    begins = bool(words) and words[0].begins
    while words and _drops_first_word(words):
        begins = begins and words[0].text.isupper() and words[0].text.casefold() in _HEADINGS
        del words[0]
    while words and _drops_last_word(words):
        del words[-1]
    if not words or len(words) > MOST_NAME_WORDS or (len(words) == 1 and _type_by_form(words[0].text)):
        return
    name = content[words[0].start : words[-1].start + len(words[-1].text)]
    name = re.sub(r"['\u2019]s?$", "", " ".join(name.split())).rstrip(".") or name
    key = name_key(name)
    if not key or len(name) > LONGEST_NAME or (len(words) == 1 and not (_is_one_word_name(key) or _is_acronym(name))):
        return
    yield _Candidate(key, name, NAME_TYPE, words[0].start, not (begins and len(words) == 1), bracketed)
    of = next((place for place, word in enumerate(words) if word.text == "of"), 0)
    if of > 1:  # "Lothair II of Lotharingia" names Lothair II
        yield from _names_in_run(words[:of], content)
    if of and len(words) - of > 2:  # noqa: PLR2004 - two words and more after "of"
        yield from _names_in_run([word for word in words[of + 1 :] if word.text != "the"], content)


def _is_acronym(word: str) -> bool:
    return word.isupper() and len(word) >= MIN_WORD_CHARACTERS


def _drops_first_word(words: Sequence[_Word]) -> bool:
    """Return whether the first word of a run does not belong to a name."""
    first = re.split("['\u2019]", words[0].text.casefold())[0]
    if _is_acronym(words[0].text):
        return first in _HEADINGS
    if first in _DATES:
        return first not in _GIVEN_NAMES or len(words) == 1 or not words[1].text.isalpha()
    more = len(words) > 1 and words[1].text[:1].isupper()
    verb = words[0].begins and first.endswith("ing") and len(words) > 1 and not more
    return verb or first in FUNCTION_WORDS or first in _OPENERS or first.isdigit() or (first in _HONORIFICS and more)


def _drops_last_word(words: Sequence[_Word]) -> bool:
    """Return whether the last word of a run does not belong to a name."""
    if _is_acronym(words[-1].text):
        return False
    last = words[-1].text.casefold()
    dated = len(words) > 1 and words[-2].text.casefold() in _DATES and last.isdigit()
    return dated or last in _DATES or last in FUNCTION_WORDS or (last in _OPENERS and last != "i" and len(words) > 1)


def _is_one_word_name(key: str) -> bool:
    return len(key) > 1 and not key.isdigit() and key not in STOP_WORDS and key not in _OPENERS


def _type_by_form(text: str) -> str | None:
    """Return the type of an identifier, symbol, version or address; None of a plain word."""
    if text.isalpha() and (text.islower() or text.istitle() or text.isupper()):
        return None
    if "@" in text:
        return ADDRESS_TYPE if _EMAIL.fullmatch(text) else None
    if _URL.fullmatch(text):
        return ADDRESS_TYPE
    if _CALL.fullmatch(text) or _SYMBOL.fullmatch(text) or (_DOTTED.fullmatch(text) and text.lower() != text):
        return CODE_TYPE
    if _IDENTIFIER.fullmatch(text) or _VERSION.fullmatch(text):
        return IDENTIFIER_TYPE
    return None


def _words(content: str) -> Iterator[_Word]:
    """Yield the words of a text; addresses and calls whole, everything else split at punctuation."""
    begins, apart, opened, end = True, True, False, 0
    for piece in _PIECE.finditer(content):
        raw = piece[0][:LONGEST_PIECE]
        if "\n" in content[end : piece.start()]:
            begins = True
        end = piece.end()
        whole = raw.strip(".,;:!?'\"\u201c\u201d\u2018\u2019<>[]{}*`")
        whole = whole if whole.endswith("()") else whole.strip("()")
        if whole and (_CALL.fullmatch(whole) or "@" in whole or _URL.fullmatch(whole)):
            yield _Word(whole, piece.start() + raw.index(whole), begins, True, False)
            begins, apart, opened = raw.endswith(_SENTENCE_END), True, False
            continue
        for part in _PART.finditer(raw):
            text = part[0]
            if raw == "&":
                yield _Word(raw, piece.start(), False, apart, False)
                continue
            if not _CORE.search(text):
                apart, opened = True, text == "("
                begins = begins or text in _SENTENCE_END
                continue
            core = text.strip(".!?'\u2018\u2019*`#\u2026-")
            head, dot, tail = core.rpartition(".")
            core = head if dot and tail.casefold() in _NEXT_SENTENCE else core
            if not core:
                apart = True
                continue
            lead = text.index(core)
            if core[0].isupper() and (adjective := _ADJECTIVE.search(core)):
                core = core[: adjective.start()]
            yield _Word(core, piece.start() + part.start() + lead, begins, apart or lead > 0, opened)
            stop = text[lead + len(core) :]
            short = len(core) == 1 or core.casefold() in _ABBREVIATED or "." in core
            begins = stop.endswith(_SENTENCE_END) and not (short and stop == ".")
            apart, opened = bool(stop.strip(".")) or (begins and stop == "."), False


class _FoldedWord(NamedTuple):
    """A word of a text in lower case, or one ideograph."""

    text: str
    joined: bool
    """Whether no space stands before it."""
    start: int


def _folded_words(content: str) -> Iterator[_FoldedWord]:
    for piece in _PIECE.finditer(content):
        for word in cased_words(piece[0][:LONGEST_PIECE]):
            if word.isascii():
                yield _FoldedWord(word.lower(), joined=False, start=piece.start())
                continue
            for place, part in enumerate(split_ideographs(word)):
                yield _FoldedWord(part.casefold(), place > 0, piece.start())


def _growing(words: Sequence[_FoldedWord], start: int, most: int) -> list[str]:
    """Return the runs of words that begin at a place, each one word longer than the last."""
    phrase = words[start].text
    runs = [phrase]
    for word in words[start + 1 : start + most]:
        phrase = f"{phrase}{word.text}" if word.joined else f"{phrase} {word.text}"
        runs.append(phrase)
    return runs


def phrases_in(content: str) -> Iterator[str]:
    """Yield the phrases of a text that may be given names in lower case, in the form in which names are looked up.

    Two to :data:`MOST_PHRASE_WORDS` words that neither begin nor end with a function word, up to
    :data:`MOST_PHRASE_IDEOGRAPHS` ideographs, and single words of other scripts without case. A single word of a script
    with case is a name only where it is written as one: "red" is not "Red".
    """
    words = list(_folded_words(content[:LONGEST_TEXT]))
    for start, first in enumerate(words):
        if first.text in STOP_WORDS:
            continue
        ideographs = has_ideographs(first.text)
        if not ideographs and first.text.isalpha() and first.text.upper() == first.text and not first.text.isascii():
            yield first.text
        runs = _growing(words, start, MOST_PHRASE_IDEOGRAPHS if ideographs else MOST_PHRASE_WORDS)
        for end, phrase in enumerate(runs[1:], start + 1):
            if ideographs and not words[end].joined:
                break
            if words[end].text not in STOP_WORDS:
                yield phrase


def _longest_by_first_word(given: Mapping[str, str]) -> dict[str, int]:
    """Return the number of words of the longest given name, by its first word."""
    longest: dict[str, int] = {}
    for phrase in given:
        words = [part for word in phrase.split() for part in split_ideographs(word)]
        if words and len(words) <= (MOST_PHRASE_IDEOGRAPHS if has_ideographs(phrase) else MOST_NAME_WORDS):
            longest[words[0]] = max(longest.get(words[0], 0), len(words))
    return longest


def _given_in(
    content: str, given: Mapping[str, str], longest_by_first_word: Mapping[str, int]
) -> Iterator[tuple[str, str, int]]:
    """Yield key, name and position of given names, the longest at each place; a function word alone is none."""
    folded = list(_folded_words(content))
    place = 0
    while place < len(folded):
        most = longest_by_first_word.get(folded[place].text, 0)
        runs = _growing(folded, place, most) if most else []
        for size in range(len(runs), 0, -1):
            phrase = runs[size - 1]
            if phrase in given and phrase not in STOP_WORDS:
                yield given[phrase], phrase, folded[place].start
                place += size
                break
        else:
            place += 1
