"""Whole answers in process, over embedded engines: what settings, schema versions and models do to them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from braid.errors import StoreError, StoreTooSlow
from braid.models import Embedding, EmbeddingType, Query, Record, SchemaWindow
from braid.ports.schema_registry import SchemaVersion
from braid.reembedding.queue_from_answers import ReembedMessage
from braid.settings import Settings

from tests.fakes import NOW, TENANT
from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from braid.models import Answer

QUESTION = "which scanner locked out the depot"


@pytest.fixture
def stages_of(tmp_path: Path) -> Iterator[Callable[..., DemoStages]]:
    """Return a function that opens the same store under other settings."""
    opened: list[DemoStages] = []

    def open_stages(**settings: Any) -> DemoStages:
        opened.append(DemoStages(Settings(home=tmp_path, **settings)))
        return opened[-1]

    yield open_stages
    for stages in opened:
        stages.close()


def write(stages: DemoStages, *, versions: range = range(1, 2)) -> None:
    """Write one record a schema version, which all have the question's words; the last version is current."""
    for version in versions:
        stages.schemas.register(SchemaVersion(tenant_id=TENANT, version=version, created_at=NOW))
        (model,) = stages.models()
        encoder = stages.encoder_for(model)
        (vector,) = encoder.encode([QUESTION])
        embedded = Embedding(space=encoder.space, model_id=encoder.model_id, vector=vector)
        written = Record(
            id=f"v{version}", tenant_id=TENANT, content=QUESTION, embeddings=(embedded,), schema_version=version
        )
        stages.index.upsert([written])


def ask(stages: DemoStages, **fields: Any) -> Answer:
    return stages.answer(Query(text=QUESTION, tenant_id=TENANT, **fields))


def test_a_question_queues_what_it_meets_that_is_outdated(stages_of: Callable[..., DemoStages]) -> None:
    stages = stages_of()
    write(stages, versions=range(1, 7))
    answer = ask(stages)
    assert {result.id for result in answer.results} == {"v3", "v4", "v5", "v6"}
    assert {result.id for result in answer.results if result.needs_transformation} == {"v3", "v4"}
    assert answer.counts["outdated"] == 4
    queued = [ReembedMessage.read(delivery.message) for delivery in stages.queue.receive(10, 60)]
    assert [each.record_ids for each in queued[:2]] == [("v1",), ("v2",)], "what was left out comes first"
    assert {each.record_ids for each in queued[2:]} == {("v3",), ("v4",)}
    assert {each.target_schema_version for each in queued} == {6}
    assert stages.outdated_counts() == {"OutdatedQueued": 4, "OutdatedLost": 0}
    assert stages.retrieve(Query(text=QUESTION, tenant_id=TENANT)).counts["outdated"] == 4
    assert stages.outdated_counts() == {"OutdatedQueued": 0, "OutdatedLost": 0}
    assert stages.queue.depth() == 4


def test_a_strict_window_finds_the_current_version_and_the_one_before(stages_of: Callable[..., DemoStages]) -> None:
    write(stages_of(), versions=range(1, 7))
    answer = ask(stages_of(schema_window=SchemaWindow.STRICT))
    assert {result.id for result in answer.results} == {"v5", "v6"}
    assert answer.counts["outdated"] == 4


def test_a_model_that_nothing_is_stored_for_leaves_words_and_the_answer_says_so(
    stages_of: Callable[..., DemoStages],
) -> None:
    write(stages_of())
    answer = ask(stages_of(embedding_model="codebert-code"))
    assert answer.degraded == ("space",)
    assert [(result.id, result.vector_score) for result in answer.results] == [("v1", None)]
    assert ask(stages_of()).degraded == ()


def test_a_forced_model_embeds_every_type_of_question(stages_of: Callable[..., DemoStages]) -> None:
    stages = stages_of(model_profile="instructor", embedding_model="all-minilm-l6-v2")
    assert {stages.model_for(kind).id for kind in EmbeddingType} == {"all-minilm-l6-v2"}
    assert [model.id for model in stages.models()] == ["all-minilm-l6-v2"]


def test_a_slow_answer_in_process_is_warned_of_with_its_plan_and_no_text(
    stages_of: Callable[..., DemoStages], caplog: pytest.LogCaptureFixture
) -> None:
    write(stages_of())
    with caplog.at_level(logging.WARNING, "braid.app"):
        ask(stages_of())
        assert "slow answer" not in caplog.text
        ask(stages_of(slow_total_ms=1e-6), facets=("maker of the scanner",))
    (line,) = [entry.getMessage() for entry in caplog.records if "slow answer" in entry.getMessage()]
    assert '"strategy": "semantic"' in line
    assert "scanner" not in line
    with caplog.at_level(logging.WARNING, "braid.app"):
        ask(stages_of(slow_total_ms=1e-6, log_queries=True))
    assert QUESTION in caplog.messages[-1]


def test_a_registry_of_schemas_that_does_not_answer_is_not_waited_for_by_every_question(
    stages_of: Callable[..., DemoStages], monkeypatch: pytest.MonkeyPatch
) -> None:
    stages, asked = stages_of(), list[str]()
    write(stages)

    def current(tenant_id: str) -> int:
        asked.append(tenant_id)
        raise StoreError("table schemas: did not answer")

    monkeypatch.setattr(stages.schemas, "current", current)
    first, second = ask(stages), ask(stages)
    assert asked == [TENANT]
    assert [result.id for result in first.results] == [result.id for result in second.results] == ["v1"]
    assert any(mark.startswith("schema") for mark in map(str, second.degraded)), second.degraded


def test_a_question_whose_time_is_over_takes_the_registry_of_schemas_from_nobody_else(
    stages_of: Callable[..., DemoStages], monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = stages_of()
    write(stages)
    with monkeypatch.context() as slow:
        slow.setattr(stages.schemas, "current", Mock(side_effect=StoreTooSlow("the time limit has passed")))
        ask(stages)
    assert not [mark for mark in map(str, ask(stages).degraded) if mark.startswith("schema")]
