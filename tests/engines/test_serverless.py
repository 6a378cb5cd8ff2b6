"""A serverless collection's habits, on a real OpenSearch: it refreshes when it will, and cannot be asked to.

The fields of vectors are a domain's: the engine that a collection chooses itself is not there.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pytest
from braid import reembedding
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedJobStore
from braid.engines.opensearch import mapping
from braid.engines.opensearch.search_index import OpenSearchIndex
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ingestion.writing import WriteRequest, write
from braid.reembedding import Place, Status
from braid.settings import EngineKind, OpenSearchService, Settings

from tests.contract.shapes import ACME, GLOBEX, record
from tests.contract.writes import written
from tests.deployed_stages import DeployedStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DOMAIN = {"opensearch_service": OpenSearchService.DOMAIN}


class Collection(DeployedStages):
    """Stages over indexes that show what was written once somebody waits for it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.waited: list[float] = []
        assert isinstance(self.index, OpenSearchIndex)
        self.own = self.index
        self.own._sleep = self.wait

    @cached_property
    def jobs(self) -> EmbeddedJobStore:
        """Jobs in a table."""
        return EmbeddedJobStore(self.store)

    def wait(self, seconds: float) -> None:
        """Show all that was written."""
        self.waited.append(seconds)
        self.own._client.indices.refresh(index=f"{self.settings.opensearch_index}*")

    def of(self, tenant_id: str) -> list[str]:
        """Return the ids of a tenant's records that are found."""
        self.wait(0.0)
        self.own._aliases_until = 0.0
        return [found.id for found in self.index.scan(tenant_id).records]


@pytest.fixture
def collection(
    opensearch_endpoint: str, gremlin_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Collection]:
    body, vectors = mapping.index_body, mapping.vector_mapping

    def never_refreshed(settings: Settings, **how: Any) -> dict[str, Any]:
        made = body(settings, **how)
        made["settings"]["index"]["refresh_interval"] = "-1"
        return made

    monkeypatch.setattr(mapping, "index_body", never_refreshed)
    monkeypatch.setattr(mapping, "vector_mapping", lambda size, given: vectors(size, given.model_copy(update=DOMAIN)))
    settings = Settings(
        home=tmp_path,
        engine=EngineKind.AWS,
        opensearch_endpoint=opensearch_endpoint,
        opensearch_index=f"test-{uuid.uuid4().hex}",
        opensearch_service=OpenSearchService.SERVERLESS,
        neptune_endpoint=gremlin_endpoint,
    )
    made = Collection(settings)
    made.own.create()
    yield made
    made.own._client.indices.delete(index=f"{settings.opensearch_index}-*")
    made.close()


def test_what_was_written_just_before_a_tenant_is_deleted_goes_with_it(collection: Collection) -> None:
    written(collection, record("old", "the quay"))
    collection.wait(0.0)
    written(collection, record("new", "the crane"))
    write(WriteRequest(tenant_id=GLOBEX, records=[record("theirs", "the crane", tenant_id=GLOBEX)]), collection)
    collection.waited.clear()
    report = delete_tenant(ACME, collection)
    assert (report.records, report.left, collection.waited) == (2, (), [90.0])
    assert (collection.of(ACME), collection.of(GLOBEX)) == ([], ["theirs"])


def test_what_was_written_just_before_a_move_began_is_moved_too(
    collection: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(collection, record("old", "the quay"))
    collection.wait(0.0)
    written(collection, record("new", "the crane"))
    monkeypatch.setattr("braid.engines.opensearch.migration.time.sleep", collection.wait)
    services = replace(collection.reembedding, sleep=collection.wait)
    job = reembedding.plan(services, tenant=ACME, move_tenant=Place.OWN)
    assert reembedding.run_to_end(services, job).status is Status.FINISHED
    assert collection.of(ACME) == ["new", "old"]
    following = partial(collection.own._client.count, index=collection.settings.opensearch_index)
    assert following()["count"] == 2
    collection.waited.clear()
    reembedding.drop_previous(services, ACME)
    assert len(collection.waited) == 2  # for the last writes to be shown, and not again for what was deleted
    collection.wait(0.0)
    assert following()["count"] == 0
    assert collection.of(ACME) == ["new", "old"]
