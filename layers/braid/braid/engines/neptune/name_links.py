"""Look-up of entities by the names that questions and writes use."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gremlin_python.process.graph_traversal import __
from gremlin_python.process.traversal import P

from braid.engines.neptune import element_layout
from braid.engines.neptune.element_layout import vertex_ids
from braid.models import EntityLink
from braid.understanding.misspelling_keys import MISSPELT, names_with_keys
from braid.understanding.name_keys import match_score
from braid.understanding.tokens import normalise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from gremlin_python.process.graph_traversal import GraphTraversal, GraphTraversalSource

    from braid.models import Vertex

MAX_LINKED = 10_000
"""Most entities that one look-up of names reads; if it finds as many, a second one reads exact matches of the name."""


def link(
    ask: Callable[[Callable[[GraphTraversalSource], GraphTraversal]], list[Any]],
    tenant_id: str,
    names: Sequence[str],
    *,
    as_of: datetime,
    limit: int,
    trusted_only: bool,
) -> list[EntityLink]:
    """Return the entities with a name, an alias or a form of these among ``names``.

    Parameters
    ----------
    ask
        Runs a traversal.
    """
    wanted = {element_layout.link_key(tenant_id, name): name for name in names if name}
    if not wanted:
        return []
    keys = list(wanted)
    bearers = partial(_bearers, tenant_id=tenant_id, keys=keys, as_of=as_of, trusted_only=trusted_only)
    (rows,) = ask(partial(bearers, by=element_layout.LINK_KEY))
    if len(rows) == MAX_LINKED:  # truncated: entities with the name itself may be missing
        rows |= ask(partial(bearers, by=element_layout.LINK_NAME))[0]
    links = sorted((_link(tenant_id, row, found, wanted) for row, found in rows.items()), key=_rank)[:limit]
    incomplete = [link.entity_id for link in links if not link.name or link.phrase[0] == MISSPELT]
    if incomplete:
        keys = vertex_ids(tenant_id, incomplete)
        read = ask(partial(element_layout.fetch_vertices, tenant_id=tenant_id, keys=keys))
        vertices = {vertex.id: vertex for vertex in (element_layout.vertex_of(tenant_id, row) for row in read)}
        links = [_with_names(link, vertices.get(link.entity_id)) for link in links]
    # One that was removed or renamed since may have no name any more, and is no link.
    return [link for link in links if link.name]


def _bearers(
    source: GraphTraversalSource,
    *,
    tenant_id: str,
    keys: Sequence[str],
    as_of: datetime,
    trusted_only: bool,
    by: str,
) -> GraphTraversal:
    """Fetch entities by their names, unsorted: sorting by two keys is not native, and would read all that match."""
    own = source.V().has(by, P.within(keys)).has(element_layout.TENANT, tenant_id)
    steps = element_layout.walkable(own, as_of, trusted_only=trusted_only).limit(MAX_LINKED)
    return steps.group().by(element_layout.ROW).by(__.values(element_layout.LINK_KEY).is_(P.within(keys)).fold())


def _with_names(link: EntityLink, vertex: Vertex | None) -> EntityLink:
    """Return a link with values that the look-up does not read of its vertex: an alias as its name, names with keys."""
    if vertex is None:
        return link
    names = names_with_keys(*filter(None, (vertex.name, *vertex.aliases))) if link.phrase[0] == MISSPELT else ()
    return link.altered(name=link.name or next(iter(vertex.aliases), ""), names=names)


def _rank(link: EntityLink) -> tuple[float, int, str, str]:
    return (-link.score, -len(link.phrase), link.entity_id, link.phrase)


def _link(tenant_id: str, row: str, found: Sequence[str], wanted: Mapping[str, str]) -> EntityLink:
    """Return an entity's best match: its name, or else the longest matching alias.

    Of an entity without a name the link has none yet, which no checked one may lack.
    """
    vertex = element_layout.read_vertex(row)
    named = element_layout.link_key(tenant_id, normalise(vertex.name)) if vertex.name else None
    return min(
        (
            EntityLink.unchecked(
                entity_id=vertex.id,
                name=vertex.name,
                entity_type=vertex.entity_type,
                phrase=wanted[key],
                score=match_score(wanted[key], is_name=key == named),
                has_record=vertex.has_record,
                invalid_at=vertex.invalid_at,
            )
            for key in found
        ),
        key=_rank,
    )
