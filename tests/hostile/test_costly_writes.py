"""One tenant's small write costs little, whatever that tenant stored before, and holds up no neighbour's."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded.graph import rows
from braid.ingestion.supersession import MAX_LEVELS, SUPERSEDES
from braid.ports.ingestion import WriteReport, WriteRequest
from braid.settings import Settings

from tests.contract.shapes import ACME, GLOBEX, edge, record, vertex
from tests.stages import DemoStages, WordEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from braid.models import Record
    from braid.models.model_profiles import ModelConfig


class WatchedStages(DemoStages):
    """Notes how often a model ran, and how often inside a transaction."""

    embedded = 0
    embedded_in_transaction = 0

    def encoder_for(self, model: ModelConfig, *, threads: int | None = None) -> WordEncoder:  # noqa: ARG002
        stages = self

        class Watched(WordEncoder):
            def encode(self, texts: Sequence[str], *, instruction: str = "") -> list[bytes]:
                stages.embedded += 1
                stages.embedded_in_transaction += stages.index._store.in_transaction  # type: ignore[attr-defined]
                return super().encode(texts, instruction=instruction)

        return Watched(model)


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[WatchedStages]:
    stages = WatchedStages(Settings(home=tmp_path))
    yield stages
    stages.close()


def write(stages: DemoStages, *records: Record) -> WriteReport:
    return stages.write(WriteRequest(tenant_id=ACME, records=records))


@pytest.mark.parametrize("times", [1, 3])
def test_no_model_runs_while_the_writes_of_all_tenants_wait(
    stages: WatchedStages, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """What is unchanged when it is checked, and changed when its turn comes, is embedded before the turn is taken."""
    texts = ("lantern", "beacon")
    write(stages, record("r", texts[0]))
    really, begun = stages.transaction, 0

    def transaction(tenant_id: str) -> Any:
        nonlocal begun
        begun += 1
        if begun <= times:  # another write comes first, as one that had begun before does
            other = threading.Thread(target=other_write, args=(texts[begun % 2],))
            other.start()
            other.join()
        return really(tenant_id)

    def other_write(text: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(stages, "transaction", really)
            stages.write(WriteRequest(tenant_id=ACME, records=(record("r", text),)))
        monkeypatch.setattr(stages, "transaction", transaction)

    monkeypatch.setattr(stages, "transaction", transaction)
    report = write(stages, record("r", texts[0]))
    assert begun > 1
    assert stages.embedded > 1
    assert stages.embedded_in_transaction == 0
    assert not report.errors
    (stored,) = stages.index.get_many(ACME, ["r"], with_vectors=True)
    assert stored.content == texts[0]
    (model, *_) = stages.models()
    assert WordEncoder(model).encode([texts[0]])[0] in {one.vector for one in stored.embeddings}


@pytest.fixture
def chain(stages: WatchedStages) -> list[str]:
    """Store a chain of records of which each supersedes the one before, longer than is walked for one write."""
    ids = [f"c{number:04}-{'x' * 200}" for number in range(MAX_LEVELS + 100)]
    stages.index.upsert([record(name, "") for name in ids])
    stages.graph.upsert(
        [vertex(name, has_record=True) for name in ids],
        [edge(new, old, SUPERSEDES) for old, new in pairwise(ids)],
    )
    return ids


def counted_reads(stages: WatchedStages, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often edges are read."""
    really, reads = stages.graph.relationships, [0]

    def relationships(*given: Any, **named: Any) -> Any:
        reads[0] += 1
        return really(*given, **named)

    monkeypatch.setattr(stages.graph, "relationships", relationships)
    return reads


def test_a_chain_is_continued_without_walking_it(
    stages: WatchedStages, chain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = counted_reads(stages, monkeypatch)
    report = write(stages, record("new", "x", supersedes=(chain[-1],)))
    assert (report.written, report.superseded, report.errors) == (1, 1, ())
    assert reads[0] < 10


def test_a_chain_is_walked_once_a_write_and_no_further_than_its_bound(
    stages: WatchedStages, chain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(stages, record("upper", "x", supersedes=("lower",)), record("lower", "x"))
    reads = counted_reads(stages, monkeypatch)
    selves = [record(f"self{number}", "x", supersedes=(f"self{number}",)) for number in range(50)]
    report = write(stages, *selves, record("lower", "x", supersedes=(chain[-1],)))
    refused = {error.id: error.message for error in report.errors}
    assert "too many records stand between" in refused["lower"]
    assert len(refused) == 51
    assert report.written == 0
    assert reads[0] < MAX_LEVELS + 20


def test_a_circle_along_a_stored_chain_is_refused_in_few_words(stages: WatchedStages, chain: list[str]) -> None:
    near = chain[: MAX_LEVELS - 10]
    (error,) = write(stages, record(near[0], "x", supersedes=(near[-1],))).errors
    assert (error.id, error.field) == (near[0], "supersedes")
    assert "superseded by itself" in error.message
    assert "…" in error.message
    assert len(error.message) < 5_000


def test_a_hub_is_written_again_without_reading_its_edges(
    stages: WatchedStages, monkeypatch: pytest.MonkeyPatch
) -> None:
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
