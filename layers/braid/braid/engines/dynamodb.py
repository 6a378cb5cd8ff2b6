"""Schema versions in DynamoDB: one table, the tenant as partition key and the version as sort key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnection

from braid.engines.ports import SchemaVersion
from braid.errors import InvalidRequest, StoreError, TransientStoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from braid.settings import Settings

_Answer = TypeVar("_Answer")

_TRANSIENT = frozenset(
    {
        "InternalServerError",
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "ServiceUnavailable",
        "ThrottlingException",
        "TransactionConflictException",
    }
)


class _Table(Protocol):
    """The calls of a DynamoDB client that are made here."""

    def put_item(self, **request: object) -> dict[str, Any]: ...

    def get_item(self, **request: object) -> dict[str, Any]: ...

    def query(self, **request: object) -> dict[str, Any]: ...


class DynamoSchemaRegistry:
    """Schema versions in a table; implements :class:`braid.engines.ports.SchemaRegistry`.

    Parameters
    ----------
    client
        A DynamoDB client.
    table
        Name of the table: partition key ``tenant_id``, a string; sort key ``version``, a number.
    """

    def __init__(self, client: _Table, table: str) -> None:
        self._client = client
        self._table = table

    @classmethod
    def connect(cls, settings: Settings) -> DynamoSchemaRegistry:
        """Return the registry that the settings name. Nothing is asked yet."""
        config = Config(
            connect_timeout=settings.dynamodb_timeout_s,
            read_timeout=settings.dynamodb_timeout_s,
            retries={"mode": "standard", "total_max_attempts": settings.dynamodb_attempts},
        )
        return cls(boto3.client("dynamodb", config=config), settings.schema_table)

    def register(self, schema: SchemaVersion) -> None:
        """Write one version; writing it again with the same content does nothing.

        Raises
        ------
        InvalidRequest
            If the version is registered with other content: records were written by it.
        """
        key = {"tenant_id": {"S": schema.tenant_id}, "version": {"N": str(schema.version)}}
        try:
            self._ask(
                lambda: self._client.put_item(
                    TableName=self._table,
                    Item={**key, "body": {"S": schema.model_dump_json()}},
                    ConditionExpression="attribute_not_exists(tenant_id)",
                )
            )
        except _Exists:
            stored = self._ask(lambda: self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True))
            if SchemaVersion.model_validate_json(stored["Item"]["body"]["S"]) != schema:
                message = (
                    f"version: version {schema.version} of tenant {schema.tenant_id}'s schema is registered"
                    " with other content; register the change as a new version"
                )
                raise InvalidRequest(message, field="version") from None

    def current(self, tenant_id: str) -> int:
        """Return the newest version, 1 when none is registered."""
        found = self._ask(
            lambda: self._client.query(
                TableName=self._table,
                KeyConditionExpression="tenant_id = :tenant",
                ExpressionAttributeValues={":tenant": {"S": tenant_id}},
                ProjectionExpression="#version",
                ExpressionAttributeNames={"#version": "version"},
                ScanIndexForward=False,
                Limit=1,
                ConsistentRead=True,
            )
        )
        return max((int(item["version"]["N"]) for item in found["Items"]), default=1)

    def _ask(self, call: Callable[[], _Answer]) -> _Answer:
        """Make a call, and say in this project's errors what went wrong.

        The client tries again by itself, so what still fails is not tried here.
        """
        try:
            return call()
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code == "ConditionalCheckFailedException":
                raise _Exists from None
            kind = TransientStoreError if code in _TRANSIENT else StoreError
            raise kind(f"table {self._table}: {code}") from error
        except (NoConnection, HTTPClientError) as error:
            raise TransientStoreError(f"table {self._table}: {type(error).__name__}") from error
        except BotoCoreError as error:
            raise StoreError(f"table {self._table}: {error}") from error


class _Exists(Exception):
    """The version is there already."""
