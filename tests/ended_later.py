"""Lines of a file in which an edge ends another one that stands batches later."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

_EDGE = {"source": "r0", "type": "COSTS", "target": "r1"}


def _edge(predicate: str, **fields: Any) -> dict[str, Any]:
    return {"relationship": {**_EDGE, "predicate": predicate, **fields}}


def _ended(predicate: str) -> list[dict[str, str]]:
    return [{**_EDGE, "predicate": predicate}]


ENDED_LATER = (
    _edge("new", valid_at="2010-01-01", supersedes=_ended("old")),
    _edge("astray", target="nobody", supersedes=_ended("old")),
    _edge("vain", supersedes=_ended("never said")),
    *({"id": f"r{number}", "content": f"turbine {number}"} for number in range(9)),
    _edge("old", valid_at="2001-01-01"),
)
"""Nine records, an edge that ends the last line's, one to nobody, one that ends an edge that there is not."""
ENDS = {"new": None, "old": datetime(2010, 1, 1, tzinfo=UTC), "vain": None}
"""What is then stored, by predicate: the edge whose end is in vain is written, and its line told of."""
