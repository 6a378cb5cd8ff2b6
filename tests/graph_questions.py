"""A few vertices that questions are asked about, in graphs of any size, and everything that may be asked of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.models import Direction
from braid.ports.graph_query import GraphQuery
from braid.ports.knowledge_graph import ExpandRequest, PropagateRequest

from tests.contract.shapes import ACME, AS_OF, edge, vertex

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.ports.knowledge_graph import KnowledgeGraph

SIZES = (1_000, 10_000, 100_000)
"""Further vertices of the tenant."""
TYPES = ("CAUSES", "OWNS")
CORE = [vertex(f"core{number}", name="Heron" if number < 2 else f"Egret {number}") for number in range(12)]
TIED = [edge(f"core{number}", f"core{number + 1}", TYPES[number % 2]) for number in range(11)]


def questions(graph: KnowledgeGraph) -> dict[str, Callable[[], object]]:
    """Return everything that a question may ask of a graph, by name."""
    seeds = ("core0", "core1")
    walk = ExpandRequest(tenant_id=ACME, seeds=seeds, max_hops=3, as_of=AS_OF)
    causes = walk.model_copy(update={"types": TYPES, "direction": Direction.IN, "by_confidence": True})
    spread = PropagateRequest(tenant_id=ACME, names=(("core0", 3.0),), hits=(("core1", 1.0),), as_of=AS_OF)
    query = {"tenant_id": ACME, "as_of": AS_OF, "start": {"names": ["Heron"]}, "steps": [{"direction": "both"}]}
    return {
        "stats": lambda: graph.stats(ACME),
        "link": lambda: graph.link(ACME, ["heron", "herons", "nobody"], as_of=AS_OF),
        "expand": lambda: graph.expand(walk),
        "expand along types": lambda: graph.expand(causes),
        "propagate": lambda: graph.propagate(spread),
        "query": lambda: graph.query(GraphQuery.model_validate(query)),
    }
