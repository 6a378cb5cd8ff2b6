"""Re-embedding jobs in DynamoDB: one item a job, each write on the condition that nobody else wrote before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from braid.engines.aws.clients import code_of, named_errors, open_client, scanned
from braid.ports.job_store import JobRecord

if TYPE_CHECKING:
    from braid.settings import Settings


class _Table(Protocol):
    """The calls of a DynamoDB client that are made here."""

    def put_item(self, **request: object) -> dict[str, Any]: ...

    def get_item(self, **request: object) -> dict[str, Any]: ...

    def scan(self, **request: object) -> dict[str, Any]: ...

    def delete_item(self, **request: object) -> dict[str, Any]: ...


class DynamoJobStore:
    """Job records in a table; implements :class:`braid.ports.job_store.JobStore`.

    Parameters
    ----------
    client
        A DynamoDB client.
    table
        Name of the table: partition key ``name``, a string.
    """

    def __init__(self, client: _Table, table: str) -> None:
        self._client = client
        self._table = table

    @classmethod
    def connect(cls, settings: Settings) -> DynamoJobStore:
        """Return the job store that the settings name. Nothing is asked yet."""
        client = open_client("dynamodb", timeout_s=settings.dynamodb_timeout_s, attempts=settings.dynamodb_attempts)
        return cls(client, settings.reembed_table)

    def get(self, name: str) -> JobRecord | None:
        """Return a job as last written, None when there is none."""
        with named_errors(f"table {self._table}"):
            answer = self._client.get_item(TableName=self._table, Key={"name": {"S": name}}, ConsistentRead=True)
        item = answer.get("Item")
        return None if item is None else JobRecord(name=name, revision=item["revision"]["N"], body=item["body"]["S"])

    def put(self, record: JobRecord) -> bool:
        """Write a job if its revision is the next one.

        A write that was tried again because its answer was lost is taken for somebody else's: the job is then read
        again, and nothing is lost.
        """
        item = {
            "name": {"S": record.name},
            "revision": {"N": str(record.revision)},
            "body": {"S": record.body},
        }
        condition: dict[str, object] = {"ConditionExpression": "attribute_not_exists(#name)"}
        names = {"#name": "name"}
        if record.revision > 1:
            condition = {
                "ConditionExpression": "#revision = :before",
                "ExpressionAttributeValues": {":before": {"N": str(record.revision - 1)}},
            }
            names = {"#revision": "revision"}
        with named_errors(f"table {self._table}"):
            try:
                self._client.put_item(TableName=self._table, Item=item, ExpressionAttributeNames=names, **condition)
            except ClientError as error:
                if code_of(error) != "ConditionalCheckFailedException":
                    raise
                return False
        return True

    def names(self) -> list[str]:
        """Return the names of all jobs, in order. There are few: one a tenant that is embedded again by itself."""
        items = scanned(
            self._client, self._table, ProjectionExpression="#name", ExpressionAttributeNames={"#name": "name"}
        )
        return sorted(str(item["name"]["S"]) for item in items)

    def remove(self, name: str) -> bool:
        """Remove a job and return whether there was one."""
        with named_errors(f"table {self._table}"):
            gone = self._client.delete_item(TableName=self._table, Key={"name": {"S": name}}, ReturnValues="ALL_OLD")
        return bool(gone.get("Attributes"))
