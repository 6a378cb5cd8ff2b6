"""Links the names in a question to entities of the graph: by names and aliases, other forms of them, and misspellings.

Names in the texts of a write are resolved to given entities by :mod:`braid.ingestion.given_entity_linking`.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum, auto
from typing import TYPE_CHECKING

from braid.models.records import FOUND_PREFIX
from braid.understanding.misspelling_keys import MISSPELT, one_letter_apart
from braid.understanding.name_keys import INITIALS, PART, SHORTENED, lookup_keys
from braid.understanding.question_phrases import COMMON_WORD, is_two_letters, longest_match, name_certainty
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence, Set
    from datetime import datetime
    from typing import TypeAlias

    from braid.models import EntityLink, TenantId
    from braid.ports.knowledge_graph import KnowledgeGraph
    from braid.understanding.name_keys import LookupKey

    UnknownWords: TypeAlias = Callable[[TenantId, Sequence[str]], frozenset[str]]


MAX_LINKED_NAMES = 10
MAX_LOOKED_UP = 200


class _Kind(Enum):
    """How a phrase of a question matches a name or alias."""

    AS_WRITTEN = auto()
    SHORTENED = auto()
    """The name has more after it, in brackets or after a comma."""
    SHORTENED_OTHERWISE = auto()
    """As SHORTENED, but the phrase is spelled in another way: "INC131" for "INC-131: Read outage"."""
    OTHER_FORM = auto()
    """Singular for plural, another spelling, or a part or the initials of the name."""
    MISSPELT = auto()


_KIND_BY_PREFIX = {
    SHORTENED: _Kind.SHORTENED,
    PART: _Kind.OTHER_FORM,
    INITIALS: _Kind.OTHER_FORM,
    MISSPELT: _Kind.MISSPELT,
}
"""Kinds of match by the first character of a key; other keys are names as written or in another form."""


def linked_names(
    graph: KnowledgeGraph,
    tenant_id: TenantId,
    question: str,
    *,
    as_of: datetime,
    trusted_only: bool = False,
    unknown_words: UnknownWords | None = None,
) -> list[EntityLink]:
    """Return the entities that a question names, the best match first, each once and at most ten.

    One call to the graph. A link's ``phrase`` is as the question has it; ``score`` is 1 for a match by name, .9 by
    alias, less by another form; ``certainty`` is the certainty that the words are a name. Matches in this order:

    1. Names and aliases as they are written, the longest first.
    2. Together with these, shortened names, such as "Humboldt Peak" for "Humboldt Peak (Colorado)", unless an entity
       with a record has just that name.
    3. Other forms of names, in the remaining words. A form that entities of different names share is left out.
    4. Misspelt names, in words that match nothing else, are written as names are and of which at least one is in no
       text.

    Parameters
    ----------
    unknown_words
        Returns the words that no text of a tenant has; called only for words that may be misspelt. None treats all of
        them as unknown.
    """
    keys = lookup_keys(question)
    if not keys:
        return []
    found = graph.link(tenant_id, list(keys), as_of=as_of, limit=MAX_LOOKED_UP, trusted_only=trusted_only)
    links = _by_kind(found, keys)
    linked = longest_match(question, [*links[_Kind.AS_WRITTEN], *_shortened(links)])
    taken = {word for link in linked for word in link.phrase.split()}
    others = _apart_from(taken, _of_one_name(_other_forms(links)))
    others += _in_no_text(_apart_from(taken, _misspelt(links, question)), tenant_id, unknown_words)
    best: dict[str, EntityLink] = {}
    for link in (*linked, *longest_match(question, others)):
        best.setdefault(link.entity_id, link)  # a graph that is written to meanwhile may return an entity twice
    return [
        link.altered(certainty=name_certainty(question, link.phrase))
        for link in sorted(best.values(), key=lambda link: -link.score)[:MAX_LINKED_NAMES]
    ]


def _by_kind(found: Sequence[EntityLink], keys: dict[str, LookupKey]) -> dict[_Kind, list[EntityLink]]:
    """Return links by how they matched, with the question's phrases instead of keys and the scores of altered forms.

    If links may have been cut off, it is not known how many names share a form, so only names as written are returned.
    """
    links: dict[_Kind, list[EntityLink]] = {kind: [] for kind in _Kind}
    for link in found:
        key = keys[link.phrase]
        if is_two_letters(key.phrase) and link.entity_id.startswith(FOUND_PREFIX):
            continue  # "US" in texts is a hub that everything leads to
        by_name = _Kind.AS_WRITTEN if key.score_factor == 1.0 else _Kind.OTHER_FORM
        kind = _Kind.MISSPELT if key.misspelt else _KIND_BY_PREFIX.get(link.phrase[0], by_name)
        if kind is _Kind.SHORTENED and by_name is _Kind.OTHER_FORM:
            kind = _Kind.SHORTENED_OTHERWISE
        if kind is _Kind.AS_WRITTEN or len(found) < MAX_LOOKED_UP:
            links[kind].append(link.altered(phrase=key.phrase, score=link.score * key.score_factor))
    return links


def _shortened(links: Mapping[_Kind, Sequence[EntityLink]]) -> list[EntityLink]:
    """Return the links by shortened names, unless an entity with a record has just that name."""
    with_record = {link.phrase for link in links[_Kind.AS_WRITTEN] if link.has_record}
    return [link for link in _of_one_name(links[_Kind.SHORTENED]) if link.phrase not in with_record]


def _other_forms(links: Mapping[_Kind, Sequence[EntityLink]]) -> list[EntityLink]:
    """Return the links by other forms of names, and by shortened names where a phrase has no other form."""
    matched = {link.phrase for link in links[_Kind.OTHER_FORM]}
    return [
        *links[_Kind.OTHER_FORM],
        *(link for link in links[_Kind.SHORTENED_OTHERWISE] if link.phrase not in matched),
    ]


def _misspelt(links: Mapping[_Kind, Sequence[EntityLink]], question: str) -> list[EntityLink]:
    """Return the links by misspelt names or aliases, of phrases that match in no other way.

    A word in lower case where names have capitals is a word and no misspelt name: "contract" beside "Keelson" is not
    "Contact".
    """
    matched = {link.phrase for kind, those in links.items() if kind is not _Kind.MISSPELT for link in those}
    near = [
        link
        for link in links[_Kind.MISSPELT]
        # Links to a part of a name have no names to compare with: only two swapped letters were looked up for them.
        if (not link.names or any(one_letter_apart(link.phrase, name) for name in link.names))
        and name_certainty(question, link.phrase) > COMMON_WORD
    ]
    return [link.altered(misspelt=True, names=()) for link in _of_one_name(near) if link.phrase not in matched]


def _of_one_name(links: Sequence[EntityLink]) -> list[EntityLink]:
    """Return the links of phrases whose entities all have one name."""
    names: dict[str, set[str]] = defaultdict(set)
    for link in links:
        names[link.phrase].add(normalise(link.name))
    return [link for link in links if len(names[link.phrase]) == 1]


def _apart_from(taken: Set[str], links: Sequence[EntityLink]) -> list[EntityLink]:
    """Return the links of phrases with none of the words taken."""
    return [link for link in links if taken.isdisjoint(link.phrase.split())]


def _in_no_text(
    links: Sequence[EntityLink], tenant_id: TenantId, unknown_words: UnknownWords | None
) -> list[EntityLink]:
    """Return the links of phrases that have a word which no text of the tenant has."""
    words = list(dict.fromkeys(word for link in links for word in link.phrase.split()))
    unknown = unknown_words(tenant_id, words) if words and unknown_words else frozenset(words)
    return [link for link in links if not unknown.isdisjoint(link.phrase.split())]
