"""Counts of each tenant's graph in the cache's table: one item per tenant, which does not expire."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from braid.engines.aws.clients import open_client
from braid.engines.aws.dynamodb_cache import counts_id
from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoTable
from braid.engines.retries_and_deadlines import retrying
from braid.ports.batches import batches
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoClient
    from braid.settings import Settings

_AT_ONCE: Final = 100
"""Counts changed by one request: an expression has at most 4 KB and 300 operands."""
_LAST: Final = "last addition"
"""Attribute that names the last addition, so that one whose answer was lost is not made twice when it is sent again,
unless another process has made one meanwhile."""


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
        return None if item is None else {name: int(value["N"]) for name, value in item.items() if "N" in value}

    def add(self, tenant_id: str, changes: Mapping[str, int]) -> bool:
        """Add to the tenant's counts, each request atomically; return False, without a change, when none are stored."""
        changed = [(name, amount) for name, amount in sorted(changes.items()) if amount]
        for some in batches(changed, _AT_ONCE):
            counts = self._add_once(tenant_id, dict(some))
            if counts is None:
                return False
            if none_left := [name for name, count in counts.items() if count == 0]:
                self._remove_zeros(tenant_id, none_left)
        return True

    def replace(self, tenant_id: str, counts: Mapping[str, int]) -> None:
        """Replace all counts of a tenant."""
        item = counts_id(tenant_id) | _numbers(
            {"records": 0, **{name: count for name, count in counts.items() if count}}
        )
        with self._errors():
            self._client.put_item(TableName=self._table, Item=item)

    def _add_once(self, tenant_id: str, changes: Mapping[str, int]) -> dict[str, int] | None:
        """Add to counts, not twice if that is sent twice, and return the new values; None when none are stored."""
        token = {"S": secrets.token_hex(8)}
        parts = ", ".join(f"#n{place} :v{place}" for place in range(len(changes)))
        held, answer = self._change(
            tenant_id,
            list(changes),
            {**_numbers({f":v{place}": amount for place, amount in enumerate(changes.values())}), ":this": token},
            UpdateExpression=f"ADD {parts} SET #last = :this",
            ConditionExpression="attribute_exists(id) AND (attribute_not_exists(#last) OR #last <> :this)",
            ReturnValues="UPDATED_NEW",
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            more_names={"#last": _LAST},
        )
        stored = answer["Attributes"] if held else answer.get("Item", {})
        if stored.get(_LAST) != token:
            return None
        return {name: int(stored[name]["N"]) for name in changes if name in stored}

    def _remove_zeros(self, tenant_id: str, counts: Sequence[str]) -> None:
        """Remove counts that are 0, unless another writer has added to one of them since."""
        places = range(len(counts))
        self._change(
            tenant_id,
            counts,
            _numbers({":zero": 0}),
            UpdateExpression="REMOVE " + ", ".join(f"#n{place}" for place in places),
            ConditionExpression=" AND ".join(f"#n{place} = :zero" for place in places),
        )

    def _change(
        self,
        tenant_id: str,
        counts: Sequence[str],
        values: Mapping[str, Any],
        *,
        more_names: Mapping[str, str] | None = None,
        **request: str,
    ) -> tuple[bool, dict[str, Any]]:
        """Change an item, whose counts are called ``#n0``, ``#n1`` and so on, if a condition holds."""
        names = {f"#n{place}": name for place, name in enumerate(counts)} | dict(more_names or {})
        return retrying(self._attempts)(
            self._write_if,
            self._client.update_item,
            Key=counts_id(tenant_id),
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=values,
            **request,
        )


def _numbers(values: Mapping[str, int]) -> dict[str, dict[str, str]]:
    return {name: {"N": str(number)} for name, number in values.items()}
