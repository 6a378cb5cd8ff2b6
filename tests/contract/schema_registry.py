"""What every schema registry must do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.errors import InvalidRequest
from braid.ports import schema_registry
from braid.ports.schema_registry import SchemaRegistry, SchemaVersion

from tests.contract.shapes import ACME, GLOBEX, day

if TYPE_CHECKING:
    from datetime import datetime


def schema(version: int, *, tenant: str = ACME, at: datetime | None = None, changes: str = "") -> SchemaVersion:
    return SchemaVersion(
        tenant_id=tenant,
        version=version,
        created_at=at or day(version),
        entity_types=("Event", "Person"),
        relationship_types=("CAUSES",),
        changes=changes,
    )


class SchemaRegistryContract:
    """Subclass this and provide the fixture ``registry``: a registry that is empty for every test."""

    def test_the_port_is_implemented(self, registry: SchemaRegistry) -> None:
        assert isinstance(registry, SchemaRegistry)

    def test_a_tenant_without_a_schema_is_at_version_one(self, registry: SchemaRegistry) -> None:
        assert registry.current(ACME) == 1

    def test_the_newest_version_is_the_current_one(self, registry: SchemaRegistry) -> None:
        for version in range(1, 12):
            registry.register(schema(version))
        assert registry.current(ACME) == 11

    def test_versions_are_listed_oldest_first_as_they_were_registered(self, registry: SchemaRegistry) -> None:
        assert registry.versions(ACME) == []
        written = [schema(version, changes=f"change {version}") for version in range(1, 12)]
        for each in written:
            registry.register(each)
        assert registry.versions(ACME) == written

    def test_a_registry_may_begin_with_the_second_version(self, registry: SchemaRegistry) -> None:
        registry.register(schema(2))
        assert registry.current(ACME) == 2
        with pytest.raises(InvalidRequest, match=r"next version .* is 3, not 1"):
            registry.register(schema(1))

    @pytest.mark.parametrize(("registered", "version"), [((), 3), ((1,), 3), ((1, 2), 9)])
    def test_a_version_that_is_not_the_next_is_refused(
        self, registry: SchemaRegistry, registered: tuple[int, ...], version: int
    ) -> None:
        for each in registered:
            registry.register(schema(each))
        with pytest.raises(InvalidRequest, match=rf"next version .* not {version}") as caught:
            registry.register(schema(version))
        assert caught.value.field == "version"
        assert [each.version for each in registry.versions(ACME)] == list(registered)

    def test_writing_a_version_again_does_nothing(self, registry: SchemaRegistry) -> None:
        registry.register(schema(2))
        registry.register(schema(2))
        assert registry.current(ACME) == 2

    def test_a_version_is_never_rewritten_with_other_content(self, registry: SchemaRegistry) -> None:
        registry.register(schema(2, changes="adds Person"))
        with pytest.raises(InvalidRequest, match=r"version 2") as caught:
            registry.register(schema(2, changes="removes Person"))
        assert caught.value.field == "version"

    def test_an_older_version_may_be_written_again_too(self, registry: SchemaRegistry) -> None:
        for version in (1, 2, 3):
            registry.register(schema(version))
        registry.register(schema(1))
        assert registry.current(ACME) == 3

    def test_no_more_versions_are_registered_than_can_be_listed(
        self, registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(schema_registry, "MAX_VERSIONS", 3)
        for version in (1, 2, 3):
            registry.register(schema(version))
        with pytest.raises(InvalidRequest, match="may have 3 versions"):
            registry.register(schema(4))
        registry.register(schema(3))
        assert [each.version for each in registry.versions(ACME)] == [1, 2, 3]

    def test_versions_are_no_longer_than_can_be_listed(self, registry: SchemaRegistry) -> None:
        registry.register(schema(1, changes="ä" * 200_000))
        with pytest.raises(InvalidRequest, match="2,000,000 bytes in all"):
            registry.register(schema(2, changes="ä" * 200_000))
        assert registry.current(ACME) == 1

    def test_each_tenant_has_its_own_versions(self, registry: SchemaRegistry) -> None:
        for version in (1, 2, 3, 4):
            registry.register(schema(version))
        registry.register(schema(2, tenant=GLOBEX))
        assert (registry.current(ACME), registry.current(GLOBEX)) == (4, 2)
        assert [each.tenant_id for each in registry.versions(GLOBEX)] == [GLOBEX]

    def test_a_tenants_versions_are_forgotten_and_no_others(self, registry: SchemaRegistry) -> None:
        for version in (1, 2):
            registry.register(schema(version))
        registry.register(schema(2, tenant=GLOBEX))
        assert (registry.forget(ACME), registry.forget(ACME), registry.forget("nobody")) == (2, 0, 0)
        assert (registry.current(ACME), registry.versions(ACME), registry.current(GLOBEX)) == (1, [], 2)
        registry.register(schema(1))
