"""The cache in DynamoDB: one table, tenant and key together as partition key, so that no tenant is a hot partition."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from braid.engines.aws.clients import code_of, named_errors, open_client, retrying, scanned
from braid.ports.cache import MAX_CACHE_VALUE_BYTES, check_ttl, check_value_key, counter_key
from braid.ports.keys import check_tenant

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.settings import Settings

_GENERATION = "generation"
_COUNT = "count"


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
        return _kept(found, self._clock())

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

    def exchange(
        self, tenant_id: str, key: str, expected: bytes | None, value: bytes | None, ttl_s: int
    ) -> bytes | None:
        """Keep ``value`` if what is kept equals ``expected``, and return what was kept, by one conditional write."""
        item_id = _value_id(tenant_id, key)
        now = self._clock()
        expires_at = int(now + check_ttl(ttl_s))
        request: dict[str, Any] = {
            "TableName": self._table,
            "ConditionExpression": "attribute_not_exists(id) OR expires_at <= :now",
            "ExpressionAttributeValues": {":now": {"N": str(int(now))}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        if expected is not None:
            request["ConditionExpression"] = "expires_at > :now AND #value = :expected"
            request["ExpressionAttributeNames"] = {"#value": "value"}
            request["ExpressionAttributeValues"][":expected"] = {"B": expected}
        with named_errors(f"table {self._table}"):
            try:
                if value is None or len(value) > MAX_CACHE_VALUE_BYTES:
                    self._client.delete_item(Key=item_id, **request)
                else:
                    item = {**item_id, "expires_at": {"N": str(expires_at)}, "value": {"B": value}}
                    self._client.put_item(Item=item, **request)
            except ClientError as error:
                if code_of(error) != "ConditionalCheckFailedException":
                    raise
                answer: dict[str, Any] = dict(error.response)
                return _kept(answer.get("Item"), now)
        return expected

    def count(self, tenant_id: str, key: str, amount: int, window_s: int) -> int:
        """Add to a counter of the present window and return its sum; a window that is over goes by time to live."""
        now = self._clock()
        item_id = _item_id(tenant_id, counter_key(key, window_s, now))
        with named_errors(f"table {self._table}"):
            answer = self._client.update_item(
                TableName=self._table,
                Key=item_id,
                UpdateExpression="ADD #count :amount SET expires_at = :expires_at",
                ExpressionAttributeNames={"#count": _COUNT},
                ExpressionAttributeValues={
                    ":amount": {"N": str(amount)},
                    ":expires_at": {"N": str(int(now + window_s))},
                },
                ReturnValues="ALL_NEW",
            )
        return int(answer["Attributes"][_COUNT]["N"])

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


def _kept(item: dict[str, Any] | None, now: float) -> bytes | None:
    """Return the value of an item; None when there is none, or it has expired."""
    if item is None or int(item["expires_at"]["N"]) <= now:
        return None
    return bytes(item["value"]["B"])


def _value_id(tenant_id: str, key: str) -> dict[str, dict[str, str]]:
    return _item_id(tenant_id, check_value_key(key))


def _item_id(tenant_id: str, key: str) -> dict[str, dict[str, str]]:
    # No tenant's name holds "|" or "#", so that no two pairs of tenant and key are one id, and none is a generation's.
    return {"id": {"S": f"{check_tenant(tenant_id)}|{key}"}}


def _generation_id(tenant_id: str) -> dict[str, dict[str, str]]:
    return {"id": {"S": f"{check_tenant(tenant_id)}#{_GENERATION}"}}
