"""One tenant's small write costs little, whatever that tenant stored before, and holds up no neighbour's."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded.graph import rows
from braid.ingestion.supersession import SUPERSEDES
from braid.ports.ingestion import WriteReport, WriteRequest
from braid.settings import Settings

from tests.contract.shapes import ACME, GLOBEX, edge, record, vertex
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.models import Record


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path))
    yield stages
    stages.close()


def write(stages: DemoStages, *records: Record) -> WriteReport:
    return stages.write(WriteRequest(tenant_id=ACME, records=records))


@pytest.fixture
def chain(stages: DemoStages) -> list[str]:
    """Store a chain of records of which each supersedes the one before."""
    ids = [f"c{number:04}-{'x' * 200}" for number in range(200)]
    stages.index.upsert([record(name, "") for name in ids])
    stages.graph.upsert(
        [vertex(name, has_record=True) for name in ids],
        [edge(new, old, SUPERSEDES) for old, new in pairwise(ids)],
    )
    return ids


def counted_reads(stages: DemoStages, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often edges are read."""
    really, reads = stages.graph.relationships, [0]

    def relationships(*given: Any, **named: Any) -> Any:
        reads[0] += 1
        return really(*given, **named)

    monkeypatch.setattr(stages.graph, "relationships", relationships)
    return reads


def test_however_many_circles_a_write_closes_what_is_stored_is_followed_once(
    stages: DemoStages, chain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = counted_reads(stages, monkeypatch)
    selves = [record(f"self{number}", "x", supersedes=(f"self{number}",)) for number in range(50)]
    report = write(stages, *selves, record(chain[0], "x", supersedes=(chain[-1],)))
    assert len(report.errors) == 51
    assert all("superseded by itself" in error.message for error in report.errors)
    assert report.written == 0
    assert reads[0] < 2 * len(chain) + 10


def test_a_circle_along_a_stored_chain_is_refused_in_few_words(stages: DemoStages, chain: list[str]) -> None:
    (error,) = write(stages, record(chain[0], "x", supersedes=(chain[-1],))).errors
    assert (error.id, error.field) == (chain[0], "supersedes")
    assert "superseded by itself" in error.message
    assert "…" in error.message
    assert len(error.message) < 5_000


def test_a_hub_is_written_again_without_reading_its_edges(stages: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    spokes = [f"v{number}" for number in range(200)]
    stages.graph.upsert([vertex(name) for name in ("hub", *spokes)], [edge("hub", name) for name in spokes])

    def read(*_: Any) -> None:
        message = "an edge was read"
        raise AssertionError(message)

    with monkeypatch.context() as patch:
        patch.setattr(rows, "_edge", read)
        report = write(stages, record("hub", "The hub of all."))
    assert report.written == 1
    assert len(stages.graph.relationships(ACME, ids=["hub"])) == 200
    assert not stages.graph.relationships(GLOBEX, ids=["hub"])
