"""Port of the schema registry: a tenant's schema versions, and the changes that the next version would make."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from pydantic import Field

from braid.errors import InvalidRequest
from braid.models import Frozen, Label, TenantId, Timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST_VERSIONS: Final = (1, 2)
"""Versions that a registry may begin with: a tenant's records count as version 1, whether it is registered or not."""


MAX_VERSIONS: Final = 200
"""Of one tenant."""
MAX_VERSIONS_BYTES: Final = 2_000_000
"""Of all of them as JSON of ASCII alone, so that they can be listed in one answer."""


class SchemaVersion(Frozen):
    """One version of a tenant's schema."""

    tenant_id: TenantId
    version: int = Field(ge=1)
    created_at: Timestamp
    entity_types: tuple[Label, ...] = ()
    relationship_types: tuple[Label, ...] = ()
    changes: str = ""


@runtime_checkable
class SchemaRegistry(Protocol):
    """The schema versions of each tenant."""

    def register(self, schema: SchemaVersion) -> None:
        """Write the next version; writing one again with the same content does nothing.

        A tenant without versions may begin with 1 or, because its records count as of version 1, with 2.

        Raises
        ------
        InvalidRequest
            If the version is registered with other content, or is not the next one: a version left out would make all
            records look further behind than they are. Or if there were more than :data:`MAX_VERSIONS`, or of more
            than :data:`MAX_VERSIONS_BYTES`, with it.
        """

    def current(self, tenant_id: TenantId) -> int:
        """Return the newest version, 1 when none is registered."""

    def versions(self, tenant_id: TenantId) -> list[SchemaVersion]:
        """Return all versions, oldest first."""

    def forget(self, tenant_id: TenantId) -> int:
        """Remove all versions of a tenant that has no other data left, and return how many there were."""


class TypeInUse(Frozen):
    """A type that the new version lacks, and how many stored items have it."""

    name: Label
    stored: int
    """Records or vertices of an entity type, edges of a relationship type."""


class SchemaReport(Frozen):
    """The changes that registering a new version would make."""

    version: int
    """The new version."""
    since: int | None
    """The version that it is compared with; None when it is the first."""
    added_entity_types: tuple[Label, ...] = ()
    added_relationship_types: tuple[Label, ...] = ()
    removed_entity_types: tuple[TypeInUse, ...] = ()
    removed_relationship_types: tuple[TypeInUse, ...] = ()
    undeclared_entity_types: tuple[TypeInUse, ...] = ()
    """Stored, but in neither version: written before any version was registered, or without the registry."""
    undeclared_relationship_types: tuple[TypeInUse, ...] = ()
    records: int = 0
    """Number of the tenant's records; each is one more version behind once this one is registered."""
    problems: tuple[str, ...] = ()
    """Why the version cannot be registered."""

    @property
    def compatible(self) -> bool:
        """Whether the version has no problems and no stored item is of a type that it removes."""
        gone = (*self.removed_entity_types, *self.removed_relationship_types)
        return not self.problems and all(each.stored == 0 for each in gone)

    def lines(self) -> list[str]:
        """Return the report as lines of text, the most serious first."""
        lines = list(self.problems)
        for what, kind, removed in (
            ("entity type", "records and vertices", self.removed_entity_types),
            ("relationship type", "edges", self.removed_relationship_types),
        ):
            for each in removed:
                use = f"{each.stored:,} {kind} have it" if each.stored else "nothing stored has it"
                lines.append(f"{what} {each.name} is removed or renamed: {use}")
        for what, kind, undeclared in (
            ("entity type", "records and vertices", self.undeclared_entity_types),
            ("relationship type", "edges", self.undeclared_relationship_types),
        ):
            lines += [f"{what} {each.name} is in no version: {each.stored:,} {kind} have it" for each in undeclared]
        lines += [f"entity type {name} is new" for name in self.added_entity_types]
        lines += [f"relationship type {name} is new" for name in self.added_relationship_types]
        if self.records:
            lines.append(f"{self.records:,} records will be one version further behind until they are embedded again")
        return lines


def report(
    proposed: SchemaVersion,
    versions: Sequence[SchemaVersion],
    *,
    records: int = 0,
    entity_types: Mapping[str, int] | None = None,
    relationship_types: Mapping[str, int] | None = None,
) -> SchemaReport:
    """Return the changes that registering a version would make.

    Parameters
    ----------
    versions
        The registered ones, oldest first.
    records
        Number of the tenant's records.
    entity_types, relationship_types
        Number of stored items by type: records or vertices, and edges.
    """
    stored_entities, stored_edges = entity_types or {}, relationship_types or {}
    before = versions[-1] if versions else None
    problems: tuple[str, ...] = ()
    try:
        check_next(proposed, versions)
    except InvalidRequest as error:
        problems = (str(error),)
    known_entities = set(before.entity_types if before else ())
    known_edges = set(before.relationship_types if before else ())
    new_entities, new_edges = set(proposed.entity_types), set(proposed.relationship_types)
    return SchemaReport(
        version=proposed.version,
        since=before.version if before else None,
        added_entity_types=tuple(sorted(new_entities - known_entities)),
        added_relationship_types=tuple(sorted(new_edges - known_edges)),
        removed_entity_types=_in_use(known_entities - new_entities, stored_entities),
        removed_relationship_types=_in_use(known_edges - new_edges, stored_edges),
        undeclared_entity_types=_in_use(set(stored_entities) - known_entities - new_entities, stored_entities),
        undeclared_relationship_types=_in_use(set(stored_edges) - known_edges - new_edges, stored_edges),
        records=records,
        problems=problems,
    )


def _in_use(names: set[str], stored: Mapping[str, int]) -> tuple[TypeInUse, ...]:
    """Return types with their counts, most used first."""
    counted = [TypeInUse(name=name, stored=stored.get(name, 0)) for name in names]
    return tuple(sorted(counted, key=lambda each: (-each.stored, each.name)))


def check_next(proposed: SchemaVersion, versions: Sequence[SchemaVersion]) -> bool:
    """Return whether a version is new; False when it is registered already with the same content, at any time.

    Raises InvalidRequest if it is registered with other content, is not the next one, or exceeds the limits.
    """
    for known in versions:
        if known.version == proposed.version:
            if known.altered(created_at=proposed.created_at) != proposed:
                raise InvalidRequest.of(
                    "version",
                    f"version {proposed.version} of tenant {proposed.tenant_id}'s schema is registered"
                    " with other content; register the change as a new version",
                )
            return False
    allowed = (versions[-1].version + 1,) if versions else FIRST_VERSIONS
    if proposed.version not in allowed:
        wanted = " or ".join(str(version) for version in allowed)
        raise InvalidRequest.of(
            "version", f"the next version of tenant {proposed.tenant_id}'s schema is {wanted}, not {proposed.version}"
        )
    if len(versions) >= MAX_VERSIONS or sum(map(_size, (*versions, proposed))) > MAX_VERSIONS_BYTES:
        raise InvalidRequest(
            f"a tenant's schema may have {MAX_VERSIONS} versions, of {MAX_VERSIONS_BYTES:,} bytes in all;"
            " say less in changes, or keep to the types that are registered"
        )
    return True


def _size(version: SchemaVersion) -> int:
    return len(json.dumps(version.model_dump(mode="json")))
