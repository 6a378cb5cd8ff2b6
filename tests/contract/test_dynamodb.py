"""The DynamoDB schema registry keeps the contract, and says what went wrong in this project's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoSchemaRegistry
from braid.errors import StoreError, TransientStoreError
from braid.settings import Settings
from moto import mock_aws

from tests.contract.schema_registry import SchemaRegistryContract
from tests.contract.shapes import ACME

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = "schemas"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")


class TestDynamoSchemaRegistry(SchemaRegistryContract):
    @pytest.fixture
    def registry(self) -> Iterator[DynamoSchemaRegistry]:
        with mock_aws():
            boto3.client("dynamodb").create_table(
                TableName=TABLE,
                KeySchema=[
                    {"AttributeName": "tenant_id", "KeyType": "HASH"},
                    {"AttributeName": "version", "KeyType": "RANGE"},
                ],
                AttributeDefinitions=[
                    {"AttributeName": "tenant_id", "AttributeType": "S"},
                    {"AttributeName": "version", "AttributeType": "N"},
                ],
                BillingMode="PAY_PER_REQUEST",
            )
            yield DynamoSchemaRegistry.connect(Settings(schema_table=TABLE))


def test_a_missing_table_is_a_store_error_that_names_it() -> None:
    with mock_aws(), pytest.raises(StoreError, match="table absent: ResourceNotFoundException") as caught:
        DynamoSchemaRegistry.connect(Settings(schema_table="absent")).current(ACME)
    assert not isinstance(caught.value, TransientStoreError)


def test_an_endpoint_that_refuses_is_worth_trying_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9")
    with pytest.raises(TransientStoreError, match="table schemas: EndpointConnectionError"):
        DynamoSchemaRegistry.connect(Settings(schema_table=TABLE, dynamodb_attempts=1)).current(ACME)


def test_a_throttled_call_is_worth_trying_again() -> None:
    from botocore.exceptions import ClientError

    class Throttled:
        def query(self, **_: Any) -> dict[str, Any]:
            raise ClientError({"Error": {"Code": "ProvisionedThroughputExceededException"}}, "Query")

        put_item = get_item = query

    with pytest.raises(TransientStoreError, match="Throughput"):
        DynamoSchemaRegistry(Throttled(), TABLE).current(ACME)
