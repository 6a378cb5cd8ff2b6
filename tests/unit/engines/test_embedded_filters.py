"""Filters as SQL: whichever way rows are found, the same pass, and no statement reads all rows of a tenant."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from braid.engines.embedded.search import knn
from braid.engines.embedded.search.filters import to_sql
from braid.engines.embedded.search.index import EmbeddedSearchIndex
from braid.engines.embedded.store import EmbeddedStore
from braid.models import FieldCondition, Filters, Kind
from braid.ports.search_index import SearchRequest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.shapes import ACME, AS_OF, DIMENSIONS, embedding, random_vector, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.models import Record

QUESTION = embedding(random_vector(random.Random(2)))  # noqa: S311 - a fixed sequence
MANY = 120


def rows() -> list[Record]:
    generator = random.Random(3)  # noqa: S311 - a fixed sequence
    return [
        record(
            f"r{number:03}",
            "a tide mill" if number % 2 else "a tide gauge",
            kind=(Kind.CHUNK, Kind.ENTITY, Kind.DECISION)[number % 3],
            name=f"N{number}",
            entity_type=("Ship", "Port")[number % 2] if number % 3 == 1 else None,
            task_id="t1" if number % 40 == 2 else None,
            timestamp=AS_OF - timedelta(hours=number) if number % 5 else None,
            trusted=number % 4 != 0,
            schema_version=1 + number % 2,
            metadata={"team": ["a", "b"][number % 2], "floor": number % 30, "tags": ["x", f"y{number % 7}"]},
            embeddings=(embedding(random_vector(generator)),),
        )
        for number in range(MANY)
    ]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSearchIndex]:
    with EmbeddedStore(tmp_path_factory.mktemp("filters")) as store:
        index = EmbeddedSearchIndex(store, DIMENSIONS, exact_rows=10)
        index.upsert(rows())
        yield index


CONDITIONS = st.one_of(
    st.sampled_from(["a", "b", "c"]).map(lambda team: FieldCondition(field="team", any_of=(team,))),
    st.integers(0, 6).map(lambda number: FieldCondition(field="tags", any_of=(f"y{number}",))),
    st.integers(0, 30).map(lambda floor: FieldCondition(field="floor", lt=floor)),
    st.just(FieldCondition(field="team", none_of=("a",))),
    st.booleans().map(lambda exists: FieldCondition(field="tags", exists=exists)),
)
FILTERS = st.builds(
    Filters,
    kinds=st.sampled_from([(), (Kind.ENTITY,), (Kind.CHUNK, Kind.DECISION)]),
    entity_types=st.sampled_from([(), (), ("Ship",), ("Port", "Ship")]),
    task_id=st.sampled_from([None, None, "t1", "t2"]),
    trusted_only=st.booleans(),
    time_range=st.sampled_from(
        [None, {"start": AS_OF - timedelta(hours=6)}, {"end": AS_OF - timedelta(hours=50)}],
    ),
    metadata=st.lists(CONDITIONS, max_size=2).map(tuple),
)


@given(filters=FILTERS, outdated=st.booleans(), most=st.sampled_from([3, 20, MANY]))
def test_few_rows_are_those_that_pass(index: EmbeddedSearchIndex, filters: Filters, outdated: bool, most: int) -> None:
    request = SearchRequest(tenant_id=ACME, k=5, filters=filters, as_of=AS_OF, min_schema_version=2)
    with index._store.read_tenant(ACME) as (connection, tenant):
        row_filter = to_sql(request, tenant or 0, outdated=outdated)
        statement = f"SELECT r.number FROM records AS r WHERE {row_filter.where}"  # noqa: S608 - a filter's
        passing = sorted(row[0] for row in connection.execute(statement, row_filter.values))
        few = row_filter.with_few(connection, most).few
    assert few is None or sorted(few) == passing
    if most == MANY and row_filter.by_index:
        assert few is not None


@given(filters=FILTERS)
def test_a_search_finds_the_same_by_every_way(index: EmbeddedSearchIndex, filters: Filters) -> None:
    request = SearchRequest(
        tenant_id=ACME, k=8, text="tide mill", embedding=QUESTION, filters=filters, as_of=AS_OF, min_schema_version=2
    )
    every = EmbeddedSearchIndex(index._store, DIMENSIONS, exact_rows=MANY)
    through_graph = EmbeddedSearchIndex(index._store, DIMENSIONS, exact_rows=0)
    assert index.search(request) == every.search(request) == through_graph.search(request)


def test_where_a_graph_finds_too_few_a_condition_s_rows_are_scored(
    index: EmbeddedSearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knn, "_MIN_FETCH", 1)
    monkeypatch.setattr(knn, "_OVERFETCH", 1)
    monkeypatch.setattr(knn, "_MAX_FETCH", 4)
    monkeypatch.setattr(knn, "_MAX_SCORED", 40)
    filters = Filters(kinds=(Kind.ENTITY,), entity_types=("Ship",))
    request = SearchRequest(tenant_id=ACME, k=8, embedding=QUESTION, filters=filters, as_of=AS_OF)
    scored: list[int] = []
    really = knn._score_all

    def watched(*given_: object) -> knn.ScoredRows:
        found = really(*given_)  # type: ignore[arg-type] - passed on as it came
        scored.append(len(found.ids))
        return found

    monkeypatch.setattr(knn, "_score_all", watched)
    every = EmbeddedSearchIndex(index._store, DIMENSIONS, exact_rows=MANY).search(request)
    assert index.search(request) == every
    assert scored == [20, 20]


@pytest.mark.parametrize(
    "filters",
    [
        Filters(kinds=(Kind.ENTITY,)),
        Filters(entity_types=("Ship",)),
        Filters(task_id="t1"),
        Filters(tool_name="grep"),
        Filters.model_validate({"time_range": {"start": AS_OF}}),
        Filters(metadata=(FieldCondition(field="team", any_of=("a",)),)),
        Filters(metadata=(FieldCondition(field="floor", lt=3),)),
    ],
)
def test_a_condition_is_answered_by_an_index(index: EmbeddedSearchIndex, filters: Filters) -> None:
    """And one row is tested without reading the others."""
    request = SearchRequest(tenant_id=ACME, k=5, filters=filters, as_of=AS_OF, min_schema_version=2)
    with index._store.read_tenant(ACME) as (connection, tenant):
        for outdated in (False, True):
            row_filter = to_sql(request, tenant or 0, outdated=outdated)

            def plan(statement: str, values: dict[str, str | int]) -> list[str]:
                rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
                return [row[3] for row in rows if "json_each" not in row[3] and "SUBQUERY" not in row[3]]

            for statement in row_filter.by_index:
                steps = plan(statement, row_filter.values)
                assert len(steps) == 1
                assert steps[0].startswith("SEARCH")
                assert "tenant=? AND" in steps[0]
            one = f"SELECT 1 FROM records AS r WHERE r.number = 7 AND {row_filter.where}"  # noqa: S608 - a filter's
            assert all("rowid=?" in step or "record=?" in step for step in plan(one, row_filter.values))
