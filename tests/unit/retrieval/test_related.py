"""What is related to an entity, as the walk that is asked of the graph."""

from __future__ import annotations

from typing import Any

import pytest
from braid.errors import InvalidRequest
from braid.models import Direction
from braid.retrieval.tenant_search import related_request

from tests.fakes import NOW, TENANT, link


def test_relations_are_a_walk_to_every_vertex_the_nearest_first() -> None:
    asked = related_request(TENANT, "service:keelson", as_of=NOW, types=("OWNS",), direction=Direction.IN, depth=3)
    assert (asked.tenant_id, asked.seeds, asked.as_of) == (TENANT, ("service:keelson",), NOW)
    assert (asked.types, asked.direction, asked.max_hops) == (("OWNS",), Direction.IN, 3)
    assert (asked.records_only, asked.by_confidence, asked.by_time) == (False, False, False)


def test_an_entity_is_known_by_one_hop_both_ways_when_nothing_else_is_said() -> None:
    asked = related_request(TENANT, "service:keelson", as_of=NOW)
    assert (asked.types, asked.direction, asked.max_hops, asked.limit) == ((), Direction.BOTH, 1, 50)


def test_a_name_stands_for_every_entity_that_it_is_linked_to() -> None:
    links = [link("e", "Keelson"), link("f", "Keelson", score=0.9), link("e", "Keelson")]
    assert related_request(TENANT, "Keelson", as_of=NOW, links=links).seeds == ("e", "f")


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"depth": 0}, "depth"),
        ({"depth": 4}, "depth"),
        ({"entity": ""}, "entity"),
        ({"entity": "a\nb"}, "entity"),
        ({"types": ("drop()",)}, "types.0"),
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"tenant_id": "a b"}, "tenant_id"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_its_name(wrong: dict[str, Any], field: str) -> None:
    fields = {"tenant_id": TENANT, "entity": "e"} | wrong
    with pytest.raises(InvalidRequest, match=field) as caught:
        related_request(fields.pop("tenant_id"), fields.pop("entity"), as_of=NOW, **fields)
    assert caught.value.field == field
