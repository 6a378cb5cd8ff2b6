"""What is kept, under which key, for how long, and what is never kept."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import ModelError, StoreError
from braid.models import FusionParameters, Kind, Query, Ranking
from braid.ports.cache import ResilientCache
from braid.ranking.scoring import FOREVER, ScoredCandidate, final_score, order_stable_until
from braid.retrieval.caches.keys_and_generations import WriteGenerations, embedding_key
from braid.retrieval.use_counts import KEY as USES
from braid.settings import EngineKind, OpenSearchService, Refresh, Settings
from braid.settings.configuration_files import Fitted
from hypothesis import example, given
from hypothesis import strategies as st

from tests.cached import CachedStages, cached_stages, edge, entity, note, said
from tests.stages import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.retrieval.context.message_selection import Context

TENANT = "acme"
QUESTION = Query(text="Why did the pump fail at Harbour?", tenant_id=TENANT)


class Forgetful:
    """A cache that forgets whose a value is, and keeps every key it was asked for."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[bytes, int]] = {}
        self.keys: list[tuple[str, str]] = []
        self.error: Exception | None = None

    def get(self, tenant_id: str, key: str) -> bytes | None:
        self.keys.append((tenant_id, key))
        if self.error:
            raise self.error
        return self.kept[key][0] if key in self.kept else None

    def put(self, tenant_id: str, key: str, value: bytes, ttl_s: int) -> None:
        self.keys.append((tenant_id, key))
        self.kept[key] = (value, ttl_s)

    def exchange(self, _: str, key: str, expected: bytes | None, value: bytes | None, ttl_s: int) -> bytes | None:
        del key, value, ttl_s
        return expected

    def generation(self, tenant_id: str) -> int:
        assert tenant_id
        if self.error:
            raise self.error
        return 7

    def advance(self, tenant_id: str) -> int:
        raise NotImplementedError(tenant_id)

    def seconds(self, kind: str) -> list[int]:
        """Return for how long values of a kind are kept."""
        return [ttl_s for key, (_, ttl_s) in self.kept.items() if key.startswith(f"{kind}|")]


@pytest.fixture
def kept() -> Forgetful:
    return Forgetful()


@pytest.fixture
def stages(tmp_path: Path, kept: Forgetful) -> Iterator[CachedStages]:
    opened = cached_stages(tmp_path, kept)
    fill(opened, TENANT)
    yield opened
    opened.close()


def fill(stages: CachedStages, tenant: str, **fields: Any) -> None:
    stages.index.upsert(
        [note(tenant, "pump", f"the pump of Harbour failed at {tenant}", **fields), note(tenant, "quay", "Harbour")]
    )
    stages.graph.upsert(
        [entity(tenant, "pump", "Pump"), entity(tenant, "quay", "Harbour")], [edge(tenant, "pump", "quay")]
    )


def test_an_embedding_lies_under_16_hexadecimal_digits_of_model_instruction_and_text_and_never_under_the_text(
    stages: CachedStages, kept: Forgetful
) -> None:
    stages.answer(QUESTION)
    model = stages.models()[0]
    digest = hashlib.sha256(json.dumps([model.id, "", QUESTION.text], ensure_ascii=False).encode()).hexdigest()
    assert embedding_key(model.id, "", QUESTION.text) == digest[:16]
    assert f"embedding|{digest[:16]}" in kept.kept
    assert kept.seconds("embedding") == [24 * 60 * 60]
    assert not any("pump" in key.lower() for _, key in kept.keys)
    assert {tenant for tenant, _ in kept.keys} == {TENANT}


def test_model_instruction_and_text_do_not_run_into_one_another() -> None:
    assert embedding_key("a", "b", "c") != embedding_key("ab", "", "c") != embedding_key("a", "", "bc")


def test_a_question_that_was_embedded_before_loads_no_model(
    stages: CachedStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stages.retrieve(QUESTION)

    def lost(*_: object, **__: object) -> Any:
        raise ModelError("no model is here any more")

    monkeypatch.setattr(stages, "encoder_for", lost)
    assert said(stages.retrieve(QUESTION)) == said(before)
    other = stages.retrieve(QUESTION.model_copy(update={"text": "Why not?"}))
    assert other.degraded == ("embed",)


def test_an_answer_from_the_cache_says_so_and_has_a_trace_and_latencies_of_its_own(
    stages: CachedStages, kept: Forgetful
) -> None:
    first, second = stages.answer(QUESTION), stages.answer(QUESTION)
    assert (first.cached, second.cached) == (False, True)
    assert said(first) == said(second)
    assert first.trace_id != second.trace_id
    assert set(second.latency_ms) == {"cache", "total"}
    assert second.rerank_cost_usd == 0
    assert kept.seconds("result") == [5 * 60]
    assert stages.calls["plan"] == 1


def test_another_question_or_other_settings_are_another_key(stages: CachedStages, tmp_path: Path) -> None:
    stages.answer(QUESTION)
    assert not stages.answer(QUESTION.model_copy(update={"top_k": 3})).cached
    others = CachedStages(Settings(home=tmp_path, seeds=3), stages.clock, stages.kept_in)
    vars(others).update(store=stages.store, index=stages.index, graph=stages.graph)
    assert not others.answer(QUESTION).cached


def test_other_fusion_parameters_are_another_key(stages: CachedStages) -> None:
    stages.answer(QUESTION)
    others = CachedStages(stages.settings, stages.clock, stages.kept_in)
    vars(others).update(store=stages.store, index=stages.index, graph=stages.graph)
    assert others.answer(QUESTION).cached
    others = CachedStages(stages.settings, stages.clock, stages.kept_in)
    vars(others).update(store=stages.store, index=stages.index, graph=stages.graph)
    others.fitted = Fitted(FusionParameters(hit_share=0.25))
    assert not others.answer(QUESTION).cached


@pytest.mark.parametrize("stage", ["plan", "embed", "vector_search", "graph_expand", "fuse_rerank"])
def test_a_degraded_answer_is_not_kept(stages: CachedStages, stage: str) -> None:
    def lost() -> None:
        raise RuntimeError("lost")

    stages.faults[stage] = lost
    assert stages.answer(QUESTION).degraded
    stages.healthy()
    assert not stages.answer(QUESTION).cached


def test_what_becomes_valid_is_found_at_that_moment_and_not_when_the_answer_expires(
    stages: CachedStages, kept: Forgetful
) -> None:
    later = NOW + timedelta(seconds=60)
    stages.index.upsert([note(TENANT, "news", "Harbour pump repaired", valid_at=later)])
    first = stages.answer(QUESTION)
    assert first.holds_until == later
    assert kept.seconds("result") == [60]
    stages.clock.move(59)
    assert stages.answer(QUESTION).cached
    stages.clock.move(1)
    found = stages.answer(QUESTION)
    assert not found.cached
    assert "news" in {result.id for result in found.results} - {result.id for result in first.results}


@pytest.mark.parametrize("order", [(60, 90, 120), (120, 60, 90), (90, 120, 60)])
def test_an_answer_ends_when_the_first_thing_that_it_shows_ceases_to_be_valid(
    stages: CachedStages, order: tuple[int, int, int]
) -> None:
    of_record, of_entity, of_edge = (NOW + timedelta(seconds=seconds) for seconds in order)
    stages.index.upsert([note("globex", "pump", "failed", invalid_at=of_record), note("globex", "valve", "closed")])
    stages.graph.upsert(
        [entity("globex", "pump", "Pump", invalid_at=of_entity), entity("globex", "valve", "Valve")],
        [edge("globex", "pump", "valve", invalid_at=of_edge)],
    )
    answer = stages.retrieve(QUESTION.model_copy(update={"tenant_id": "globex"}))
    assert answer.holds_until == min(of_record, of_entity, of_edge)


def test_what_is_remembered_of_the_graph_is_forgotten_when_a_relationship_in_it_ends(stages: CachedStages) -> None:
    stages.graph.upsert([], [edge(TENANT, "pump", "quay", invalid_at=NOW + timedelta(seconds=60))])
    query = QUESTION.model_copy(update={"text": "Harbour"})

    def walked() -> bool:
        return any(path.types for result in stages.retrieve(query).results for path in result.paths)

    assert walked()
    stages.clock.move(59)
    assert walked()
    stages.clock.move(1)
    assert not walked()


def test_a_question_as_of_a_moment_holds_whatever_becomes_valid(stages: CachedStages) -> None:
    fill(stages, TENANT, valid_at=NOW + timedelta(seconds=60))
    query = QUESTION.model_copy(update={"as_of": NOW})
    stages.answer(query)
    stages.clock.move(120)
    assert stages.answer(query).cached


def test_ages_are_those_of_the_moment_of_asking_again(stages: CachedStages) -> None:
    fill(stages, TENANT, timestamp=NOW - timedelta(hours=1))
    query = QUESTION.model_copy(update={"ranking": Ranking.RECENCY})
    first = stages.answer(query)
    stages.clock.move(200)
    again = stages.answer(query)
    assert again.cached
    before, after = ({result.id: result for result in answer.results}["pump"] for answer in (first, again))
    assert after.recency < before.recency
    assert after.final < before.final


def test_an_answer_that_age_could_reorder_ends_before_it_could(stages: CachedStages) -> None:
    query = QUESTION.model_copy(update={"tenant_id": "globex", "ranking": Ranking.RECENCY})
    text = "the pump of Harbour failed"
    for identity, hours in (("newer", 1), ("older", 2)):
        stages.index.upsert([note("globex", identity, text, timestamp=NOW - timedelta(hours=hours))])
    answer = stages.answer(query)
    assert {result.id for result in answer.results} == {"newer", "older"}
    assert answer.holds_until
    assert NOW < answer.holds_until < NOW + timedelta(hours=3)


moments = st.none() | st.integers(-300, 5).map(lambda hours: NOW + timedelta(hours=hours))
candidates = st.lists(
    st.tuples(st.sampled_from([0.2, 0.5, 0.51, 0.9]), st.sampled_from(list(Kind)), moments), max_size=8
)


@given(candidates, st.sampled_from(list(Ranking)), st.integers(1, 8), st.floats(0, 1))
@example([(0.2, Kind.CHUNK, NOW - timedelta(hours=hours)) for hours in (56, 28)], Ranking.RECENCY, 1, 1.0)
def test_until_the_moment_that_is_stated_age_does_not_change_the_order(
    found: list[tuple[float, Kind, Any]], ranking: Ranking, shown: int, share: float
) -> None:
    def order(moment: Any) -> list[tuple[float, int]]:
        scored = [
            (-final_score(ranking, relevance=relevance, kind=kind.value, at=at, now=moment), place)
            for place, (relevance, kind, at) in enumerate(found)
        ]
        return sorted(scored)

    first = order(NOW)
    ordered = [ScoredCandidate(-negative, found[place][1].value, found[place][2]) for negative, place in first]
    end = order_stable_until(ordered, shown=shown, ranking=ranking, now=NOW)
    assert end >= NOW
    within = min(end, NOW + timedelta(days=30)) - NOW
    later = order(NOW + share * within * 0.999)
    assert [place for _, place in later[:shown]] == [place for _, place in first[:shown]]
    if ranking is Ranking.RELEVANCE:
        assert end == FOREVER


def test_a_lost_cache_is_a_miss_and_no_error(stages: CachedStages, kept: Forgetful) -> None:
    kept.error = StoreError("no table")
    assert stages.answer(QUESTION).degraded == ()
    counts = stages.cache_counts()
    assert counts["ResultCacheMiss"] == counts["EmbeddingCacheMiss"] == 1
    assert not any(name.endswith("Hit") for name in counts)


def test_what_cannot_be_read_back_is_a_miss(stages: CachedStages, kept: Forgetful) -> None:
    stages.answer(QUESTION)
    for key, (_, ttl_s) in list(kept.kept.items()):
        kept.kept[key] = (b"of another version", ttl_s)
    assert not stages.answer(QUESTION).cached


def test_nothing_is_kept_under_a_generation_that_a_store_may_not_show_yet() -> None:
    class Numbered(Forgetful):
        number = 1

        def generation(self, tenant_id: str) -> int:
            return self.number if tenant_id else 0

    numbered, seconds = Numbered(), [0.0]
    generations = WriteGenerations(ResilientCache(numbered), settle_s=5, clock=lambda: seconds[0])
    seen = []
    for seconds[0], numbered.number in ((0, 1), (4.9, 1), (5, 1), (6, 2), (10, 2), (11, 2)):
        generation = generations.read(TENANT)
        assert generation
        seen.append((generation.number, generation.settled))
    assert seen == [(1, False), (1, False), (1, True), (2, False), (2, False), (2, True)]


def test_a_question_after_a_write_goes_to_the_writer_until_readers_show_the_write(tmp_path: Path) -> None:
    stages, seconds = cached_stages(tmp_path), [0.0]
    reader = object()
    vars(stages)["graph_reader"] = reader
    vars(stages.caches)["_generations"] = WriteGenerations(stages.cache, settle_s=5, clock=lambda: seconds[0])

    def asked(tenant: str = TENANT) -> str:
        graph: Any = stages.caches.graph(tenant)
        return "reader" if graph._graph is reader else "writer"

    # A process does not know when a tenant was written to before it first asks about it.
    assert asked() == "writer"
    seconds[0] = 5
    assert (asked(), asked("globex")) == ("reader", "writer")
    fill(stages, TENANT)
    assert asked() == "writer"
    seconds[0] = 9.9
    assert (asked(), asked("globex")) == ("writer", "writer")
    seconds[0] = 10
    assert (asked(), asked("globex")) == ("reader", "reader")
    stages.close()


def test_writes_and_what_they_read_never_go_to_the_readers(tmp_path: Path) -> None:
    stages = cached_stages(tmp_path)

    class Reader:
        def __getattr__(self, name: str) -> Any:
            message = f"the readers were asked for {name}"
            raise AssertionError(message)

        def close(self) -> None:
            pass

    vars(stages)["graph_reader"] = Reader()
    vars(stages.caches)["_generations"] = WriteGenerations(stages.cache, settle_s=5, clock=lambda: 0.0)
    fill(stages, TENANT)
    stages.delete(TENANT, ["pump"])
    assert stages.retrieve(QUESTION.model_copy(update={"as_of": stages.now()})).degraded == ()
    stages.close()


def test_readers_need_time_to_show_a_write() -> None:
    aws = {"engine": EngineKind.AWS, "opensearch_endpoint": "http://o", "neptune_endpoint": "ws://n/gremlin"}
    assert Settings(**aws, neptune_reader_endpoint="ws://r/gremlin").settle_s() == 5
    with pytest.raises(ValueError, match="cache_settle_s above 0"):
        Settings(**aws, neptune_reader_endpoint="ws://r/gremlin", cache_settle_s=0)


def test_stores_that_show_writes_late_are_given_time() -> None:
    aws = Settings.model_construct(engine=EngineKind.AWS, cache_settle_s=None)
    assert Settings().settle_s() == 0
    assert aws.settle_s() == 5
    assert aws.model_copy(update={"opensearch_service": OpenSearchService.SERVERLESS}).settle_s() == 90
    assert aws.model_copy(update={"opensearch_refresh": Refresh.NONE}).settle_s() == 90
    assert aws.model_copy(update={"cache_settle_s": 1.0}).settle_s() == 1


def test_each_cache_can_be_switched_off(tmp_path: Path, kept: Forgetful) -> None:
    off = {"cache_embedding_s": 0, "cache_result_s": 0, "cache_context_s": 0, "cache_graph_entries": 0}
    stages = cached_stages(tmp_path, kept, **off)
    fill(stages, TENANT)
    for _ in range(2):
        answer = stages.answer(QUESTION)
        assert not answer.cached
    stages.close()
    assert ([key for _, key in kept.keys if key != USES], stages.cache_counts()) == ([], {})


def context(stages: CachedStages, *says: str, tenant: str = TENANT) -> Context:
    from braid.retrieval.context.building import build_context

    messages = [{"role": "user", "content": text} for text in says]
    return build_context("pump Harbour", messages, tenant_id=tenant, memory=stages)


def test_the_next_turn_of_a_conversation_needs_no_search_and_shows_its_own_messages(
    stages: CachedStages, kept: Forgetful
) -> None:
    context(stages, "the pump of Harbour")
    calls = dict(stages.calls)
    built = context(stages, "the pump of Harbour", "Harbour, and its pump")
    assert stages.calls == calls
    assert stages.cache_counts()["ContextCacheHit"] == 1
    assert "Harbour, and its pump" in [message["content"] for message in built.messages]
    assert kept.seconds("context") == [60 * 60]
    assert not any(b"and its pump" in value for value, _ in kept.kept.values())


def test_names_and_walks_are_remembered_though_each_question_has_its_own_moment(
    stages: CachedStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stages.retrieve(QUESTION)
    stages.clock.move(1)

    def asked(*_: object, **__: object) -> Any:
        raise AssertionError("the graph was asked")

    for call in ("link", "expand", "propagate", "stats"):
        monkeypatch.setattr(stages.graph, call, asked)
    again = stages.retrieve(QUESTION)
    assert again.degraded == ()
    assert [result.paths for result in again.results] == [result.paths for result in first.results]


def test_a_warm_process_remembers_no_more_than_it_may(tmp_path: Path, kept: Forgetful) -> None:
    stages = cached_stages(tmp_path, kept, cache_graph_entries=3)
    fill(stages, TENANT)
    for text in ("pump", "Harbour", "pump and Harbour", "pump"):
        stages.retrieve(QUESTION.model_copy(update={"text": text}))
    cache = stages.caches._graph_cache
    assert cache
    assert len(cache._known) == 3
    stages.close()


def test_even_a_cache_that_forgets_tenants_gives_no_answer_of_one_to_another(stages: CachedStages) -> None:
    fill(stages, "globex")
    for tenant in (TENANT, "globex", TENANT, "globex"):
        answer = stages.answer(QUESTION.model_copy(update={"tenant_id": tenant}))
        texts = [result.content for result in answer.results] + [
            str(message["content"]) for message in context(stages, tenant=tenant).messages
        ]
        other = {TENANT: "globex", "globex": TENANT}[tenant]
        assert any(text.endswith(tenant) for text in texts)
        assert not any(other in text for text in texts)
    assert stages.cache_counts()["ResultCacheHit"] >= 2


def test_embeddings_are_kept_for_a_day_answers_for_five_minutes_and_contexts_for_an_hour(
    stages: CachedStages, kept: Forgetful
) -> None:
    stages.answer(QUESTION)
    context(stages, "the pump of Harbour")
    assert set(kept.seconds("embedding")) == {24 * 60 * 60}
    assert set(kept.seconds("result")) == {5 * 60}
    assert set(kept.seconds("context")) == {60 * 60}


def test_an_answer_is_found_for_five_minutes_and_then_worked_out_anew(tmp_path: Path) -> None:
    stages = cached_stages(tmp_path)
    fill(stages, TENANT)
    stages.answer(QUESTION)
    stages.clock.move(299)
    assert stages.answer(QUESTION).cached
    stages.clock.move(2)
    assert not stages.answer(QUESTION).cached
    stages.close()


def test_after_a_clock_was_set_back_nothing_is_answered_from_later(tmp_path: Path) -> None:
    stages = cached_stages(tmp_path)
    fill(stages, TENANT)
    stages.answer(QUESTION)
    context(stages)
    stages.clock.move(-60)
    stages.cache_counts()

    assert not stages.answer(QUESTION).cached
    context(stages)
    assert stages.cache_counts()["ContextCacheMiss"] == 1
    stages.close()
