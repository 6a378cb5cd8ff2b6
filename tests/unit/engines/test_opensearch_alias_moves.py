"""Moves of aliases whose answers are lost, by a stand-in for the client's calls that they make."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from braid.engines.opensearch.index_placement import next_alias, previous_alias
from braid.engines.opensearch.migration import OpenSearchMigration
from braid.errors import StoreError
from braid.settings import Settings
from opensearchpy.exceptions import ConnectionTimeout, NotFoundError

SHARED = "braid"
LEADS = {SHARED: "braid-1", next_alias(SHARED): "braid-2"}


class Indices:
    """Aliases of which the first change may be made without an answer."""

    def __init__(self, *, loses: bool, dropped: bool) -> None:
        self.aliases = {name: index for name, index in LEADS.items() if name == SHARED or not dropped}
        self._loses = loses

    def get(self, **_: object) -> dict[str, Any]:
        return {index: {"aliases": {name: {}}, "mappings": {}} for name, index in LEADS.items()}

    def get_alias(self, **_: object) -> dict[str, Any]:
        return {index: {"aliases": {name: {}}} for name, index in self.aliases.items()}

    def update_aliases(self, *, body: dict[str, Any], **_: object) -> None:
        for action in body["actions"]:
            ((kind, of),) = action.items()
            if kind == "remove" and of.get("must_exist") and self.aliases.get(of["alias"]) != of["index"]:
                raise NotFoundError(404, "aliases_not_found_exception", {})
        for action in body["actions"]:
            ((kind, of),) = action.items()
            if kind == "add":
                self.aliases[of["alias"]] = of["index"]
            elif self.aliases.get(of["alias"]) == of["index"]:
                del self.aliases[of["alias"]]
        if self._loses:
            self._loses = False
            raise ConnectionTimeout("TIMEOUT", "lost", Exception())


def migration(indices: Indices) -> OpenSearchMigration:
    settings = Settings(opensearch_index=SHARED, opensearch_attempts=3, _env_file=None)
    return OpenSearchMigration(cast("Any", SimpleNamespace(indices=indices)), settings, {})


def swap(indices: Indices) -> None:
    own = migration(indices)
    own._swap(own._indexes(), next_alias, previous_alias)


def test_a_switch_whose_answer_is_lost_has_switched() -> None:
    indices = Indices(loses=True, dropped=False)
    swap(indices)
    assert indices.aliases == {SHARED: "braid-2", previous_alias(SHARED): "braid-1"}


def test_a_switch_to_an_index_that_is_dropped_meanwhile_fails() -> None:
    indices = Indices(loses=False, dropped=True)
    with pytest.raises(StoreError, match="aliases_not_found"):
        swap(indices)
    assert indices.aliases == {SHARED: "braid-1"}
