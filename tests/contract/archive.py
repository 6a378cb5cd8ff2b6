"""Contract of archives: a tenant is exported and imported whole, whichever engine either is on."""

from __future__ import annotations

import base64
import json
import os
import struct
from itertools import permutations
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import DatasetError, StoreError, TenantBeingDeleted
from braid.ingestion import archive_export, archive_import
from braid.ingestion.archive_export import PartKind, export_tenant, verify
from braid.ingestion.archive_import import import_tenant
from braid.ingestion.tenant_deletion import delete_tenant
from braid.ingestion.writing import WriteRequest, require_written, write
from braid.models import MENTIONS, SourceRef
from braid.models.records import MAX_TENANT_TYPES
from braid.ports.schema_registry import SchemaVersion

from tests.contract.shapes import ACME, GLOBEX, day, edge, record, vertex
from tests.fakes import NOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from braid.app import Application

NUMBER = 30


class Killed(BaseException):
    """The process ended."""


def fill(store: Application) -> None:
    """Write records of every kind of field, a graph, a supersession and what was found in a text."""
    records = [
        record(f"doc.md#{at}", f"the harbour fee number {at}", source=SourceRef(title="Fees", page=at), importance=0.25)
        for at in range(NUMBER)
    ]
    records[3] = records[3].model_copy(
        update={"trusted": False, "metadata": {"year": 2024, "team": "Ops", "x": 1.5}, "aliases": ("Toll",)}
    )
    records[4] = records[4].model_copy(update={"supersedes": ("doc.md#5",), "valid_at": day(9)})
    plain = tuple(each.model_copy(update={"embeddings": ()}) for each in records)
    vertices = (
        vertex("heron", name="Heron", aliases=("Turbine",), has_record=False),
        vertex("crane", entity_type="Event", timestamp=day(2), has_record=False),
    )
    edges = (
        edge("heron", "crane", "CAUSES", confidence=0.75, predicate="since", evidence="doc.md#1", valid_at=day(1)),
        edge("heron", "doc.md#3", MENTIONS),
    )
    require_written(write(WriteRequest(tenant_id=ACME, records=plain, vertices=vertices, relationships=edges), store))
    found = vertex("found-egret", name="Egret", found=True, has_record=False)
    store.graph.upsert(
        [found, vertex("doc.md#7")], [edge("found-egret", "doc.md#7", MENTIONS, evidence="doc.md#7", position=4)]
    )
    store.schemas.register(SchemaVersion(tenant_id=ACME, version=2, created_at=NOW))


def everything(store: Application, tenant: str) -> dict[str, Any]:
    """Return all that is stored of a tenant, without its name; vectors as their models and lengths."""
    records = {each.id: each for each in store.index.scan(tenant, limit=1000, with_vectors=True).records}
    graph = store.graph.scan(tenant, limit=1000)
    plain = {"tenant_id", "embeddings"}
    return {
        "records": [records[name].model_dump(exclude=plain) for name in sorted(records)],
        "vectors": {name: {one.model_id: len(one.vector) for one in each.embeddings} for name, each in records.items()},
        "vertices": [each.model_dump(exclude=plain) for each in sorted(graph.vertices, key=lambda one: one.id)],
        "edges": [each.model_dump(exclude=plain) for each in graph.relationships],
        "schemas": store.schemas.current(tenant),
        "stats": store.graph.stats(tenant),
    }


class ArchiveContract:
    """A class for an engine has a fixture ``store``, and ``other``: a function that opens stores to import into."""

    @pytest.mark.parametrize("vectors", [True, False])
    def test_a_tenant_goes_to_another_store_and_back_as_it_is(
        self, store: Application, other: Callable[[], Application], tmp_path: Path, *, vectors: bool
    ) -> None:
        fill(store)
        before = everything(store, ACME)
        assert any(each["invalid_at"] for each in before["records"])
        assert any(each.get("found") for each in before["vertices"])
        exported = export_tenant(ACME, store, tmp_path / "there", vectors=vectors)
        assert not exported.changed
        elsewhere = other()
        done = import_tenant(tmp_path / "there", elsewhere, tenant_id=GLOBEX)
        assert everything(elsewhere, GLOBEX) == before
        assert done.counts == exported.counts()
        assert list(done.counts.values()) == [NUMBER, 7, 4]
        assert (done.embedded, done.unchanged) == (0 if vectors else NUMBER, 0)
        assert everything(elsewhere, ACME)["records"] == []
        export_tenant(GLOBEX, elsewhere, tmp_path / "back", vectors=vectors)
        again = import_tenant(tmp_path / "back", store, tenant_id=ACME)
        assert again.hashes == done.hashes
        assert (again.unchanged, again.embedded) == (NUMBER, 0), "what is stored like this is not written again"
        assert everything(store, ACME) == before

    def test_fields_of_metadata_are_the_same_in_whatever_order_a_store_returns_them(
        self, store: Application, other: Callable[[], Application], tmp_path: Path
    ) -> None:
        records = tuple(
            record(f"doc.md#{at}", "the fee").model_copy(update={"metadata": dict(fields), "embeddings": ()})
            for at, fields in enumerate(permutations([("year", 2024), ("team", "Ops"), ("x", 1.5)]))
        )
        elsewhere = other()
        require_written(write(WriteRequest(tenant_id=ACME, records=records), elsewhere))
        export_tenant(ACME, elsewhere, tmp_path / "archive")
        done = import_tenant(tmp_path / "archive", store)
        assert done.counts[PartKind.RECORDS] == len(records)
        assert import_tenant(tmp_path / "archive", store).unchanged == len(records)
        assert everything(store, ACME) == everything(elsewhere, ACME)

    @pytest.mark.parametrize("planted", ["link", "file"])
    def test_nothing_is_written_into_what_others_put_into_its_folder(
        self, store: Application, tmp_path: Path, *, planted: str
    ) -> None:
        fill(store)
        private, folder = tmp_path / "private", tmp_path / "archive"
        private.write_text("mine", encoding="utf-8")

        def plant(name: str) -> None:
            path = folder / name
            path.symlink_to(private) if planted == "link" else path.touch(0o666)
            if planted == "file":
                path.chmod(0o666)

        def meddle(done: int, _all: int) -> None:
            if done == NUMBER:
                plant("vertices-000002.jsonl")
                plant("manifest.new")

        export_tenant(ACME, store, folder, on_progress=meddle)
        assert private.read_text("utf-8") == "mine"
        assert {path.name: path.lstat().st_mode & 0o7777 for path in folder.iterdir()} == dict.fromkeys(
            ["manifest.json", "records-000001.jsonl", "relationships-000002.jsonl", "vertices-000002.jsonl"], 0o600
        )
        assert not [path for path in folder.iterdir() if path.is_symlink()]
        archive_export.verify(folder)

    def test_what_broke_off_goes_on(
        self, store: Application, other: Callable[[], Application], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fill(store)
        monkeypatch.setattr(archive_export, "PAGE", 7)
        monkeypatch.setattr(archive_export, "PART_BYTES", 1)
        pages = 0

        def lost(*_: int) -> None:
            nonlocal pages
            pages += 1
            if pages % 3 == 0:
                message = "the store is gone"
                raise StoreError(message)

        breaks = 0
        for _ in range(20):
            try:
                export_tenant(ACME, store, tmp_path / "archive", on_progress=lost)
            except StoreError:
                breaks += 1
            except DatasetError:  # it is whole
                break
        whole = archive_export.verify(tmp_path / "archive")
        assert breaks > 1
        assert whole.counts()[PartKind.RECORDS] == NUMBER
        elsewhere = other()

        def lost_while_writing(done: int, of: int) -> None:
            if done > of // 2:
                message = "the store is gone"
                raise StoreError(message)

        with pytest.raises(StoreError):
            import_tenant(tmp_path / "archive", elsewhere, on_progress=lost_while_writing)
        assert import_tenant(tmp_path / "archive", elsewhere).unchanged > 0
        assert everything(elsewhere, ACME) == everything(store, ACME)

    def test_an_import_ends_when_its_tenant_is_deleted_between_two_of_its_pages(
        self, store: Application, tmp_path: Path
    ) -> None:
        fill(store)
        export_tenant(ACME, store, tmp_path / "archive")
        meanwhile = iter([lambda: delete_tenant(ACME, store)])

        def on_progress(done: int, of: int) -> None:
            for delete in meanwhile if done > of / 3 else ():  # the first page is written
                delete()

        with pytest.raises(TenantBeingDeleted, match="nothing of this write was kept"):
            import_tenant(tmp_path / "archive", store, on_progress=on_progress)
        assert store.index.scan(ACME).records == store.graph.scan(ACME).vertices == ()
        assert import_tenant(tmp_path / "archive", store).counts[PartKind.RECORDS] == NUMBER

    def test_no_schema_is_registered_for_a_tenant_that_is_deleted_while_the_archive_is_checked(
        self, store: Application, tmp_path: Path
    ) -> None:
        fill(store)
        export_tenant(ACME, store, tmp_path / "archive")
        meanwhile = iter([lambda: delete_tenant(GLOBEX, store)])

        def on_progress(*_: int) -> None:
            for delete in meanwhile:
                delete()

        with pytest.raises(TenantBeingDeleted, match="nothing of this write was kept"):
            import_tenant(tmp_path / "archive", store, tenant_id=GLOBEX, on_progress=on_progress)
        assert store.schemas.versions(GLOBEX) == []

    def test_an_archive_of_a_tenant_that_was_written_to_meanwhile_says_so_and_lacks_what_hangs_in_the_air(
        self, store: Application, other: Callable[[], Application], tmp_path: Path
    ) -> None:
        fill(store)
        told = False

        def meddle(*_: int) -> None:
            nonlocal told
            if not told:
                told = True
                with store.transaction(ACME):
                    store.graph.upsert([vertex("late", has_record=False)], [edge("heron", "late", "CAUSES")])

        assert export_tenant(ACME, store, tmp_path / "archive", on_progress=meddle).changed
        (part,) = (tmp_path / "archive").glob("vertices-*")
        lines = [line for line in part.read_text(encoding="utf-8").splitlines(keepends=True) if '"late"' not in line]
        rewrite(tmp_path / "archive", part.name, "".join(lines))
        done = import_tenant(tmp_path / "archive", other())
        assert (done.left_out, done.counts[PartKind.RELATIONSHIPS]) == (1, 4)


def lengthened(embedding: dict[str, Any]) -> dict[str, Any]:
    """Return an embedding whose vector has length 2."""
    vector = [2 * value for (value,) in struct.iter_unpack("<f", base64.b64decode(embedding["vector"]))]
    return embedding | {"vector": base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()}


def rewrite(folder: Path, name: str, text: str) -> None:
    """Replace a part, and what the manifest says of it; without a text leave it out."""
    (folder / name).write_text(text, encoding="utf-8")
    manifest = archive_export.read_manifest(folder)
    sha256 = archive_export.hashlib.sha256(text.encode()).hexdigest()
    parts = tuple(
        part.model_copy(update={"sha256": sha256, "items": len(text.splitlines())}) if part.name == name else part
        for part in manifest.parts
        if part.name != name or text
    )
    path = folder / archive_export.MANIFEST
    path.write_text(manifest.model_copy(update={"parts": parts}).model_dump_json(), encoding="utf-8")


class DamagedArchiveContract:
    """What is wrong with an archive is said before anything is written."""

    @pytest.fixture
    def folder(self, store: Application, tmp_path: Path) -> Path:
        fill(store)
        export_tenant(ACME, store, tmp_path / "archive")
        return tmp_path / "archive"

    def refused(self, store: Application, folder: Path) -> str:
        with pytest.raises(DatasetError) as error:
            import_tenant(folder, store, tenant_id=GLOBEX)
        assert not store.index.scan(GLOBEX, limit=1).records
        return str(error.value)

    def test_a_part_that_is_not_what_was_exported_is_named(self, store: Application, folder: Path) -> None:
        part = folder / "records-000001.jsonl"
        text = part.read_bytes()
        part.write_bytes(text.replace(b"fee number 3", b"fee number 8"))
        assert "records-000001.jsonl: is damaged" in self.refused(store, folder)
        part.write_bytes(text[:-9])
        assert "records-000001.jsonl: is damaged" in self.refused(store, folder)
        part.unlink()
        assert "records-000001.jsonl: No such file" in self.refused(store, folder)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "is damaged"),
            ("{", "is damaged"),
            ('{"format": 1}', "is damaged"),
            ("\x00" * 9, "is damaged"),
        ],
    )
    def test_a_manifest_that_cannot_be_read_is_named(
        self, store: Application, folder: Path, text: str, said: str
    ) -> None:
        (folder / "manifest.json").write_text(text, encoding="utf-8")
        assert f"manifest.json: {said}" in self.refused(store, folder)

    def test_another_format_a_file_elsewhere_and_an_export_that_broke_off_are_refused(
        self, store: Application, folder: Path, tmp_path: Path
    ) -> None:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))

        def given(**changes: Any) -> str:
            (folder / "manifest.json").write_text(json.dumps(manifest | changes), encoding="utf-8")
            return self.refused(store, folder)

        assert "in format 7" in given(format=7)
        assert "is damaged" in given(parts=[manifest["parts"][0] | {"name": "../records-000001.jsonl"}])
        assert "was interrupted" in given(stage=1)
        assert "is no archive" in self.refused(store, tmp_path / "nowhere")

    def test_a_count_that_is_not_the_parts_and_a_part_that_is_listed_twice_are_named(
        self, store: Application, folder: Path
    ) -> None:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        parts = manifest["parts"]

        def given(changed: list[dict[str, Any]]) -> str:
            (folder / "manifest.json").write_text(json.dumps(manifest | {"parts": changed}), encoding="utf-8")
            return self.refused(store, folder)

        name, items = parts[1]["name"], parts[1]["items"]
        for wrong in (items - 1, items + 1):
            said = f"manifest.json: parts.1.items: is {wrong}, and {name} has {items} lines"
            assert said in given([parts[0], parts[1] | {"items": wrong}, *parts[2:]])
            assert not store.graph.scan(GLOBEX, limit=1).vertices
        assert f"manifest.json: is damaged: parts: {name} is listed more than once" in given([*parts, parts[1]])
        assert "is damaged: parts.0.items: " in given([parts[0] | {"items": 0}, *parts[1:]])

    @pytest.mark.parametrize("name", ["manifest.json", "records-000001.jsonl"])
    def test_a_pipe_or_a_device_in_the_place_of_a_file_is_refused(
        self, store: Application, folder: Path, name: str
    ) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert "is no regular file" in self.refused(store, folder)
        (folder / name).unlink()
        (folder / name).symlink_to("/dev/zero")
        assert "is no regular file" in self.refused(store, folder)

    def test_a_line_that_no_braid_wrote_is_named_and_is_no_other_tenants(
        self, store: Application, folder: Path
    ) -> None:
        name = "vertices-000002.jsonl"
        for line, said in (
            ("nonsense", f"{name}, line 1: "),
            ("[]", f"{name}, line 1: is no object"),
            ('{"id": ""}', f"{name}, line 1: id: "),
            ('{"id": "a", "id": "b"}', "a key twice"),
        ):
            rewrite(folder, name, line + "\n")
            with pytest.raises(DatasetError, match=said):
                import_tenant(folder, store, tenant_id=GLOBEX)
        rewrite(folder, name, '{"id": "a", "tenant_id": "acme"}\n')
        before = everything(store, ACME)
        rewrite(folder, "relationships-000002.jsonl", "")
        import_tenant(folder, store, tenant_id=GLOBEX)
        assert [each.id for each in store.graph.scan(GLOBEX, limit=10).vertices] == ["a"]
        assert everything(store, ACME) == before

    @pytest.mark.parametrize(
        ("part", "change", "said"),
        [
            ("records", {"content": "x" * 1_048_577}, "content: must not be longer than 1,048,576 bytes"),
            ("records", {"metadata": {f"k{at}": at for at in range(300)}}, "metadata: must not hold more than "),
            ("records", {"id": "found:1"}, "id: begins with 'found:'"),
            ("records", {"schema_version": 3}, "schema_version: 3 is newer than 2"),
            ("records", {"access_count": 10**400}, "access_count: must not hold a whole number of more than 64 bits"),
            ("records", {"embeddings": "long"}, "embeddings: the vector of space all_minilm_l6_v2 has the length 2"),
            ("records", {"embeddings": "parts", "starts": [10**30]}, "embeddings: the parts of space "),
            ("records", {"embeddings": "parts", "starts": [5, 5]}, "embeddings: the parts of space "),
            ("vertices", {"id": "found:1", "found": False}, "id: begins with 'found:'"),
            ("vertices", {"aliases": ["x"] * 101}, "aliases: must not hold more than 100 items"),
            ("relationships", {"target": "nowhere"}, "'nowhere' is no vertex of the archive"),
            ("relationships", {"position": 2**63}, "position: Input should be less than or equal to "),
        ],
    )
    def test_what_no_write_would_accept_is_named_before_anything_is_written(
        self, store: Application, folder: Path, part: str, change: dict[str, Any], said: str
    ) -> None:
        (path,) = folder.glob(f"{part}-*")
        lines = path.read_text(encoding="utf-8").splitlines()
        item = json.loads(lines[-1])
        if change.get("embeddings") == "long":
            change = {"embeddings": [lengthened(one) for one in item["embeddings"]]}
        elif change.get("embeddings"):
            parts = [{"start": start, "vector": item["embeddings"][0]["vector"]} for start in change["starts"]]
            change = {"embeddings": [{**item["embeddings"][0], "further": parts}]}
        rewrite(folder, path.name, "\n".join([*lines[:-1], json.dumps(item | change)]))
        refused = self.refused(store, folder)
        assert f"{path.name}, line {len(lines)}: {said}" in refused
        assert not store.graph.scan(GLOBEX, limit=1).vertices
        assert store.schemas.current(GLOBEX) == 1

    @pytest.mark.parametrize(
        ("versions", "said"),
        [
            ([2, 4], "the next version of tenant globex's schema is 3, not 4"),
            ([2, 3, 3], "version 3 of tenant globex's schema is registered with other content"),
            ([10**30], "the next version of tenant globex's schema is 1 or 2, not "),
        ],
    )
    def test_schema_versions_that_no_tenant_can_have_are_named_before_any_is_registered(
        self, store: Application, folder: Path, versions: list[int], said: str
    ) -> None:
        path = folder / "manifest.json"
        manifest = json.loads(path.read_text(encoding="utf-8"))
        schemas = [manifest["schemas"][0] | {"version": each, "changes": str(at)} for at, each in enumerate(versions)]
        path.write_text(json.dumps(manifest | {"schemas": schemas}), encoding="utf-8")
        refused = self.refused(store, folder)
        assert f"manifest.json: schemas: version: {said}" in refused
        assert refused.endswith("; nothing was imported")
        assert store.schemas.versions(GLOBEX) == []

    @pytest.mark.parametrize(
        ("part", "change"),
        [
            ("records", {"content": "another fee"}),
            ("vertices", {"name": "Bittern"}),
            ("relationships", {"confidence": 0.5}),
        ],
    )
    def test_an_item_that_an_archive_has_twice_and_otherwise_is_named_before_anything_is_written(
        self, store: Application, folder: Path, monkeypatch: pytest.MonkeyPatch, part: str, change: dict[str, Any]
    ) -> None:
        monkeypatch.setattr(archive_import, "PAGE", 1)
        (path,) = folder.glob(f"{part}-*")
        lines = path.read_text(encoding="utf-8").splitlines()
        rewrite(folder, path.name, "\n".join([*lines, json.dumps(json.loads(lines[0]) | change)]))
        refused = self.refused(store, folder)
        assert f"{path.name}, line {len(lines) + 1}: '" in refused
        assert " is in the archive already, and not the same" in refused
        assert not store.graph.scan(GLOBEX, limit=1).vertices
        rewrite(folder, path.name, "\n".join([*lines, lines[0]]))
        assert import_tenant(folder, store, tenant_id=GLOBEX).counts[PartKind(part)] == len(lines) + 1

    def test_an_empty_predicate_is_none(self, store: Application, folder: Path) -> None:
        (path,) = folder.glob("relationships-*")
        lines = [json.dumps({"predicate": ""} | json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        rewrite(folder, path.name, "\n".join(line.replace('"predicate": null', '"predicate": ""') for line in lines))
        assert import_tenant(folder, store, tenant_id=GLOBEX).counts[PartKind.RELATIONSHIPS] == len(lines)

    @pytest.mark.parametrize(("part", "field"), [("vertices", "entity_type"), ("relationships", "type")])
    def test_more_types_than_a_graph_has_room_for_are_refused(
        self, store: Application, folder: Path, part: str, field: str
    ) -> None:
        (path,) = folder.glob(f"{part}-*")
        lines = path.read_text(encoding="utf-8").splitlines()
        item = json.loads(lines[-1])
        own = "id" if part == "vertices" else "predicate"
        more = [json.dumps(item | {own: f"x{at}", field: f"Type{at}"}) for at in range(MAX_TENANT_TYPES + 1)]
        rewrite(folder, path.name, "\n".join([*lines, *more]))
        assert f"{field}: is a new type, and the tenant's graph has {MAX_TENANT_TYPES} " in self.refused(store, folder)

    @pytest.mark.parametrize("at", range(4))
    def test_an_export_that_is_killed_in_its_first_part_is_gone_on_with(
        self, store: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
    ) -> None:
        """Before or after a file takes its name: the manifest's, and that of the first part."""
        fill(store)
        names: list[str] = []

        def killed(path: Path) -> Any:
            names.append(path.name)
            if len(names) - 1 == at // 2:
                if at % 2:
                    path.touch()
                raise Killed
            return created(path)

        with monkeypatch.context() as patched:
            created = archive_export._created
            patched.setattr(archive_export, "_created", killed)
            with pytest.raises(Killed):
                export_tenant(ACME, store, tmp_path / "archive")
        assert len(names) == 1 + at // 2
        export_tenant(ACME, store, tmp_path / "archive")
        import_tenant(tmp_path / "archive", store, tenant_id=GLOBEX)
        assert len(everything(store, GLOBEX)) == len(everything(store, ACME))

    def test_a_folder_is_exported_into_once_and_by_one_tenant(self, store: Application, folder: Path) -> None:
        with pytest.raises(DatasetError, match="a whole archive already"):
            export_tenant(ACME, store, folder)
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        (folder / "manifest.json").write_text(json.dumps(manifest | {"stage": 1}), encoding="utf-8")
        with pytest.raises(DatasetError, match="an unfinished archive of 'acme' with vectors"):
            export_tenant(GLOBEX, store, folder)
        (folder / "manifest.json").unlink()
        with pytest.raises(DatasetError, match="is not empty"):
            export_tenant(ACME, store, folder)

    def test_of_two_exports_into_one_folder_at_once_one_is_refused(
        self, store: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder, refused, scan = tmp_path / "both", list[str](), store.index.scan

        def scanned(*given: Any, **named: Any) -> Any:
            with pytest.raises(DatasetError, match="another export is writing into it"):
                export_tenant(GLOBEX, store, folder)
            refused.append(GLOBEX)
            return scan(*given, **named)

        monkeypatch.setattr(store.index, "scan", scanned)
        export_tenant(ACME, store, folder)
        assert refused
        assert verify(folder).tenant_id == ACME

    def test_what_is_stored_otherwise_in_the_end_is_no_success(
        self, store: Application, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(type(store.graph), "upsert", lambda *_: None)
        with pytest.raises(DatasetError, match="7 of vertices are not stored as the archive has them, such as crane"):
            import_tenant(folder, store, tenant_id=GLOBEX)
