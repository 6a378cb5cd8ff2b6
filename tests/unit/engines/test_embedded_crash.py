"""Killing the writer: what was acknowledged is there, what was not is there whole or not at all."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedJobStore
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.ports.search_index import SearchRequest
from braid.settings import Journal

from tests.contract.shapes import ACME, AS_OF, AXIS, DIMENSIONS, embedding, record

ROOT = Path(__file__).parents[3]
BATCH = 20
WRITER = """
import sys
from pathlib import Path
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedJobStore
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.ports.reembedding import JobRecord
from braid.settings import Journal
from tests.contract.shapes import ACME, DIMENSIONS, edge, record, vertex

store = EmbeddedStore(Path(sys.argv[1]), journal=Journal(sys.argv[2]))
index, graph = EmbeddedSearchIndex(store, DIMENSIONS), EmbeddedKnowledgeGraph(store)
jobs = EmbeddedJobStore(store)
for batch in range(100_000):
    names = [f"b{batch}r{number}" for number in range(20)]
    with store.transaction():
        index.upsert([record(name, f"turbine batch{batch} " + "text " * 200, cosine=0.5) for name in names])
        graph.upsert([vertex(name) for name in names], [edge(names[0], name) for name in names[1:]])
        jobs.put(JobRecord(name=f"batch{batch}", revision=1, body="done"))
    print(batch, flush=True)
    index.optimise(ACME)
"""


@pytest.mark.parametrize("journal", Journal)
@pytest.mark.parametrize("acknowledged", [1, 4, 15])
def test_a_killed_ingest_loses_nothing_that_was_acknowledged(
    tmp_path: Path, acknowledged: int, journal: Journal
) -> None:
    with subprocess.Popen(  # noqa: S603 - this interpreter and the text above
        [sys.executable, "-c", WRITER, str(tmp_path), journal], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        lines = [int(writer.stdout.readline()) for _ in range(acknowledged)]
        writer.kill()  # SIGKILL, in the middle of a later batch
        lines += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
    with EmbeddedStore(tmp_path, journal=journal) as store:
        index, graph = EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=0), EmbeddedKnowledgeGraph(store)
        jobs = EmbeddedJobStore(store)
        whole = [batch for batch in range(lines[-1] + 2) if jobs.get(f"batch{batch}")]
        assert whole[: len(lines)] == lines
        names = {batch: [f"b{batch}r{number}" for number in range(BATCH)] for batch in range(lines[-1] + 3)}
        for batch, batch_names in names.items():
            expected = BATCH if batch in whole else 0
            assert len(index.get_many(ACME, batch_names)) == expected
            words = SearchRequest(tenant_id=ACME, text=f"batch{batch}", k=50, as_of=AS_OF)
            assert len(index.search(words).lexical) == expected
        assert index.stats(ACME).records == graph.stats(ACME).vertices == BATCH * len(whole)
        assert graph.stats(ACME).edges == (BATCH - 1) * len(whole)
        index.upsert([record("after", "turbine", cosine=1.0)])
        request = SearchRequest(tenant_id=ACME, embedding=embedding(AXIS), k=BATCH, as_of=AS_OF)
        vectors = index.search(request).vector
        assert vectors[0].id == "after"
        assert len(vectors) == BATCH
