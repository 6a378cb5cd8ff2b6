"""Two tenants of random names on the embedded engines, asked through the front door."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

import pytest
from braid.settings import Settings

from tests.contract.tenants import NOUNS, TenantsContract, World, listed, write_world
from tests.front_door import FrontDoor, claims
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontDoor]:
    library = DemoStages(Settings(home=tmp_path_factory.mktemp("tenants")))
    yield FrontDoor(library)
    library.close()


@pytest.fixture(scope="module")
def world(door: FrontDoor) -> World:
    # One name begins with the other: a comparison of beginnings would mix them up.
    name = f"t{secrets.token_hex(4)}"
    return write_world(door, (name, f"{name}-{NOUNS[0]}"))


class TestEmbedded(TenantsContract):
    """Both on one file."""

    def test_what_one_removes_stays_the_others(self, door: FrontDoor, world: World) -> None:
        first, second = world.tenants
        before = listed(door, second)
        of_both = {world.own_id(whose, number) for whose in world.tenants for number in range(12)}
        for name in of_both | {record["id"] for record in json.loads(listed(door, first))["records"]}:
            door.ask("DELETE", f"/records/{name}", authorizer=claims(first))
        assert door.ask("GET", "/records", authorizer=claims(first)).json()["records"] == []
        assert listed(door, second) == before
        related = door.ask("GET", "/entities/heron/related", query={"depth": 3}, authorizer=claims(second))
        assert world.mark(second) in related.text
