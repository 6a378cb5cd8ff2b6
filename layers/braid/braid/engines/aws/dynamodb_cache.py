"""Cache in a DynamoDB table; the partition key is tenant and key together, so that no tenant is a hot partition."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from braid.engines.aws.clients import open_client
from braid.engines.aws.dynamodb_schemas_jobs_members import FORGET_ATTEMPTS, DynamoTable
from braid.engines.retries_and_deadlines import retrying
from braid.ports.cache import MAX_CACHE_VALUE_BYTES, check_ttl, check_value_key, counter_key
from braid.ports.keys import check_tenant
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoClient
    from braid.settings import Settings

_GENERATION = "generation"
_COUNT = "count"


@store_calls("aws.dynamodb")
class DynamoCache(DynamoTable):
    """Values in a table; implements :class:`braid.ports.cache.Cache`.

    Parameters
    ----------
    table
        Name of the table: partition key ``id``, a string; time to live on ``expires_at``, a number.
    clock
        Returns seconds since 1970.
    advance_attempts
        Attempts at advancing a generation: unlike a read, the last step of a write must not be given up at once.
    """

    def __init__(
        self, client: DynamoClient, table: str, *, clock: Callable[[], float] = time.time, advance_attempts: int = 3
    ) -> None:
        super().__init__(client, table)
        self._clock = clock
        self._advance_attempts = advance_attempts

    @classmethod
    def connect(cls, settings: Settings) -> DynamoCache:
        """Return the cache that the settings name. No request is sent yet."""
        client = open_client("dynamodb", timeout_s=settings.cache_timeout_s, attempts=settings.cache_attempts)
        return cls(client, settings.cache_table)

    def get(self, tenant_id: str, key: str, *, consistent: bool = False) -> bytes | None:
        """Return the value; None when there is none, or it has expired: DynamoDB removes expired items days later."""
        return _kept(self._get(_value_id(tenant_id, key), consistent=consistent), self._clock())

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        """Store a value for ``ttl_s`` seconds, replacing an older one; a value that is too large is not stored."""
        item_id = _value_id(tenant_id, key)
        # Time to live is in whole seconds, rounded down so that nothing is kept too long.
        expires_at = int(self._clock() + check_ttl(ttl_s))
        with self._errors():
            if len(value) > MAX_CACHE_VALUE_BYTES:
                self._client.delete_item(TableName=self._table, Key=item_id)
                return
            self._client.put_item(
                TableName=self._table, Item={**item_id, "expires_at": {"N": str(expires_at)}, "value": {"B": value}}
            )

    def exchange(
        self, tenant_id: str, key: str, expected: bytes | None, value: bytes | None, ttl_s: int
    ) -> bytes | None:
        """Store ``value`` if the stored one equals ``expected``, and return the stored one, by a conditional write."""
        item_id = _value_id(tenant_id, key)
        now = self._clock()
        expires_at = int(now + check_ttl(ttl_s))
        request: dict[str, Any] = {
            "ConditionExpression": "attribute_not_exists(id) OR expires_at <= :now",
            "ExpressionAttributeValues": {":now": {"N": str(int(now))}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        if expected is not None:
            request["ConditionExpression"] = "expires_at > :now AND #value = :expected"
            request["ExpressionAttributeNames"] = {"#value": "value"}
            request["ExpressionAttributeValues"][":expected"] = {"B": expected}
        if value is None or len(value) > MAX_CACHE_VALUE_BYTES:
            exchanged, answer = self._write_if(self._client.delete_item, Key=item_id, **request)
        else:
            item = {**item_id, "expires_at": {"N": str(expires_at)}, "value": {"B": value}}
            exchanged, answer = self._write_if(self._client.put_item, Item=item, **request)
        return expected if exchanged else _kept(answer.get("Item"), now)

    def count(self, tenant_id: str, key: str, amount: int, window_s: int, *, ago: int = 0) -> int:
        """Add to the counter of a window and return its sum; old windows expire by time to live."""
        now = self._clock()
        item_id = _item_id(tenant_id, counter_key(key, window_s, now, ago))
        with self._errors():
            answer = self._client.update_item(
                TableName=self._table,
                Key=item_id,
                UpdateExpression="ADD #count :amount SET expires_at = :expires_at",
                ExpressionAttributeNames={"#count": _COUNT},
                ExpressionAttributeValues={
                    ":amount": {"N": str(amount)},
                    ":expires_at": {"N": str(int(now + 2 * window_s))},
                },
                ReturnValues="ALL_NEW",
            )
        return int(answer["Attributes"][_COUNT]["N"])

    def generation(self, tenant_id: str) -> int:
        """Return the tenant's write generation, read consistently."""
        found = self._get(_generation_id(tenant_id))
        return 0 if found is None else int(found[_GENERATION]["N"])

    def advance(self, tenant_id: str) -> int:
        """Advance the tenant's write generation and return it."""
        for attempt in retrying(self._advance_attempts):
            with attempt, self._errors():
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
        """Remove every value of a tenant and return how many there were; the whole table is scanned."""
        prefix = f"{check_tenant(tenant_id)}|"
        found = self._items(
            self._client.scan,
            attempts=FORGET_ATTEMPTS,
            ProjectionExpression="id",
            FilterExpression="begins_with(id, :tenant)",
            ExpressionAttributeValues={":tenant": {"S": prefix}},
        )
        removed = 0
        for item in found:
            self._delete({"id": item["id"]}, attempts=FORGET_ATTEMPTS)
            removed += 1
        self._delete(counts_id(tenant_id), attempts=FORGET_ATTEMPTS)
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


def counts_id(tenant_id: str) -> dict[str, dict[str, str]]:
    """Return the key of a tenant's counts, which no value of the cache has."""
    return {"id": {"S": f"{check_tenant(tenant_id)}#counts"}}
