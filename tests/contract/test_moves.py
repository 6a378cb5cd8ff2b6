"""Jobs and moves, over the embedded engine and in DynamoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from braid.engines.aws.dynamodb_schemas_jobs_members import DynamoJobStore
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedJobStore
from braid.engines.embedded.index_migration import EmbeddedIndexMigration
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import StoreError, TransientStoreError
from braid.settings import Settings
from moto import mock_aws

from tests.contract.index_moves import IndexMovesContract
from tests.contract.job_store import JobStoreContract, job
from tests.contract.shapes import DIMENSIONS, to_format
from tests.dynamo_table import serial_client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TABLE = "jobs"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[EmbeddedStore]:
    with EmbeddedStore(tmp_path) as opened:
        yield opened


class TestEmbeddedIndexMigration(IndexMovesContract):
    @pytest.fixture
    def index(self, store: EmbeddedStore) -> EmbeddedSearchIndex:
        return EmbeddedSearchIndex(store, DIMENSIONS)

    @pytest.fixture
    def moves(self, store: EmbeddedStore, index: EmbeddedSearchIndex) -> EmbeddedIndexMigration:
        return EmbeddedIndexMigration(store, index)


class TestEmbeddedJobStore(JobStoreContract):
    @pytest.fixture
    def jobs(self, store: EmbeddedStore) -> EmbeddedJobStore:
        return EmbeddedJobStore(store)


@pytest.fixture
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")


@pytest.mark.usefixtures("_credentials")
class TestDynamoJobStore(JobStoreContract):
    @pytest.fixture
    def jobs(self) -> Iterator[DynamoJobStore]:
        with mock_aws():
            boto3.client("dynamodb").create_table(
                TableName=TABLE,
                KeySchema=[{"AttributeName": "name", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "name", "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
            yield DynamoJobStore(serial_client(), TABLE)

    def test_a_write_that_is_sent_again_because_its_answer_was_lost_is_written(self, jobs: DynamoJobStore) -> None:
        put = jobs._client.put_item

        def sent_twice(**asked: Any) -> dict[str, Any]:  # as by botocore after a time-out
            put(**asked)
            return put(**asked)

        jobs._client.put_item = sent_twice
        assert jobs.put(job("refresh", 1, "first"))
        assert jobs.put(job("refresh", 2, "second"))
        assert not jobs.put(job("refresh", 2, "another's"))
        assert jobs.get("refresh") == job("refresh", 2, "second")


@pytest.mark.usefixtures("_credentials")
def test_a_job_table_that_refuses_is_named_and_one_that_is_unreachable_is_worth_trying_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with mock_aws(), pytest.raises(StoreError, match="table absent: ResourceNotFoundException"):
        DynamoJobStore.connect(Settings(reembed_table="absent")).get("refresh")
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:9")
    with pytest.raises(TransientStoreError, match="table jobs: EndpointConnectionError"):
        DynamoJobStore.connect(Settings(reembed_table=TABLE, dynamodb_attempts=1)).get("refresh")


def test_a_file_of_an_older_format_has_no_jobs_and_serves_the_settings_profile(tmp_path: Path) -> None:
    with EmbeddedStore(tmp_path) as old, old.transaction() as connection:
        to_format(connection, 2)
    with EmbeddedStore(tmp_path) as old:
        assert EmbeddedIndexMigration(old, EmbeddedSearchIndex(old, DIMENSIONS)).serving().active is None
        assert EmbeddedJobStore(old).names() == []
        assert EmbeddedJobStore(old).get("move") is None
