"""Schema versions, re-embedding jobs and memberships in DynamoDB tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from botocore.exceptions import ClientError

from braid.engines.aws.clients import as_braid_errors, code_of, open_client
from braid.engines.retries_and_deadlines import retrying
from braid.ports.members import Membership, Role
from braid.ports.reembedding import JobRecord
from braid.ports.schema_registry import SchemaVersion, check_next
from braid.telemetry.recording import store_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from braid.settings import Settings


_CONDITION_FAILED = "ConditionalCheckFailedException"
FORGET_ATTEMPTS: Final = 8
"""Attempts at each page of a scan of a whole table, and at each item that is removed of a tenant. Scanning is throttled
by itself, as it reads one partition as fast as it can; a repeated scan would begin, and be throttled, again."""


class DynamoClient(Protocol):
    """The operations of a DynamoDB client that are called here."""

    put_item: Callable[..., dict[str, Any]]
    get_item: Callable[..., dict[str, Any]]
    update_item: Callable[..., dict[str, Any]]
    delete_item: Callable[..., dict[str, Any]]
    query: Callable[..., dict[str, Any]]
    scan: Callable[..., dict[str, Any]]


class DynamoTable:
    """A DynamoDB table."""

    def __init__(self, client: DynamoClient, table: str) -> None:
        self._client = client
        self._table = table

    @classmethod
    def _open(cls, settings: Settings, table: str) -> Self:
        client = open_client("dynamodb", timeout_s=settings.dynamodb_timeout_s, attempts=settings.dynamodb_attempts)
        return cls(client, table)

    def _errors(self) -> AbstractContextManager[None]:
        return as_braid_errors(f"table {self._table}")

    def _items(
        self, read: Callable[..., dict[str, Any]], *, attempts: int = 1, **request: object
    ) -> Iterator[dict[str, Any]]:
        """Yield the items that the client's ``query`` or ``scan`` finds, page by page and consistently.

        Each page is tried ``attempts`` times, besides the client's own.
        """
        request |= {"TableName": self._table, "ConsistentRead": True}
        while True:
            for attempt in retrying(attempts):
                with attempt, self._errors():
                    page = read(**request)
            yield from page["Items"]
            if not page.get("LastEvaluatedKey"):
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _get(self, key: dict[str, Any], *, consistent: bool = True) -> dict[str, Any] | None:
        """Return an item; None when there is none."""
        with self._errors():
            return self._client.get_item(TableName=self._table, Key=key, ConsistentRead=consistent).get("Item")

    def _write_if(self, write: Callable[..., dict[str, Any]], **request: object) -> tuple[bool, dict[str, Any]]:
        """Call a conditional write of the client; return whether its condition held, and the response."""
        with self._errors():
            try:
                return True, write(TableName=self._table, **request)
            except ClientError as error:
                if code_of(error) != _CONDITION_FAILED:
                    raise
                return False, dict(error.response)

    def _delete(self, key: dict[str, Any], *, attempts: int = 1) -> bool:
        """Remove an item, which is tried ``attempts`` times, and return whether there was one."""
        for attempt in retrying(attempts):
            with attempt, self._errors():
                gone = self._client.delete_item(TableName=self._table, Key=key, ReturnValues="ALL_OLD")
        return bool(gone.get("Attributes"))


@store_calls("aws.dynamodb")
class DynamoSchemaRegistry(DynamoTable):
    """Schema versions in a table; implements :class:`braid.ports.schema_registry.SchemaRegistry`.

    The table's partition key is ``tenant_id``, a string; its sort key ``version``, a number.
    """

    @classmethod
    def connect(cls, settings: Settings) -> DynamoSchemaRegistry:
        """Return the registry that the settings name. No request is sent yet."""
        return cls._open(settings, settings.schema_table)

    def register(self, schema: SchemaVersion) -> None:
        """Write the next version; writing one again with the same content does nothing."""
        if not check_next(schema, self.versions(schema.tenant_id)):
            return
        item = {**_version_key(schema), "body": {"S": schema.model_dump_json()}}
        new, _ = self._write_if(self._client.put_item, Item=item, ConditionExpression="attribute_not_exists(tenant_id)")
        if not new:
            # A concurrent request registered this version: with the same content, or with another, which is an error.
            check_next(schema, self.versions(schema.tenant_id))

    def current(self, tenant_id: str) -> int:
        """Return the newest version, 1 when none is registered."""
        with self._errors():
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
        items = self._items(
            self._client.query,
            KeyConditionExpression="tenant_id = :tenant",
            ExpressionAttributeValues={":tenant": {"S": tenant_id}},
        )
        return [SchemaVersion.model_validate_json(item["body"]["S"]) for item in items]

    def forget(self, tenant_id: str) -> int:
        """Remove all versions of a tenant and return how many there were."""
        versions = self.versions(tenant_id)
        for schema in versions:
            self._delete(_version_key(schema))
        return len(versions)


@store_calls("aws.dynamodb")
class DynamoJobStore(DynamoTable):
    """Re-embedding jobs, one item each, in a table; implements :class:`braid.ports.reembedding.JobStore`.

    The table's partition key is ``name``, a string. Each write is conditional on the job's previous revision.
    """

    @classmethod
    def connect(cls, settings: Settings) -> DynamoJobStore:
        """Return the job store that the settings name. No request is sent yet."""
        return cls._open(settings, settings.reembed_table)

    def get(self, name: str) -> JobRecord | None:
        """Return a job as last written; None when there is none."""
        item = self._get({"name": {"S": name}})
        return None if item is None else JobRecord(name=name, revision=item["revision"]["N"], body=item["body"]["S"])

    def put(self, record: JobRecord) -> bool:
        """Write a job if its revision is the next one, and return whether it was.

        One that the client sent again because its response was lost was: the stored job is then this one.
        """
        item = {
            "name": {"S": record.name},
            "revision": {"N": str(record.revision)},
            "body": {"S": record.body},
        }
        if record.revision <= 1:
            condition: dict[str, Any] = {
                "ConditionExpression": "attribute_not_exists(#name)",
                "ExpressionAttributeNames": {"#name": "name"},
            }
        else:
            condition = {
                "ConditionExpression": "#revision = :before",
                "ExpressionAttributeNames": {"#revision": "revision"},
                "ExpressionAttributeValues": {":before": {"N": str(record.revision - 1)}},
            }
        condition["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        written, answer = self._write_if(self._client.put_item, Item=item, **condition)
        return written or answer.get("Item") == item

    def names(self) -> list[str]:
        """Return the names of all jobs, in order. There are few: at most one per tenant."""
        items = self._items(self._client.scan, ProjectionExpression="#name", ExpressionAttributeNames={"#name": "name"})
        return sorted(str(item["name"]["S"]) for item in items)

    def remove(self, name: str) -> bool:
        """Remove a job and return whether there was one."""
        return self._delete({"name": {"S": name}})


@store_calls("aws.dynamodb")
class DynamoMembers(DynamoTable):
    """Memberships in a table; implements :class:`braid.ports.members.MembershipStore`.

    The table's partition key is ``subject``, its sort key ``tenant_id``, both strings.
    """

    @classmethod
    def connect(cls, settings: Settings) -> DynamoMembers:
        """Return the memberships that the settings name. No request is sent yet."""
        return cls._open(settings, settings.members_table)

    def role(self, subject: str, tenant_id: str) -> Role | None:
        """Return a subject's role in a tenant; None when it is no member."""
        found = self._get(_member_key(subject, tenant_id))  # consistent: a removal takes effect at once
        return None if found is None else Role(found["role"]["S"])

    def of(self, subject: str) -> list[Membership]:
        """Return a subject's memberships, in the order of the tenants' names."""
        items = self._items(
            self._client.query,
            KeyConditionExpression="subject = :subject",
            ExpressionAttributeValues={":subject": {"S": subject}},
        )
        return [
            Membership(subject=subject, tenant_id=item["tenant_id"]["S"], role=Role(item["role"]["S"]))
            for item in items
        ]

    def add(self, membership: Membership) -> None:
        """Write a membership, which replaces the subject's role in that tenant."""
        item = {**_member_key(membership.subject, membership.tenant_id), "role": {"S": membership.role.value}}
        with self._errors():
            self._client.put_item(TableName=self._table, Item=item)

    def remove(self, subject: str, tenant_id: str) -> bool:
        """Remove a membership and return whether there was one."""
        return self._delete(_member_key(subject, tenant_id))

    def forget(self, tenant_id: str) -> int:
        """Remove every membership in a tenant and return how many there were; the whole table is scanned."""
        found = self._items(
            self._client.scan,
            attempts=FORGET_ATTEMPTS,
            FilterExpression="tenant_id = :tenant",
            ExpressionAttributeValues={":tenant": {"S": tenant_id}},
        )
        keys = (_member_key(item["subject"]["S"], tenant_id) for item in found)
        return sum(self._delete(key, attempts=FORGET_ATTEMPTS) for key in keys)


def _version_key(schema: SchemaVersion) -> dict[str, dict[str, str]]:
    return {"tenant_id": {"S": schema.tenant_id}, "version": {"N": str(schema.version)}}


def _member_key(subject: str, tenant_id: str) -> dict[str, dict[str, str]]:
    return {"subject": {"S": subject}, "tenant_id": {"S": tenant_id}}
