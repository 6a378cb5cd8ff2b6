"""The real servers' addresses. Asked for and absent is a failure, never a skip."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.aws.dynamodb_graph_counts import DynamoCounts
from braid.engines.opensearch.client import open_client
from braid.engines.opensearch.migration import OpenSearchMigration
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.settings import EngineKind, Refresh, Settings
from moto import mock_aws

from braid_cli.local_servers import running_servers
from tests.contract.shapes import DIMENSIONS
from tests.deployed_stages import DeployedStages
from tests.dynamo_table import make_table, serial_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from opensearchpy import OpenSearch


def endpoint(name: str, variable: str) -> str:
    """Return a server's address: the environment's, else that of the server that was started here."""
    running = running_servers.read(running_servers.default_folder())
    address = os.environ.get(variable) or (running[name].endpoint if name in running else "")
    if not address:
        pytest.fail(f"{name} does not run: start it with `make engines-up`, or name one in {variable}", pytrace=False)
    return address


@pytest.fixture(scope="session")
def opensearch_endpoint() -> str:
    return endpoint("opensearch", "BRAID_OPENSEARCH_ENDPOINT")


@pytest.fixture(scope="session")
def gremlin_endpoint() -> str:
    return endpoint("gremlin", "BRAID_NEPTUNE_ENDPOINT")


@pytest.fixture(scope="module")
def tables() -> Iterator[Any]:
    """Return a client of DynamoDB."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
        yield serial_client()


@pytest.fixture
def counts(tables: Any) -> DynamoCounts:
    """Return stored counts of graphs, of which there are none yet."""
    name = f"counts-{uuid.uuid4().hex}"
    make_table(tables, name)
    return DynamoCounts(tables, name)


@pytest.fixture
def make_settings(tmp_path: Path) -> Callable[..., Settings]:
    """Return a function that makes settings from the named ones and the defaults, whatever the environment says."""

    def make(**fields: Any) -> Settings:
        return Settings(home=tmp_path, **fields)

    return make


@pytest.fixture
def settings(opensearch_endpoint: str, make_settings: Callable[..., Settings]) -> Settings:
    """Return settings with an index of the test's own."""
    return make_settings(
        opensearch_endpoint=opensearch_endpoint,
        opensearch_index=f"test-{uuid.uuid4().hex}",
        opensearch_refresh=Refresh.NOW,
    )


@pytest.fixture
def client(settings: Settings) -> Iterator[OpenSearch]:
    """Return a client; whatever the test makes of its index is removed afterwards."""
    made = open_client(settings)
    yield made
    made.indices.delete(index=f"{settings.opensearch_index}-*", ignore_unavailable=True)
    made.close()


@pytest.fixture
def index(client: OpenSearch, settings: Settings) -> OpenSearchIndex:
    """Return the index of the test, without records."""
    made = OpenSearchIndex(client, settings, DIMENSIONS)
    made.create()
    return made


@pytest.fixture
def moves(client: OpenSearch, settings: Settings) -> OpenSearchMigration:
    """Return the migration of that index."""
    return OpenSearchMigration(client, settings, DIMENSIONS)


@pytest.fixture
def make_deployed(
    opensearch_endpoint: str, gremlin_endpoint: str, make_settings: Callable[..., Settings]
) -> Iterator[Callable[..., DeployedStages]]:
    """Return a function that gives stages of these settings over an index of their own and an empty graph."""
    made: list[DeployedStages] = []

    def make(**fields: Any) -> DeployedStages:
        stages = DeployedStages(
            make_settings(
                engine=EngineKind.AWS,
                opensearch_endpoint=opensearch_endpoint,
                opensearch_index=f"test-{uuid.uuid4().hex}",
                opensearch_refresh=Refresh.NOW,
                neptune_endpoint=gremlin_endpoint,
                **fields,
            )
        )
        made.append(stages)
        stages.index.create()
        stages.graph._connection.submit(lambda g: g.V().drop())
        return stages

    yield make
    for stages in made:
        stages.index._client.indices.delete(index=f"{stages.settings.opensearch_index}-*")
        stages.close()
