"""Schema versions in DynamoDB: one table, the tenant as partition key and the version as sort key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from braid.engines.aws.clients import code_of, named_errors, open_client
from braid.ports.schema_registry import SchemaVersion, check_next

if TYPE_CHECKING:
    from braid.settings import Settings


class _Table(Protocol):
    """The calls of a DynamoDB client that are made here."""

    def put_item(self, **request: object) -> dict[str, Any]: ...

    def query(self, **request: object) -> dict[str, Any]: ...

    def delete_item(self, **request: object) -> dict[str, Any]: ...


class DynamoSchemaRegistry:
    """Schema versions in a table; implements :class:`braid.ports.schema_registry.SchemaRegistry`.

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
        client = open_client("dynamodb", timeout_s=settings.dynamodb_timeout_s, attempts=settings.dynamodb_attempts)
        return cls(client, settings.schema_table)

    def register(self, schema: SchemaVersion) -> None:
        """Write the next version; writing one again with the same content does nothing.

        Raises
        ------
        InvalidRequest
            If the version is registered with other content, or is not the next one.
        """
        if not check_next(schema, self.versions(schema.tenant_id)):
            return
        key = {"tenant_id": {"S": schema.tenant_id}, "version": {"N": str(schema.version)}}
        item = {**key, "body": {"S": schema.model_dump_json()}}
        with named_errors(f"table {self._table}"):
            try:
                self._client.put_item(
                    TableName=self._table, Item=item, ConditionExpression="attribute_not_exists(tenant_id)"
                )
            except ClientError as error:
                if code_of(error) != "ConditionalCheckFailedException":
                    raise
                # Somebody else registered one meanwhile: the same, or another, which is then said.
                check_next(schema, self.versions(schema.tenant_id))

    def current(self, tenant_id: str) -> int:
        """Return the newest version, 1 when none is registered."""
        with named_errors(f"table {self._table}"):
            found = self._client.query(
                TableName=self._table,
                KeyConditionExpression="tenant_id = :tenant",
                ExpressionAttributeValues={":tenant": {"S": tenant_id}},
                ProjectionExpression="#version",
                ExpressionAttributeNames={"#version": "version"},
                ScanIndexForward=False,
                Limit=1,
                ConsistentRead=True,
            )
        return max((int(item["version"]["N"]) for item in found["Items"]), default=1)

    def versions(self, tenant_id: str) -> list[SchemaVersion]:
        """Return all versions, oldest first."""
        found: list[SchemaVersion] = []
        start: dict[str, Any] = {}
        while True:
            with named_errors(f"table {self._table}"):
                answer = self._client.query(
                    TableName=self._table,
                    KeyConditionExpression="tenant_id = :tenant",
                    ExpressionAttributeValues={":tenant": {"S": tenant_id}},
                    ConsistentRead=True,
                    **start,
                )
            found += [SchemaVersion.model_validate_json(item["body"]["S"]) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return found
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def forget(self, tenant_id: str) -> int:
        """Remove all versions of a tenant and return how many there were."""
        versions = self.versions(tenant_id)
        for schema in versions:
            key = {"tenant_id": {"S": tenant_id}, "version": {"N": str(schema.version)}}
            with named_errors(f"table {self._table}"):
                self._client.delete_item(TableName=self._table, Key=key)
        return len(versions)
