"""Which entities a question names."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from braid.understanding import linking
from braid.understanding.name_forms import SHORTENED, LookupKey, is_form, lookup_keys
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from braid.models import EntityLink, TenantId
    from braid.ports.knowledge_graph import KnowledgeGraph

MAX_LINKS = 10
MAX_LOOKED_UP = 200


def linked_names(
    graph: KnowledgeGraph, tenant_id: TenantId, question: str, *, as_of: datetime, trusted_only: bool = False
) -> list[EntityLink]:
    """Return the entities that a question names, the best match first, each once and at most ten.

    One look-up of the graph. ``phrase`` is as the question has it, ``score`` how well it matched: a name 1, an alias
    .9, less for another form of a name. ``certainty`` says how surely the words are meant as a name. A form that
    several names share is left out; so is every form of words that are part of a name found as it is written. What a
    name is shortened to is linked beside a vertex of just that name, unless that has a record of its own.
    """
    asked = lookup_keys(question)
    if not asked:
        return []
    found = graph.link(tenant_id, list(asked), as_of=as_of, limit=MAX_LOOKED_UP, trusted_only=trusted_only)
    exact = [link for link in found if not is_form(link.phrase) and asked[link.phrase].share == 1.0]
    # What was cut off is not known, so that nothing can be said of how many names share a form.
    forms = [] if len(found) == MAX_LOOKED_UP else [link for link in found if link not in exact]
    described = {link.phrase for link in exact if link.has_record}
    beside = [link for link in forms if link.phrase[0] == SHORTENED and asked[link.phrase].phrase not in described]
    others = [link for link in forms if link.phrase[0] != SHORTENED]
    kept = linking.longest_match(question, [*exact, *_in_words(_of_one_name(beside, asked), asked)])
    taken = {word for link in kept for word in link.phrase.split()}
    free = [link for link in _in_words(_of_one_name(others, asked), asked) if taken.isdisjoint(link.phrase.split())]
    best: dict[str, EntityLink] = {}
    for link in (*kept, *linking.longest_match(question, free)):
        # The best comes first: an entity named twice, by name and by alias, is linked by its name.
        best.setdefault(link.entity_id, link)
    return [
        link.model_copy(update={"certainty": linking.name_certainty(question, link.phrase)})
        for link in sorted(best.values(), key=lambda link: -link.score)[:MAX_LINKS]
    ]


def _of_one_name(links: Sequence[EntityLink], asked: dict[str, LookupKey]) -> list[EntityLink]:
    """Keep the links of phrases that only entities of one name are known by."""
    names: dict[str, set[str]] = defaultdict(set)
    for link in links:
        names[asked[link.phrase].phrase].add(normalise(link.name))
    return [link for link in links if len(names[asked[link.phrase].phrase]) == 1]


def _in_words(links: Iterable[EntityLink], asked: dict[str, LookupKey]) -> list[EntityLink]:
    """Return the links with the question's own words and what these make of the score."""
    return [
        link.model_copy(update={"phrase": asked[link.phrase].phrase, "score": link.score * asked[link.phrase].share})
        for link in links
    ]
