"""Counts of each tenant's graph in the cache's table: one item per tenant, which does not expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from braid.engines.aws.clients import open_client
from braid.engines.aws.dynamodb_cache import counts_id
from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoTable
from braid.engines.retries_and_deadlines import retrying
from braid.ports.batches import batches
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoClient
    from braid.settings import Settings

_AT_ONCE = 100
"""Counts changed by one request: an expression has at most 4 KB and 300 operands."""


@store_calls("aws.dynamodb")
class DynamoCounts(DynamoTable):
    """Counts as attributes of an item; implements :class:`braid.ports.knowledge_graph.StoredCounts`."""

    def __init__(self, client: DynamoClient, table: str, *, attempts: int = 3) -> None:
        super().__init__(client, table)
        self._attempts = attempts

    @classmethod
    def connect(cls, settings: Settings) -> DynamoCounts:
        """Return the counts in the table of the cache that the settings name. No request is sent yet."""
        client = open_client("dynamodb", timeout_s=settings.cache_timeout_s, attempts=settings.cache_attempts)
        return cls(client, settings.cache_table)

    def read(self, tenant_id: str) -> dict[str, int] | None:
        """Return the tenant's counts, read consistently; None when none are stored."""
        item = self._get(counts_id(tenant_id))
        return None if item is None else {name: int(value["N"]) for name, value in item.items() if name != "id"}

    def add(self, tenant_id: str, changes: Mapping[str, int]) -> bool:
        """Add to the tenant's counts, each request atomically; return False, without a change, when none are stored."""
        changed = [(name, amount) for name, amount in sorted(changes.items()) if amount]
        for some in batches(changed, _AT_ONCE):
            counts = self._update(tenant_id, "ADD", " ", dict(some), "attribute_exists(id)")
            if counts is None:
                return False
            if none_left := {name: 0 for name, count in counts.items() if count == 0}:
                # Unless another writer has added to one of them since.
                unchanged = " AND ".join(f"#n{place} = :v{place}" for place in range(len(none_left)))
                self._update(tenant_id, "REMOVE", None, none_left, unchanged)
        return True

    def replace(self, tenant_id: str, counts: Mapping[str, int]) -> None:
        """Replace all counts of a tenant."""
        item = counts_id(tenant_id) | _numbers(
            {"records": 0, **{name: count for name, count in counts.items() if count}}
        )
        with self._errors():
            self._client.put_item(TableName=self._table, Item=item)

    def _update(
        self, tenant_id: str, verb: str, between: str | None, values: Mapping[str, int], condition: str
    ) -> dict[str, int] | None:
        """Change counts if a condition holds, and return the new values; None, without a change, if it does not."""
        names = {f"#n{place}": name for place, name in enumerate(values)}
        parts = ", ".join(name if between is None else f"{name}{between}:v{place}" for place, name in enumerate(names))
        held, changed = retrying(self._attempts)(
            self._write_if,
            self._client.update_item,
            Key=counts_id(tenant_id),
            UpdateExpression=f"{verb} {parts}",
            ConditionExpression=condition,
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=_numbers({f":v{at}": n for at, n in enumerate(values.values())}),
            ReturnValues="UPDATED_NEW",
        )
        return {name: int(value["N"]) for name, value in changed.get("Attributes", {}).items()} if held else None


def _numbers(values: Mapping[str, int]) -> dict[str, dict[str, str]]:
    return {name: {"N": str(number)} for name, number in values.items()}
