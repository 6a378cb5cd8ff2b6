"""Removing a tenant from the stores that the settings name, and from no others."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pytest
from braid.app import Application
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedSchemaRegistry
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.errors import ConfigurationError
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ports.members import Membership
from braid.ports.reembedding import JobRecord
from braid.settings import EngineKind, Settings

from tests.contract.shapes import ACME, DIMENSIONS, record
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Shared(Application):
    """Index, graph and schema versions that are not this machine's, as far as the settings say."""

    @cached_property
    def _theirs(self) -> EmbeddedStore:
        return EmbeddedStore(self.settings.home / "elsewhere")

    @cached_property
    def index(self) -> EmbeddedSearchIndex:
        """The index elsewhere."""
        return EmbeddedSearchIndex(self._theirs, DIMENSIONS)

    @cached_property
    def graph(self) -> EmbeddedKnowledgeGraph:
        """The graph elsewhere."""
        return EmbeddedKnowledgeGraph(self._theirs)

    @cached_property
    def schemas(self) -> EmbeddedSchemaRegistry:
        """The schema versions elsewhere."""
        return EmbeddedSchemaRegistry(self._theirs)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[DemoStages]:
    """Yield what this machine keeps of a tenant that has the same name."""
    stages = DemoStages(Settings(home=tmp_path))
    stages.members.add(Membership(subject="user:ada", tenant_id=ACME))
    stages.jobs.put(JobRecord(name=f"refresh:{ACME}", revision=1, body="{}"))
    stages.objects.put(ACME, "inbox/a.jsonl", b"{}")
    stages.cache.put(ACME, "answer", b"the turbine hums", 60)
    yield stages
    stages.close()


@pytest.fixture
def shared(here: DemoStages) -> Iterator[Shared]:
    settings = Settings(
        home=here.settings.home,
        engine=EngineKind.AWS,
        opensearch_endpoint="https://search.example.com",
        neptune_endpoint="wss://graph.example.com:8182/gremlin",
        schema_table="schemas",
    )
    stages = Shared(settings)
    yield stages
    stages.close()
    stages._theirs.close()


def test_stores_that_are_not_named_are_told_and_this_machines_are_not_touched(here: DemoStages, shared: Shared) -> None:
    shared.index.upsert([record("note", "a note on the turbine")])
    report = delete_tenant(ACME, shared)
    assert (report.records, report.members, report.jobs, report.objects, report.cached) == (1, 0, 0, 0, 0)
    assert report.left == (
        "members, if there are any: BRAID_MEMBERS_TABLE: is not set",
        "jobs, if there are any: BRAID_REEMBED_TABLE: is not set",
        "messages, if there are any: BRAID_REEMBED_QUEUE_URL: must be the URL of a FIFO queue, which ends in .fifo",
        "files, if there are any: BRAID_OBJECTS_BUCKET: is not set",
        "cached answers, if there are any: BRAID_CACHE_TABLE: is not set",
    )
    assert [one.tenant_id for one in here.members.of("user:ada")] == [ACME]
    assert here.jobs.names() == [f"refresh:{ACME}"]
    assert [info.key for info in here.objects.list(ACME)] == ["inbox/a.jsonl"]
    assert here.cache.get(ACME, "answer") == b"the turbine hums"


def test_what_belongs_to_shared_stores_is_not_kept_on_this_machine(shared: Shared) -> None:
    with pytest.raises(ConfigurationError, match="BRAID_MEMBERS_TABLE: is not set"):
        shared.members.add(Membership(subject="user:ada", tenant_id=ACME))
    with pytest.raises(ConfigurationError, match="BRAID_REEMBED_TABLE: is not set"):
        shared.jobs.names()


def test_servers_on_this_machine_have_the_rest_on_it_too(here: DemoStages) -> None:
    local = {"opensearch_endpoint": "http://localhost:9200", "neptune_endpoint": "ws://localhost:8182/gremlin"}
    application = Application(Settings(home=here.settings.home, engine=EngineKind.AWS, **local))
    assert [one.tenant_id for one in application.members.of("user:ada")] == [ACME]
    assert application.jobs.names() == [f"refresh:{ACME}"]
    application.close()
