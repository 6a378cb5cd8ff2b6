"""The cache in DynamoDB: one table, tenant and key together as partition key, so that no tenant is a hot partition."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from braid.engines.aws.clients import named_errors, open_client, retrying, scanned
from braid.ports.cache import MAX_CACHE_VALUE_BYTES, check_ttl
from braid.ports.keys import check_key, check_tenant

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.settings import Settings

_GENERATION = "generation"


class _Table(Protocol):
    """The calls of a DynamoDB client that are made here."""

    def put_item(self, **request: object) -> dict[str, Any]: ...

    def get_item(self, **request: object) -> dict[str, Any]: ...

    def update_item(self, **request: object) -> dict[str, Any]: ...

    def delete_item(self, **request: object) -> dict[str, Any]: ...

    def scan(self, **request: object) -> dict[str, Any]: ...


class DynamoCache:
    """Values in a table; implements :class:`braid.ports.cache.Cache`.

    Parameters
    ----------
    client
        A DynamoDB client.
    table
        Name of the table: partition key ``id``, a string; time to live on ``expires_at``, a number.
    clock
        Returns seconds since 1970.
    advance_attempts
        How often beginning a generation is tried: a read may be given up at once, a write's last step not.
    """

    def __init__(
        self, client: _Table, table: str, *, clock: Callable[[], float] = time.time, advance_attempts: int = 3
    ) -> None:
        self._client = client
        self._table = table
        self._clock = clock
        self._advance_attempts = advance_attempts

    @classmethod
    def connect(cls, settings: Settings) -> DynamoCache:
        """Return the cache that the settings name. Nothing is asked yet."""
        client = open_client("dynamodb", timeout_s=settings.cache_timeout_s, attempts=settings.cache_attempts)
        return cls(client, settings.cache_table)

    def get(self, tenant_id: str, key: str) -> bytes | None:
        """Return what is kept; None when nothing is, or it has expired: DynamoDB removes that days later."""
        with named_errors(f"table {self._table}"):
            found = self._client.get_item(TableName=self._table, Key=_value_id(tenant_id, key)).get("Item")
        if found is None or int(found["expires_at"]["N"]) <= self._clock():
            return None
        return bytes(found["value"]["B"])

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        """Keep a value for ``ttl_s`` seconds instead of what was there; one that is too large is not kept."""
        item_id = _value_id(tenant_id, key)
        # Whole seconds are what time to live reads; rounded down, so that nothing is kept too long.
        expires_at = int(self._clock() + check_ttl(ttl_s))
        with named_errors(f"table {self._table}"):
            if len(value) > MAX_CACHE_VALUE_BYTES:
                self._client.delete_item(TableName=self._table, Key=item_id)
                return
            self._client.put_item(
                TableName=self._table, Item={**item_id, "expires_at": {"N": str(expires_at)}, "value": {"B": value}}
            )

    def generation(self, tenant_id: str) -> int:
        """Return the tenant's generation as it is at this moment."""
        with named_errors(f"table {self._table}"):
            found = self._client.get_item(
                TableName=self._table, Key=_generation_id(tenant_id), ConsistentRead=True
            ).get("Item")
        return 0 if found is None else int(found[_GENERATION]["N"])

    def advance(self, tenant_id: str) -> int:
        """Begin a new generation and return it.

        Raises
        ------
        TransientStoreError
            If the table did not answer, however often it was asked.
        """
        for attempt in retrying(self._advance_attempts):
            with attempt, named_errors(f"table {self._table}"):
                answer = self._client.update_item(
                    TableName=self._table,
                    Key=_generation_id(tenant_id),
                    UpdateExpression="ADD #generation :one",
                    ExpressionAttributeNames={"#generation": _GENERATION},
                    ExpressionAttributeValues={":one": {"N": "1"}},
                    ReturnValues="UPDATED_NEW",
                )
        return int(answer["Attributes"][_GENERATION]["N"])

    def forget(self, tenant_id: str) -> int:
        """Remove every value of a tenant and return how many there were; the whole table is read for it."""
        prefix = f"{check_tenant(tenant_id)}|"
        found = scanned(
            self._client,
            self._table,
            ProjectionExpression="id",
            FilterExpression="begins_with(id, :tenant)",
            ExpressionAttributeValues={":tenant": {"S": prefix}},
        )
        removed = 0
        for item in found:
            with named_errors(f"table {self._table}"):
                self._client.delete_item(TableName=self._table, Key={"id": item["id"]})
            removed += 1
        return removed


def _value_id(tenant_id: str, key: str) -> dict[str, dict[str, str]]:
    # No tenant's name holds "|" or "#", so that no two pairs of tenant and key are one id, and none is a generation's.
    return {"id": {"S": f"{check_tenant(tenant_id)}|{check_key(key)}"}}


def _generation_id(tenant_id: str) -> dict[str, dict[str, str]]:
    return {"id": {"S": f"{check_tenant(tenant_id)}#{_GENERATION}"}}
