"""What registering a version would change, said before it is done."""

from __future__ import annotations

from typing import Any

import pytest
from braid.errors import InvalidRequest
from braid.ports.schema_registry import SchemaVersion, check_next, report

from tests.contract.shapes import ACME, day


def version(number: int, **fields: Any) -> SchemaVersion:
    return SchemaVersion(**{"tenant_id": ACME, "version": number, "created_at": day(number)} | fields)


FIRST = version(1, entity_types=("Person", "Place"), relationship_types=("KNOWS", "NEAR"))


def test_a_version_that_only_adds_is_compatible() -> None:
    found = report(
        version(2, entity_types=("Person", "Place", "Event"), relationship_types=("KNOWS", "NEAR", "CAUSES")),
        [FIRST],
        records=7,
        entity_types={"Person": 7},
    )
    assert found.compatible
    assert (found.since, found.added_entity_types, found.added_relationship_types) == (1, ("Event",), ("CAUSES",))
    assert found.lines() == [
        "entity type Event is new",
        "relationship type CAUSES is new",
        "7 records will be one version further behind until they are embedded again",
    ]


def test_a_removed_type_in_use_is_incompatible_and_counted() -> None:
    found = report(
        version(2, entity_types=("Human",), relationship_types=("NEAR",)),
        [FIRST],
        entity_types={"Person": 1_200},
        relationship_types={"KNOWS": 5},
    )
    assert not found.compatible
    assert found.lines()[:3] == [
        "entity type Person is removed or renamed: 1,200 records and vertices have it",
        "entity type Place is removed or renamed: nothing stored has it",
        "relationship type KNOWS is removed or renamed: 5 edges have it",
    ]


def test_removing_what_nothing_has_is_compatible() -> None:
    assert report(version(2, entity_types=("Person",), relationship_types=("KNOWS", "NEAR")), [FIRST]).compatible


def test_what_is_stored_and_in_no_version_is_named() -> None:
    found = report(version(2, entity_types=("Person", "Place")), [FIRST], entity_types={"Ghost": 3, "Person": 1})
    assert [each.name for each in found.undeclared_entity_types] == ["Ghost"]
    assert "entity type Ghost is in no version: 3 records and vertices have it" in found.lines()


def test_a_version_that_cannot_be_registered_says_why_first() -> None:
    found = report(version(4), [FIRST])
    assert not found.compatible
    assert found.lines()[0] == "version: the next version of tenant acme's schema is 2, not 4"


def test_the_same_content_at_another_time_is_the_same_version() -> None:
    assert check_next(FIRST.model_copy(update={"created_at": day(9)}), [FIRST]) is False
    assert check_next(version(2), [FIRST]) is True
    with pytest.raises(InvalidRequest, match="other content"):
        check_next(version(1), [FIRST])
