"""The judged questions about times, causes, code and documents: complete lines, sound judgements, right routes."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from braid.models import EmbeddingType, Intent, Mode, Strategy
from braid.understanding import intent as understanding
from braid.understanding import planning

from braid_cli.datasets.dataset import Dataset, JudgedQuery, read_dataset
from tests.stages import NOW
from tests.times import in_span, valid_at

DEMO = Path(__file__).parents[3] / "braid_cli" / "demo"
TENANTS = ("saltmarrow", "pellworth")
SET = "judged"
TIMES = {"before", "after", "between", "during", "when", "as-of", "range"}
CAUSES = {"root-cause", "why", "effects", "enabling", "prevention"}
MODELS = {kind: kind.value for kind in EmbeddingType}
both_tenants = pytest.mark.parametrize("tenant", TENANTS)


@cache
def judged(tenant: str) -> Dataset:
    return read_dataset(DEMO / tenant, tenant, judged=True, questions=SET)


def of_kind(tenant: str, *kinds: str) -> list[JudgedQuery]:
    return [question for question in judged(tenant).judged if question.metadata["kind"] in kinds]


@both_tenants
def test_no_line_is_lost_and_none_judges_a_question_twice(tenant: str) -> None:
    folder = DEMO / tenant / SET
    lines = (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(judged(tenant).judged)
    rows = (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert len(rows) == sum(len(question.relevant) for question in judged(tenant).judged)


def test_there_are_more_than_sixty_of_times_and_causes_of_every_type() -> None:
    asked = [question for tenant in TENANTS for question in of_kind(tenant, "causal", "temporal")]
    assert len(asked) >= 60
    types = Counter(question.metadata["type"] for question in asked)
    assert set(types) == TIMES | CAUSES
    assert min(types.values()) >= 2
    assert all(len(of_kind(tenant, kind)) >= 5 for tenant in TENANTS for kind in ("code", "document"))


@both_tenants
def test_a_question_has_an_answer_and_every_judged_record_exists(tenant: str) -> None:
    known = {record.id for record in judged(tenant).records}
    for question in judged(tenant).judged:
        assert question.relevant.keys() <= known, question.id
        assert max(question.relevant.values()) == 2, question.id
        assert set(question.relevant.values()) <= {1, 2}, question.id


@both_tenants
def test_what_is_judged_relevant_holds_when_the_question_is_asked(tenant: str) -> None:
    records = {record.id: record for record in judged(tenant).records}
    for question in judged(tenant).judged:
        at, span = question.query.as_of or NOW, question.query.filters.time_range
        for identity in question.relevant:
            assert valid_at(records[identity], at), (question.id, identity)
            assert span is None or in_span(records[identity], span), (question.id, identity)


@both_tenants
def test_the_same_question_at_two_times_has_two_answers(tenant: str) -> None:
    dated = [question for question in of_kind(tenant, "temporal") if question.query.as_of]
    by_text: dict[str, list[set[str]]] = {}
    for question in dated:
        best = {identity for identity, grade in question.relevant.items() if grade == 2}
        by_text.setdefault(question.query.text, []).append(best)
    assert len(by_text) >= 4
    for text, answers in by_text.items():
        assert len(answers) >= 2, text
        assert not set.intersection(*answers), text


@both_tenants
def test_questions_of_code_are_embedded_by_the_code_model_and_may_use_the_graph(tenant: str) -> None:
    for question in of_kind(tenant, "code"):
        plan = planning.make_plan(question.query, model_ids=MODELS, candidates=50, stats=None)
        assert plan.embedding_type is EmbeddingType.CODE, question.query.text
        assert plan.strategy is not Strategy.SEMANTIC, question.query.text


@both_tenants
def test_questions_for_a_page_or_section_leave_the_graph_out_and_those_for_a_document_have_its_model(
    tenant: str,
) -> None:
    for question in of_kind(tenant, "document"):
        plan = planning.make_plan(question.query, model_ids=MODELS, candidates=50, stats=None)
        if plan.mode is Mode.DOCUMENT:
            assert plan.strategy is Strategy.SEMANTIC, question.query.text
        else:
            assert plan.embedding_type is EmbeddingType.DOCUMENT, question.query.text


@both_tenants
def test_questions_of_one_kind_are_not_routed_as_another(tenant: str) -> None:
    for question in judged(tenant).judged:
        mode = understanding.detect_mode(question.query.text)
        intent = understanding.detect_intent(question.query.text)
        kind = understanding.detect_embedding_type(question.query.text, intent)
        if question.metadata["kind"] != "document":
            assert mode is not Mode.DOCUMENT, question.query.text
        if question.metadata["kind"] != "code":
            assert kind is not EmbeddingType.CODE, question.query.text
        if question.metadata["kind"] in {"code", "document"}:
            assert intent is not Intent.CAUSAL, question.query.text
