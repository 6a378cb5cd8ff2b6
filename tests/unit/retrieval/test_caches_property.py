"""Whatever is written and asked in whatever order, what the caches give is what would be worked out anew."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from braid.engines.aws.dynamodb_cache import DynamoCache
from braid.models import Hints, Query, Ranking, Strategy
from braid.ports.schema_registry import SchemaVersion
from braid.retrieval import use_counts
from braid.retrieval.context import building
from braid.retrieval.context.episodes import record_decision
from braid.retrieval.context.message_selection import ContextRequest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from tests.cached import CachedStages, Hands, cached_stages, edge, entity, note, said, shown
from tests.stages import WordEncoder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from braid.models import Answer, Record

NAMES = {"r1": "Harbour", "r2": "Pump", "r3": "Valve", "r4": "Osprey"}
TEXTS = ("the pump of Harbour failed", "Valve closed before the pump", "Osprey page of the valve", "nothing of note")
QUESTIONS = (
    Query(text="Why did the pump fail at Harbour?", tenant_id="x"),
    Query(text="What happened to Valve after Osprey?", tenant_id="x", top_k=2, ranking=Ranking.RECENCY),
    Query(text="Harbour pump", tenant_id="x", top_k=1, ranking=Ranking.MEMORY),
    Query(text="Osprey", tenant_id="x", hints=Hints(strategy=Strategy.GRAPH_ONLY)),
    Query(text="Valve page", tenant_id="x", top_k=3),
)
TENANTS = ("a", "b")
OFFSETS = st.none() | st.sampled_from([-86_400, -100, -1, 0])
"""Seconds from the moment of writing, of what became or ceased to be valid."""
HAPPENED = st.none() | st.sampled_from([-86_400, -100, -1, 0, 20, 90, 250, 3_000])
AHEAD = st.none() | st.sampled_from([-1, 20, 90, 250, 3_000])
"""The same of what may yet cease to be valid: until then a cached answer shows it, and never after."""

tenants = st.sampled_from(TENANTS)
ids = st.sampled_from(sorted(NAMES))
validity = st.tuples(OFFSETS, OFFSETS).map(
    lambda pair: pair if None in pair or pair[0] <= pair[1] else (pair[1], pair[0])
)
operations = st.one_of(
    st.tuples(st.just("ask"), tenants, st.integers(0, len(QUESTIONS) - 1), st.sampled_from([None, None, -60, 60])),
    st.tuples(st.just("ask"), tenants, st.integers(0, len(QUESTIONS) - 1), st.none()),
    st.tuples(st.just("context"), tenants, st.integers(0, 2), st.sampled_from(TEXTS)),
    st.tuples(st.just("record"), tenants, ids, st.tuples(st.sampled_from(TEXTS), validity, HAPPENED)),
    st.tuples(st.just("edge"), tenants, ids, st.tuples(ids, st.sampled_from(["CAUSES", "BEFORE", "OWNS"]), validity)),
    st.tuples(st.just("entity"), tenants, ids, validity),
    st.tuples(st.just("forget"), tenants, ids, st.sampled_from(["record", "entity"])),
    st.tuples(st.just("supersede"), tenants, ids, st.none()),
    st.tuples(st.just("decide"), tenants, st.sampled_from(TEXTS), st.none()),
    st.tuples(st.just("schema"), tenants, st.none(), st.none()),
    st.tuples(st.just("wait"), st.none(), st.sampled_from([0.5, 15, 80, 299, 301, 3_599]), st.none()),
)
ending = st.tuples(st.none(), AHEAD)
ends_ahead = st.one_of(
    st.tuples(st.just("ask"), tenants, st.integers(0, len(QUESTIONS) - 1), st.none()),
    st.tuples(st.just("record"), tenants, ids, st.tuples(st.sampled_from(TEXTS), ending, HAPPENED)),
    st.tuples(st.just("edge"), tenants, ids, st.tuples(ids, st.sampled_from(["CAUSES", "BEFORE", "OWNS"]), ending)),
    st.tuples(st.just("entity"), tenants, ids, ending),
    st.tuples(st.just("wait"), st.none(), st.sampled_from([0.5, 15, 80, 299]), st.none()),
)
numbers = itertools.count()


class Trial:
    """One interleaving, on tenants of its own; whoever asks asks both ways and compares."""

    def __init__(self, stages: CachedStages, *, exact: bool) -> None:
        self.stages, self.uncached = stages, stages.without_caches()
        number = next(numbers)
        self.tenants = {name: f"{name}{number}" for name in TENANTS}
        self.schemas = dict.fromkeys(TENANTS, 1)
        self.records: dict[tuple[str, str], Record] = {}
        self.ends: dict[tuple[str, ...], datetime | None] = {}
        self.exact = exact
        """Whether a cached answer is compared with one that is worked out anew."""
        self.hits: Counter[str] = Counter()

    def begin(self) -> None:
        """Give both tenants the same names and something to find."""
        for name in TENANTS:
            for identity, text in zip(NAMES, TEXTS, strict=True):
                self.do("record", name, identity, (text, (None, None), None))
                self.do("entity", name, identity, (None, None))
            self.do("edge", name, "r2", ("r1", "CAUSES", (None, None)))

    def do(self, what: str, name: str | None, which: Any, how: Any) -> None:
        if what == "wait":
            self.stages.clock.move(which)
            return
        assert name is not None
        tenant = self.tenants[name]
        if what in ("ask", "context"):
            getattr(self, f"_{what}")(tenant, which, how)
            self.hits.update(self.stages.cache_counts())
            return
        getattr(self, f"_{what}")(name, tenant, which, how)
        if self.stages.kept_in is not None:
            self.stages.cache.advance(tenant)  # the last step of every write; the embedded engine counts them itself

    def _ask(self, tenant: str, which: int, as_of: int | None) -> None:
        query = QUESTIONS[which].model_copy(update={"tenant_id": tenant, "as_of": self._at(as_of)})
        given = self.stages.answer(query)
        if as_of is None:
            self._holds(given, tenant)
        if self.exact:
            anew = self.uncached.answer(query)
            assert said(given) == said(anew)
            assert not anew.cached

    def _holds(self, answer: Answer, tenant: str) -> None:
        """Check what an answer shows against what is stored: nothing in it has ceased to be valid."""
        shown = [self.ends.get((tenant, result.id, "record")) for result in answer.results]
        shown += [self.ends.get((tenant, one.id, "entity")) for one in answer.related_entities if one.linked]
        for path in (path for result in answer.results for path in result.paths):
            shown += [self.ends.get((tenant, identity, "entity")) for identity in path.ids]
            steps = zip(itertools.pairwise(path.ids), path.types, path.inward, strict=False)
            shown += [self.ends.get((tenant, *(ends[::-1] if inward else ends), kind)) for ends, kind, inward in steps]
        assert all(end is None or self.stages.now() < end for end in shown)

    def _context(self, tenant: str, which: int, says: str) -> None:
        if not self.exact:
            return
        request = ContextRequest(
            query=QUESTIONS[which].text, tenant_id=tenant, messages=({"role": "user", "content": says},)
        )
        cached, uncached = (building.run(request, stages, nonce="one") for stages in (self.stages, self.uncached))
        assert shown(cached) == shown(uncached)

    def _record(self, name: str, tenant: str, identity: str, how: tuple[str, tuple[Any, Any], Any]) -> None:
        text, (begins, ends), happened = how
        made = note(
            tenant,
            identity,
            text,
            name=NAMES[identity],
            valid_at=self._at(begins),
            invalid_at=self._at(ends),
            timestamp=self._at(happened),
            schema_version=self.schemas[name],
        )
        self._put(tenant, made)

    def _put(self, tenant: str, made: Record) -> None:
        self.records[tenant, made.id] = made
        self.ends[tenant, made.id, "record"] = made.invalid_at
        model = self.stages.models()[0]
        encoder = WordEncoder(model)
        (vector,) = encoder.encode([made.text()])
        embedding = {"space": encoder.space, "model_id": encoder.model_id, "vector": vector}
        self.stages.index.upsert([made.model_validate({**made.model_dump(), "embeddings": [embedding]})])

    def _entity(self, _name: str, tenant: str, identity: str, validity: tuple[Any, Any]) -> None:
        begins, ends = map(self._at, validity)
        vertex = entity(tenant, identity, NAMES[identity], valid_at=begins, invalid_at=ends)
        self.stages.graph.upsert([vertex], [])
        self.ends[tenant, identity, "entity"] = ends

    def _edge(self, _name: str, tenant: str, source: str, how: tuple[str, str, tuple[Any, Any]]) -> None:
        target, kind, validity = how
        begins, ends = map(self._at, validity)
        ends_of = [entity(tenant, end, NAMES[end]) for end in {source, target}]
        self.stages.graph.upsert(ends_of, [edge(tenant, source, target, kind, valid_at=begins, invalid_at=ends)])
        self.ends[tenant, source, target, kind] = ends
        self.ends |= {(tenant, end, "entity"): None for end in (source, target)}

    def _forget(self, _name: str, tenant: str, identity: str, what: str) -> None:
        (self.stages.index if what == "record" else self.stages.graph).delete(tenant, [identity])

    def _supersede(self, _name: str, tenant: str, identity: str, _how: None) -> None:
        made = self.records[tenant, identity]
        self._put(tenant, made.model_copy(update={"valid_at": None, "invalid_at": self.stages.now()}))

    def _decide(self, _name: str, tenant: str, text: str, _how: None) -> None:
        record_decision(text, tenant_id=tenant, store=self.stages)

    def _schema(self, name: str, tenant: str, _which: None, _how: None) -> None:
        self.schemas[name] += 1
        self.stages.schemas.register(
            SchemaVersion(tenant_id=tenant, version=self.schemas[name], created_at=self.stages.now())
        )

    def _at(self, seconds: float | None) -> datetime | None:
        return None if seconds is None else self.stages.now() + timedelta(seconds=seconds)


def run(stages: CachedStages, given_operations: list[tuple[Any, ...]], *, exact: bool) -> Counter[str]:
    trial = Trial(stages, exact=exact)
    trial.begin()
    for operation in given_operations:
        trial.do(*operation)
    for seconds, name in itertools.product((0, 15, 90, 200), TENANTS):
        trial.do("wait", None, seconds, None)
        for which in range(len(QUESTIONS)):
            trial.do("ask", name, which, None)
        trial.do("context", name, 0, TEXTS[0])
    return trial.hits


@pytest.fixture(autouse=True)
def uses_are_not_added_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep gathered uses, which change the scores of the profile ``memory``, from being added by the real clock."""
    monkeypatch.setattr(use_counts, "ADDED_AFTER_S", math.inf)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CachedStages]:
    stages = cached_stages(tmp_path_factory.mktemp("embedded"))
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def dynamo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CachedStages]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        client = boto3.client("dynamodb", region_name="eu-west-1")
        client.create_table(
            TableName="cache",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        clock = Hands()
        kept_in = DynamoCache(client, "cache", clock=clock.seconds)
        stages = cached_stages(tmp_path_factory.mktemp("dynamo"), kept_in, clock)
        yield stages
        stages.close()


# The interleavings are of what is above a cache, which is one for both; DynamoDB's imitation takes its time.
@pytest.mark.parametrize(("kept_in", "examples"), [("embedded", 20), ("dynamo", 6)])
def test_a_cached_answer_equals_an_uncached_one_whatever_is_written_and_asked(
    kept_in: str, examples: int, request: pytest.FixtureRequest
) -> None:
    stages: CachedStages = request.getfixturevalue(kept_in)
    hits: Counter[str] = Counter()

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(operations, min_size=4, max_size=25))
    def interleavings(given_operations: list[tuple[Any, ...]]) -> None:
        hits.update(run(stages, given_operations, exact=True))

    interleavings()
    # Otherwise nothing was compared.
    for name in ("Embedding", "Result", "Context", "Graph"):
        assert hits[f"{name}CacheHit"] > 0, hits
        assert hits[f"{name}CacheMiss"] > 0, hits


def test_no_answer_shows_what_has_ceased_to_be_valid_since_it_was_kept(embedded: CachedStages) -> None:
    hits: Counter[str] = Counter()

    @settings(max_examples=20, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(ends_ahead, min_size=4, max_size=25))
    def interleavings(given_operations: list[tuple[Any, ...]]) -> None:
        hits.update(run(embedded, given_operations, exact=False))

    interleavings()
    assert hits["ResultCacheHit"] > 0
    assert hits["GraphCacheHit"] > 0
