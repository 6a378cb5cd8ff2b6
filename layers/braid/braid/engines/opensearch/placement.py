"""Placement: in which index a tenant's records are, by aliases: the shared one, those of tenants, and of a migration.

Nothing else tells it. An alias of a tenant, once it is there, is never removed:
it leads to the shared index again where the tenant has no other. So a reader may go by what it read some time ago.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opensearchpy import OpenSearch

ALIASES_KEPT_S: Final = 60.0
"""For how many seconds a reader goes by the aliases that it read: a tenant's old index is kept longer."""
_OF: Final = "_of_"
_DIGITS: Final = 24


def next_alias(alias: str) -> str:
    """Return the alias of the next index. No alias in the settings contains an underscore."""
    return f"{alias}_next"


def previous_alias(alias: str) -> str:
    """Return the alias of the index from before the last switch."""
    return f"{alias}_previous"


def tenant_alias(alias: str, tenant_id: str) -> str:
    """Return the alias of a tenant's records, where they were ever moved to an index of their own.

    It has a digest of the tenant's name, which may have capitals and be longer than a name of OpenSearch.
    """
    return f"{alias}{_OF}{hashlib.sha256(tenant_id.encode()).hexdigest()[:_DIGITS]}"


def indexes_by_alias(client: OpenSearch, alias: str, *, request_timeout: float | None = None) -> dict[str, str]:
    """Ask for the index behind the shared alias, and behind each that begins with it and an underscore."""
    names = f"{alias}*"
    answer = client.indices.get_alias(index=names, name=names, request_timeout=request_timeout)
    return {
        name: index
        for index, found in answer.items()
        for name in found["aliases"]
        if name == alias or name.startswith(f"{alias}_")
    }


def own_aliases(aliases: Mapping[str, str], alias: str) -> list[str]:
    """Return the aliases of the tenants whose records are in another index than the shared one."""
    ends = (next_alias(""), previous_alias(""))
    tenants = [name for name in aliases if name.startswith(f"{alias}{_OF}") and not name.endswith(ends)]
    return sorted(name for name in tenants if aliases[name] != aliases.get(alias))


def sharing_aliases(aliases: Mapping[str, str], alias: str) -> list[str]:
    """Return the aliases of tenants that lead to the shared index, and to no other during a migration."""
    return sorted(
        name
        for name in aliases
        if name.startswith(f"{alias}{_OF}") and aliases[name] == aliases.get(alias) and next_alias(name) not in aliases
    )


def alias_of(aliases: Mapping[str, str], alias: str, tenant_id: str) -> str:
    """Return the alias by which a tenant's records are read and written: its own, or the shared one.

    It is the tenant's own for as long as a move of it can be undone, also one back to the shared index: by it a writer
    knows of the other index.
    """
    own = tenant_alias(alias, tenant_id)
    moved = {next_alias(own), previous_alias(own)} & aliases.keys()
    return own if own in aliases and (moved or aliases[own] != aliases.get(alias)) else alias


def aliases_of(aliases: Mapping[str, str], alias: str, tenant_id: str) -> dict[str, str]:
    """Return the indexes that a tenant's records are written to by alias, the active one first ("" if there is none).

    During a migration, and until it can no longer be undone, there are two.
    """
    active = alias_of(aliases, alias, tenant_id)
    others = {name: aliases[name] for name in (next_alias(active), previous_alias(active)) if name in aliases}
    return {active: aliases.get(active, ""), **others}
