"""The steps that write an object of many lines, over files on a laptop and over S3."""

from __future__ import annotations

import json
import threading
import tracemalloc
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from braid.engines.aws.s3 import S3ObjectStore
from braid.errors import InvalidRequest, ObjectChanged, ObjectMissing, QueueFull, StoreError, TransientStoreError
from braid.ingestion.bulk import import_steps, manifest
from braid.ingestion.bulk.step_messages import BatchRange, BatchResult, Cursor, Finish, Lost, PageRequest, Phase, Split
from braid.ingestion.repair import repair
from braid.ingestion.tenant_deletion import delete_tenant
from braid.models import MAX_ID_BYTES
from braid.ports.ingestion import ImportJob, JobReport, JobStatus
from braid.settings import Settings
from moto import mock_aws

from tests.contract.files import FACTS, at_once, escaped, state, watched
from tests.contract.shapes import ACME, GLOBEX, vertex
from tests.contract.writes import found, written
from tests.ended_later import ENDED_LATER, ENDS
from tests.file_steps import KEY, all_phases, batches, begun, finished, put_lines
from tests.stages import DemoStages, WordEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from braid.ports.object_store import ObjectStore


class OverS3(DemoStages):
    """Embedded stores with the files in S3."""

    @cached_property
    def objects(self) -> ObjectStore:
        """A bucket of moto's."""
        client = boto3.client(
            "s3",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - nobody checks it
        )
        client.create_bucket(Bucket="files")
        return S3ObjectStore(client, "files")


@pytest.fixture(params=["laptop", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DemoStages]:
    monkeypatch.setattr(import_steps, "BATCH_LINES", 4)
    monkeypatch.setattr(manifest, "PAGE_BATCHES", 2)
    with mock_aws():
        stages = (OverS3 if request.param == "s3" else DemoStages)(Settings(home=tmp_path))
        yield stages
        stages.close()


def put(store: DemoStages, count: int = 11, *, end: bytes = b"") -> bytes:
    rows = [{"id": f"r{at}", "content": f"turbine {at}"} for at in range(count)]
    content = "\n".join(json.dumps(row) for row in rows).encode() + end
    store.objects.put(ACME, KEY, content)
    return content


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_every_line_is_in_one_batch_whatever_the_file_ends_with(store: DemoStages, end: bytes) -> None:
    put(store, end=end)
    job = begun(store)
    found_places = [task.batch for task in batches(store, job, Phase.ITEMS)]
    assert [place.line for place in found_places] == [1, 5, 9]
    assert [place.start for place in found_places[1:]] == [place.end for place in found_places[:-1]]
    for task in batches(store, job, Phase.ITEMS):
        import_steps.batch(task, store)
    report = finished(store, job)
    assert (report.status, report.written, report.errors) == (JobStatus.WRITTEN, 11, 0)
    assert len(found(store, "turbine")) == 11


def test_lines_longer_than_a_batch_are_batches_of_their_own(store: DemoStages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_steps, "BATCH_BYTES", 10)
    put(store, 3)
    assert [task.batch.lines for task in batches(store, begun(store), Phase.ITEMS)] == [1, 1, 1]


def test_an_edge_ends_another_wherever_that_stands_and_is_told_once_where_it_cannot(store: DemoStages) -> None:
    put_lines(store, ENDED_LATER)
    report = all_phases(store, begun(store))
    assert (report.status, report.written, report.relationships) == (JobStatus.WITH_ERRORS, 9, 3)
    errors = store.objects.open(ACME, report.report_key)
    assert [json.loads(line)["place"] for line in errors] == ["line 2", "line 3"]
    assert {edge.predicate: edge.invalid_at for edge in store.graph.relationships(ACME, ids=["r0"])} == ENDS


@pytest.mark.parametrize(
    ("lines", "spelt"), [(FACTS, json.dumps), (FACTS[::-1], escaped)], ids=["forwards", "backwards"]
)
def test_in_the_end_the_same_holds_as_if_all_lines_were_written_at_once_whatever_their_order(
    store: DemoStages,
    monkeypatch: pytest.MonkeyPatch,
    lines: tuple[dict[str, Any], ...],
    spelt: Callable[[dict[str, Any]], str],
) -> None:
    monkeypatch.setattr(import_steps, "BATCH_LINES", 1)
    at_once(store, "once", FACTS)
    put_lines(store, lines, spelt)
    report = all_phases(store, begun(store))
    assert (report.status, report.written, report.relationships) == (JobStatus.WRITTEN, 3, 8)
    assert state(store, ACME) == state(store, "once")


NAMED = (
    {"entity": {"id": "ada", "name": "Ada Lovelace", "aliases": ["Countess"], "type": "Person"}},
    {"record": {"id": "ada", "kind": "entity", "content": "She writes of engines."}},
    {"record": {"id": "grace", "kind": "entity", "name": "Grace Hopper", "content": "She works at the yard."}},
    {"record": {"id": "text", "content": "They met Ada Lovelace with Grace Hopper."}},
)


@pytest.mark.parametrize("lines", [NAMED, NAMED[::-1]], ids=["forwards", "backwards"])
def test_an_entity_has_all_that_its_lines_give_and_its_texts_whatever_their_order(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch, lines: tuple[dict[str, Any], ...]
) -> None:
    monkeypatch.setattr(import_steps, "BATCH_LINES", 1)
    put_lines(store, lines)
    report = all_phases(store, begun(store))
    assert (report.status, report.written, report.relationships) == (JobStatus.WRITTEN, 3, 0)
    page = store.graph.scan(ACME)
    assert {(one.id, one.name, one.aliases, one.entity_type, one.has_record) for one in page.vertices} == {
        ("ada", "Ada Lovelace", ("Countess",), "Person", True),
        ("grace", "Grace Hopper", (), "Concept", True),
        ("text", None, (), "Document", True),
    }
    assert {(one.source, one.target) for one in page.relationships} == {("ada", "text"), ("grace", "text")}


def test_an_entity_that_is_renamed_while_its_file_is_imported_keeps_the_new_name(store: DemoStages) -> None:
    put_lines(store, NAMED)
    job = begun(store)
    for task in batches(store, job, Phase.ITEMS):
        import_steps.batch(task, store)
    written(store, vertex("ada", name="Ada King", entity_type="Person"))
    for task in batches(store, job, Phase.EDGES):
        import_steps.batch(task, store)
    assert [one.name for one in store.graph.get_many(ACME, ["ada"])] == ["Ada King"]


def test_written_again_no_edge_changes_in_between_and_none_ends_later(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_lines(store, FACTS)
    all_phases(store, begun(store, "first"))
    before, later = state(store, ACME), store.now() + timedelta(days=30)
    monkeypatch.setattr(store, "now", lambda: later)
    sent = watched(store, monkeypatch)
    report = all_phases(store, begun(store, "second"))
    assert (report.unchanged, report.relationships, report.superseded) == (3, 8, 0)
    assert (sent, state(store, ACME)) == ([], before)


def test_nothing_ends_before_all_edges_are_there_which_other_batches_may_write_at_the_same_time(
    store: DemoStages,
) -> None:
    put_lines(store, FACTS)
    job = begun(store)
    for phase in (Phase.ITEMS, Phase.EDGES):
        for task in batches(store, job, phase):
            import_steps.batch(task, store)
    edges = store.graph.scan(ACME).relationships
    assert len(edges) == 6
    assert not [edge for edge in edges if edge.invalid_at or edge.type == "SUPERSEDES"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32-le"])
def test_a_line_that_is_not_utf_8_is_told_of_and_not_taken_for_one_without_an_edge(
    store: DemoStages, encoding: str
) -> None:
    edge = json.dumps({"relationship": {"source": "a", "type": "CAUSES", "target": "b"}})
    store.objects.put(ACME, KEY, edge.encode(encoding))
    report = all_phases(store, begun(store))
    assert (report.status, report.errors) == (JobStatus.WITH_ERRORS, 1)


@pytest.mark.parametrize("identity", ["\ud800", "\x00", "long" * 1_000_000])
def test_a_line_whose_id_cannot_be_one_is_told_of_and_the_others_are_written(store: DemoStages, identity: str) -> None:
    rows = [{"id": f"r{identity}", "content": "x"}, {"id": "r1", "content": "turbine"}]
    store.objects.put(ACME, KEY, "\n".join(map(json.dumps, rows)).encode())
    report = all_phases(store, begun(store))
    assert (report.status, report.written, report.errors) == (JobStatus.WITH_ERRORS, 1, 1)
    (told,) = (json.loads(line) for line in store.objects.open(ACME, report.report_key))
    assert (told["place"], told["field"]) == ("line 1", "id")
    assert len(told["id"]) <= MAX_ID_BYTES


@pytest.mark.parametrize("removed", [False, True])
def test_an_object_that_is_replaced_or_removed_between_two_batches_is_noticed(
    store: DemoStages, *, removed: bool
) -> None:
    put(store)
    job = begun(store)
    tasks = list(batches(store, job, Phase.ITEMS))
    import_steps.batch(tasks[0], store)
    if removed:
        store.objects.delete(ACME, KEY)
    else:
        put(store, 12)
    with pytest.raises(ObjectChanged):
        import_steps.batch(tasks[1], store)
    for task in tasks[1:]:
        lost = Lost(job=job, phase=task.phase, batch=task.batch, error="ObjectChanged")
        import_steps.lost(lost, store)
    assert finished(store, job).status is JobStatus.CHANGED


def test_lines_that_take_long_to_embed_are_not_written_over_those_of_a_newer_version(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = WordEncoder.encode

    def slowly(self: WordEncoder, texts: Sequence[str], **how: Any) -> list[bytes]:
        monkeypatch.setattr(WordEncoder, "encode", encode)
        store.objects.put(ACME, KEY, b'{"id": "r0", "content": "the newer turbine"}')
        assert all_phases(store, begun(store, "newer")).status is JobStatus.WRITTEN
        return self.encode(texts, **how)

    put(store, 1)
    job = begun(store)
    (task,) = batches(store, job, Phase.ITEMS)
    monkeypatch.setattr(WordEncoder, "encode", slowly)
    with pytest.raises(ObjectChanged):
        import_steps.batch(task, store)
    assert [record.content for record in store.index.scan(ACME).records] == ["the newer turbine"]


def test_a_batch_that_meets_the_removal_of_what_it_relates_is_tried_again(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(*_: Any) -> None:
        message = "relationships: there is no vertex 'found:1', neither stored nor written with it"
        raise InvalidRequest(message, field="relationships")

    rows = [{"entity": {"id": "a"}}, {"entity": {"id": "b"}}]
    store.objects.put(ACME, KEY, "\n".join(map(json.dumps, rows)).encode())
    (task,) = batches(store, begun(store), Phase.ITEMS)
    with monkeypatch.context() as patch:
        patch.setattr(store.graph, "upsert", removed)
        with pytest.raises(TransientStoreError):
            import_steps.batch(task, store)
    import_steps.batch(task, store)
    assert [vertex.id for vertex in store.graph.get_many(ACME, ["a", "b"])] == ["a", "b"]


def test_pages_that_hold_nothing_of_a_phase_take_no_step_of_their_own(store: DemoStages) -> None:
    edge = {"relationship": {"source": "r0", "type": "MENTIONS", "target": "r1"}}
    rows = [{"id": f"r{at}", "content": f"turbine {at}"} for at in range(40)]
    store.objects.put(ACME, KEY, "\n".join(json.dumps(row) for row in [*rows, edge]).encode())
    job, cursor = begun(store), Cursor()
    handed: list[tuple[Phase, int]] = []
    while True:
        out = import_steps.page(PageRequest(job=job, cursor=cursor), store)
        if out.items is None:
            break
        handed.append((out.phase, len(manifest.items(job, out.items, store.objects))))
        cursor = out.next
    assert handed == [*[(Phase.ITEMS, 2)] * 5, (Phase.ITEMS, 1), (Phase.EDGES, 1)]


def written_whole(store: DemoStages) -> ImportJob:
    """Write every batch of an object, and finish nothing."""
    put(store)
    job = begun(store)
    for phase in Phase:
        for batch in batches(store, job, phase):
            import_steps.batch(batch, store)
    return job


def names(store: DemoStages) -> list[str]:
    return [info.key for info in store.objects.list(ACME)]


KEPT = [KEY, "ingest/j/errors.jsonl", "ingest/j/report.json"]


def test_notes_are_read_many_at_once_and_removed_by_few_requests(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = written_whole(store)
    together = threading.Barrier(2, timeout=10)  # which no one who reads one after the other gets through
    read, removed, requests = manifest.result, store.objects.delete_many, list[int]()

    def read_with_another(job: ImportJob, phase: Phase, place: BatchRange, objects: ObjectStore) -> BatchResult:
        if place.number < 2:  # the first page's two
            together.wait()
        return read(job, phase, place, objects)

    def count(tenant_id: str, keys: Sequence[str]) -> None:
        requests.append(len(keys))
        removed(tenant_id, keys)

    monkeypatch.setattr(manifest, "result", read_with_another)
    monkeypatch.setattr(store.objects, "delete_many", count)
    report = import_steps.finish(Finish(job=job), store)
    assert (report.status, report.written) == (JobStatus.WRITTEN, 11)
    assert requests == [5, 3]  # pages, each with its items, and the mark of a beginning; results
    assert names(store) == KEPT


def test_a_job_that_an_earlier_version_stored_has_its_fingerprints() -> None:
    stored = {"key": "k", "version": "1", "size_bytes": 8}
    job = ImportJob.model_validate({"name": "j", "tenant_id": ACME, "object": stored, "marks": stored})
    assert job.fingerprints == job.object


def test_a_finish_that_was_cut_off_before_it_had_tidied_up_does_so_when_it_is_repeated(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = written_whole(store)

    def stop(*_: Any) -> None:
        message = "stopped"
        raise StoreError(message)

    with monkeypatch.context() as patch:
        patch.setattr(store.objects, "delete_many", stop)
        with pytest.raises(StoreError, match="stopped"):
            import_steps.finish(Finish(job=job), store)
    assert len(names(store)) == len(KEPT) + 8
    assert import_steps.finish(Finish(job=job), store).status is JobStatus.WRITTEN
    assert names(store) == KEPT


def test_a_finish_that_another_one_overtook_tells_what_that_one_found(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = written_whole(store)
    read, first = manifest.results, list[JobReport]()

    def overtaken(*arguments: Any) -> Iterator[tuple[BatchRange, BatchResult]]:
        monkeypatch.setattr(manifest, "results", read)
        places = [place for place, _ in read(*arguments)]
        first.append(import_steps.finish(Finish(job=job), store))
        return iter([(place, BatchResult(lost="nothing is noted of it")) for place in places])

    monkeypatch.setattr(manifest, "results", overtaken)
    assert import_steps.finish(Finish(job=job), store) == first[0]
    assert (first[0].status, first[0].written) == (JobStatus.WRITTEN, 11)


def test_a_tenant_that_is_removed_meanwhile_stays_removed_and_is_told_of(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store)
    job = begun(store)
    first, second, third = batches(store, job, Phase.ITEMS)
    import_steps.batch(first, store)
    removed = store.index.delete

    def begin_another(tenant_id: str, ids: Sequence[str]) -> int:
        with pytest.raises(ObjectChanged):
            import_steps.batch(second, store)
        return removed(tenant_id, ids)

    with monkeypatch.context() as patch:
        patch.setattr(store.index, "delete", begin_another)
        report = delete_tenant(ACME, store)
    assert report.records == 4
    (left,) = report.left
    assert left.startswith("imports that had not ended (j): what they were writing at that moment may come back")
    with pytest.raises(ObjectChanged):
        import_steps.batch(third, store)
    with pytest.raises(ObjectMissing):
        import_steps.page(PageRequest(job=job, cursor=Cursor(page=1)), store)
    assert found(store, "turbine") == []
    assert delete_tenant(ACME, store).model_dump(exclude_defaults=True) == {"tenant_id": ACME}


def test_an_import_of_which_the_batches_are_still_sought_is_told_of_when_its_tenant_is_removed(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store)
    left: list[str] = []
    note = manifest.put_ranges

    def removed_meanwhile(job: ImportJob, places: Iterator[BatchRange], objects: ObjectStore) -> ImportJob:
        read = list(places)
        left.extend(delete_tenant(ACME, store).left)
        return note(job, read, objects)

    monkeypatch.setattr(manifest, "put_ranges", removed_meanwhile)
    begun(store)
    assert [line.split(":")[0] for line in left] == ["imports that had not ended (j)"]


@pytest.mark.parametrize("content", [None, b'{"id": "a", "content": "x"}\n' * 9 + b"x" * 101])
def test_an_import_that_did_not_get_to_its_batches_leaves_no_note(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    monkeypatch.setattr("braid.ports.object_store.MAX_LINE_BYTES", 100)
    if content is not None:
        store.objects.put(ACME, KEY, content)
    with pytest.raises((ObjectMissing, StoreError)):
        begun(store)
    assert names(store) == ([] if content is None else [KEY])
    assert delete_tenant(ACME, store).left == ()


def test_an_import_that_has_ended_is_not_told_of_when_its_tenant_is_removed(store: DemoStages) -> None:
    put(store)
    finished(store, begun(store))
    assert delete_tenant(ACME, store).left == ()


def test_a_batch_of_which_nothing_is_noted_counts_as_lost(store: DemoStages) -> None:
    put(store)
    job = begun(store)
    import_steps.batch(next(batches(store, job, Phase.ITEMS)), store)
    report = finished(store, job)
    assert (report.status, report.lost_batches, report.written) == (JobStatus.INCOMPLETE, 2, 4)
    noted = [json.loads(line) for line in store.objects.open(ACME, report.report_key)]
    assert [one["place"] for one in noted] == ["lines 5 to 8", "lines 9 to 11"]


@pytest.mark.parametrize("trusted", [True, False])
def test_an_edge_is_as_trusted_as_its_evidence_that_a_lost_batch_has(store: DemoStages, *, trusted: bool) -> None:
    edge = {"source": "a", "type": "OWNS", "target": "b", "evidence": "mail"}
    put_lines(
        store,
        [
            {"record": {"id": "mail", "content": "a mail", "trusted": trusted}},
            *({"entity": {"id": name, "type": "Team", "name": name}} for name in "ab"),
            {"relationship": edge},
        ],
    )
    job = import_steps.split(Split(job="j", event={"tenant_id": ACME, "key": KEY}), store, batch_lines=1)
    for phase in Phase:
        for task in batches(store, job, phase):
            if task.batch.number:
                import_steps.batch(task, store)
            else:
                lost = Lost(job=job, phase=phase, batch=task.batch, error="TransientStoreError")
                import_steps.lost(lost, store)
    assert finished(store, job).status is JobStatus.INCOMPLETE
    (stored,) = store.graph.scan(ACME).relationships
    assert (stored.evidence, stored.trusted) == ("mail", trusted)
    repair(ACME, store)
    (stored,) = store.graph.scan(ACME).relationships
    assert stored.trusted is trusted


def test_a_batch_that_is_repeated_writes_once_and_counts_what_it_did_last(store: DemoStages) -> None:
    put(store)
    job = begun(store)
    for task in [*batches(store, job, Phase.ITEMS)] * 2:
        import_steps.batch(task, store)
    assert len(found(store, "turbine")) == 11
    report = finished(store, job)
    assert (report.status, report.written, report.unchanged) == (JobStatus.WRITTEN, 0, 11)


def test_of_all_imports_together_as_many_batches_are_written_at_once_as_may_be(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store)
    store.settings = store.settings.model_copy(update={"ingest_writers": 2})
    first, second, third = (next(batches(store, begun(store, name), Phase.ITEMS)) for name in ("a", "b", "c"))
    write, others = import_steps.write, [second, third]

    def while_another_writes(*given: Any, **named: Any) -> Any:
        if others:
            import_steps.batch(others.pop(0), store)
        return write(*given, **named)

    monkeypatch.setattr(import_steps, "write", while_another_writes)
    with pytest.raises(QueueFull, match="2 batches of imports and of embedding again are being written"):
        import_steps.batch(first, store)
    # Those that were cut off hold no place any more.
    assert import_steps.batch(first, store).written == 4
    assert import_steps.batch(third, store).written == 0, "the same lines"


def test_what_one_tenant_has_read_and_gathered_leaves_places_to_the_others(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.settings = store.settings.model_copy(update={"ingest_writers": 3})
    put(store)
    store.objects.put(GLOBEX, KEY, b'{"id": "other", "content": "turbine"}')
    done = begun(store, "done")
    read, told = import_steps._split, []

    def while_others_read(*given: Any) -> Any:
        for job, tenant in (("second", ACME), ("third", ACME), ("other", GLOBEX)):
            if job in told:
                continue
            told.append(job)
            event = {"tenant_id": tenant, "key": KEY}
            if job == "third":
                with pytest.raises(QueueFull):
                    import_steps.split(Split(job=job, event=event), store)
                with pytest.raises(QueueFull):
                    finished(store, done)
            else:
                import_steps.split(Split(job=job, event=event), store)
        return read(*given)

    monkeypatch.setattr(import_steps, "_split", while_others_read)
    begun(store, "first")
    assert told == ["second", "third", "other"]
    assert not list(store.objects.list(ACME, "ingest/third/")), "nothing is left of one that was not begun"
    assert finished(store, done).lost_batches == 3, "the places are free again"


def test_a_line_too_long_fails_before_anything_is_written_and_is_named(
    store: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("braid.ports.object_store.MAX_LINE_BYTES", 100)
    store.objects.put(ACME, KEY, b'{"id": "a", "content": "x"}\n' + b"x" * 101)
    with pytest.raises(StoreError, match="line 2 is longer"):
        begun(store)


def test_a_line_of_a_megabyte_is_written(tmp_path: Path) -> None:
    stages = DemoStages(Settings(home=tmp_path))
    line = {"id": "long", "content": "turbine " + "word " * 200_000}
    stages.objects.put(ACME, KEY, json.dumps(line).encode())
    for task in batches(stages, begun(stages), Phase.ITEMS):
        import_steps.batch(task, stages)
    assert found(stages, "turbine") == ["long"]
    stages.close()


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({}, "tenant_id"),
        ({"tenant_id": ACME}, "key"),
        ({"tenant_id": "../x", "key": KEY}, "tenant_id"),
        ({"tenant_id": ACME, "key": "../a"}, "key"),
        ({"tenant_id": ACME, "key": KEY, "missing": "perhaps"}, "missing"),
        ({"detail": {"object": {}}}, "detail.object.key"),
    ],
)
def test_an_event_that_names_no_object_is_refused_by_field(
    store: DemoStages, event: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        import_steps.split(Split(job="j", event=event), store)
    assert caught.value.field == field


def test_another_tenants_object_is_not_there(store: DemoStages) -> None:
    put(store)
    with pytest.raises(ObjectMissing):
        import_steps.split(Split(job="j", event={"tenant_id": "globex", "key": KEY}), store)


def test_what_a_step_hands_on_does_not_grow_with_the_object(tmp_path: Path) -> None:
    stages = DemoStages(Settings(home=tmp_path))
    sizes: list[int] = []
    for count in (1_000, 100_000):
        stages.objects.put(ACME, KEY, b'{"id": "a", "content": "x"}\n' * count)
        tracemalloc.start()
        job = begun(stages)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        page = import_steps.page(PageRequest(job=job, cursor=Cursor()), stages)
        sizes.append(len(job.model_dump_json()))
        assert len(page.model_dump_json()) < 40_000
        assert peak < 12 * 1024 * 1024
    assert sizes[1] - sizes[0] < 20
    stages.close()


@pytest.mark.parametrize("at_most", [None, 3])
def test_a_batch_has_a_bounded_number_of_bytes_and_of_lines_and_at_least_one(
    monkeypatch: pytest.MonkeyPatch, at_most: int | None
) -> None:
    monkeypatch.setattr(import_steps, "BATCH_BYTES", 100)
    lines = [b"x" * length for length in (49, 49, 1, 98, 1, 200, 99, 0, *[1] * 8)]
    sizes = [[len(line) for line in held] for held in import_steps.in_batches(lines, at_most)]
    wholes = [[49, 49], [1], [98], [1], [200], [99]]
    assert sizes == [*wholes, *([[0, *[1] * 8]] if at_most is None else [[0, 1, 1], [1] * 3, [1] * 3])]


def test_a_batch_is_no_longer_than_a_request_s_body_may_be() -> None:
    assert Settings.model_fields["api_max_body_bytes"].default >= import_steps.BATCH_BYTES
    lines = [json.dumps({"id": f"r{number}", "content": "x" * 90_000}).encode() for number in range(60)]
    held = list(import_steps.in_batches(lines))
    assert [line for some in held for line in some] == lines
    assert max(sum(len(line) + 1 for line in some) for some in held) <= 2_000_000
    assert len(held) == 3
