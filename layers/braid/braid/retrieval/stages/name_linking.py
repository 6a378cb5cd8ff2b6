"""Links the names in a question to entities of the graph: by names and aliases, other forms of them, and misspellings.

Names in the texts of a write are resolved to given entities by :mod:`braid.ingestion.given_entities`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from braid.understanding import name_forms
from braid.understanding.name_forms import MISSPELT, SHORTENED, LookupKey, is_form, lookup_keys
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from typing import TypeAlias

    from braid.models import EntityLink, TenantId
    from braid.ports.knowledge_graph import KnowledgeGraph

    UnknownWords: TypeAlias = Callable[[TenantId, Sequence[str]], frozenset[str]]


MAX_LINKED_NAMES = 10
MAX_LOOKED_UP = 200


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
    alias, less by another form; ``certainty`` is that of the words being meant as a name. Matches in this order:

    1. Names and aliases as they are written, the longest first.
    2. With them shortened names, such as "Humboldt Peak" for "Humboldt Peak (Colorado)", unless an entity with a record
       has just that name.
    3. Other forms of names, in the remaining words. A form that entities of different names share is left out.
    4. Misspelt names, in words that match nothing else and of which at least one is in no text.

    Parameters
    ----------
    unknown_words
        Returns which of some words no text of a tenant has; called only for words that may be misspelt. None takes all
        of them as unknown.
    """
    keys = lookup_keys(question)
    if not keys:
        return []
    found = graph.link(tenant_id, list(keys), as_of=as_of, limit=MAX_LOOKED_UP, trusted_only=trusted_only)
    exact = [link for link in found if not is_form(link.phrase) and keys[link.phrase].score_factor == 1.0]
    misspelt = [link for link in found if link.phrase[0] == MISSPELT]
    # If links were cut off, it is not known how many names share a form, so no form is used.
    read = {link.entity_id for link in (*exact, *misspelt)}  # each entity is found once
    forms = [] if len(found) == MAX_LOOKED_UP else [link for link in found if link.entity_id not in read]
    described = {link.phrase for link in exact if link.has_record}
    shortened = [link for link in forms if link.phrase[0] == SHORTENED and keys[link.phrase].phrase not in described]
    other_forms = [link for link in forms if link.phrase[0] != SHORTENED]
    linked = name_forms.longest_match(question, [*exact, *_of_one_name(shortened, keys)])
    claimed = {word for link in linked for word in link.phrase.split()}
    further = [link for link in _of_one_name(other_forms, keys) if claimed.isdisjoint(link.phrase.split())]
    if misspelt and len(found) < MAX_LOOKED_UP:
        explained = {keys[link.phrase].phrase for link in found if link.phrase[0] != MISSPELT}
        misspelt = [
            link.altered(misspelt=True)
            for link in _of_one_name(misspelt, keys)
            if link.phrase not in explained and claimed.isdisjoint(link.phrase.split())
        ]
        further += _in_no_text(misspelt, tenant_id, unknown_words)
    best: dict[str, EntityLink] = {}
    for link in (*linked, *name_forms.longest_match(question, further)):
        # The best comes first: an entity named twice, by name and by alias, is linked by its name.
        best.setdefault(link.entity_id, link)
    return [
        link.altered(certainty=name_forms.name_certainty(question, link.phrase))
        for link in sorted(best.values(), key=lambda link: -link.score)[:MAX_LINKED_NAMES]
    ]


def _in_no_text(
    links: Sequence[EntityLink], tenant_id: TenantId, unknown_words: UnknownWords | None
) -> list[EntityLink]:
    """Keep the links of phrases that have a word which no text of the tenant has."""
    words = list(dict.fromkeys(word for link in links for word in link.phrase.split()))
    unknown = unknown_words(tenant_id, words) if words and unknown_words else frozenset(words)
    return [link for link in links if not unknown.isdisjoint(link.phrase.split())]


def _of_one_name(links: Sequence[EntityLink], keys: dict[str, LookupKey]) -> list[EntityLink]:
    """Return the links of phrases whose entities all have one name, by the question's phrase instead of the key.

    The score is multiplied by the key's factor.
    """
    names: dict[str, set[str]] = defaultdict(set)
    for link in links:
        names[keys[link.phrase].phrase].add(normalise(link.name))
    return [
        link.altered(phrase=keys[link.phrase].phrase, score=link.score * keys[link.phrase].score_factor)
        for link in links
        if len(names[keys[link.phrase].phrase]) == 1
    ]
