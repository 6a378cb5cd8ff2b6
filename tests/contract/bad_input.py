"""What every pair of stores is spared, whichever way it comes: a call, a message, an object, a file.

The same wrong lines are sent each way, each to a tenant of its own. A call and a message are refused whole; of an
object and a file the right lines are written.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from braid.ingestion.bulk import import_steps
from braid.ingestion.bulk.import_queue import ImportQueue
from braid.ingestion.inline_writes import write_message
from braid.ingestion.writing import MissingEnds
from braid.lambda_runtime.fifo_batches import batch_handler
from braid.models import SUPERSEDES
from braid.ports.ingestion import ImportAsked, ImportStatus

from braid_cli.datasets.ingest_file import ingest_file
from braid_cli.state_machine.invoke_endpoint import LocalContext
from tests.contract.imports import ended
from tests.front_door import FrontDoor, claims
from tests.stages import WordEncoder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.stages import DemoStages

    Line = dict[str, Any]
    Way = Callable[[DemoStages, Path, Sequence[Line], MissingEnds], list[str]]

GOOD: Line = {"record": {"id": "good", "content": "a turbine hums"}}
KEY = "late/lines.jsonl"


def record(name: str, content: str = "a pump drips", **fields: Any) -> Line:
    return {"record": {"id": name, "content": content, **fields}}


def edge(source: str, target: str, **fields: Any) -> Line:
    return {"relationship": {"source": source, "type": "CAUSES", "target": target, **fields}}


def body_of(lines: Sequence[Line]) -> dict[str, Any]:
    """Return lines as the body of one call."""
    names = {"record": "records", "entity": "entities", "relationship": "relationships"}
    body: dict[str, Any] = {}
    for line in lines:
        ((kind, item),) = line.items()
        body.setdefault(names[kind], []).append(item)
    return body


def jsonl(lines: Sequence[Line]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def call(store: DemoStages, _: Path, lines: Sequence[Line], missing: MissingEnds) -> list[str]:
    """Send ``POST /records``."""
    body = body_of(lines) | {"stub_missing_ends": missing is MissingEnds.STUB}
    answered = FrontDoor(store).ask("POST", "/records", body, authorizer=claims("call"))
    if answered.status == 200:
        return []
    assert answered.status in {400, 422}
    problem = answered.json()
    return [*(f"{one['field']}: {one['detail']}" for one in problem.get("errors", [])), problem["detail"]]


def deliver(store: DemoStages, messages: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Hand messages, each with its group, to the queue's function; return those that stay, and why."""
    failed: dict[str, str] = {}
    handler = batch_handler(
        lambda body: write_message(body, store), lambda name, error: failed.update({name: str(error)})
    )
    records = [
        {"messageId": str(at), "body": body, "attributes": {"MessageGroupId": group}, "eventSource": "aws:sqs"}
        for at, (group, body) in enumerate(messages)
    ]
    kept = handler({"Records": records}, LocalContext("ingest"))["batchItemFailures"]  # type: ignore[arg-type]
    assert {one["itemIdentifier"] for one in kept} == set(failed)
    return failed


def message(store: DemoStages, _: Path, lines: Sequence[Line], missing: MissingEnds) -> list[str]:
    """Deliver one message of the queue."""
    body = json.dumps(body_of(lines) | {"tenant_id": "message", "missing": missing.value})
    return list(deliver(store, [("group", body)]).values())


def imported(store: DemoStages, tenant: str, name: str, missing: MissingEnds = MissingEnds.REFUSE) -> Any:
    """Import the object under :data:`KEY` and wait until that has ended."""
    imports = ImportQueue(store)
    try:
        imports.start(tenant, name, ImportAsked(key=KEY, missing=missing))
        return ended(imports, name, tenant=tenant)
    finally:
        imports.close()


def stored_object(store: DemoStages, _: Path, lines: Sequence[Line], missing: MissingEnds) -> list[str]:
    """Import an object, as ``POST /records:import`` does."""
    store.objects.put("object", KEY, jsonl(lines))
    found = imported(store, "object", "lines", missing)
    assert found.status in {ImportStatus.WRITTEN, ImportStatus.WITH_ERRORS}
    report = list(store.objects.open("object", found.report.report_key))
    return [f"{one['place']}: {one['field']}: {one['message']}" for one in map(json.loads, report)]


def file(store: DemoStages, folder: Path, lines: Sequence[Line], missing: MissingEnds) -> list[str]:
    """Ingest a file, as ``braid ingest FILE`` does."""
    path, errors = folder / "lines.jsonl", list[str]()
    path.write_bytes(jsonl(lines))
    ingest_file(path, "file", store, missing=missing, on_error=lambda error: errors.append(str(error)))
    return errors


WHOLE: dict[str, Way] = {"call": call, "message": message}
"""Refuse all of it when something is wrong. Named as the tenants that they write to."""
PARTIAL: dict[str, Way] = {"object": stored_object, "file": file}
"""Write what is right."""
WAYS = WHOLE | PARTIAL


def ids(store: DemoStages, tenant: str) -> list[str]:
    return [each.id for each in store.index.scan(tenant).records]


def edges(store: DemoStages, tenant: str) -> int:
    return store.graph.stats(tenant).edges


class BadInputContract:
    """Subclass this and provide the fixture ``store``: stores that are empty for every test."""

    @pytest.mark.parametrize(
        ("lines", "said", "kept"),
        [
            ([record("a"), record("a", "another")], ("'a' stands already",), (["a", "good"], 0)),
            ([edge("good", "nobody")], ("'nobody'", "'good'"), (["good"], 0)),
            (
                # The first of the two is no circle yet, where lines are written one after the other.
                [record("x", supersedes=["y"]), record("y", supersedes=["x"])],
                ("would be superseded by itself", " → "),
                (["good", "x", "y"], 1),
            ),
            ([record("a\0b")], ("id: ", "control"), (["good"], 0)),
            ([record("n", "a\0b")], ("content: ", "NUL"), (["good"], 0)),
            ([record("found:0a")], ("id: begins with 'found:'",), (["good"], 0)),
            ([edge("good", "good", confidence=float("nan"))], ("holds NaN",), (["good"], 0)),
            ([record("bare", "")], ("content: must not be empty",), (["good"], 0)),
            ([record("blank", " \n", kind="fact")], ("content: must not be empty",), (["good"], 0)),
            ([record("new", schema_version=2)], ("2 is newer than the current version 1",), (["good"], 0)),
        ],
        ids=[
            "id-twice",
            "edge-to-nothing",
            "circle",
            "nul-in-id",
            "nul-in-text",
            "id-of-a-found-name",
            "nan",
            "no-text",
            "blank-text",
            "newer-than-schema",
        ],
    )
    def test_what_is_wrong_is_named_and_not_written_whichever_way_it_comes(
        self, store: DemoStages, tmp_path: Path, lines: list[Line], said: tuple[str, ...], kept: tuple[list[str], int]
    ) -> None:
        for tenant, send in WAYS.items():
            errors = "\n".join(send(store, tmp_path, [GOOD, *lines], MissingEnds.REFUSE))
            assert [pattern for pattern in said if not re.search(pattern, errors)] == [], (tenant, errors)
            expected = ([], 0) if tenant in WHOLE else kept
            assert (ids(store, tenant), edges(store, tenant)) == expected, tenant

    def test_an_edge_to_nothing_leads_to_a_stub_when_asked_whichever_way_it_comes(
        self, store: DemoStages, tmp_path: Path
    ) -> None:
        for tenant, send in WAYS.items():
            assert send(store, tmp_path, [GOOD, edge("good", "nobody")], MissingEnds.STUB) == []
            (stub,) = store.graph.get_many(tenant, ["nobody"])
            assert (stub.name, stub.has_record, edges(store, tenant)) == (None, False, 1)

    def test_a_line_of_a_megabyte_is_written_and_found_whichever_way_it_comes(
        self, store: DemoStages, tmp_path: Path
    ) -> None:
        long = record("long", "turbine " + "word " * 200_000)
        for tenant, send in WAYS.items():
            assert send(store, tmp_path, [GOOD, long], MissingEnds.REFUSE) == []
            assert ids(store, tenant) == ["good", "long"]

    @pytest.mark.parametrize("wrong", [{"content": "m" * 1_048_577}, {"schema_version": 9}])
    def test_an_edge_whose_evidence_is_refused_is_not_trusted_if_that_was_not(
        self, store: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any]
    ) -> None:
        monkeypatch.setattr(import_steps, "BATCH_LINES", 1)
        lines = [
            record("a"),
            record("b"),
            record("kept", trusted=True),
            record("mail", **wrong, trusted=False),
            edge("a", "b", evidence="mail"),
            edge("b", "a", evidence="kept"),
            edge("a", "kept", evidence="no record of the store"),
        ]
        for tenant, way in PARTIAL.items():
            assert len(way(store, tmp_path, lines, MissingEnds.REFUSE)) == 1, tenant
            stored = {one.evidence: one.trusted for one in store.graph.scan(tenant).relationships}
            assert stored == {"mail": False, "kept": True, "no record of the store": True}, tenant
        # It is trusted again once it is written again, with evidence that is.
        assert file(store, tmp_path, [record("mail"), edge("a", "b", evidence="mail")], MissingEnds.REFUSE) == []
        assert all(one.trusted for one in store.graph.scan("file").relationships)

    @pytest.mark.parametrize(
        "wrong",
        [
            pytest.param("[" * 40 + "]" * 40, id="too deep"),
            pytest.param('{"id": "other"}, "metadata": {"a": 1}', id="twice"),
            pytest.param('{"a": NaN}', id="no number"),
            pytest.param('{"a": "\udcff"}', id="no UTF-8"),
            pytest.param('{"id": "\\ud800", "a": NaN}', id="half a character"),
        ],
    )
    def test_an_edge_is_not_trusted_whose_evidence_is_on_a_line_that_cannot_be_parsed(
        self, store: DemoStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
    ) -> None:
        monkeypatch.setattr(import_steps, "BATCH_LINES", 1)
        mail = f'{{"record": {{"metadata": {wrong}, "id": "m\\u00e4il", "trusted": false, "content": "a"}}}}'
        ends = jsonl([record("a"), record("b"), record("other")])
        edges = jsonl([edge("a", "b", evidence="mäil"), edge("b", "a", evidence="other")])
        lines = b"%b%b\n%b" % (ends, mail.encode("utf-8", "surrogateescape"), edges)
        (tmp_path / "lines.jsonl").write_bytes(lines)
        ingest_file(tmp_path / "lines.jsonl", "file", store, missing=MissingEnds.REFUSE)
        store.objects.put("object", KEY, lines)
        assert imported(store, "object", "lines", MissingEnds.REFUSE).status is ImportStatus.WITH_ERRORS
        for tenant in PARTIAL:
            stored = {one.evidence: one.trusted for one in store.graph.scan(tenant).relationships}
            assert stored == {"mäil": False, "other": True}, tenant

    @pytest.mark.parametrize("is_refused", [False, True])
    def test_an_import_replaces_no_trusted_edge_by_one_whose_evidence_is_not_trusted_or_refused(
        self, store: DemoStages, tmp_path: Path, *, is_refused: bool
    ) -> None:
        own = [record("a"), record("b"), record("own"), edge("a", "b", evidence="own")]
        mail = record("mail", "m" * (1_048_577 if is_refused else 1), trusted=False)
        strange = edge("a", "b", evidence="mail", confidence=0.1)
        (tmp_path / "own.jsonl").write_bytes(jsonl(own))
        for tenant, way in PARTIAL.items():
            if is_refused:
                ingest_file(tmp_path / "own.jsonl", tenant, store, missing=MissingEnds.REFUSE)
            lines = [mail, strange] if is_refused else [*own, mail, strange]
            assert len(way(store, tmp_path, lines, MissingEnds.REFUSE)) == 2 * is_refused, tenant
            kept = [(one.evidence, one.trusted) for one in store.graph.scan(tenant).relationships]
            assert kept == [("own", True)], tenant

    def test_an_edge_of_an_import_that_is_not_trusted_keeps_no_record_from_superseding(
        self, store: DemoStages, tmp_path: Path
    ) -> None:
        own = [record("old"), record("new", valid_at="2025-01-01T00:00:00Z", supersedes=["old"])]
        link = {"source": "new", "type": SUPERSEDES, "target": "old", "valid_at": "2999-01-01T00:00:00Z"}
        strange = {"relationship": {**link, "evidence": "mail"}}
        for tenant, way in PARTIAL.items():
            way(store, tmp_path, [*own, record("mail", trusted=False), strange], MissingEnds.REFUSE)
            old, new = sorted(store.index.get_many(tenant, ["old", "new"]), key=lambda one: one.id, reverse=True)
            assert old.invalid_at == new.valid_at == datetime(2025, 1, 1, tzinfo=UTC), tenant

    def test_a_poison_message_among_ten_stays_and_nine_land(self, store: DemoStages) -> None:
        bodies = [json.dumps({"tenant_id": "message", **body_of([record(f"r{at}")])}) for at in range(10)]
        bodies[4] = '{"tenant_id": "message", "records": [{"id": "r4", "content": "a\\u0000b"}]}'
        failed = deliver(store, [(f"r{at}", body) for at, body in enumerate(bodies)])
        assert list(failed) == ["4"]
        assert "content" in failed["4"]
        assert ids(store, "message") == [f"r{at}" for at in range(10) if at != 4]

    def test_a_message_that_is_delivered_twice_writes_once(
        self, store: DemoStages, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        body = json.dumps({"tenant_id": "message", **body_of([GOOD, record("b"), edge("good", "b")])})
        assert deliver(store, [("good", body)]) == {}
        before = store.index.scan("message", with_vectors=True), store.graph.scan("message")
        monkeypatch.setattr(WordEncoder, "encode", None)  # embedding again would fail
        assert deliver(store, [("good", body), ("good", body)]) == {}
        assert (store.index.scan("message", with_vectors=True), store.graph.scan("message")) == before

    def test_an_object_that_changes_while_it_is_read_fails_by_that_name_and_is_written_whole_the_next_time(
        self, store: DemoStages, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(import_steps, "BATCH_LINES", 1)
        store.objects.put("object", KEY, jsonl([GOOD, record("old")]))
        whole, done = import_steps.batch, list[int]()

        def batch(task: Any, to: Any) -> Any:
            if done:
                store.objects.put("object", KEY, jsonl([GOOD, record("new")]))
            done.append(1)
            return whole(task, to)

        monkeypatch.setattr(import_steps, "batch", batch)
        found = imported(store, "object", "first")
        assert (found.status, found.error) == (ImportStatus.FAILED, "ObjectChanged")
        assert ids(store, "object") == ["good"]
        monkeypatch.undo()
        assert imported(store, "object", "second").status is ImportStatus.WRITTEN
        assert ids(store, "object") == ["good", "new"]
