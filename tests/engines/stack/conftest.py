"""One LocalStack with the template's stack for all tests here, and a moto server for its tables."""

from __future__ import annotations

import tempfile
import uuid
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, cast

import boto3
import pytest
from braid.app import Application
from braid.engines.neptune.knowledge_graph import GremlinGraph
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.settings import EngineKind, Refresh, Settings
from moto.server import ThreadedMotoServer

from braid_cli.datasets.dataset import read_dataset
from braid_cli.datasets.ingest import ingest
from tests.engines.stack.deployed import FUNCTIONS, TENANT, Deployed, close, question
from tests.engines.stack.deployment import REGION, ROOT, deploy, localstack
from tests.engines.stack.issuer import AUDIENCE, issuer

if TYPE_CHECKING:
    from collections.abc import Iterator

DEMO = ROOT / "braid_cli" / "demo" / "saltmarrow"


@pytest.fixture(scope="package")
def tables_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.fixture(scope="package")
def deployed(
    tmp_path_factory: pytest.TempPathFactory, opensearch_endpoint: str, gremlin_endpoint: str, tables_endpoint: str
) -> Iterator[Deployed]:
    stages = Application(
        Settings(
            home=tmp_path_factory.mktemp("home"),
            engine=EngineKind.AWS,
            opensearch_endpoint=opensearch_endpoint,
            opensearch_index=f"test-{uuid.uuid4().hex}",
            opensearch_refresh=Refresh.NOW,
            neptune_endpoint=gremlin_endpoint,
            schema_table=f"schemas-{uuid.uuid4().hex}",
            cache_table=f"cache-{uuid.uuid4().hex}",
            reembed_table=f"jobs-{uuid.uuid4().hex}",
        )
    )
    stages.make_models()
    dataset = read_dataset(DEMO, TENANT, judged=True)
    aws = {
        "AWS_ENDPOINT_URL_DYNAMODB": tables_endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    parameters = {
        "OpenSearchEndpoint": opensearch_endpoint,
        "OpenSearchIndex": stages.settings.opensearch_index,
        "NeptuneEndpoint": gremlin_endpoint,
        "JwtAudience": AUDIENCE,
        "SchemaTable": stages.settings.schema_table,
        "CacheTable": stages.settings.cache_table,
        "ReembedTable": stages.settings.reembed_table,
    }
    functions = {
        "AWS_ENDPOINT_URL_DYNAMODB": tables_endpoint,
        "BRAID_MODELS_DIR": str(stages.settings.models_path()),
        # Found by itself only where /opt is /opt.
        "BRAID_SHARED_DIR": "/opt",
        # StartSyncExecution is sent to sync-HOST, which no resolver knows here.
        "AWS_DISABLE_HOST_PREFIX_INJECTION": "true",
    }
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="braid-localstack-", ignore_cleanup_errors=True) as folder,
        localstack(Path(folder)) as running,
        issuer() as trusted,
    ):
        for name, value in (aws | {"AWS_ENDPOINT_URL_S3": running.endpoint}).items():
            patch.setenv(name, value)
        _create_table(stages.settings.schema_table, tenant_id="S", version="N")
        _create_table(stages.settings.cache_table, id="S")
        _create_table(stages.settings.reembed_table, name="S")
        ingest(dataset, stages)
        # Rows that were replaced count towards BM25 until their segments are merged, whenever that is.
        cast("OpenSearchIndex", stages.index)._client.indices.forcemerge(
            index=stages.settings.opensearch_index, params={"max_num_segments": 1}
        )
        outputs = deploy(running, parameters | {"JwtIssuer": trusted.url}, functions)
        stack = Deployed(running, outputs, stages, dataset, trusted)
        # A machine with two cores and five Pythons that begin at once may need longer than a stage is given.
        for function in FUNCTIONS:
            stack.wake(function)
        stack.execute(question("warm"))
        yield stack
        index, graph = stages.index, stages.graph
        assert isinstance(index, OpenSearchIndex)
        assert isinstance(graph, GremlinGraph)
        graph._connection.submit(lambda g: g.V().drop())
        index._client.indices.delete(index=f"{stages.settings.opensearch_index}-*")
        close(stages)


def _create_table(table: str, **keys: str) -> None:
    roles = zip(keys, ("HASH", "RANGE"), strict=False)
    with closing(boto3.client("dynamodb")) as client:
        client.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": key, "KeyType": role} for key, role in roles],
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": kind} for key, kind in keys.items()],
            BillingMode="PAY_PER_REQUEST",
        )
