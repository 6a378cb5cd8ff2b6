"""Finds strings that are written like names: capitalised, quoted, or of a form such as an identifier's.

Used by ``name_finding``, for the texts of a write.

Time is linear in the length of the text: it is split at white space, and no pattern is applied to more than
:data:`~braid.understanding.given_names_in_texts.LONGEST_PIECE` characters.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from braid.understanding.given_names_in_texts import LONGEST_PIECE, MAX_NAME_WORDS, PIECE
from braid.understanding.name_keys import first_before_dash, without_brackets
from braid.understanding.question_phrases import MIN_WORD_CHARACTERS
from braid.understanding.sentence_openers import ALL_OPENERS, IMPERATIVES, OPENERS, PREPOSITIONS, function_words_of
from braid.understanding.tokens import FUNCTION_WORDS, STOP_WORDS, normalise, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LONGEST_NAME: Final = 120
LONGEST_RUN: Final = 24
"""Words with capitals in a row; a longer run is no name, and another begins."""
FEW_WORDS, WORDS_OF_PART, WORDS_OF_SENTENCE = 12, 3, 30
MOSTLY_CAPITALS, TITLE_CASE = 0.6, 0.9
"""Bounds of :func:`_capitals_tell`: numbers of words, of parts and sentences on average; shares of capitalised ones."""
NAME_TYPE, IDENTIFIER_TYPE, CODE_TYPE, ADDRESS_TYPE = "Concept", "Identifier", "CodeEntity", "Address"
FOUND_TYPES: Final = (NAME_TYPE, IDENTIFIER_TYPE, CODE_TYPE, ADDRESS_TYPE)
_PARTICLES: Final = word_set("""
    of the de la le les du des von van der den di da del della do dos das al el bin ibn af av zu zur y e for &
""")
_CONNECTING: Final = FUNCTION_WORDS | _PARTICLES
"""Words that a quoted title need not capitalise."""
_NOT_IN_TITLES: Final = _CONNECTING - word_set("are be been did do does had has have is was were will")
"""Words that title case does not capitalise, as it does verbs."""
_MAX_PARTICLES: Final = 2
_GERMAN_WEEKDAYS: Final = word_set("montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag")
_GERMAN_DATES: Final = (
    word_set("januar jänner februar märz juni juli oktober dezember")
    | _GERMAN_WEEKDAYS
    | {f"{day}s" for day in _GERMAN_WEEKDAYS}
)
"""Without "Mai", which is also a part of names: "Chiang Mai"."""
_WEEKDAYS: Final = word_set("monday tuesday wednesday thursday friday saturday sunday")
_ENGLISH_DATES: Final = (
    word_set("""
        january february march april may june july august september october november december jan feb mar apr jun jul
        aug sep sept oct nov dec
    """)
    | _WEEKDAYS
    | {f"{day}s" for day in _WEEKDAYS}
)
_DATES: Final = _ENGLISH_DATES | _GERMAN_DATES
"""Months and days of the week, of the languages that capitalise them."""
_BEFORE_DATES: Final = PREPOSITIONS | word_set("in")
_BEFORE_OBJECTS: Final = IMPERATIVES | PREPOSITIONS
_NEXT_SENTENCE: Final = OPENERS | FUNCTION_WORDS
"""Words that begin a sentence even where the space after the full stop before it is missing."""
_GIVEN_NAMES: Final = word_set("april may june august jan juni juli")
"""Months that are given names of people too."""
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
"""Abbreviations after which a full stop ends no sentence."""
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
_DATE = re.compile(r"(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.(?:1\d|20)\d\d")
"""Date with full stops, which has the form of a version; one with hyphens or slashes has no form of a name."""
_ADJECTIVE = re.compile(
    r"-(?:language|born|like|style|type|era|level|wide|side|only|\w{3,}ed|\w{4,}(?:ing|ive|ent)|\w{5,}al)$"
)
"""Ending that makes an adjective of a name and is no part of it: "Hindi-language", "Oct4-transduced"."""
_NUMBER = re.compile(r"\d{1,4}(?:\.\d+)*|[IVX]+")
_QUOTED = re.compile(r"[\"\u201c]([^\"\u201c\u201d\n]{2,80})[\"\u201d]")
_AMOUNT = re.compile(r"(?!(?:1\d|20)\d\d$)\d+(?:\.\d+)?")
"""Number that a unit may follow; not one that may be a year."""
_UNIT_CHARACTERS: Final = 4
_CAPITAL_UNITS: Final = word_set("uhr euro prozent grad")
"""Units that are written with a capital, as nouns of German are."""
_FIELD = re.compile(r"(?:^|; )([^:;\n]{1,60}): ", re.MULTILINE)
"""Name of a column in the text of a table's row."""
_SENTENCE_END = (".", "!", "?", "\u3002", "\uff01", "\uff1f", "|")
"""End of a sentence or table cell; a capital of the next word may be due to its position alone."""
_FORMS_KNOWN: Final = 4_096
"""Size of the cache of words' types; words have at most :data:`LONGEST_PIECE` characters, and most recur."""
_NAMES_KNOWN: Final = 4_096
"""Size of the cache of names' keys: a text has most of its names several times."""
_ENDS_PART = frozenset(",;:")
"""Punctuation that separates the word before it from the next."""


class _Word(NamedTuple):
    """A word of a text as it is written, and whether a sentence, punctuation or a bracket precedes it."""

    text: str
    start: int
    begins: bool
    """Whether a sentence begins here."""
    apart: bool
    """Whether punctuation precedes it, across which no name extends."""
    opened: bool
    """Whether that punctuation is an opening bracket."""


class Candidate(NamedTuple):
    """A string of a text that may be a name."""

    key: str
    name: str
    entity_type: str
    start: int
    unambiguous: bool = True
    """Whether it is certainly a name; a word that begins a sentence is one only if it is elsewhere in the document."""
    bracketed: bool = False
    """Whether an opening bracket precedes it."""


@lru_cache(maxsize=_NAMES_KNOWN)
def name_key(name: str) -> str:
    """Return the key that a name's spellings share: without case, accents, hyphens, possessives, leading article."""
    return without_article(normalise(name))


def without_article(name: str) -> str:
    """Return a normalised name without the articles that it begins with."""
    words = name.split()
    while len(words) > 1 and words[0] in {"the", "a", "an"}:
        del words[0]
    return " ".join(words)


def leading_identifier(title: str) -> str | None:
    """Return the identifier before a colon or dash that a title begins with: "INC-131: Stratum read outage"."""
    first = first_before_dash(title)
    return first if first and _type_by_form(first) == IDENTIFIER_TYPE else None


def name_candidates(content: str, title: str = "") -> Iterator[Candidate]:
    """Yield the strings written like names: quoted titles, then identifiers and the like, then capitalised words.

    No names are looked for inside a quoted title, nor inside the first occurrence of the text's own title.
    """
    whole: list[tuple[int, int]] = []
    for quoted in _QUOTED.finditer(content):
        name = " ".join(quoted[1].split()).strip(" ,.!?;:")
        if name[:1].isupper() and 1 < len(name.split()) <= MAX_NAME_WORDS and (key := name_key(name)):
            yield Candidate(key, name, NAME_TYPE, quoted.start(1))
            if _is_title(name):
                whole.append(quoted.span(1))
    own = without_brackets(title).strip()
    if " " in own and (start := content.find(own)) >= 0:
        whole.append((start, start + len(own)))
    columns, spans = _columns(content)
    whole += spans
    words = _units_set_apart(_outside(whole, words_of(content)) if whole else words_of(content))
    for word in words:
        form_type = _type_by_form(word.text)
        if form_type and not (form_type == CODE_TYPE and word.text in columns):
            yield Candidate(normalise(word.text) or word.text.casefold(), word.text, form_type, word.start)
    if _capitals_tell(words):
        yield from _capitalised(_without_openers(words, title), content, _dates_of(words))


def _dates_of(words: Sequence[_Word]) -> frozenset[str]:
    """Return the months and days of the week of a text's language: in English, "Guy Montag" is a person."""
    if not any(word.text[:1].isupper() and word.text.casefold() in _GERMAN_DATES for word in words):
        return _DATES
    texts = [word.text for word in words]
    is_english = not function_words_of(texts) and any(text.casefold() in FUNCTION_WORDS for text in texts)
    return _ENGLISH_DATES if is_english else _DATES


def _capitals_tell(words: Sequence[_Word]) -> bool:
    """Return whether capitals mark names in a text; they do not if most words have capitals.

    A text with mostly capitals is in upper case, in title case, or a table without its line breaks. But it is prose
    full of names if it has sentences, and some of the words that title case would capitalise have no capitals; and a
    list of names or rows of a table if punctuation divides it into parts of few words.
    """
    letters = [word for word in words if word.text[:1].isalpha()]
    capitals = sum(word.text[:1].isupper() for word in letters)
    if len(letters) < FEW_WORDS or capitals < MOSTLY_CAPITALS * len(letters):
        return True
    if sum(word.text.isupper() for word in letters) >= MOSTLY_CAPITALS * len(letters):
        return False
    if sum(word.apart and not word.begins for word in letters) * WORDS_OF_PART >= len(letters):
        return True
    if len(letters) > WORDS_OF_SENTENCE * sum(word.begins for word in words):
        return False
    in_titles = [word for word in letters if word.text.casefold() not in _NOT_IN_TITLES]
    return sum(word.text[:1].isupper() for word in in_titles) < TITLE_CASE * len(in_titles)


def _without_openers(words: Sequence[_Word], title: str) -> Sequence[_Word]:
    """Return the words without imperatives, prepositions and foreign function words at the beginning of sentences.

    Only before a word with a capital, and only if neither the text nor its title has both words together elsewhere:
    "Call" is left out of "Call Bob Tanaka", but "Los" is not of "Los Angeles" if the text also has "in Los Angeles".
    """
    starts = {
        place
        for place, word in enumerate(words)
        if word.text[:1].isupper() and word.text.casefold() in ALL_OPENERS
        if _begins_item(words, place) and not _is_before_date(words, place)
    }
    if not starts:
        return words
    openers = IMPERATIVES | PREPOSITIONS | function_words_of(word.text for word in words)
    texts = [word.text for word in words]
    elsewhere = {pair for place, pair in enumerate(pairwise(texts)) if place not in starts}
    elsewhere.update(pairwise(title.split()))
    kept: dict[int, _Word] = dict(enumerate(words))
    for start in starts:
        end = start
        while end + 1 < len(words) and texts[end].casefold() in openers and _continues_name(words[end + 1]):
            end += 1
        if end > start and (texts[start], texts[start + 1]) not in elsewhere:
            is_object = any(text.casefold() in _BEFORE_OBJECTS for text in texts[start:end])
            kept[end] = words[end]._replace(begins=not is_object, apart=True)
            for place in range(start, end):
                del kept[place]
    return list(kept.values())


def _begins_item(words: Sequence[_Word], place: int) -> bool:
    """Return whether a sentence begins at a word, or at a number right before it: "2. Call them"."""
    before = words[place - 1] if place else None
    return words[place].begins or (before is not None and before.begins and before.text.isdigit())


def _continues_name(word: _Word) -> bool:
    return word.text[:1].isupper() and not word.apart and not word.begins


def _is_before_date(words: Sequence[_Word], place: int) -> bool:
    """Return whether a word is a preposition with a month or a day of the week after it."""
    after = words[place + 1].text.casefold() if place + 1 < len(words) else ""
    return after in _DATES and words[place].text.casefold() in _BEFORE_DATES


def _units_set_apart(words: Iterable[_Word]) -> list[_Word]:
    """Return the words; units after a number ("450 EUR", "9 Uhr") are marked: their capitals tell no name."""
    found: list[_Word] = []
    for word in words:
        text = word.text
        is_unit = (
            text.isalpha()
            and (_is_short_capital(text) or text.casefold() in _CAPITAL_UNITS)
            and not word.begins
            and bool(found)
            and _AMOUNT.fullmatch(found[-1].text) is not None
        )
        found.append(word._replace(begins=True) if is_unit else word)
    return found


def _is_short_capital(text: str) -> bool:
    return len(text) <= _UNIT_CHARACTERS and sum(map(str.isupper, text)) > 1


def _columns(content: str) -> tuple[set[str], list[tuple[int, int]]]:
    """Return the names of columns in the text of a table's rows, and their positions.

    A column's name is a text before a colon with which several fields begin. A row is a line of at least two fields;
    "Heron (Greek: …; Latin: …)" has no columns, as a bracket is open.
    """
    counted: Counter[str] = Counter()
    rows: list[list[tuple[int, int]]] = []
    in_row, end = False, 0
    for field in _FIELD.finditer(content):
        counted[field[1]] += 1
        closed = field[1].count("(") == field[1].count(")")
        if field.start() == field.start(1):  # at the beginning of a line
            in_row = closed
            rows.append([field.span(1)])
        elif in_row := in_row and closed and content.find("\n", end, field.start()) < 0:
            rows[-1].append(field.span(1))
        end = field.end()
    names = {name for name, times in counted.items() if times > 1}
    return names, [span for row in rows if len(row) > 1 for span in row]


def _outside(spans: Sequence[tuple[int, int]], words: Iterable[_Word]) -> Iterator[_Word]:
    """Yield the words outside of some spans; the first word after a span is marked as set apart."""
    ahead, apart = deque(sorted(spans)), False
    for word in words:
        while ahead and ahead[0][1] <= word.start:
            ahead.popleft()
        if ahead and ahead[0][0] <= word.start:
            apart = True
            continue
        yield word._replace(apart=True) if apart else word
        apart = False


def _is_title(quoted: str) -> bool:
    """Return whether all words of a quotation are capitalised, apart from connecting ones."""
    return all(
        word[:1].isupper() or not word[:1].isalpha() or word.casefold() in _CONNECTING for word in quoted.split()
    )


def _capitalised(words: Sequence[_Word], content: str, dates: frozenset[str]) -> Iterator[Candidate]:
    """Yield the names in runs of capitalised words, with particles between them and numbers after them."""
    run: list[_Word] = []
    particles: list[_Word] = []
    for word in words:
        if not run and not word.text[:1].isupper():
            continue
        form_type = _type_by_form(word.text)
        if run and (word.apart or word.begins):
            yield from _names_in_run(run, content, dates)
            run, particles = [], []
        lowered = word.text.casefold()
        plain = word.text.isalpha() or form_type not in {CODE_TYPE, ADDRESS_TYPE}
        if word.text[:1].isupper() and plain and "=" not in word.text:
            run = [*run, *particles, word] if 0 < len(run) < LONGEST_RUN else [word]
            particles = []
            if lowered.endswith(("'s", "\u2019s")):
                yield from _names_in_run(run, content, dates)
        elif run and not particles and _NUMBER.fullmatch(word.text):
            run.append(word)
        elif run and lowered in _PARTICLES and len(particles) < _MAX_PARTICLES:
            particles.append(word)
        else:
            yield from _names_in_run(run, content, dates)
            run, particles = [], []
    yield from _names_in_run(run, content, dates)


def _names_in_run(run: Sequence[_Word], content: str, dates: frozenset[str]) -> Iterator[Candidate]:
    """Yield the names in a run of capitalised words: the whole, and the parts on either side of an "of"."""
    words = list(run)
    bracketed = bool(words) and words[0].opened
    begins = bool(words) and words[0].begins
    before = ""
    while words and _drops_first_word(words, before, dates):
        begins = begins and words[0].text.isupper() and words[0].text.casefold() in _HEADINGS
        before = words.pop(0).text.casefold()
    while words and _drops_last_word(words, dates):
        del words[-1]
    if not words or len(words) > MAX_NAME_WORDS or (len(words) == 1 and _type_by_form(words[0].text)):
        return
    name = content[words[0].start : words[-1].start + len(words[-1].text)]
    name = re.sub(r"['\u2019]s?$", "", " ".join(name.split())).rstrip(".") or name
    key = name_key(name)
    if not key or len(name) > LONGEST_NAME or (len(words) == 1 and not (_is_one_word_name(key) or _is_acronym(name))):
        return
    yield Candidate(key, name, NAME_TYPE, words[0].start, not (begins and len(words) == 1), bracketed)
    of = next((place for place, word in enumerate(words) if word.text == "of"), 0)
    if of > 1:  # "Lothair II of Lotharingia" names Lothair II
        yield from _names_in_run(words[:of], content, dates)
    if of and len(words) - of > 2:  # noqa: PLR2004 - two words and more after "of"
        yield from _names_in_run([word for word in words[of + 1 :] if word.text != "the"], content, dates)


def _is_acronym(word: str) -> bool:
    return word.isupper() and len(word) >= MIN_WORD_CHARACTERS


def _drops_first_word(words: Sequence[_Word], before: str, dates: frozenset[str]) -> bool:
    """Return whether the first word of a run, or of what is left of it after ``before``, does not belong to a name."""
    first = re.split("['\u2019]", words[0].text.casefold())[0]
    if _is_acronym(words[0].text):
        return first in _HEADINGS
    if first in dates:
        is_given_name = first in _GIVEN_NAMES and len(words) > 1 and words[1].text.isalpha()
        return not is_given_name or before in _BEFORE_DATES
    more = len(words) > 1 and words[1].text[:1].isupper()
    verb = words[0].begins and first.endswith("ing") and len(words) > 1 and not more
    is_before = words[0].begins and first in PREPOSITIONS
    if is_before and len(words) > 1 and (words[1].text[0].isdigit() or _is_before_date(words, 0)):
        return True
    return verb or first in FUNCTION_WORDS or first in OPENERS or first.isdigit() or (first in _HONORIFICS and more)


def _drops_last_word(words: Sequence[_Word], dates: frozenset[str]) -> bool:
    """Return whether the last word of a run does not belong to a name."""
    if _is_acronym(words[-1].text):
        return False
    last = words[-1].text.casefold()
    dated = len(words) > 1 and words[-2].text.casefold() in dates and last.isdigit()
    return dated or last in dates or last in FUNCTION_WORDS or (last in OPENERS and last != "i" and len(words) > 1)


def _is_one_word_name(key: str) -> bool:
    return len(key) > 1 and not key.isdigit() and key not in STOP_WORDS and key not in OPENERS


@lru_cache(maxsize=_FORMS_KNOWN)
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
    if _IDENTIFIER.fullmatch(text) or (_VERSION.fullmatch(text) and not _DATE.fullmatch(text)):
        return IDENTIFIER_TYPE
    return None


def words_of(content: str) -> Iterator[_Word]:
    """Yield the words of a text; addresses and calls whole, everything else split at punctuation.

    The text is read in pieces between white space. ``begins``, ``apart`` and ``opened`` carry the state from the pieces
    so far to the next word; see :class:`_Word`.
    """
    begins, apart, opened, end = True, True, False, 0
    for piece in PIECE.finditer(content):
        raw = piece[0][:LONGEST_PIECE]
        if "\n" in content[end : piece.start()]:
            begins = True
        end = piece.end()
        last = raw[-1]
        plain = raw if raw.isalnum() else raw[:-1]
        # Most pieces are a word with at most one mark behind it: as the code for parts, but five times as fast.
        if (last == "." or last in _ENDS_PART or plain is raw) and plain.isalnum():
            yield _Word(plain, piece.start(), begins, apart, opened)
            begins = last == "." and len(plain) > 1 and plain.casefold() not in _ABBREVIATED
            apart, opened = begins or last in _ENDS_PART, False
            continue
        if raw == "&":
            yield _Word(raw, piece.start(), False, apart, False)
            continue
        whole = raw.strip(".,;:!?'\"\u201c\u201d\u2018\u2019<>[]{}*`")
        whole = whole if whole.endswith("()") else whole.strip("()")
        if whole and (_CALL.fullmatch(whole) or "@" in whole or _URL.fullmatch(whole)):
            yield _Word(whole, piece.start() + raw.index(whole), begins, True, False)
            begins, apart, opened = raw.endswith(_SENTENCE_END), True, False
            continue
        for part in _PART.finditer(raw):
            text = part[0]
            if not _CORE.search(text):  # punctuation alone
                apart, opened = True, text == "("
                begins = begins or text in _SENTENCE_END
                continue
            word = _word_of_part(text)
            if not word:
                apart = True
                continue
            before = text.index(word)
            if word[0].isupper() and (adjective := _ADJECTIVE.search(word)):
                word = word[: adjective.start()]
            yield _Word(word, piece.start() + part.start() + before, begins, apart or before > 0, opened)
            after = text[before + len(word) :]
            abbreviated = len(word) == 1 or word.casefold() in _ABBREVIATED or "." in word
            begins = after.endswith(_SENTENCE_END) and not (abbreviated and after == ".")
            apart, opened = bool(after.strip(".")) or (begins and after == "."), False


def _word_of_part(text: str) -> str:
    """Return a part without the marks around it, and up to a full stop that lacks its space: "end.The" gives "end"."""
    word = text.strip(".!?'\u2018\u2019*`#\u2026-")
    head, stop, tail = word.rpartition(".")
    return head if stop and tail.casefold() in _NEXT_SENTENCE else word
