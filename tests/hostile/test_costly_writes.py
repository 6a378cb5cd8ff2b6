"""One tenant's small write costs little, whatever that tenant stored before, and holds up no neighbour's."""

from __future__ import annotations

import random
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded import cache_schemas_jobs_members, graph_change_log
from braid.engines.embedded.cache_schemas_jobs_members import EmbeddedCache
from braid.engines.embedded.graph import edge_rows, knowledge_graph, name_rows, vertex_rows
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph
from braid.engines.embedded.search import row_reads, row_writes
from braid.engines.embedded.tables import to_microseconds
from braid.engines.embedded.write_generations import Generation
from braid.ingestion import request_checks
from braid.ingestion.deleting import delete_records
from braid.ingestion.entities_found_in_texts import found_id
from braid.models import MENTIONS, SUPERSEDES, Query, RelationshipKey
from braid.ports.ingestion import WriteReport, WriteRequest
from braid.retrieval import pipeline

from tests.contract.shapes import ACME, AS_OF, GLOBEX, day, edge, record, vertex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from braid.engines.embedded.store import EmbeddedStore
    from braid.models import Record

    from tests.stages import DemoStages


def write(stages: DemoStages, *records: Record) -> WriteReport:
    return stages.write(WriteRequest(tenant_id=ACME, records=records))


@pytest.fixture
def chain(stages: DemoStages) -> list[str]:
    """Store a chain of records of which each supersedes the one before."""
    ids = [f"c{number:04}-{'x' * 200}" for number in range(200)]
    stages.index.upsert([record(name, "") for name in ids])
    stages.graph.upsert(
        [vertex(name, has_record=True) for name in ids],
        [edge(new, old, SUPERSEDES) for old, new in pairwise(ids)],
    )
    return ids


def counted_reads(stages: DemoStages, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count how often edges are read."""
    really, reads = stages.graph.relationships, [0]

    def relationships(*given: Any, **named: Any) -> Any:
        reads[0] += 1
        return really(*given, **named)

    monkeypatch.setattr(stages.graph, "relationships", relationships)
    return reads


def test_however_many_circles_a_write_closes_what_is_stored_is_followed_once(
    stages: DemoStages, chain: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = counted_reads(stages, monkeypatch)
    selves = [record(f"self{number}", "x", supersedes=(f"self{number}",)) for number in range(50)]
    report = write(stages, *selves, record(chain[0], "x", supersedes=(chain[-1],)))
    assert len(report.errors) == 51
    assert all("superseded by itself" in error.message for error in report.errors)
    assert report.written == 0
    assert reads[0] < 2 * len(chain) + 10


def test_a_circle_along_a_stored_chain_is_refused_in_few_words(stages: DemoStages, chain: list[str]) -> None:
    (error,) = write(stages, record(chain[0], "x", supersedes=(chain[-1],))).errors
    assert (error.id, error.field) == (chain[0], "supersedes")
    assert "superseded by itself" in error.message
    assert "…" in error.message
    assert len(error.message) < 5_000


def test_a_write_of_many_wrong_items_is_refused_without_looking_again_for_each(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    finds = 0
    really = request_checks.find_supersession

    def find(*given: Any, **named: Any) -> Any:
        nonlocal finds
        finds += 1
        return really(*given, **named)

    monkeypatch.setattr(request_checks, "find_supersession", find)
    write(stages, *(record(f"r{number}", "x") for number in range(30)))
    gone = RelationshipKey(source="r1", type="GONE", target="r2")
    edges = [edge(f"r{number}", "r0").model_copy(update={"supersedes": (gone,)}) for number in range(1, 30)]
    chain = [record(f"n{number}", "x", supersedes=(f"n{number - 1}",)) for number in range(30)]
    finds = 0
    for wrong in ({"relationships": edges}, {"records": chain}):
        assert stages.write(WriteRequest(tenant_id=ACME, **wrong)).errors
    assert finds == 2


@contextmanager
def no_edges_read(reading: str, hub: str = "hub") -> Iterator[None]:
    """Fail when an edge that leads out of the hub is read, unless it leads to a text of the write."""
    really = edge_rows._edge

    def read(tenant_id: str, row: Any) -> Any:
        assert row[0] != hub or row[2].startswith("q"), reading
        return really(tenant_id, row)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_rows, "_edge", read)
        yield


def test_a_text_with_a_name_that_very_many_entities_have_is_written_without_reading_these(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    aliases = tuple(f"Mill Number {number}" for number in range(100))
    namesakes = [
        vertex(f"same{number}", name="Bronwick Mill", aliases=aliases, has_record=False) for number in range(50)
    ]
    stages.graph.upsert([*namesakes, vertex("only", name="Quarry Gate", has_record=False)], [])
    really = vertex_rows._vertex

    def read(tenant_id: str, row: Any) -> Any:
        assert not row[0].startswith("same"), "an entity of the name is read"
        return really(tenant_id, row)

    monkeypatch.setattr(vertex_rows, "_vertex", read)
    write(stages, record("r", "The Bronwick Mill is by the Quarry Gate, as Mill Number 7 is."))
    mentioned = {edge.source for edge in stages.graph.found_mentions(ACME, ["r"])}
    assert "only" in mentioned
    assert not any(one.startswith("same") for one in mentioned)


def test_of_a_name_that_very_many_entities_have_had_a_bounded_number_is_looked_at(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    aliases = tuple(f"Mill Number {number}" for number in range(20))
    former = [
        vertex(f"same{number}", name="Bronwick Mill", aliases=aliases, has_record=False, invalid_at=day(1))
        for number in range(100)
    ]
    stages.graph.upsert([*former, vertex("only", name="Quarry Gate", has_record=False)], [])
    asked = ["quarry gate", *map(str.lower, aliases)]
    monkeypatch.setattr(name_rows, "GIVEN_NAMES_READ", 50)
    steps = [0]

    def step() -> None:
        steps[0] += 1

    with store_of(stages).read() as connection:
        tenant = store_of(stages).tenant_number(connection, ACME)
        assert tenant is not None
        connection.set_progress_handler(step, 10)
        found = name_rows.given_names(connection, tenant, asked, as_of=to_microseconds(AS_OF), limit=100)
        connection.set_progress_handler(None, 0)
    assert [one.entity_id for one in found] == ["only"]
    assert steps[0] < 300, "the vertices of 2,000 names are read"


def store_hub(stages: DemoStages, *, evidence: str | None = None) -> None:
    """Store a vertex with many edges, and one more with other evidence where they have any."""
    spokes = [f"v{number}" for number in range(200)]
    edges = [edge("hub", name, evidence=evidence) for name in spokes]
    others = [edge("other", "hub", evidence="other")] if evidence else []
    stages.graph.upsert([vertex(name) for name in ("hub", "other", *spokes)], [*edges, *others])


def store_of(stages: DemoStages) -> EmbeddedStore:
    assert isinstance(stages.graph, EmbeddedKnowledgeGraph)
    return stages.graph._store


def graph_generation(stages: DemoStages) -> int:
    """Return a number that every change of the tenant's graph makes greater."""
    store = store_of(stages)
    with store.read() as connection:
        tenant = store.tenant_number(connection, ACME)
        assert tenant is not None
        return Generation.GRAPH.read(connection, tenant)


def test_a_hub_is_written_again_without_reading_its_edges(stages: DemoStages) -> None:
    store_hub(stages)
    with no_edges_read("for a vertex"):
        report = write(stages, record("hub", "The hub of all."))
    assert report.written == 1
    assert len(stages.graph.relationships(ACME, ids=["hub"])) == 200
    assert not stages.graph.relationships(GLOBEX, ids=["hub"])


def store_name(stages: DemoStages, identity: str, *, found: bool) -> None:
    """Store the name Keelson Harbour with many mentions that were found in texts."""
    texts = [f"t{number}" for number in range(200)]
    mentions = [edge(identity, text, MENTIONS, evidence=text, position=1) for text in texts]
    name = vertex(identity, name="Keelson Harbour").model_copy(update={"found": found})
    stages.graph.upsert([name, *(vertex(text, has_record=True) for text in texts)], mentions)


def chunk(name: str, text: str) -> Record:
    return record(name, text, source={"title": name, "chunk_index": 0}, metadata={"file": "a.md"})


def test_an_entity_that_very_many_texts_mention_is_written_and_deleted_without_reading_its_mentions(
    stages: DemoStages,
) -> None:
    store_name(stages, "hub", found=False)
    with no_edges_read("for an entity of many mentions"):
        write(stages, record("hub", "The harbour.", kind="entity", entity_type="Place", name="Keelson Harbour"))
        write(stages, chunk("q#0", "They saw Keelson Harbour."))
        write(stages, chunk("q#0", "They saw nothing."))
        assert delete_records(ACME, ["hub"], stages).relationships == 200


def test_a_name_that_very_many_texts_mention_passes_to_an_entity_without_being_read(stages: DemoStages) -> None:
    found = found_id("keelson harbour")
    store_name(stages, found, found=True)
    request = WriteRequest(
        tenant_id=ACME, vertices=(vertex("hub", name="Keelson Harbour"),), records=(chunk("q#0", "They saw it."),)
    )
    with no_edges_read("to pass them on", found):
        assert not stages.write(request).errors
    assert len(stages.graph.relationships(ACME, ids=["hub"])) == 200
    assert stages.graph.get_many(ACME, [found]) == []


def test_edges_of_many_types_to_a_hub_are_counted_by_going_through_its_edges_once(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    spokes = [f"v{number:03}" for number in range(400)]
    stages.graph.upsert([vertex(name) for name in ("hub", "last", *spokes)], [edge(name, "hub") for name in spokes])
    steps = [0]
    really = graph_change_log._new_endpoints

    def step() -> None:
        steps[0] += 1

    def counted(connection: Any, tenant: int, side: str) -> dict[str, int]:
        connection.set_progress_handler(step, 10)
        try:
            return really(connection, tenant, side)
        finally:
            connection.set_progress_handler(None, 0)

    monkeypatch.setattr(graph_change_log, "_new_endpoints", counted)
    monkeypatch.setattr(graph_change_log, "LOOKED_AT", 200)
    given = [edge("last", "hub", f"KIND_{number}") for number in range(20)]
    stages.graph.upsert([], given)
    assert stages.graph.stats(ACME).targets_by_relationship_type["KIND_7"] == 1
    assert stages.graph.delete_relationships(ACME, given) == 20
    assert "KIND_7" not in stages.graph.stats(ACME).targets_by_relationship_type
    assert steps[0] < 4_000, "all edges that lead to the hub are looked at for each type"


@pytest.mark.parametrize("looked_at", [1, 3, 1_000])
def test_targets_of_each_type_are_counted_exactly_however_many_edges_are_looked_at(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    monkeypatch.setattr(graph_change_log, "LOOKED_AT", looked_at)
    chosen = random.Random(4)  # noqa: S311 - a fixed sequence
    stages.graph.upsert([vertex(f"v{number}") for number in range(6)], [])
    for _ in range(40):
        some = [
            edge(
                f"v{chosen.randrange(6)}",
                f"v{chosen.randrange(2)}",
                chosen.choice("ABC"),
                predicate=chosen.choice("pq"),
            )
            for _ in range(chosen.randrange(1, 9))
        ]
        if chosen.random() < 0.6:
            stages.graph.upsert([], some)
        else:
            stages.graph.delete_relationships(ACME, some)
        with store_of(stages).read() as connection:
            tenant = store_of(stages).tenant_number(connection, ACME)
            assert tenant is not None
            assert graph_change_log.read_counts(connection, tenant) == graph_change_log.count(connection, tenant)


def test_the_evidence_of_many_edges_is_superseded_without_reading_them(stages: DemoStages) -> None:
    write(stages, record("old", "what was said", valid_at=day(1)))
    store_hub(stages, evidence="old")
    new = record("new", "what is said", valid_at=day(9), supersedes=("old",))
    with no_edges_read("to end it"):
        assert write(stages, new).superseded == 1 + 200
        changed = graph_generation(stages)
        assert write(stages, new).superseded == 0
    assert graph_generation(stages) == changed
    ends = {one.evidence: one.invalid_at for one in stages.graph.relationships(ACME, ids=["hub"])}
    assert ends == {"old": day(9), "other": None}


@pytest.mark.parametrize("by", ["record", "edge"])
def test_the_ends_of_many_edges_are_not_moved_again_by_each_small_write(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(knowledge_graph, "MAX_ENDS_MOVED", 100)
    write(stages, record("old", "what was said", valid_at=day(1)))
    store_hub(stages, evidence="old")
    assert write(stages, record("new", "what is said", valid_at=day(9), supersedes=("old",))).superseded == 1 + 200
    changed = graph_generation(stages)
    earlier = record("newer", "what is said", valid_at=day(8), supersedes=("old",) if by == "record" else ())
    links = () if by == "record" else (edge("newer", "old", SUPERSEDES, valid_at=day(8)),)
    report = stages.write(WriteRequest(tenant_id=ACME, records=(earlier,), relationships=links))
    assert [(error.id, error.field) for error in report.errors] == [("newer", "supersedes")]
    assert "'old', which 'newer' supersedes, has ended already" in report.errors[0].message
    assert graph_generation(stages) == changed
    later = record("newest", "what is said", valid_at=day(20), supersedes=("old",))
    assert write(stages, later).superseded == 0  # and is no error: no edge ends earlier
    assert delete_records(ACME, ["old"], stages).relationships > 200


def test_ends_of_edges_that_are_moved_are_bounded_for_all_records_of_a_write_together(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowledge_graph, "MAX_ENDS_MOVED", 25)
    olds = [f"old{number}" for number in range(4)]
    write(stages, *(record(old, "what was said") for old in olds))
    spokes = [vertex(f"v{number}") for number in range(10)]
    edges = [edge("hub", spoke.id, f"SAID_{old.upper()}", evidence=old) for old in olds for spoke in spokes]
    stages.graph.upsert([vertex("hub"), *spokes], edges)
    assert write(stages, record("new", "x", valid_at=day(9), supersedes=tuple(olds))).superseded == 4 + 40
    assert write(stages, record("earlier", "x", valid_at=day(8), supersedes=tuple(olds))).errors
    assert write(stages, record("earlier", "x", valid_at=day(8), supersedes=tuple(olds[:2]))).superseded == 2 + 20


def test_of_records_that_only_end_no_terms_are_written_and_no_vectors_read(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[object] = []
    really = row_writes.terms_of

    def terms_of(metadata: Any) -> Any:
        written.append(metadata)
        return really(metadata)

    def read_vectors(*_: Any) -> Any:
        raise AssertionError("vectors are read of what is superseded")

    olds = {f"old{number}": {"tags": [f"t{number}", "all"], "floor": number} for number in range(5)}
    write(stages, *(record(name, "what was said", metadata=own) for name, own in olds.items()))
    monkeypatch.setattr(row_writes, "terms_of", terms_of)
    monkeypatch.setattr(row_reads, "_vectors", read_vectors)
    for begin in (9, 8):
        new = record(f"new{begin}", "what is said", valid_at=day(begin), supersedes=tuple(olds))
        assert write(stages, new).superseded == 5
        assert [dict(one.metadata) for one in stages.index.get_many(ACME, list(olds))] == list(olds.values())
    assert written == [{}, {}], "the terms of what is superseded are written again"
    monkeypatch.undo()
    monkeypatch.setattr(row_writes, "terms_of", terms_of)
    assert all(one.embeddings for one in stages.index.get_many(ACME, list(olds), with_vectors=True))
    write(stages, record("old0", "what was said", metadata={"tags": ["t1"]}))
    assert written[2:] == [{"tags": ["t1"]}]
    with store_of(stages).read() as connection:
        statement = "SELECT term FROM metadata JOIN records ON number = record WHERE records.id = ? ORDER BY term"
        terms = {name: [row[0] for row in connection.execute(statement, (name,))] for name in ("old0", "old1")}
    assert terms == {"old0": sorted(really({"tags": ["t1"]})), "old1": sorted(really(olds["old1"]))}


def test_a_record_that_is_stored_as_untrusted_is_written_again_without_looking_for_its_edges(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[str] = []
    really = edge_rows.distrust_edges

    def distrust(connection: Any, tenant: int, evidence: Any) -> int:
        looked_for.extend(evidence)
        return really(connection, tenant, evidence)

    monkeypatch.setattr(edge_rows, "distrust_edges", distrust)
    store_hub(stages, evidence="said")
    write(stages, record("said", "what a stranger said", trusted=False))
    assert looked_for == ["said"]
    write(stages, record("said", "what a stranger said then", trusted=False))
    assert looked_for == ["said"]
    write(stages, record("said", "what a friend said"))
    stages.write(WriteRequest(tenant_id=ACME, relationships=(edge("other", "hub", evidence="said"),)))
    write(stages, record("said", "what a stranger said", trusted=False))
    assert looked_for == ["said", "said"]
    assert not any(one.trusted for one in stages.graph.relationships(ACME, ids=["hub"]) if one.evidence == "said")


def test_the_evidence_of_many_edges_ceases_to_be_trusted_without_reading_them(stages: DemoStages) -> None:
    store_hub(stages, evidence="said")
    doubtful = record("said", "what a stranger said", trusted=False)
    with no_edges_read("to distrust it"):
        assert write(stages, doubtful).written == 1
        changed = graph_generation(stages)
        write(stages, doubtful)
    assert graph_generation(stages) == changed
    trusted = {one.evidence: one.trusted for one in stages.graph.relationships(ACME, ids=["hub"])}
    assert trusted == {"said": False, "other": True}


def test_the_edges_of_an_evidence_are_found_by_an_index_and_not_among_all_of_the_tenant(stages: DemoStages) -> None:
    store_hub(stages, evidence="said")
    statements: list[str] = []
    with store_of(stages).transaction() as connection:
        connection.set_trace_callback(statements.append)
        assert stages.graph.end_relationships(ACME, {"other": day(9)}) == 1
        assert stages.graph.distrust_relationships(ACME, ["other"]) == 1
        connection.set_trace_callback(None)
        # A statement is traced again for each trigger that it sets off.
        begin = ("UPDATE edges INDEXED", "SELECT tenant, source, type")
        looks = dict.fromkeys(statement for statement in statements if statement.startswith(begin))
        plans = [connection.execute(f"EXPLAIN QUERY PLAN {look}").fetchone()[3] for look in looks]
    asked = "SEARCH edges USING INDEX edges_by_evidence (tenant=? AND evidence=?)"
    # By trust too: others hardly wait where few edges of very many are trusted, whoever marks their evidence by turns.
    assert plans == [
        asked,
        "SEARCH edges USING COVERING INDEX edges_by_evidence (tenant=? AND evidence=? AND trusted=?)",
    ]


def test_the_edges_of_an_evidence_that_is_not_trusted_any_more_are_marked_few_at_a_time(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_change_log, "ROWS_AT_ONCE", 30)
    write(stages, record("said", "what was said"))
    store_hub(stages, evidence="said")
    really, most = edge_rows.distrust_edges, list[int]()

    def distrust(*given: Any, **named: Any) -> int:
        most.append(really(*given, **named))
        return most[-1]

    monkeypatch.setattr(edge_rows, "distrust_edges", distrust)
    write(stages, record("said", "what was said", trusted=False))
    assert sum(most) == 200
    assert max(most) == 30
    assert {edge.trusted for edge in stages.graph.scan(ACME).relationships if edge.evidence == "said"} == {False}


def test_the_objects_of_one_import_are_found_by_an_index_and_not_among_all_of_the_tenant(stages: DemoStages) -> None:
    for number in range(3):
        stages.objects.put(ACME, f"ingest/{number}/pages/begun", b"")
    statements: list[str] = []
    with store_of(stages).read() as connection:
        pass
    connection.set_trace_callback(statements.append)
    assert [one.key for one in stages.objects.list(ACME, "ingest/1/pages/")] == ["ingest/1/pages/begun"]
    connection.set_trace_callback(None)
    (listing,) = (statement for statement in statements if "FROM objects" in statement)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {listing}")]
    assert plan[-1] == "SEARCH objects USING PRIMARY KEY (tenant=? AND key>? AND key<?)"


def test_who_stores_no_record_adds_no_table_to_the_store_of_all(stages: DemoStages) -> None:
    store = store_of(stages)

    def tables() -> int:
        with store.read() as connection:
            return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])

    write(stages, record("a", "x"))
    before = tables()
    for number in range(5):
        tenant = f"asker-{number}"
        stages.cache.put(tenant, "k", b"1", 60)
        stages.graph.upsert([vertex("v", tenant_id=tenant)], [])
        assert pipeline.answer(Query(text="Where is x?", tenant_id=tenant), stages).results == ()
        assert delete_records(tenant, ["v"], stages).vertices == 1
    assert tables() == before


def test_what_expired_and_what_a_deleted_tenant_had_leaves_the_cache_a_few_values_at_a_time(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, now = store_of(stages), [day(1)]
    cache = EmbeddedCache(store, clock=lambda: now[0])
    removed: list[int] = []
    really = cache_schemas_jobs_members._remove

    def remove(*given: Any) -> int:
        removed.append(really(*given))
        return removed[-1]

    monkeypatch.setattr(cache_schemas_jobs_members, "_remove", remove)

    def fill() -> None:
        for number in range(120):
            cache.put(ACME, f"k{number}", b"1", 60)

    fill()
    now[0], removed[:] = day(2), []
    for _ in range(4):  # a neighbour's questions
        cache.put(GLOBEX, "q", b"1", 60)
    assert removed == [50, 50, 20, 0]
    fill()
    removed[:] = []
    assert cache.forget(ACME) == 120
    assert removed == [50, 50, 20]
    assert cache.get(GLOBEX, "q") == b"1"
    with store.transaction() as connection:
        connection.execute("UPDATE cache SET content = 'damaged'")
    assert cache.get(GLOBEX, "q") is None
    assert cache.exchange(GLOBEX, "q", None, b"2", 60) is None
    assert cache.get(GLOBEX, "q") == b"2"


def test_a_hub_and_the_evidence_of_many_edges_are_deleted_few_edges_at_a_time(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_change_log, "ROWS_AT_ONCE", 30)
    store_hub(stages, evidence="said")
    stages.index.upsert([record("said", "what was said")])
    most: list[int] = []

    def counting(really: Any) -> Any:
        def counted(*given: Any, **named: Any) -> int:
            most.append(really(*given, **named))
            return most[-1]

        return counted

    for name in ("delete_some_edges_of", "delete_edges_of"):
        monkeypatch.setattr(edge_rows, name, counting(getattr(edge_rows, name)))
    assert delete_records(ACME, ["said"], stages).relationships == 200
    store_hub(stages)
    assert delete_records(ACME, ["hub"], stages).relationships == 200 + 1
    assert max(most) <= 2 * 30
    assert len(most) >= 2 * 4


def test_a_write_is_not_refused_for_what_another_one_changed_while_it_was_checked(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages.write(WriteRequest(tenant_id=ACME, vertices=(vertex("hub", name="Keelson Harbour"),)))
    really, others = request_checks._find_names, [lambda: delete_records(ACME, ["hub"], stages)]

    def find_names(*given: Any) -> None:
        really(*given)
        while others:
            others.pop()()

    monkeypatch.setattr(request_checks, "_find_names", find_names)
    report = write(stages, chunk("q#0", "They saw Keelson Harbour."))
    assert (report.written, report.errors) == (1, ())
    assert found_id("keelson harbour") in {edge.source for edge in stages.graph.found_mentions(ACME, ["q#0"])}
