"""The front door's writes, lists and schemas."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from braid.errors import QuotaExceeded, StoreError
from braid.ingestion.documents.uploads import path_of
from braid.models import Record, Vertex
from braid.ports.deletion_marks import marked_as_deleted
from braid.ports.members import Membership as Member
from braid.ports.members import Role
from braid.settings import EngineKind, Membership, Settings

from tests.front_door import FrontDoor, claims
from tests.stages import DemoStages
from tests.unit.deployment.test_template import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TURBINE = {
    "id": "turbine",
    "kind": "entity",
    "entity_type": "Machine",
    "name": "Osprey turbine",
    "content": "It turns.",
}
STOP = {"id": "stop", "kind": "entity", "entity_type": "Event", "name": "Standstill", "content": "It stood still."}
CAUSE = {"source": "stop", "type": "CAUSES", "target": "turbine"}
LAMBDA_RETURNS = 6_291_556 - 2_000
"""Most bytes that it returns, beside the headers."""
BOTH = {"records": [TURBINE, STOP], "relationships": [CAUSE]}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[DemoStages]:
    library = DemoStages(Settings(home=tmp_path))
    yield library
    library.close()


@pytest.fixture
def door(library: DemoStages) -> FrontDoor:
    return FrontDoor(library)


def test_what_is_written_is_found_at_once(door: FrontDoor) -> None:
    answered = door.ask("POST", "/records", BOTH)
    assert (answered.status, answered.json()["written"], answered.json()["relationships"]) == (200, 2, 1)
    found = door.ask("POST", "/search", {"text": "Osprey turbine"}).json()
    assert found["results"][0]["id"] == "turbine"
    related = door.ask("GET", "/entities/turbine/related").json()
    assert [hit["id"] for hit in related["hits"]] == ["stop"]


def test_a_page_of_texts_full_of_quotes_is_one_that_lambda_can_return(library: DemoStages, door: FrontDoor) -> None:
    names = [f"r{number}" for number in range(5)]
    content = '{"a": "b"}' * 100_000  # 1.4 MB as JSON, and 2.2 in the JSON that Lambda returns
    library.index.upsert([Record(id=name, tenant_id="saltmarrow", kind="chunk", content=content) for name in names])
    whole = door.ask("POST", "/records:read", {"ids": names})
    listed: list[str] = []
    page: dict[str, Any] = {"next": None}
    while not listed or page["next"]:
        query = {"limit": 100} | ({"after": page["next"]} if page["next"] else {})
        answered = door.ask("GET", "/records", query=query)
        assert (answered.status, len(json.dumps(answered.text)) < LAMBDA_RETURNS) == (200, True)
        page = answered.json()
        listed += [record["id"] for record in page["records"] if not record["shortened"]]
    assert listed == names
    assert (whole.status, len(json.dumps(whole.text)) < LAMBDA_RETURNS) == (200, True)


def test_what_is_written_again_changes_nothing(door: FrontDoor) -> None:
    door.ask("POST", "/records", BOTH)
    again = door.ask("POST", "/records", BOTH).json()
    assert (again["written"], again["unchanged"], again["embedded"]) == (0, 2, 0)


def test_what_is_written_is_the_callers_tenants_and_no_others(door: FrontDoor) -> None:
    assert door.ask("POST", "/records", {"records": [{**TURBINE, "tenant_id": "pellworth"}]}).status == 422
    door.ask("POST", "/records", BOTH)
    assert door.ask("GET", "/records", authorizer=claims("pellworth")).json()["records"] == []
    assert door.ask("GET", "/entities/turbine", authorizer=claims("pellworth")).status == 404


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["body"]),
        ({"records": []}, ["body"]),
        ({"records": [TURBINE] * 101}, ["records"]),
        ({"records": [{"id": ""}]}, ["records.0.id"]),
        ({"records": [TURBINE, {**STOP, "importance": 7}]}, ["records.1.importance"]),
        ({"records": [TURBINE, TURBINE]}, ["records.1.id"]),
        ({"records": [{**TURBINE, "schema_version": 9}]}, ["records.0.schema_version"]),
        ({"records": [TURBINE], "relationships": [CAUSE]}, ["relationships.0.source"]),
        ({"records": [{**TURBINE, "id": "a\u0000b"}]}, ["records.0.id"]),
        ({"records": [{**TURBINE, "content": "a\u0000b"}]}, ["records.0.content"]),
    ],
)
def test_a_write_with_something_wrong_is_refused_whole_and_names_it(
    door: FrontDoor, body: dict[str, Any], fields: list[str]
) -> None:
    answered = door.ask("POST", "/records", body)
    assert (answered.status, answered.fields) == (422, fields)
    assert door.ask("GET", "/records").json()["records"] == []


def test_what_is_removed_is_gone_for_good_with_its_relations_and_only_for_its_tenant(door: FrontDoor) -> None:
    for tenant in ("saltmarrow", "pellworth"):
        door.ask("POST", "/records", BOTH, authorizer=claims(tenant))
    gone = door.ask("DELETE", "/records/stop").json()
    assert (gone["records"], gone["relationships"]) == (1, 1)
    assert door.ask("GET", "/entities/stop").status == 404
    assert door.ask("GET", "/entities/turbine/related").json()["hits"] == []
    assert door.ask("DELETE", "/records/stop").json()["records"] == 0
    assert door.ask("GET", "/entities/turbine/related", authorizer=claims("pellworth")).json()["hits"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/records", {"records": [TURBINE]}),
        ("/schemas", {"version": 2}),
        ("/documents", {"name": "gates.md", "content": base64.b64encode(b"Gates.").decode()}),
        ("/records:import", {"key": "inbox/a.jsonl"}),
        ("/reembed", {}),
    ],
)
def test_a_tenant_that_is_being_deleted_takes_nothing_and_says_what_to_do(
    door: FrontDoor, library: DemoStages, path: str, body: dict[str, Any]
) -> None:
    with marked_as_deleted("saltmarrow", library.cache):
        refused = door.ask("POST", path, body)
        assert (refused.status, refused.problem) == (409, "tenant-being-deleted")
        assert "delete the tenant once more" in refused.json()["detail"]
        assert list(library.objects.list("saltmarrow")) == []
        assert library.jobs.names() == []
        assert door.ask("POST", "/records", {"records": [TURBINE]}, authorizer=claims("pellworth")).status == 200
        assert door.ask("DELETE", "/records/turbine").status == 200
    assert door.ask("POST", "/records", {"records": [TURBINE]}).status == 200


def test_ids_of_any_characters_are_removed_by_a_body_and_no_others(door: FrontDoor) -> None:
    # Of the first a path would be cut at its question mark, and be the second's.
    asked, others = ("page?id=5", "a,b", "x/y#z", "50%"), ("page", "a", "b", "x")
    door.ask("POST", "/records", {"records": [{"id": name, "content": "Text."} for name in (*asked, *others)]})
    assert door.ask("POST", "/records:delete", {"ids": list(asked)}).json()["records"] == len(asked)
    left = {record["id"] for record in door.ask("GET", "/records").json()["records"]}
    assert left == set(others)
    assert door.ask("POST", "/records:delete", {"ids": []}).fields == ["ids"]


def test_an_edge_that_leads_to_nothing_may_lead_to_a_vertex_without_a_name(door: FrontDoor) -> None:
    body = {"records": [TURBINE], "relationships": [CAUSE], "stub_missing_ends": True}
    assert door.ask("POST", "/records", body).json()["stubs"] == 1
    assert door.ask("GET", "/entities/stop").json()["kind"] is None


def test_a_request_sent_twice_under_one_key_is_done_once(door: FrontDoor) -> None:
    key = {"idempotency-key": "8e03978e-40d5-43e8"}
    first = door.ask("POST", "/records", BOTH, headers=key)
    assert door.ask("POST", "/records", BOTH, headers=key).json() == first.json()
    assert first.json()["written"] == 2


def test_a_key_stands_for_one_request_of_one_tenant(door: FrontDoor) -> None:
    key = {"idempotency-key": "k"}
    door.ask("POST", "/records", BOTH, headers=key)
    other = door.ask("POST", "/records", {"records": [TURBINE]}, headers=key)
    assert (other.status, other.problem) == (422, "idempotency-key-reused")
    pellworths = door.ask("POST", "/records", BOTH, headers=key, authorizer=claims("pellworth"))
    assert pellworths.json()["written"] == 2
    assert door.ask("GET", "/records", authorizer=claims("pellworth")).json()["records"]


@pytest.mark.parametrize("key", [" ", "a b", "ü", "x" * 256])
def test_a_key_that_is_none_is_refused(door: FrontDoor, key: str) -> None:
    answered = door.ask("POST", "/records", BOTH, headers={"idempotency-key": key})
    assert (answered.status, answered.fields) == (422, ["idempotency-key"])


def test_all_records_are_listed_page_by_page_each_once(door: FrontDoor) -> None:
    door.ask("POST", "/records", {"records": [{"id": f"r{number:02}", "content": "x"} for number in range(7)]})
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        page = door.ask("GET", "/records", query=query).json()
        seen += [record["id"] for record in page["records"]]
        if not page["next"]:
            break
        query["after"] = page["next"]
    assert seen == [f"r{number:02}" for number in range(7)]


def test_documents_are_listed_with_their_titles_and_read_by_their_records(door: FrontDoor) -> None:
    said = {"file": "gates.md", "format": "markdown", "gate": "heron"}
    chunks = [
        {"id": f"port/gates.md#chunk-{n}", "content": f"Part {n}.", "source": {"title": "Gates"}, "metadata": said}
        for n in range(3)
    ]
    plain = {"id": "note", "content": "A note.", "name": "A note's name", "timestamp": "2024-05-01T00:00:00Z"}
    door.ask("POST", "/records", {"records": [*chunks, plain, TURBINE]})
    first = door.ask("GET", "/documents", query={"limit": 1}).json()
    rest = door.ask("GET", "/documents", query={"limit": 1, "after": first["next"]}).json()
    listed = [*first["documents"], *rest["documents"]]
    assert [(one["id"], one["title"], one["file"]) for one in listed] == [
        ("note", "A note's name", None),
        ("port/gates.md", "Gates", "gates.md"),
    ]
    records = door.ask("GET", "/records", query={"document": "port/gates.md"}).json()["records"]
    assert [one["id"] for one in records] == [one["id"] for one in chunks]
    assert door.ask("GET", "/documents", authorizer=claims("pellworth")).json() == {"documents": [], "next": None}


def test_named_entities_are_listed_the_best_connected_first_and_say_whether_they_were_found(
    door: FrontDoor, library: DemoStages
) -> None:
    door.ask("POST", "/records", BOTH)
    vertex = Vertex(id="found:1", tenant_id="saltmarrow", name="Keelson", aliases=("Kl",), found=True)
    library.graph.upsert([vertex], [])
    listed = door.ask("GET", "/entities").json()
    assert [(one["name"], one["relations"], one["found"]) for one in listed["entities"]] == [
        ("Osprey turbine", 1, False),
        ("Standstill", 1, False),
        ("Keelson", 0, True),
    ]
    assert listed["next"] is None
    read = door.ask("POST", "/entities:read", {"id": "found:1"}).json()
    assert (read["kind"], read["aliases"], read["found"]) == (None, ["Kl"], True)
    assert door.ask("GET", "/entities", authorizer=claims("pellworth")).json()["entities"] == []


@pytest.mark.parametrize("path", ["/records", "/documents", "/entities"])
def test_a_page_goes_on_only_in_the_list_that_gave_it(door: FrontDoor, path: str) -> None:
    door.ask("POST", "/records", {"records": [{"id": "a", "content": "x"}, {"id": "b", "content": "x"}, TURBINE]})
    onward = {one: door.ask("GET", one, query={"limit": 1}).json()["next"] for one in ("/records", "/documents")}
    for given, after in onward.items():
        answered = door.ask("GET", path, query={"after": after})
        assert (answered.status, answered.status == 200 or answered.fields) == (
            (200, True) if given == path else (422, ["after"])
        )


def test_a_caller_is_told_its_tenants_and_its_role_in_each(tmp_path: Path) -> None:
    library = DemoStages(Settings(home=tmp_path / "claims"))
    door = FrontDoor(library)
    several = claims(["saltmarrow", "pellworth"])
    answered = door.ask("GET", "/access", authorizer=several).json()
    writers = [{"tenant_id": name, "role": "writer"} for name in ("pellworth", "saltmarrow")]
    assert (answered["tenant_id"], answered["role"], answered["tenants"]) == ("pellworth", "writer", writers)
    assert answered["max_body_bytes"] == library.settings.api_max_body_bytes
    named = door.ask("GET", "/access", authorizer=several, headers={"braid-tenant": "saltmarrow"}).json()
    assert named["tenant_id"] == "saltmarrow"
    assert door.ask("GET", "/access", authorizer=several, headers={"braid-tenant": "wrenfield"}).status == 403
    assert door.ask("GET", "/access", authorizer=None).status == 401
    library.close()
    library = DemoStages(Settings(home=tmp_path / "members", membership=Membership.STORE))
    for tenant, role in (("saltmarrow", Role.READER), ("wrenfield", Role.WRITER)):
        library.members.add(Member(subject="user:ada", tenant_id=tenant, role=role))
    answered = FrontDoor(library).ask("GET", "/access", authorizer=several).json()
    assert (answered["role"], answered["tenants"]) == ("reader", [{"tenant_id": "saltmarrow", "role": "reader"}])
    library.close()


def test_a_cursor_is_good_for_the_tenant_that_it_was_given_and_only_as_it_was_given(door: FrontDoor) -> None:
    for tenant in ("saltmarrow", "pellworth"):
        records = {"records": [{"id": f"{tenant}-{number}", "content": "x"} for number in range(3)]}
        door.ask("POST", "/records", records, authorizer=claims(tenant))
    after = door.ask("GET", "/records", query={"limit": 1}).json()["next"]
    assert door.ask("GET", "/records", query={"after": after}).status == 200
    others = door.ask("GET", "/records", query={"after": after}, authorizer=claims("pellworth"))
    assert (others.status, others.fields) == (422, ["after"])
    for wrong in (after[:-2], ("B" if after[0] == "A" else "A") + after[1:], "", "x", "ü", "e30", after * 9):
        answered = door.ask("GET", "/records", query={"after": wrong})
        assert (answered.status, answered.fields) == (422, ["after"]), wrong


def test_a_schema_is_registered_listed_and_repeated_without_effect(door: FrontDoor) -> None:
    assert door.ask("GET", "/schemas").json() == {"current": 1, "versions": []}
    first = {"version": 1, "entity_types": ["Machine"]}
    second = {"version": 2, "entity_types": ["Machine", "Event"], "changes": "events"}
    for schema in (first, second, first):
        assert door.ask("POST", "/schemas", schema).status == 200
    listed = door.ask("GET", "/schemas").json()
    assert (listed["current"], [known["version"] for known in listed["versions"]]) == (2, [1, 2])
    assert door.ask("GET", "/schemas", authorizer=claims("pellworth")).json()["versions"] == []


def test_a_version_that_says_something_else_or_leaves_one_out_is_a_conflict(door: FrontDoor) -> None:
    door.ask("POST", "/schemas", {"version": 1, "entity_types": ["Machine"]})
    for body in ({"version": 1, "entity_types": ["Person"]}, {"version": 7}):
        answered = door.ask("POST", "/schemas", body)
        assert (answered.status, answered.problem, answered.fields) == (409, "conflict", ["version"])


def test_a_reader_asks_and_lists_and_writes_nothing(tmp_path: Path) -> None:
    library = DemoStages(Settings(home=tmp_path, membership=Membership.STORE))
    library.members.add(Member(subject="user:ada", tenant_id="saltmarrow", role=Role.READER))
    door = FrontDoor(library)
    described = door.ask("GET", "/openapi.json").json()["paths"]
    routes = [(method.upper(), path) for path, methods in described.items() for method in methods]
    refused = {(method, path) for method, path in routes if door.ask(method, path, {}).status == 403}
    asks = {"/search", "/search/semantic", "/graph/query", "/context", "/entities:read", "/records:read"}
    assert refused == {(method, path) for method, path in routes if method != "GET" and path not in asks}
    assert (tmp_path / "audit.jsonl").read_text().count('"reason": "role"') == len(refused)
    assert door.ask("POST", "/records:read", {"ids": ["turbine"]}).json()["records"] == []
    library.members.add(Member(subject="user:ada", tenant_id="saltmarrow", role=Role.WRITER))
    assert door.ask("POST", "/records", BOTH).status == 200
    library.close()


def test_embedding_again_begins_a_job_of_the_callers_tenant_and_goes_on_with_it(door: FrontDoor) -> None:
    door.ask("POST", "/records", BOTH)
    first = door.ask("POST", "/reembed", {}).json()
    assert (first["name"], first["status"], first["written"]) == ("refresh:saltmarrow", "running", 0)
    assert door.ask("POST", "/reembed", {}).json()["name"] == first["name"]
    assert door.ask("POST", "/reembed", {"profile": "instructor"}).fields == ["profile"]


LINE = b'{"record": {"id": "late", "content": "It came late."}}\n'


def _ended(door: FrontDoor, import_id: str) -> dict[str, Any]:
    until = time.monotonic() + 30
    while (found := door.ask("GET", f"/imports/{import_id}").json())["status"] == "running":
        assert time.monotonic() < until
        time.sleep(0.01)
    return dict(found)


def test_an_object_is_written_while_nobody_waits(door: FrontDoor, library: DemoStages) -> None:
    library.objects.put("saltmarrow", "late/a.jsonl", LINE)
    begun = door.ask("POST", "/records:import", {"key": "late/a.jsonl"})
    assert (begun.status, begun.json()["status"]) == (202, "running")
    assert begun.headers["Location"] == f"/imports/{begun.json()['id']}"
    ended = _ended(door, begun.json()["id"])
    assert (ended["status"], ended["lines"], ended["written"], ended["errors"]) == ("written", 1, 1, 0)
    assert door.ask("GET", "/entities/late").status == 200
    assert "saltmarrow" not in str(ended)


def test_a_document_is_taken_and_found_when_it_is_written(door: FrontDoor) -> None:
    content = base64.b64encode(b"# Gates\n\nThe heron gate opens at six.\n").decode()
    begun = door.ask("POST", "/documents", {"name": "handbook/gates.md", "content": content})
    assert (begun.status, begun.headers["Location"]) == (202, f"/imports/{begun.json()['id']}")
    assert _ended(door, begun.json()["id"])["status"] == "written"
    found = door.ask("POST", "/entities:read", {"id": "documents/handbook/gates.md#chunk-0"}).json()
    assert found["content"] == "The heron gate opens at six."


@pytest.mark.parametrize(
    "metadata",
    [
        {"valid_at": "2024-02-01", "team": "port", "tags": ["a", "b"]},
        {
            "metadataAttributes": {
                "valid_at": "2024-02-01",
                "team": {"value": {"type": "STRING", "stringValue": "port"}, "includeForEmbedding": True},
                "tags": {"value": {"type": "STRING_LIST", "stringListValue": ["a", "b"]}},
            }
        },
    ],
    ids=["plain", "Bedrock"],
)
def test_a_document_is_posted_with_its_metadata(
    door: FrontDoor, library: DemoStages, metadata: dict[str, object]
) -> None:
    content = base64.b64encode(b"---\nteam: old\nsite: north\n---\nThe gate opens at six.\n").decode()
    begun = door.ask("POST", "/documents", {"name": "gates.md", "content": content, "metadata": metadata}).json()
    assert _ended(door, begun["id"])["status"] == "written"
    (record,) = library.index.scan("saltmarrow").records
    assert record.valid_at == datetime(2024, 2, 1, tzinfo=UTC)
    assert [record.metadata[name] for name in ("team", "tags", "site")] == ["port", ["a", "b"], "north"]
    assert list(library.objects.list("saltmarrow", "posted/")) == []
    begun = door.ask("POST", "/documents", {"name": "gates.md", "content": content}).json()
    assert _ended(door, begun["id"])["status"] == "written"
    (record,) = library.index.scan("saltmarrow").records
    assert (record.valid_at, record.metadata["team"]) == (None, "old")


def test_metadata_of_a_posted_document_may_be_as_long_as_in_a_file(door: FrontDoor) -> None:
    content, metadata = base64.b64encode(b"# Gates\n\nTen gates.\n").decode(), {"note": "\u6e2f" * 20_000}
    begun = door.ask("POST", "/documents", {"name": "gates.md", "content": content, "metadata": metadata}).json()
    assert _ended(door, begun["id"])["status"] == "written"


def test_metadata_of_a_posted_document_that_is_wrong_is_told_with_its_field(
    door: FrontDoor, library: DemoStages
) -> None:
    body = {"name": "a/gates.md", "content": base64.b64encode(b"Gates.").decode()}
    for metadata, reason in (
        ({"valid_at": "soon"}, "gates.md.metadata.json: valid_at: 'soon' is no date"),
        ({"metadataAttributes": {"team": {}}}, "gates.md.metadata.json: team: is neither a plain value"),
        ({"team": "a" * 70_000}, "gates.md.metadata.json: is longer than 65,536 bytes"),
    ):
        begun = door.ask("POST", "/documents", body | {"metadata": metadata}).json()
        ended = _ended(door, begun["id"])
        assert ended["status"] == "with_errors"
        assert ended["reasons"][0].startswith(reason)
    assert library.index.scan("saltmarrow").records == ()
    assert list(library.objects.list("saltmarrow", "posted/")) == []
    answered = door.ask("POST", "/documents", body | {"metadata": ["team"]})
    assert (answered.status, answered.fields) == (422, ["metadata"])


def test_a_document_that_cannot_be_read_says_why_when_it_is_asked_after(door: FrontDoor) -> None:
    content = base64.b64encode(b"%PDF-1.7 bad").decode()
    begun = door.ask("POST", "/documents", {"name": "bad.pdf", "content": content}).json()
    ended = _ended(door, begun["id"])
    assert (ended["status"], ended["errors"]) == ("with_errors", 1)
    assert "is broken" in ended["reasons"][0]


def test_the_outcome_of_an_import_is_told_where_its_reasons_cannot_be_read(
    door: FrontDoor, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = base64.b64encode(b"%PDF-1.7 bad").decode()
    begun = door.ask("POST", "/documents", {"name": "bad.pdf", "content": content}).json()
    assert _ended(door, begun["id"])["reasons"]
    found = library.imports.find("saltmarrow", begun["id"])

    def forbidden(*_: object) -> None:
        message = "bucket: AccessDenied"
        raise StoreError(message)

    monkeypatch.setattr(type(library.imports), "find", lambda *_: found)
    monkeypatch.setattr(type(library.objects), "open", forbidden)
    told = door.ask("GET", f"/imports/{begun['id']}").json()
    assert (told["status"], told["reasons"]) == ("with_errors", [])


def test_versions_of_a_document_that_are_posted_at_once_are_all_written_and_the_last_one_stays(
    door: FrontDoor, library: DemoStages
) -> None:
    begun = []
    for number in range(3):
        content = base64.b64encode(f"# Gates\n\nVersion {number} of the gates.\n".encode()).decode()
        begun.append(door.ask("POST", "/documents", {"name": "gates.md", "content": content}).json())
    assert {_ended(door, each["id"])["status"] for each in begun} == {"written"}
    found = door.ask("POST", "/entities:read", {"id": "documents/gates.md#chunk-0"}).json()
    assert found["content"] == "Version 2 of the gates."
    assert list(library.objects.list("saltmarrow", "posted/")) == []


@pytest.mark.parametrize("name", ["documents/gates.md", "handbook/inbox/gates.md", "gates.md"])
def test_what_is_posted_arrives_in_no_folder_that_starts_an_import_by_itself(
    door: FrontDoor, library: DemoStages, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(type(library.imports), "start", lambda *given: asked.append(given[3].key))
    assert door.ask("POST", "/documents", {"name": name, "content": "YQ=="}).status == 202
    arrival = RESOURCES["IngestStateMachine"]["Properties"]["Events"]["FileArrived"]["Properties"]["Pattern"]
    announced = [each["wildcard"] for each in arrival["detail"]["object"]["key"]]
    assert announced
    assert not any(fnmatchcase(f"saltmarrow/{asked[0]}", each) for each in announced)
    assert path_of(asked[0]) == name


def test_a_document_whose_import_is_refused_is_not_kept(
    door: FrontDoor, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        message = "5 imports of this tenant wait already"
        raise QuotaExceeded(message, retry_after_s=1)

    monkeypatch.setattr(type(library.imports), "start", full)
    body = {"name": "a.md", "content": "YQ==", "metadata": {"team": "port"}}
    assert door.ask("POST", "/documents", body).status == 429
    assert list(library.objects.list("saltmarrow", "posted/")) == []


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("content", {"name": "a.md", "content": "no base64!"}),
        ("content", {"name": "a.md", "content": ""}),
        ("name", {"name": "", "content": "YQ=="}),
        ("name", {"name": "../pellworth/documents/a.md", "content": "YQ=="}),
        ("name", {"name": "a\tb.md", "content": "YQ=="}),
        ("name", {"name": "a.md.metadata.json", "content": "YQ=="}),
        ("name", {"name": "\U0001f6a2" * 300, "content": "YQ=="}),
    ],
)
def test_a_document_without_a_name_or_content_is_refused_by_the_field(
    door: FrontDoor, field: str, body: dict[str, str]
) -> None:
    answered = door.ask("POST", "/documents", body)
    assert (answered.status, answered.fields) == (422, [field])
    assert "key" not in answered.text


def test_an_import_of_nothing_says_so_when_it_is_asked_after(door: FrontDoor) -> None:
    begun = door.ask("POST", "/records:import", {"key": "late/none.jsonl"}).json()
    ended = _ended(door, begun["id"])
    assert (ended["status"], ended["error"]) == ("failed", "ObjectMissing")


def test_an_import_is_its_tenants_and_reads_no_other_tenants_object(door: FrontDoor, library: DemoStages) -> None:
    library.objects.put("pellworth", "late/a.jsonl", LINE)
    for key in ("late/a.jsonl", "pellworth/late/a.jsonl"):
        begun = door.ask("POST", "/records:import", {"key": key}).json()
        assert _ended(door, begun["id"])["error"] == "ObjectMissing"
        assert door.ask("GET", f"/imports/{begun['id']}", authorizer=claims("pellworth")).problem == "not-found"
    assert door.ask("GET", "/imports/never").problem == "not-found"


def test_an_import_under_one_key_is_begun_once(door: FrontDoor, library: DemoStages) -> None:
    library.objects.put("saltmarrow", "late/a.jsonl", LINE)
    headers = {"idempotency-key": "k1"}
    first = door.ask("POST", "/records:import", {"key": "late/a.jsonl"}, headers=headers)
    again = door.ask("POST", "/records:import", {"key": "late/a.jsonl"}, headers=headers)
    assert (again.status, again.json(), again.headers["Location"]) == (202, first.json(), first.headers["Location"])
    other = door.ask("POST", "/records:import", {"key": "late/b.jsonl"}, headers=headers)
    assert (other.status, other.problem) == (422, "idempotency-key-reused")
    _ended(door, first.json()["id"])


@pytest.mark.parametrize(
    "key", ["", "/", "../pellworth/a", "a/../../b", "a//b", "a\nb", "a\u0000", "x" * 2_000, "é" * 600]
)
def test_a_key_that_could_lead_elsewhere_is_refused(door: FrontDoor, key: str) -> None:
    answered = door.ask("POST", "/records:import", {"key": key})
    assert (answered.status, answered.fields) == (422, ["key"])


def test_embedding_again_is_worked_off_by_the_workflow_where_one_is_named(
    door: FrontDoor, library: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Workflow:
        started: ClassVar[list[str]] = []

        def start(self, tenant_id: str) -> None:
            self.started.append(tenant_id)

    monkeypatch.setitem(vars(library), "_reembed_workflow", Workflow())
    assert door.ask("POST", "/reembed", {}).status == 200
    assert Workflow.started == []
    arn = "arn:aws:states:eu-west-1:123456789012:stateMachine:reembed"
    deployed = {"engine": EngineKind.AWS, "reembed_state_machine_arn": arn}
    monkeypatch.setattr(library, "settings", library.settings.model_copy(update=deployed))
    assert door.ask("POST", "/reembed", {}).json()["name"] == "refresh:saltmarrow"
    assert Workflow.started == ["saltmarrow"]


def test_a_record_without_relations_is_related_to_nothing(door: FrontDoor) -> None:
    door.ask("POST", "/records", {"records": [{"id": "alone", "content": "Nobody mentions it."}]})
    answered = door.ask("GET", "/entities/alone/related")
    assert (answered.status, answered.json()) == (200, {"hits": [], "truncated": False})
