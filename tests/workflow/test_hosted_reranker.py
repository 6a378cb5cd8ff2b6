"""A hosted reranker inside the whole flow: its order, its price, and the answer when it does not come back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from braid.models import Answer, Query, RerankerKind
from braid.retrieval import pipeline
from pydantic import SecretStr

from tests.voyage_server import KEY, Reply, Stall, VoyageServer, voyage_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid_cli.state_machine.interpreter import Workflow
    from tests.stages import DemoStages

QUERY = Query(
    text="Why did label printing fail at the Lisbon depot?",
    tenant_id="saltmarrow",
    reranker=RerankerKind.VOYAGE,
    top_k=50,
)


@pytest.fixture
def server() -> Iterator[VoyageServer]:
    with voyage_server() as running:
        running.score = lambda text: 1.0 / (1 + len(text))
        yield running


@pytest.fixture
def hosted(stages: DemoStages, server: VoyageServer) -> Iterator[DemoStages]:
    """Return the stages with a key and an address of Voyage."""
    before = stages.settings
    stages.settings = before.model_copy(update={"voyage_api_key": SecretStr(KEY), "voyage_url": server.url})
    stages.__dict__.pop("_rerankers", None)
    yield stages
    stages.settings = before
    stages.__dict__.pop("_rerankers", None)


def comparable(answer: Answer) -> dict[str, object]:
    return answer.model_dump(exclude={"trace_id", "latency_ms"})


def test_a_hosted_reranker_orders_the_answer_in_process_and_through_the_state_machine(
    hosted: DemoStages, workflow: Workflow, server: VoyageServer
) -> None:
    answer = pipeline.answer(QUERY, hosted)
    asked = server.requests[0]["documents"]
    assert answer.degraded == ()
    assert answer.rerank_cost_usd == pytest.approx(len(asked) * 0.05 / 1000)
    rescored = [result for result in answer.results if result.rerank_score is not None]
    assert len(rescored) == len(asked) > 10
    # An older schema costs some of the score, so that the order is of what is left of it.
    assert [one.relevance for one in rescored] == sorted((one.relevance for one in rescored), reverse=True)
    assert [one.fused_rank for one in rescored] != sorted(one.fused_rank for one in rescored)
    assert comparable(workflow.answer(QUERY)) == comparable(answer)


@pytest.mark.parametrize("fault", [Stall(), Reply(401), Reply(200, b"{}")])
def test_a_lost_hosted_reranker_leaves_the_fused_order_within_its_time(
    hosted: DemoStages, workflow: Workflow, server: VoyageServer, fault: Stall | Reply
) -> None:
    hosted.settings = hosted.settings.model_copy(update={"rerank_timeout_s": 0.3})
    fused = pipeline.answer(QUERY.model_copy(update={"reranker": RerankerKind.NONE}), hosted)
    server.faults.extend([fault, fault])
    started = time.monotonic()
    answer = pipeline.answer(QUERY, hosted)
    assert time.monotonic() - started < 2
    assert answer.degraded == ("rerank",)
    assert [result.id for result in answer.results] == [result.id for result in fused.results]
    assert [result.relevance for result in answer.results[:3]] == [1.0, 0.99, 0.98]
    assert comparable(workflow.answer(QUERY)) == comparable(answer)
    assert KEY not in answer.model_dump_json()
