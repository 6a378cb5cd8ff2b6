"""Memberships in DynamoDB: one table, the subject as partition key and the tenant as sort key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from braid.engines.aws.clients import named_errors, open_client, scanned
from braid.ports.members import Membership, Role

if TYPE_CHECKING:
    from braid.settings import Settings


class _Table(Protocol):
    """The calls of a DynamoDB client that are made here."""

    def put_item(self, **request: object) -> dict[str, Any]: ...

    def get_item(self, **request: object) -> dict[str, Any]: ...

    def delete_item(self, **request: object) -> dict[str, Any]: ...

    def query(self, **request: object) -> dict[str, Any]: ...

    def scan(self, **request: object) -> dict[str, Any]: ...


class DynamoMembers:
    """Memberships in a table; implements :class:`braid.ports.members.MembershipStore`.

    Parameters
    ----------
    client
        A DynamoDB client.
    table
        Name of the table: partition key ``subject``, sort key ``tenant_id``, both strings.
    """

    def __init__(self, client: _Table, table: str) -> None:
        self._client = client
        self._table = table

    @classmethod
    def connect(cls, settings: Settings) -> DynamoMembers:
        """Return the memberships that the settings name. Nothing is asked yet."""
        client = open_client("dynamodb", timeout_s=settings.dynamodb_timeout_s, attempts=settings.dynamodb_attempts)
        return cls(client, settings.members_table)

    def role(self, subject: str, tenant_id: str) -> Role | None:
        """Return what a subject may do in a tenant; None when it is no member."""
        # Consistent: who was removed a moment ago is a member no longer.
        with named_errors(f"table {self._table}"):
            found = self._client.get_item(TableName=self._table, Key=_key(subject, tenant_id), ConsistentRead=True)
        return Role(found["Item"]["role"]["S"]) if "Item" in found else None

    def of(self, subject: str) -> list[Membership]:
        """Return a subject's memberships, in the order of the tenants' names."""
        request: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "subject = :subject",
            "ExpressionAttributeValues": {":subject": {"S": subject}},
            "ConsistentRead": True,
        }
        found: list[Membership] = []
        while True:
            with named_errors(f"table {self._table}"):
                page = self._client.query(**request)
            found.extend(
                Membership(subject=subject, tenant_id=item["tenant_id"]["S"], role=Role(item["role"]["S"]))
                for item in page["Items"]
            )
            if not page.get("LastEvaluatedKey"):
                return found
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def add(self, membership: Membership) -> None:
        """Write a membership, instead of the role that the subject had in that tenant."""
        item = {**_key(membership.subject, membership.tenant_id), "role": {"S": membership.role.value}}
        with named_errors(f"table {self._table}"):
            self._client.put_item(TableName=self._table, Item=item)

    def remove(self, subject: str, tenant_id: str) -> bool:
        """Remove a membership and return whether there was one."""
        with named_errors(f"table {self._table}"):
            gone = self._client.delete_item(TableName=self._table, Key=_key(subject, tenant_id), ReturnValues="ALL_OLD")
        return bool(gone.get("Attributes"))

    def forget(self, tenant_id: str) -> int:
        """Remove every membership in a tenant and return how many there were; the whole table is read for it."""
        found = scanned(
            self._client,
            self._table,
            FilterExpression="tenant_id = :tenant",
            ExpressionAttributeValues={":tenant": {"S": tenant_id}},
        )
        return sum(self.remove(item["subject"]["S"], tenant_id) for item in found)


def _key(subject: str, tenant_id: str) -> dict[str, dict[str, str]]:
    return {"subject": {"S": subject}, "tenant_id": {"S": tenant_id}}
