"""Quotas of each tenant, on both engines' counters: what is above them, at once or one after another, is refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from braid.api import quotas
from braid.api.quotas import DAY_S, MINUTE_S, Quotas
from braid.engines.aws.dynamodb_cache import DynamoCache
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedCache
from braid.errors import ConfigurationError, InvalidRequest, QueueFull, QuotaExceeded
from braid.ingestion.writer_slots import writing_in_bulk
from braid.models import Query, RerankerKind
from braid.ports.cache import ResilientCache
from braid.settings import EngineKind, Settings, load_settings
from moto import mock_aws

from tests.contract.shapes import Clock
from tests.dynamo_table import cache_table
from tests.fakes import FakeReranker
from tests.front_door import FrontDoor, claims
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.front_door import Answered

    Make = Callable[..., DemoStages]

QUESTION = {"text": "What caused the Beacon text storm?", "top_k": 1}


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.advance(DAY_S - clock.seconds() % DAY_S)
    return clock


@pytest.fixture(params=["embedded", "dynamodb"])
def made(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Make]:
    """Make stages with given quotas, counted by either engine."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    opened: list[DemoStages] = []

    def make(**quotas: Any) -> DemoStages:
        stages = demo_stages(tmp_path)
        stages.settings = stages.settings.model_copy(update={"cache_result_s": 0, **quotas})
        cache: Any = EmbeddedCache(stages.store, clock=clock.now)
        if request.param == "dynamodb":
            cache = DynamoCache(cache_table("cache"), "cache", clock=clock.seconds)
        stages.cache = ResilientCache(cache)
        stages.quotas = Quotas(stages.settings, stages.cache, clock=clock.seconds)
        opened.append(stages)
        return stages

    with mock_aws():
        yield make
    for stages in opened:
        stages.close()


def _records(count: int, prefix: str = "n") -> dict[str, Any]:
    return {"records": [{"id": f"{prefix}-{number}", "content": "A note."} for number in range(count)]}


def _refused(answered: Answered, after: str | None) -> None:
    assert (answered.status, answered.problem) == (429, "too-many-requests")
    assert answered.headers.get("Retry-After") == after


def test_without_quotas_nothing_is_counted(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    library = made()
    monkeypatch.setattr(library.cache, "count", lambda *_: pytest.fail("counted"))
    door = FrontDoor(library)
    assert door.ask("POST", "/search", QUESTION).status == 200
    assert door.ask("POST", "/records", _records(3)).status == 200


def test_questions_of_all_kinds_count_together_and_each_tenants_for_itself(made: Make, clock: Clock) -> None:
    door = FrontDoor(made(quota_questions_per_minute=5))
    clock.advance(18)
    for method, path, body in (
        ("POST", "/search", QUESTION),
        ("POST", "/search/semantic", {"text": "text storm"}),
        ("POST", "/graph/query", {"start": {"names": ["Beacon"]}, "steps": []}),
        ("GET", "/entities/event:text-storm/related", None),
        ("POST", "/context", {"query": "text storm", "messages": []}),
    ):
        assert door.ask(method, path, body).status == 200, path
    _refused(door.ask("POST", "/search", QUESTION), "42")
    assert "5 questions a minute" in door.ask("POST", "/context", {"query": "a", "messages": []}).json()["detail"]
    assert door.ask("POST", "/search", QUESTION, authorizer=claims("pellworth")).status == 200
    assert door.ask("GET", "/records").status == 200
    clock.advance(42)
    assert door.ask("POST", "/search", QUESTION).status == 200


def test_of_many_questions_at_once_as_many_are_answered_as_the_quota_has(made: Make) -> None:
    door = FrontDoor(made(quota_questions_per_minute=7))
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda _: door.ask("GET", "/entities/event:text-storm/related").status, range(24)))
    assert sorted(statuses) == [200] * 7 + [429] * 17


def test_a_tenant_has_as_many_places_as_its_quota_and_takes_none_of_anothers(made: Make, clock: Clock) -> None:
    library = made(quota_requests_at_once=2)
    door = FrontDoor(library)
    with library.quotas.place("saltmarrow"):
        assert [door.ask("POST", "/search", QUESTION).status for _ in range(3)] == [200] * 3
        with library.quotas.place("saltmarrow"):
            for method, path, body in (("POST", "/search", QUESTION), ("POST", "/records", _records(1))):
                _refused(door.ask(method, path, body), "1")
            assert door.ask("POST", "/search", QUESTION, authorizer=claims("pellworth")).status == 200
        assert door.ask("POST", "/search", QUESTION | {"top_k": 0}).status == 422
        assert door.ask("POST", "/search", QUESTION).status == 200
        # What one process died with is free again in the next minute, and what ends there gives back nothing twice.
        clock.advance(MINUTE_S)
    with library.quotas.place("saltmarrow"), library.quotas.place("saltmarrow"):
        _refused(door.ask("POST", "/search", QUESTION), "1")


def test_items_are_counted_whether_they_are_written_or_removed(made: Make, clock: Clock) -> None:
    door = FrontDoor(made(quota_writes_per_minute=10))
    assert door.ask("POST", "/records", _records(6)).status == 200
    _refused(door.ask("POST", "/records", _records(5)), "60")
    # What was refused took nothing.
    assert door.ask("POST", "/records:delete", {"ids": ["n-0", "n-1", "n-2"]}).status == 200
    assert door.ask("DELETE", "/records/n-3").status == 200
    _refused(door.ask("DELETE", "/records/n-4"), "60")
    _refused(door.ask("POST", "/records:import", {"key": "a.jsonl"}), "60")
    _refused(door.ask("POST", "/reembed", {}), "60")
    assert door.ask("POST", "/search", QUESTION).status == 200
    clock.advance(MINUTE_S)
    assert door.ask("DELETE", "/records/n-4").status == 200


def test_of_one_tenant_so_many_imports_are_started_a_minute_whatever_runs_them(
    made: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, started = made(), list[str]()
    door, asked = FrontDoor(library), {"key": "a.jsonl"}
    monkeypatch.setattr(quotas, "IMPORTS_A_MINUTE", 2)
    monkeypatch.setitem(vars(library), "imports", SimpleNamespace(start=lambda tenant, *_: started.append(tenant)))
    assert [door.ask("POST", "/records:import", asked).status for _ in range(2)] == [202, 202]
    _refused(door.ask("POST", "/records:import", asked), "60")
    _refused(door.ask("POST", "/documents", {"name": "a.txt", "content": "YQ=="}), "60")
    assert door.ask("POST", "/records:import", asked, authorizer=claims("pellworth")).status == 202
    clock.advance(MINUTE_S)
    assert door.ask("POST", "/records:import", asked).status == 202
    assert started == ["saltmarrow", "saltmarrow", "pellworth", "saltmarrow"]


def test_a_tenant_of_whose_imports_many_wait_starts_no_more(
    made: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that waits tries again for half a day, by functions that all tenants share."""
    library = made()
    door, asked = FrontDoor(library), {"key": "a.jsonl"}
    monkeypatch.setattr(quotas, "WAITS_A_MINUTE", 2)
    monkeypatch.setitem(vars(library), "imports", SimpleNamespace(start=lambda *_: None))
    with writing_in_bulk(library.cache, 1, tenant_id="saltmarrow"):
        for waiting in range(4):
            expected = 202 if waiting < 3 else 429
            assert door.ask("POST", "/records:import", asked).status == expected
            with pytest.raises(QueueFull), writing_in_bulk(library.cache, 1, tenant_id="saltmarrow"):
                pass
        # Not a tenant whose imports wait for others.
        for _ in range(4):
            with pytest.raises(QueueFull), writing_in_bulk(library.cache, 1, tenant_id="pellworth"):
                pass
    assert door.ask("POST", "/records:import", asked, authorizer=claims("pellworth")).status == 202
    clock.advance(MINUTE_S)
    _refused(door.ask("POST", "/records:import", asked), "60")
    clock.advance(MINUTE_S)
    assert door.ask("POST", "/records:import", asked).status == 202


def test_of_one_tenant_one_workflow_of_embedding_again_is_started_a_minute(
    made: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, started = made(), list[str]()
    door = FrontDoor(library)
    monkeypatch.setitem(vars(library), "_reembed_workflow", SimpleNamespace(start=started.append))
    assert [door.ask("POST", "/reembed", {}).status for _ in range(2)] == [200, 200]
    arn = "arn:aws:states:eu-west-1:123456789012:stateMachine:reembed"
    deployed = {"engine": EngineKind.AWS, "reembed_state_machine_arn": arn}
    library.settings = library.settings.model_copy(update=deployed)
    name = door.ask("POST", "/reembed", {}).json()["name"]
    before = library.jobs.get(name)
    _refused(door.ask("POST", "/reembed", {}), "60")
    assert library.jobs.get(name) == before
    assert door.ask("POST", "/reembed", {}, authorizer=claims("pellworth")).status == 200
    clock.advance(MINUTE_S)
    assert door.ask("POST", "/reembed", {}).status == 200
    assert started == ["saltmarrow", "pellworth", "saltmarrow"]


def test_what_was_refused_at_the_end_of_a_minute_adds_nothing_to_the_next(
    made: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = made(quota_writes_per_minute=10)
    stages.quotas.take_writes("acme", 10)
    count = stages.cache.count

    def at_the_turn(*given: Any) -> int | None:
        taken = count(*given)
        clock.advance(MINUTE_S if given[2] > 0 else 0)
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(stages.cache, "count", at_the_turn)
        with pytest.raises(QuotaExceeded):
            stages.quotas.take_writes("acme", 10)
    stages.quotas.take_writes("acme", 10)
    with pytest.raises(QuotaExceeded):
        stages.quotas.take_writes("acme", 1)


def test_a_request_above_the_whole_quota_is_told_so_and_not_to_come_again(made: Make) -> None:
    door = FrontDoor(made(quota_writes_per_minute=10))
    answered = door.ask("POST", "/records", _records(11))
    _refused(answered, None)
    assert "send fewer" in answered.json()["detail"]
    assert door.ask("POST", "/records", _records(10)).status == 200


def test_a_repeated_request_is_answered_without_taking_from_the_quota(made: Make) -> None:
    door, key = FrontDoor(made(quota_writes_per_minute=3)), {"idempotency-key": "k"}
    for _ in range(3):
        assert door.ask("POST", "/records", _records(2), headers=key).status == 200
    assert door.ask("POST", "/records", _records(1)).status == 200


def test_when_the_counters_are_lost_requests_go_on(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    library = made(quota_questions_per_minute=1, quota_writes_per_minute=1)
    monkeypatch.setattr(library.cache, "_ask", lambda _: None)
    door = FrontDoor(library)
    assert [door.ask("POST", "/search", QUESTION).status for _ in range(3)] == [200] * 3
    assert [door.ask("POST", "/records", _records(1)).status for _ in range(3)] == [200] * 3


def _with_reranker(library: DemoStages, monkeypatch: pytest.MonkeyPatch, price: float) -> FakeReranker:
    reranker = FakeReranker(cost_usd=price)
    monkeypatch.setattr(library, "reranker_for", lambda asked: reranker if asked is RerankerKind.BEDROCK else None)
    return reranker


def _ask_bedrock(library: DemoStages, tenant: str = "saltmarrow") -> tuple[str, ...]:
    answered = FrontDoor(library).ask("POST", "/search", QUESTION | {"reranker": "bedrock"}, authorizer=claims(tenant))
    assert answered.status == 200
    assert answered.json()["results"]
    return tuple(answered.json()["degraded"])


def test_beyond_its_budget_a_tenant_has_the_fused_order_until_the_next_day(
    made: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = made(quota_rerank_usd_per_day=0.005)
    reranker = _with_reranker(library, monkeypatch, 0.002)
    assert [_ask_bedrock(library) for _ in range(5)] == [(), (), (), ("rerank",), ("rerank",)]
    assert len(reranker.asked) == 3
    assert _ask_bedrock(library, "pellworth") == ()
    clock.advance(DAY_S)
    assert _ask_bedrock(library) == ()


def test_a_budget_that_cannot_be_looked_up_is_not_spent(made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    library = made(quota_rerank_usd_per_day=5)
    reranker = _with_reranker(library, monkeypatch, 0.002)
    monkeypatch.setattr(library.cache, "count", lambda *_: None)
    assert _ask_bedrock(library) == ("rerank",)
    assert reranker.asked == []


def test_a_hosted_reranker_that_is_not_named_may_not_be_asked(made: Make) -> None:
    library = made(hosted_rerankers=(RerankerKind.BEDROCK,))
    answered = FrontDoor(library).ask("POST", "/search", QUESTION | {"reranker": "voyage"})
    assert (answered.status, answered.fields) == (422, ["reranker"])
    assert "use one of none, onnx, bedrock" in answered.json()["detail"]
    assert library.calls.get("plan") is None
    with pytest.raises(InvalidRequest, match="voyage is not enabled"):
        library.reranker_for(RerankerKind.VOYAGE)
    with pytest.raises(InvalidRequest, match="voyage is not enabled"):
        library.answer(Query(tenant_id="saltmarrow", text="a", reranker=RerankerKind.VOYAGE))


def test_quotas_that_nothing_would_count_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "ENGINE": "aws",
        "OPENSEARCH_ENDPOINT": "http://127.0.0.1:1",
        "NEPTUNE_ENDPOINT": "ws://127.0.0.1:1/gremlin",
        "QUOTA_QUESTIONS_PER_MINUTE": "5",
    }.items():
        monkeypatch.setenv(f"BRAID_{name}", value)
    load_settings.cache_clear()
    with pytest.raises(ConfigurationError, match=r"BRAID_QUOTA_QUESTIONS_PER_MINUTE needs BRAID_CACHE_TABLE"):
        load_settings()


def test_the_reranker_of_the_settings_is_one_that_may_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRAID_RERANKER", "bedrock")
    monkeypatch.setenv("BRAID_HOSTED_RERANKERS", '["voyage"]')
    load_settings.cache_clear()
    with pytest.raises(ConfigurationError, match="not among BRAID_HOSTED_RERANKERS"):
        load_settings()
    assert Settings(reranker=RerankerKind.BEDROCK, hosted_rerankers=(RerankerKind.BEDROCK,))
