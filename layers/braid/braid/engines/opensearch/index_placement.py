"""Placement: which index has a tenant's records. It is stored only in aliases.

If ``braid`` is the name of the index in the settings, these are the aliases:

========================  =================================================================================
``braid``                 the shared index, with the records of all tenants without their own index
``braid_of_DIGEST``       the index of a tenant that was ever moved to its own index
``ALIAS_next``            the index that a migration of ``ALIAS`` fills; writes go to it as well
``ALIAS_previous``        the index from before the last switch; writes go to it, so that it can be undone
========================  =================================================================================

The alias of a tenant is never removed: after a move back it points to the shared index. So a reader may cache aliases
for :data:`ALIASES_KEPT_S`.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opensearchpy import OpenSearch

ALIASES_KEPT_S: Final = 60.0
"""Seconds for which a reader uses the aliases that it read; a tenant's old index is kept for longer than that."""
_OF: Final = "_of_"
_DIGITS: Final = 24


def all_aliases(shared: str) -> str:
    """Return the shared alias and a pattern of all that begin with it, by which a request names every index."""
    return f"{shared},{shared}_*"


def next_alias(alias: str) -> str:
    """Return the alias of the next index. No alias in the settings contains an underscore."""
    return f"{alias}_next"


def previous_alias(alias: str) -> str:
    """Return the alias of the index from before the last switch."""
    return f"{alias}_previous"


def tenant_alias(alias: str, tenant_id: str) -> str:
    """Return the alias of a tenant that was ever moved to an index of its own.

    It has a digest of the tenant's name, as the name may have capitals or be longer than OpenSearch allows.
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
    """Return the aliases of the tenants that have an index of their own now."""
    ends = (next_alias(""), previous_alias(""))
    tenants = [name for name in aliases if name.startswith(f"{alias}{_OF}") and not name.endswith(ends)]
    return sorted(name for name in tenants if aliases[name] != aliases.get(alias))


def sharing_aliases(aliases: Mapping[str, str], alias: str) -> list[str]:
    """Return the aliases of tenants that lead to the shared index and are not being moved to another one."""
    return sorted(
        name
        for name in aliases
        if name.startswith(f"{alias}{_OF}") and aliases[name] == aliases.get(alias) and next_alias(name) not in aliases
    )


def alias_of(aliases: Mapping[str, str], alias: str, tenant_id: str) -> str:
    """Return the alias by which a tenant's records are read and written: its own, or the shared one.

    It is the tenant's own also after a move back to the shared index, as long as that can be undone: then writes go to
    the other index as well, which has a name derived from the tenant's alias.
    """
    own = tenant_alias(alias, tenant_id)
    moved = {next_alias(own), previous_alias(own)} & aliases.keys()
    return own if own in aliases and (moved or aliases[own] != aliases.get(alias)) else alias


def aliases_of(aliases: Mapping[str, str], alias: str, tenant_id: str) -> dict[str, str]:
    """Return the indexes that a tenant's records are written to, by alias, the active one first ("" if it is missing).

    There are two during a migration, and after it until it can no longer be undone.
    """
    active = alias_of(aliases, alias, tenant_id)
    others = {name: aliases[name] for name in (next_alias(active), previous_alias(active)) if name in aliases}
    return {active: aliases.get(active, ""), **others}
