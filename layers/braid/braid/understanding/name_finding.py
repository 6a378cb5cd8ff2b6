"""Finds names in the texts of a write by rules: by their form, their position, and a list of given names.

:mod:`braid.ingestion.entities_found_in_texts` makes vertices and edges of them. Names in a question are looked up in
the graph instead, by :mod:`braid.understanding.name_keys`.

Names are: a title; words with capitals, with particles between them ("University of Copenhagen"); identifiers
(``E42``, ``LX-400``), code symbols (``should_notify()``), versions, e-mail addresses and URLs; quoted titles; the short
form behind a long one ("World Health Organization (WHO)"). Not names are: a word that is capitalised only because it
begins a sentence, months and weekdays, function words, and the words of a text that is all in capitals.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby, islice, pairwise
from typing import TYPE_CHECKING, Final

from braid.ports.name_finder import FoundMention, FoundName
from braid.understanding.given_names_in_texts import LONGEST_PIECE, LONGEST_TEXT, given_in, longest_by_first_word
from braid.understanding.name_keys import without_brackets
from braid.understanding.name_patterns import (
    LONGEST_NAME,
    NAME_TYPE,
    Candidate,
    leading_identifier,
    name_candidates,
    name_key,
    words_of,
)
from braid.understanding.tokens import cased_words, normalise, word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from braid.ports.name_finder import SourceText

MAX_TITLE_WORDS: Final = 12
MAX_NAMES: Final = 200
"""Most names of one text, the first ones."""
TITLE, FIRST_SENTENCE, SEVERAL_TIMES, MENTIONED = 1.0, 0.9, 0.85, 0.8
"""Confidence of a mention, by where the text has the name: as title, in its first sentence, elsewhere twice or once."""
_SENTENCES_OF_SUBJECT: Final = 2
_NO_SURNAME: Final = word_set("of the for")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
"""Control characters besides white space, which no name may hold."""


@dataclass
class _Tally:
    """Mentions of one name in a document, counted by text."""

    name: str
    entity_type: str
    texts: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Position of the first mention, and number of mentions, by the text's id; a title has the position -1."""


class RuleNameFinder:
    """Finds names by rules; implements :class:`braid.ports.name_finder.NameFinder`."""

    def find(self, texts: Sequence[SourceText], given: Mapping[str, str]) -> list[FoundName]:
        """Return the names in some texts, in the order of their first mention.

        ``given`` has the :attr:`~braid.ports.name_finder.FoundName.meaning` of given names by their normalised form.
        """
        found: dict[str, FoundName] = {}
        longest = longest_by_first_word(given)
        for _, document in groupby(texts, key=lambda text: text.document):
            for name in _names_of_document(list(document), given, longest):
                known = found.get(name.meaning)
                found[name.meaning] = name if known is None else known._replace(mentions=known.mentions + name.mentions)
        return list(found.values())


def title_names(title: str) -> list[str]:
    """Return the names in a title: the whole title, the title without brackets at its end, and up to the first comma.

    Also the identifier at its beginning; if the title is too long to be a name, only this one.
    """
    whole = " ".join(title.split())
    names = [identifier] if (identifier := leading_identifier(whole)) else []
    if whole and len(whole) <= LONGEST_NAME and len(whole.split()) <= MAX_TITLE_WORDS:
        short = without_brackets(whole)
        names = [whole, short, short.partition(",")[0].strip(), *names]
    return [name for name in dict.fromkeys(names) if name_key(name)]


def _names_of_document(
    texts: Sequence[SourceText], given: Mapping[str, str], longest: Mapping[str, int]
) -> Iterator[FoundName]:
    """Yield the names in the texts of one document, each with its mentions.

    They are the names in the texts' titles; the strings written like names that are names; and the given names, in any
    case, in texts that have not mentioned their entity so. A short form or a surname is a mention of the full name.

    Parameters
    ----------
    texts
        The document's texts, in their order.
    given
        Meanings of given names by their normalised form.
    longest
        Of :func:`longest_by_first_word`, for the same names.
    """
    contents = [_CONTROL.sub(" ", text.content[:LONGEST_TEXT]) for text in texts]
    by_text = [list(name_candidates(content, text.title)) for text, content in zip(texts, contents, strict=True)]
    candidates = [each for found in by_text for each in found]
    titles = [(text.id, name) for text in texts for name in title_names(text.title)]
    full_names = _short_forms(candidates) | _surnames(
        [*(each.name for each in candidates), *(name for _, name in titles)]
    )
    # An ambiguous candidate is a name if it is one elsewhere in the document.
    names = full_names.keys() | {each.key for each in candidates if each.unambiguous}
    names |= {name_key(name) for _, name in titles} | _subjects(texts[0].title, contents, candidates)

    tallies: dict[str, _Tally] = {}
    for text_id, name in titles:
        _count(tallies, given.get(normalise(name), name_key(name)), _Tally(name, NAME_TYPE), text_id, -1)
    for text, found in zip(texts, by_text, strict=True):
        for each in islice((each for each in found if each.unambiguous or each.key in names), MAX_NAMES):
            full = full_names.get(each.key)
            key, name = (name_key(full), full) if full else (each.key, each.name)
            key = given.get(normalise(name), given.get(key, key))
            _count(tallies, key, _Tally(name, each.entity_type), text.id, each.start)
        for key, name, start in given_in(text.content[:LONGEST_TEXT], given, longest) if longest else ():
            if key not in tallies or text.id not in tallies[key].texts:
                _count(tallies, key, _Tally(name, NAME_TYPE), text.id, start)

    first_sentences = {text.id: _first_sentence_end(text.content) for text in texts}
    for key, tally in tallies.items():
        mentions = tuple(
            FoundMention(text_id, max(start, 0), _confidence(start, times, first_sentences[text_id]))
            for text_id, (start, times) in tally.texts.items()
        )
        yield FoundName(key, tally.name, tally.entity_type, mentions)


def _count(tallies: dict[str, _Tally], key: str, new: _Tally, text_id: str, start: int) -> None:
    """Count a mention of a name by a text; ``new`` is the tally to begin with if the name has none."""
    tally = tallies.setdefault(key, new)
    first, times = tally.texts.get(text_id, (start, 0))
    tally.texts[text_id] = (min(first, start), times + 1)


def _confidence(start: int, times: int, first_sentence: int) -> float:
    """Return the confidence of a mention; ``first_sentence`` is the position at which the first sentence ends."""
    if start < 0:
        return TITLE
    if start < first_sentence:
        return FIRST_SENTENCE
    return SEVERAL_TIMES if times > 1 else MENTIONED


def _first_sentence_end(content: str) -> int:
    begins = (word.start for word in words_of(content[: 4 * LONGEST_PIECE]) if word.begins and word.start)
    return next(begins, len(content))


def _subjects(title: str, contents: Sequence[str], found: Sequence[Candidate]) -> set[str]:
    """Return the keys of the words at the head of a document that are its subject, such as "Quillback" on its page.

    Such a word begins the title, or is the whole first line. It must be both, or begin two further sentences. It must
    not occur in the document in lower case, in singular or plural.
    """
    first_line = next((line.strip() for line in contents[0].splitlines() if line.strip()), "")
    heads = {head for head in (title.partition(" ")[0], first_line) if head.istitle() and head.isalpha()}
    counted = Counter(each.key for each in found)
    subjects = set()
    for head in heads:
        key, alone = name_key(head), first_line == head
        if counted[key] - alone < _SENTENCES_OF_SUBJECT and not (alone and title.startswith(f"{head} ")):
            continue
        plain = head.lower()
        forms = {plain, f"{plain}s", plain.removesuffix("s")}
        if all(forms.isdisjoint(cased_words(content)) for content in contents):
            subjects.add(key)
    return subjects


def _short_forms(found: Sequence[Candidate]) -> dict[str, str]:
    """Return the long forms of a document's abbreviations by their keys: "World Health Organization (WHO)"."""
    return {
        short.key: long.name
        for long, short in pairwise(found)
        if short.bracketed and short.name.isupper() and short.key == _initials(long.name)
    }


def _initials(name: str) -> str:
    return "".join(word[0] for word in cased_words(name) if not word[0].islower()).casefold()


def _surnames(names: Iterable[str]) -> dict[str, str]:
    """Return the full names of a document by their last words, where no other full name ends in the same word."""
    full: dict[str, dict[str, str]] = {}
    for name in dict.fromkeys(names):
        words = without_brackets(name).partition(",")[0].split()
        if not 1 < len(words) <= 3 or not words[-1][:1].isupper() or not words[-1].isalpha():  # noqa: PLR2004 - a person's
            continue
        if _NO_SURNAME.isdisjoint(words) and all(word[:1].isalpha() for word in words):
            full.setdefault(words[-1].casefold(), {})[name_key(name)] = name
    return {normalise(last): next(iter(of.values())) for last, of in full.items() if len(of) == 1}
