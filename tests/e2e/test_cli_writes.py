"""``braid ingest FILE``, ``braid delete`` and ``braid repair``, each in a process of its own."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from braid.engines.embedded.graph.knowledge_graph import EmbeddedKnowledgeGraph

from tests.tiny_models import write_multilingual

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.conftest import Done


@pytest.fixture
def here(braid: Callable[..., Done], home: Path, tmp_path: Path) -> Callable[..., Done]:
    """Run ``braid`` in an empty home, with the model of the shared one."""

    def call(*arguments: str) -> Done:
        return braid(*arguments, home=tmp_path / "home", BRAID_MODELS_DIR=str(home / "models"))

    return call


def lines(path: Path, *rows: Any) -> str:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("kind", ["a file of lines", "a dataset", "documents"])
def test_the_end_of_an_ingest_prepares_walks_of_what_it_wrote(
    here: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder, prepared = tmp_path / "written", list[str]()
    folder.mkdir()
    monkeypatch.setattr(EmbeddedKnowledgeGraph, "prepare_walks", lambda _, tenant_id: prepared.append(tenant_id))
    match kind:
        case "a file of lines":
            source = lines(folder / "late.jsonl", {"id": "lamp", "content": "The quay lamps are new"})
        case "a dataset":
            lines(folder / "corpus.jsonl", {"_id": "lamp", "text": "The quay lamps are new"})
            source = str(folder)
        case _:
            (folder / "lamps.md").write_text("The quay lamps are new", encoding="utf-8")
            source = str(folder)
    assert here("ingest", source, "--tenant", "acme").status == 0
    assert prepared == ["acme"]


def test_a_file_is_written_its_wrong_lines_named_and_the_rest_deleted_again(
    here: Callable[..., Done], tmp_path: Path
) -> None:
    path = lines(
        tmp_path / "late.jsonl",
        {"id": "lamp-2", "content": "The quay lamps are new", "supersedes": ["lamp-1"]},
        {"id": "lamp-1", "content": "The quay lamps are old"},
        "oops",
        {"relationship": {"source": "lamp-2", "type": "CAUSES", "target": "nobody"}},
    )
    done = here("ingest", path, "--tenant", "acme")
    assert done.status == 2
    assert f"{path}:3: not JSON" in done.err
    assert f"{path}:4: target: 'nobody' is neither a vertex nor a record, in 'lamp-2' CAUSES 'nobody'" in done.err
    again = here("ingest", path, "--tenant", "acme", "--missing", "stub", "--json")
    assert json.loads(again.out)["unchanged"] == 2
    assert json.loads(again.out)["errors"] == 1
    asked = json.loads(here("search", "quay lamps", "--tenant", "acme", "--json").out)
    assert [result["id"] for result in asked["results"]] == ["lamp-2"]
    removed = json.loads(here("delete", "record", "lamp-2", "lamp-1", "--tenant", "acme", "--json").out)
    assert (removed["records"], removed["vertices"]) == (2, 2)
    repaired = json.loads(here("repair", "--tenant", "acme", "--dry-run", "--json").out)
    assert (repaired["records"], repaired["counts"], repaired["repaired"]) == (0, {}, False)


def test_an_ingest_takes_the_graph_that_is_given_or_finds_one_in_the_texts_or_both(
    here: Callable[..., Done], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    lines(folder / "corpus.jsonl", {"_id": "hall-1", "text": "The turbine hall was built by Anna Berg."})
    lines(folder / "entities.jsonl", {"id": "hall", "name": "Turbine Hall"})
    lines(folder / "relationships.jsonl", {"source": "hall", "type": "HOUSES", "target": "hall-1"})
    for which, expected in {"given": (1, 0), "found": (0, 1), "both": (1, 2)}.items():
        done = json.loads(here("ingest", str(folder), "--tenant", which, "--graph", which, "--json").out)
        assert (done["relationships"], done["mentions"]) == expected


def test_a_tenant_is_deleted_only_when_that_is_said(here: Callable[..., Done], tmp_path: Path) -> None:
    path = lines(tmp_path / "a.jsonl", {"_id": "guide.pdf#chunk-1", "text": "a turbine", "title": "Guide"})
    assert here("ingest", path, "--tenant", "acme").status == 0
    refused = here("delete", "tenant", "--tenant", "acme")
    assert refused.status == 2
    assert "--yes" in refused.err
    assert here("repair", "--tenant", "acme").out.startswith("acme: 1 record, ")
    assert "removed 1 record" in here("delete", "document", "guide.pdf", "--tenant", "acme").out


def test_a_document_that_is_named_without_its_folder_is_not_deleted_and_its_id_is_said(
    here: Callable[..., Done], tmp_path: Path
) -> None:
    (tmp_path / "handbook" / "policies").mkdir(parents=True)
    (tmp_path / "handbook" / "policies" / "x.md").write_text("The gates open at six.", encoding="utf-8")
    assert here("ingest", str(tmp_path / "handbook"), "--tenant", "acme").status == 0
    for name in ("policies/x.md", "x.md"):
        done = here("delete", "document", name, "--tenant", "acme")
        assert done.status == 1
        assert f"there is no document {name!r}; did you mean 'handbook/policies/x.md'?" in done.err


def test_a_deletion_of_what_is_not_there_says_so_and_fails(here: Callable[..., Done], tmp_path: Path) -> None:
    text = "The Turbine Hall was built by Anna Berg for the Harbour Guild."
    path = lines(tmp_path / "a.jsonl", {"_id": "guide.pdf#chunk-1", "text": text, "title": "Guide"})
    assert here("ingest", path, "--tenant", "acme").status == 0
    for what, said in {
        ("record", "nothing"): "there is no record or entity 'nothing'",
        ("document", "other.pdf"): "there is no document 'other.pdf'",
    }.items():
        done = here("delete", *what, "--tenant", "acme")
        assert (done.status, done.out) == (1, "")
        assert done.err == f"braid: acme: {said}; nothing was removed\n"
    vertices = json.loads(here("stats", "--tenant", "acme", "--json").out)["graph"]["vertices"]
    assert vertices > 2
    removed = json.loads(here("delete", "tenant", "--tenant", "acme", "--yes", "--json").out)
    assert (removed["records"], removed["vertices"]) == (1, vertices)
    again = here("delete", "tenant", "--tenant", "nobody", "--yes")
    assert again.status == 0  # a deletion may be repeated
    assert "braid: nobody: nothing is stored; nothing was removed" in again.err


@pytest.mark.parametrize(
    "command",
    [
        ["delete", "record", "x", "-t", "../x"],
        ["delete", "document", "x", "-t", "../x"],
        ["delete", "tenant", "-t", "../x"],
        ["repair", "-t", "../x"],
    ],
)
def test_a_tenant_that_is_none_is_refused(here: Callable[..., Done], command: list[str]) -> None:
    done = here(*command)
    assert done.status == 2
    assert "--tenant: must be 1 to 64" in done.err


def test_a_tenant_is_exported_and_imported_and_a_damaged_archive_is_named(
    here: Callable[..., Done], tmp_path: Path
) -> None:
    path, archive = lines(tmp_path / "late.jsonl", {"id": "lamp", "content": "The quay lamps"}), tmp_path / "archive"
    assert here("ingest", path, "--tenant", "acme").status == 0
    done = here("export", str(archive), "--tenant", "acme")
    assert (done.status, done.err) == (0, "")
    assert done.out == "acme: exported 1 record, 0 vertices, 0 relationships\n"
    copied = json.loads(here("import", str(archive), "--tenant", "copy", "--json").out)
    assert copied["counts"] == {"records": 1, "vertices": 0, "relationships": 0}
    assert here("import", str(archive), "--tenant", "copy").err == ""  # as to resume: it has only what is imported
    more = lines(tmp_path / "more.jsonl", {"id": "lamp", "content": "Other lamps"}, {"id": "crane", "content": "Crane"})
    assert here("ingest", more, "--tenant", "full").status == 0
    told = "full had 2 records before; they stay, but those whose ids the archive has too are replaced"
    assert told in here("import", str(archive), "--tenant", "full").err
    asked = json.loads(here("search", "quay lamps", "--tenant", "copy", "--json").out)
    assert [result["id"] for result in asked["results"]] == ["lamp"]
    part = archive / "records-000001.jsonl"
    part.write_bytes(part.read_bytes()[:-2])
    damaged = here("import", str(archive), "--tenant", "third")
    assert damaged.status == 2
    assert damaged.err == f"braid: {part}: is damaged: it is not what was exported; nothing was imported\n"


def test_texts_that_the_model_does_not_know_the_language_of_are_remarked_on(
    here: Callable[..., Done], tmp_path: Path
) -> None:
    remark = "most texts are not English, which all-minilm-l6-v2 is made for"
    german = ({"id": f"t{n}", "content": f"Der Kran {n} steht auf dem Kai und wird nicht bewegt."} for n in range(3))
    file = lines(tmp_path / "kai.jsonl", *german)
    assert remark in " ".join(here("ingest", file, "-t", "kai").err.split())
    assert remark in " ".join(here("stats", "-t", "kai").out.split())
    assert "BRAID_MODEL_PROFILE=multilingual" in here("stats", "-t", "kai").out.replace("\n", " ")
    file = lines(tmp_path / "kai.jsonl", {"id": "e", "content": "The crane is on the quay and it is not moved."})
    assert remark not in " ".join(here("ingest", file, "-t", "quay").err.split())


def test_the_multilingual_profile_reads_them_once_its_model_is_exported(
    braid: Callable[..., Done], tmp_path: Path
) -> None:
    write_multilingual(tmp_path / "source", 384)

    def here(*arguments: str) -> Done:
        places = {"BRAID_MODELS_DIR": str(tmp_path / "models"), "BRAID_MODEL_PROFILE": "multilingual"}
        return braid(*arguments, home=tmp_path / "home", **places)

    german = ({"id": f"t{n}", "content": f"Der Kran {n} steht auf dem Kai und wird nicht bewegt."} for n in range(3))
    file = lines(tmp_path / "kai.jsonl", *german)
    missing = here("ingest", file, "-t", "kai")
    assert missing.status == 1
    assert "braid models export multilingual-minilm-l12-v2" in missing.err.replace("\n", " ")
    model = ("models", "export", str(tmp_path / "source"), "--id", "multilingual-minilm-l12-v2")
    assert here(*model).status == 0
    written = here("ingest", file, "-t", "kai")
    assert written.status == 0
    assert "not English" not in written.err
    answer = json.loads(here("search", "Wo steht der Kran?", "-t", "kai", "--json").out)
    assert answer["degraded"] == []
    assert all(result["vector_score"] is not None for result in answer["results"])
