"""The demo corpus keeps its promises: counts, references, chronology, and questions that need the graph."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from braid.models import EntityLink, Kind, Record, Relationship, SourceType
from braid.understanding import intent as understanding
from braid.understanding import question_phrases, tokens

from braid_cli.datasets.dataset import Dataset, JudgedQuery, read_dataset

DEMO = Path(__file__).parents[3] / "braid_cli" / "demo"
MAIN, SECOND = "saltmarrow", "pellworth"
CAUSAL, TEMPORAL = understanding.CAUSAL_TYPES, understanding.TEMPORAL_TYPES
WALKS = {"causal": (CAUSAL, 3), "temporal": (TEMPORAL, 3), "any": ((), 2)}
KINDS = {"factual", "comparative", "exploratory", "entity-focused", "temporal", "causal", "code", "document"}
SUFFIXES = ("ing", "ed", "es", "s")
both_tenants = pytest.mark.parametrize("tenant", [MAIN, SECOND])


@cache
def demo(tenant: str) -> Dataset:
    return read_dataset(DEMO / tenant, tenant, judged=True)


def records(tenant: str) -> dict[str, Record]:
    return {record.id: record for record in demo(tenant).records}


def questions(tenant: str, *, graph_only: bool) -> list[JudgedQuery]:
    return [question for question in demo(tenant).judged if question.metadata["graph_only"] is graph_only]


def moment(tenant: str, vertex_id: str) -> datetime | None:
    record = records(tenant).get(vertex_id)
    stamps = {vertex.id: vertex.timestamp for vertex in demo(tenant).vertices}
    return stamps.get(vertex_id) or (record.created_at if record else None)


def is_valid(item: Record | Relationship, at: datetime) -> bool:
    return (item.valid_at is None or item.valid_at <= at) and (item.invalid_at is None or at < item.invalid_at)


def content_words(text: str) -> set[str]:
    """Return the words of a text that carry meaning, without the commonest endings."""
    told = {word for word in tokens.words(text) if question_phrases.phrases(word)}
    return {_stem(word) for word in told}


def _stem(word: str) -> str:
    for suffix in SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            return word.removesuffix(suffix)
    return word


def reached(tenant: str, start: str, types: tuple[str, ...], direction: str, hops: int) -> dict[str, int]:
    """Return what a walk reaches, with its distance in hops."""
    neighbours: dict[str, set[str]] = defaultdict(set)
    for edge in demo(tenant).relationships:
        if types and edge.type not in types:
            continue
        if direction in {"out", "both"}:
            neighbours[edge.source].add(edge.target)
        if direction in {"in", "both"}:
            neighbours[edge.target].add(edge.source)
    distance = {start: 0}
    frontier = {start}
    for hop in range(1, hops + 1):
        frontier = {far for near in frontier for far in neighbours[near]} - distance.keys()
        distance.update(dict.fromkeys(frontier, hop))
    return distance


def linked_ids(tenant: str, question: str) -> set[str]:
    """Return the vertices that the question names, as the product links them."""
    offered = set(question_phrases.phrases(question))
    links = [
        EntityLink(entity_id=vertex.id, name=name, entity_type=vertex.entity_type, phrase=phrase, score=1.0)
        for vertex in demo(tenant).vertices
        for name in (vertex.name, *vertex.aliases)
        if name and (phrase := tokens.normalise(name)) in offered
    ]
    return {link.entity_id for link in question_phrases.longest_match(question, links)}


@pytest.mark.parametrize(("tenant", "searchable", "edges", "judged"), [(MAIN, 150, 300, 40), (SECOND, 30, 60, 8)])
def test_a_tenant_is_rich_enough(tenant: str, searchable: int, edges: int, judged: int) -> None:
    assert len(demo(tenant).records) >= searchable
    assert len(demo(tenant).relationships) >= edges
    assert len(demo(tenant).judged) >= judged


def test_the_main_tenant_has_every_kind_of_thing() -> None:
    types = Counter(vertex.entity_type for vertex in demo(MAIN).vertices)
    assert all(
        types[name] >= 5 for name in ("Service", "CodeEntity", "Person", "Organization", "Concept", "Event", "Document")
    )
    edges = Counter(edge.type for edge in demo(MAIN).relationships)
    assert all(edges[name] >= 3 for name in (*CAUSAL, *TEMPORAL, "MENTIONS", "OWNS", "CALLS", "SUPPLIES", "SUPERSEDES"))
    kinds = Counter(record.kind for record in demo(MAIN).records)
    assert all(kinds[kind] >= 2 for kind in Kind)


def test_code_is_written_in_three_languages() -> None:
    code = [record for record in demo(MAIN).records if record.entity_type == "CodeEntity"]
    assert {record.metadata["language"] for record in code} == {"python", "go", "sql"}
    assert all("\n" in record.content for record in code)


def test_sources_are_documents_with_pages_and_chunks_chats_and_answers() -> None:
    sources = [record.source for record in demo(MAIN).records]
    assert sum(source.page is not None and source.chunk_index is not None for source in sources) >= 20
    assert {source.type for source in sources} >= set(SourceType)
    assert any("Page 5" in (source.description or "") for source in sources)
    ids = records(MAIN)
    for form in ("postmortem-", "qa-response-", "chat-fact-"):
        assert any(identity.startswith(form) for identity in ids)
    assert any(".pdf#chunk-" in identity for identity in ids)


@both_tenants
def test_every_reference_leads_somewhere(tenant: str) -> None:
    # read_dataset refuses an edge with a missing end and an id that is used twice
    known = set(records(tenant))
    assert {edge.evidence for edge in demo(tenant).relationships if edge.evidence} <= known
    for question in demo(tenant).judged:
        assert 1 <= len(question.relevant) <= 4
        assert question.relevant.keys() <= known, question.id


@both_tenants
def test_no_line_is_lost_in_reading(tenant: str) -> None:
    lines = (DEMO / tenant / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(demo(tenant).judged)
    judged = (DEMO / tenant / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    assert judged[0] == "query-id\tcorpus-id\tscore"
    assert len(judged) - 1 == sum(len(question.relevant) for question in demo(tenant).judged)


@both_tenants
def test_no_edge_is_written_twice(tenant: str) -> None:
    identities = Counter((edge.source, edge.type, edge.target, edge.predicate) for edge in demo(tenant).relationships)
    assert [identity for identity, count in identities.items() if count > 1] == []


@both_tenants
def test_both_schema_versions_are_in_use_and_most_is_on_the_second(tenant: str) -> None:
    versions = Counter(record.schema_version for record in demo(tenant).records)
    assert set(versions) == {schema.version for schema in demo(tenant).schemas} == {1, 2}
    assert versions[2] > versions[1]
    current = max(demo(tenant).schemas, key=lambda schema: schema.version)
    assert {vertex.entity_type for vertex in demo(tenant).vertices} <= set(current.entity_types)
    assert {edge.type for edge in demo(tenant).relationships} <= set(current.relationship_types)


@both_tenants
def test_everything_happens_in_three_years(tenant: str) -> None:
    first, last = datetime(2023, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    for item in (*demo(tenant).records, *demo(tenant).vertices, *demo(tenant).relationships):
        for name in ("created_at", "updated_at", "valid_at", "invalid_at", "timestamp"):
            stamp = getattr(item, name, None)
            assert stamp is None or first <= stamp < last, item


@both_tenants
def test_causes_come_before_effects_and_are_not_certain(tenant: str) -> None:
    for edge in demo(tenant).relationships:
        if edge.type in CAUSAL:
            cause, effect = moment(tenant, edge.source), moment(tenant, edge.target)
            assert 0 < edge.confidence < 1, edge
            assert cause is None or effect is None or cause <= effect, edge


@both_tenants
def test_temporal_edges_agree_with_the_clock(tenant: str) -> None:
    for edge in demo(tenant).relationships:
        if edge.type in TEMPORAL:
            source, target = moment(tenant, edge.source), moment(tenant, edge.target)
            assert source is not None
            assert target is not None
            assert source <= target if edge.type == "BEFORE" else source >= target, edge


def test_superseded_pages_end_when_their_answer_begins() -> None:
    by_id = records(MAIN)
    pairs = [(by_id[e.source], by_id[e.target]) for e in demo(MAIN).relationships if e.type == "SUPERSEDES"]
    assert len(pairs) >= 5
    for new, old in pairs:
        assert new.valid_at is not None
        assert new.valid_at == old.invalid_at, new.id


def test_the_shared_database_is_a_hub() -> None:
    degree = Counter(end for edge in demo(MAIN).relationships for end in (edge.source, edge.target))
    assert degree.most_common(1)[0][0] == "service:keelson"
    assert degree["service:keelson"] >= 40


def test_a_chain_of_causes_has_three_hops() -> None:
    far = reached(MAIN, "event:mailbox-retired", ("CAUSES",), "out", 3)
    assert far["event:lisbon-label-stoppage"] == 3


def test_causes_can_run_in_a_circle() -> None:
    out = [
        edge.target
        for edge in demo(MAIN).relationships
        if edge.source == "event:lading-timeouts" and edge.type == "CAUSES"
    ]
    assert any("event:lading-timeouts" in reached(MAIN, far, ("CAUSES",), "out", 3) for far in out)


def test_every_kind_of_question_is_asked_and_some_need_no_graph() -> None:
    kinds = Counter(question.metadata["kind"] for question in demo(MAIN).judged)
    assert set(kinds) == KINDS
    assert min(kinds.values()) >= 4
    assert len(questions(MAIN, graph_only=True)) >= 12
    assert len(questions(MAIN, graph_only=False)) >= 20


@both_tenants
def test_gold_is_valid_when_the_question_is_asked(tenant: str) -> None:
    today = datetime(2026, 1, 1, tzinfo=UTC)
    for question in demo(tenant).judged:
        at = question.query.as_of or today
        for identity in question.relevant:
            assert is_valid(records(tenant)[identity], at), (question.id, identity)


@both_tenants
def test_one_question_has_another_answer_at_another_time(tenant: str) -> None:
    answers: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for question in demo(tenant).judged:
        answers[question.query.text].add(tuple(question.relevant))
    assert max(len(found) for found in answers.values()) >= (3 if tenant == MAIN else 2)


@both_tenants
def test_a_graph_only_answer_shares_at_most_one_word_with_its_question(tenant: str) -> None:
    for question in questions(tenant, graph_only=True):
        asked = content_words(question.query.text)
        for identity in question.relevant:
            shared = asked & content_words(records(tenant)[identity].text())
            assert len(shared) <= 1, (question.id, identity, shared)


@both_tenants
def test_a_graph_only_answer_is_reached_from_what_its_question_names(tenant: str) -> None:
    for question in questions(tenant, graph_only=True):
        told = question.metadata
        assert told["start"] in linked_ids(tenant, question.query.text), question.id
        types, hops = WALKS[told["walk"]]
        found = reached(tenant, told["start"], types, told["direction"], hops)
        assert question.relevant.keys() <= found.keys(), question.id


@both_tenants
def test_a_graph_only_question_is_read_as_the_walk_that_answers_it(tenant: str) -> None:
    for question in questions(tenant, graph_only=True):
        intent = understanding.detect_intent(question.query.text)
        direction = understanding.walk_direction(question.query.text, intent)
        walk = intent.value if intent.value in WALKS else "any"
        read = (walk, "both" if walk == "any" else direction.value)
        assert read == (question.metadata["walk"], question.metadata["direction"]), question.query.text


def test_the_tenants_share_names_and_ids_so_that_a_leak_would_show() -> None:
    names = [{vertex.name for vertex in demo(tenant).vertices if vertex.name} for tenant in (MAIN, SECOND)]
    assert names[0] & names[1] >= {"Beacon", "Tollgate", "Ines Duarte", "Beacon text storm"}
    shared = records(MAIN).keys() & records(SECOND).keys()
    assert {"service:beacon", "person:ines-duarte", "event:text-storm", "qa-response-severity-call"} <= shared
    assert all(records(MAIN)[identity].content != records(SECOND)[identity].content for identity in shared)


@both_tenants
def test_no_two_records_say_the_same(tenant: str) -> None:
    said = Counter(record.content for record in demo(tenant).records)
    assert said.most_common(1)[0][1] == 1


@both_tenants
def test_the_readme_states_the_counts(tenant: str) -> None:
    data = demo(tenant)
    readme = (DEMO / "README.md").read_text(encoding="utf-8")
    row = next(line for line in readme.splitlines() if line.startswith(f"| `{tenant}`"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    entities = (DEMO / tenant / "entities.jsonl").read_text(encoding="utf-8").splitlines()
    described = sum(record.kind is Kind.ENTITY for record in data.records)
    assert cells[2:] == [
        str(len(data.records) - described),
        f"{len(entities)} ({described})",
        str(len(data.records)),
        str(len(data.relationships)),
        str(len(data.judged)),
        str(len(questions(tenant, graph_only=True))),
    ]
