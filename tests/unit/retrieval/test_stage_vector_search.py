"""The vector_search stage asks the index once, inside tenant, filters, validity and schema window."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from braid.errors import TransientStoreError
from braid.models import Filters, Hints, PlanStep, StepOperation
from braid.ports.search_index import SearchHits
from braid.retrieval.stages import plan_and_search
from braid.retrieval.stages.stage_messages import Embedded, Searched, SearchStageRequest

from tests.fakes import NOW, TENANT, FakeIndex, embedding, hits, plan, query

FOUND = SearchHits(
    vector=hits(("a", 0.9), ("b", 0.4), ("c", 0.2)),
    lexical=hits(("d", 0.8), ("b", 0.6)),
    superseded=2,
    outdated=("old",),
    space_empty=True,
)
EMBEDDED = Embedded(embedding=embedding(1.0, 0.0), took_ms=1)


def run(request: SearchStageRequest, index: FakeIndex, *, schema_version: int = 1, threshold: int = 3) -> Searched:
    return plan_and_search.run_vector_search(
        request, index=index, now=NOW, schema_version=schema_version, max_versions_behind=threshold
    )


def test_one_call_asks_both_strands_for_the_plans_candidates() -> None:
    index = FakeIndex(hits=FOUND)
    filters = Filters(entity_types=("Service",))
    found = run(SearchStageRequest(query=query(filters=filters), plan=plan(candidates=70), embedded=EMBEDDED), index)
    (asked,) = index.searches
    assert (asked.tenant_id, asked.text, asked.embedding) == (TENANT, "scanner lockout", EMBEDDED.embedding)
    assert (asked.k, asked.filters, asked.ids) == (70, filters, None)
    assert (found.vector, found.lexical, found.superseded) == (FOUND.vector, FOUND.lexical, 2)
    assert (found.outdated, found.space_empty) == (("old",), True)


def test_without_a_vector_words_alone_are_asked() -> None:
    index = FakeIndex()
    run(SearchStageRequest(query=query(), plan=plan()), index)
    assert index.searches[0].embedding is None
    assert index.searches[0].text == "scanner lockout"


def test_a_question_sees_what_is_valid_now_or_was_valid_then() -> None:
    index = FakeIndex()
    run(SearchStageRequest(query=query(), plan=plan()), index)
    run(SearchStageRequest(query=query(as_of="2024-05-17"), plan=plan()), index)
    assert [asked.as_of for asked in index.searches] == [NOW, datetime(2024, 5, 17, tzinfo=UTC)]


@pytest.mark.parametrize(("version", "threshold", "oldest"), [(9, 3, 6), (9, 0, 9), (2, 3, 1)])
def test_the_schema_window_reaches_as_far_as_the_drift_threshold(version: int, threshold: int, oldest: int) -> None:
    index = FakeIndex()
    run(SearchStageRequest(query=query(), plan=plan()), index, schema_version=version, threshold=threshold)
    assert index.searches[0].min_schema_version == oldest


def test_a_least_similarity_keeps_vectors_that_reach_it_and_no_words() -> None:
    found = run(
        SearchStageRequest(query=query(hints=Hints(min_similarity=0.4)), plan=plan(), embedded=EMBEDDED),
        FakeIndex(hits=FOUND),
    )
    assert [hit.id for hit in found.vector] == ["a", "b"]
    assert found.lexical == ()
    assert found.frontier == ("a", "b")


def test_the_frontier_is_what_both_strands_together_put_first() -> None:
    found = run(SearchStageRequest(query=query(), plan=plan(), embedded=EMBEDDED), FakeIndex(hits=FOUND))
    assert found.frontier == ("b", "a", "d", "c")


def test_a_frontier_restricts_the_search_and_an_empty_one_leaves_nothing() -> None:
    index = FakeIndex()
    run(SearchStageRequest(query=query(), plan=plan(), frontier=("x", "y")), index)
    run(SearchStageRequest(query=query(), plan=plan(), frontier=()), index)
    assert [asked.ids for asked in index.searches] == [("x", "y"), ()]


def test_a_step_has_its_own_types_and_limit() -> None:
    index = FakeIndex(hits=FOUND)
    filters = Filters(entity_types=("Service",), task_id="t")
    step = PlanStep(operation=StepOperation.SEARCH, entity_types=("CodeEntity",), limit=2)
    found = run(SearchStageRequest(query=query(filters=filters), plan=plan(), step=step), index)
    assert index.searches[0].filters == Filters(entity_types=("CodeEntity",), task_id="t")
    assert found.frontier == ("b", "a")
    run(
        SearchStageRequest(query=query(filters=filters), plan=plan(), step=PlanStep(operation=StepOperation.SEARCH)),
        index,
    )
    assert index.searches[1].filters == filters


def test_an_index_that_does_not_answer_is_the_callers_to_retry() -> None:
    with pytest.raises(TransientStoreError):
        run(SearchStageRequest(query=query(), plan=plan()), FakeIndex(error=TransientStoreError("slow")))
