"""Reading a dataset folder: every mistake is named by file, line and field, and nothing of a wrong folder is used."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from braid.errors import DatasetError
from braid.models import Kind, SourceType, TimeRange

from braid_cli.datasets import json_lines
from braid_cli.datasets.dataset import read_dataset

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CORPUS: list[dict[str, Any]] = [
    {"_id": "manual.pdf#chunk-1", "title": "Manual", "text": "The valve is closed by hand."},
    {"_id": "qa-1", "text": "By hand.", "kind": "fact", "valid_at": "2024-05-01", "source": {"type": "qa"}},
]
ENTITIES: list[dict[str, Any]] = [
    {"id": "part:valve", "type": "Part", "name": "Valve", "aliases": ["tap"]},
    {"id": "person:ada", "type": "Person", "name": "Ada", "content": "Ada closes the valve."},
]
RELATIONSHIPS: list[dict[str, Any]] = [
    {"source": "part:valve", "type": "MENTIONS", "target": "manual.pdf#chunk-1", "confidence": 0.9},
]
QUERIES: list[dict[str, Any]] = [{"_id": "q1", "text": "How is the valve closed?"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\tqa-1\t1\n"


def write(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a small folder without a mistake."""
    folder = tmp_path / "plant"
    write(folder, "corpus.jsonl", CORPUS)
    write(folder, "entities.jsonl", ENTITIES)
    write(folder, "relationships.jsonl", RELATIONSHIPS)
    write(folder, "queries.jsonl", QUERIES)
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text(QRELS, encoding="utf-8")
    return folder


def mistakes(folder: Path, *, judged: bool = False) -> list[str]:
    """Return what is said of a folder, one string a mistake, without the folder's own path."""
    with pytest.raises(DatasetError) as caught:
        read_dataset(folder, "acme", judged=judged)
    return str(caught.value).replace(f"{folder}/", "").split("\n")


def append(path: Path, line: str | bytes | dict[str, Any]) -> None:
    if isinstance(line, dict):
        line = json.dumps(line)
    with path.open("ab") as file:
        file.write((line.encode() if isinstance(line, str) else line) + b"\n")


def test_a_folder_becomes_records_vertices_and_relationships(folder: Path) -> None:
    dataset = read_dataset(folder, "acme", judged=True)
    assert dataset.name == "plant"
    manual, answer, ada = dataset.records
    assert (manual.id, manual.source.title, manual.content) == (
        "manual.pdf#chunk-1",
        "Manual",
        "The valve is closed by hand.",
    )
    assert (answer.kind, answer.source.type, answer.valid_at) == (
        Kind.FACT,
        SourceType.QA,
        datetime(2024, 5, 1, tzinfo=UTC),
    )
    assert (ada.kind, ada.entity_type, ada.name) == (Kind.ENTITY, "Person", "Ada")
    assert {(vertex.id, vertex.has_record) for vertex in dataset.vertices} == {
        ("part:valve", False),
        ("person:ada", True),
        ("manual.pdf#chunk-1", True),
    }
    assert [(edge.source, edge.target, edge.confidence) for edge in dataset.relationships] == [
        ("part:valve", "manual.pdf#chunk-1", 0.9)
    ]
    assert {row.tenant_id for row in (*dataset.records, *dataset.vertices, *dataset.relationships)} == {"acme"}
    assert [(question.id, question.relevant) for question in dataset.judged] == [("q1", {"qa-1": 1})]


def test_a_corpus_alone_is_a_dataset(tmp_path: Path) -> None:
    write(tmp_path / "bare", "corpus.jsonl", CORPUS[:1])
    dataset = read_dataset(tmp_path / "bare", "acme")
    assert len(dataset.records) == 1
    assert dataset.vertices == dataset.relationships == dataset.schemas == ()


def test_blank_lines_and_a_byte_order_mark_are_no_mistakes(folder: Path) -> None:
    path = folder / "corpus.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\n  \n")
    assert len(read_dataset(folder, "acme").records) == 3


def test_metadata_of_any_depth_is_kept_as_values_and_lists(folder: Path) -> None:
    given = {"page": 3, "tags": ["a", 2], "none": None, "deep": {"a": [1]}, "gap": ["a", None], "long": [0] * 101}
    append(folder / "corpus.jsonl", {"_id": "m", "text": "M", "metadata": given})
    kept = next(record for record in read_dataset(folder, "acme").records if record.id == "m")
    texts = {name: json.dumps(given[name]) for name in ("deep", "gap", "long")}
    assert kept.metadata == {"page": 3, "tags": ["a", 2], "none": None, **texts}


@pytest.mark.parametrize(
    ("name", "line", "expected"),
    [
        ("corpus", "not json", "corpus.jsonl:3: not JSON: Expecting value at column 1"),
        ("corpus", '{"_id": "x", "text": "cut', "corpus.jsonl:3: not JSON: Unterminated string"),
        ("corpus", "[1, 2]", "corpus.jsonl:3: expected an object, found list"),
        ("corpus", b'{"_id": "x", "text": "caf\xe9"}', "corpus.jsonl:3: not UTF-8"),
        ("corpus", "[" * 100_000, "corpus.jsonl:3: not JSON: "),
        ("corpus", '{"_id": "x", "text": "", "importance": ' + "9" * 5_000 + "}", "corpus.jsonl:3: not JSON: "),
        ("corpus", {"text": "no id"}, "corpus.jsonl:3: _id: missing"),
        ("corpus", {"_id": "x"}, "corpus.jsonl:3: text: missing"),
        ("corpus", {"_id": "", "text": "t"}, "corpus.jsonl:3: _id: "),
        ("corpus", {"_id": 7, "text": "t"}, "corpus.jsonl:3: _id: "),
        ("corpus", {"_id": "x", "text": ["t"]}, "corpus.jsonl:3: text: "),
        ("corpus", {"_id": "x", "text": "a\x00b"}, "corpus.jsonl:3: text: holds a NUL character"),
        ("corpus", {"_id": "x", "text": "a\ud800b"}, "corpus.jsonl:3: text: "),
        ("corpus", {"_id": "x\ny", "text": "t"}, "corpus.jsonl:3: _id: holds a control character"),
        ("corpus", {"_id": "x" * 300, "text": "t"}, "corpus.jsonl:3: _id: id is longer than 256 bytes"),
        ("corpus", {"_id": "x", "text": "t", "colour": "red"}, "corpus.jsonl:3: colour: unknown field"),
        ("corpus", {"_id": "x", "text": "t", "tenant_id": "globex"}, "corpus.jsonl:3: tenant_id: unknown field"),
        ("corpus", {"_id": "x", "text": "t", "id": "y"}, "corpus.jsonl:3: id: unknown field"),
        ("corpus", {"_id": "x", "text": "t", "embeddings": []}, "corpus.jsonl:3: embeddings: unknown field"),
        ("corpus", {"_id": "x", "text": "t", "kind": "poem"}, "corpus.jsonl:3: kind: "),
        ("corpus", '{"_id": "x", "text": "t", "confidence": NaN}', "corpus.jsonl:3: not JSON: the line holds NaN"),
        ("corpus", {"_id": "x", "text": "t", "confidence": 1.5}, "corpus.jsonl:3: confidence: "),
        ("corpus", {"_id": "x", "text": "t", "created_at": "May"}, "corpus.jsonl:3: created_at: not a date or time"),
        ("corpus", {"_id": "x", "text": "t", "timestamp": 2024}, "corpus.jsonl:3: timestamp: not a date or time"),
        (
            "corpus",
            {"_id": "x", "text": "t", "valid_at": "2024-05-02", "invalid_at": "2024-05-01"},
            "corpus.jsonl:3: invalid_at is before valid_at",
        ),
        ("corpus", {"_id": "x", "text": "t", "source": "a book"}, "corpus.jsonl:3: source: expected an object"),
        ("corpus", {"_id": "x", "text": "t", "metadata": [1]}, "corpus.jsonl:3: metadata: expected an object"),
        ("corpus", {"_id": "x", "text": "t", "source": {"page": -1}}, "corpus.jsonl:3: source.page: "),
        ("corpus", {"_id": "x", "text": "t", "schema_version": 0}, "corpus.jsonl:3: schema_version: "),
        ("corpus", CORPUS[0], "corpus.jsonl:3: id: 'manual.pdf#chunk-1' stands already at corpus.jsonl:1"),
        ("entities", {"type": "Part"}, "entities.jsonl:3: id: missing"),
        ("entities", {"id": "x", "type": "a type"}, "entities.jsonl:3: type: "),
        ("entities", {"id": "x", "entity_type": "Part"}, "entities.jsonl:3: entity_type: unknown field"),
        ("entities", {"id": "x", "aliases": "tap"}, "entities.jsonl:3: aliases: "),
        ("entities", {"id": "x", "weight": 3}, "entities.jsonl:3: weight: unknown field"),
        ("entities", ENTITIES[0], "entities.jsonl:3: id: 'part:valve' stands already at entities.jsonl:1"),
        ("entities", {"id": "qa-1", "content": "c"}, "entities.jsonl:3: id: 'qa-1' stands already at corpus.jsonl:2"),
        ("relationships", {"source": "part:valve", "type": "OWNS"}, "relationships.jsonl:2: target: missing"),
        (
            "relationships",
            {"source": "part:valve", "type": "OWNS", "target": "part:pump"},
            (
                "relationships.jsonl:2: target: 'part:pump' is neither an entity nor a record of this folder, "
                "in 'part:valve' OWNS 'part:pump'"
            ),
        ),
        (
            "relationships",
            {"source": "part:pump", "type": "OWNS", "target": "part:valve"},
            "relationships.jsonl:2: source: 'part:pump' is neither",
        ),
        (
            "relationships",
            '{"source": "part:valve", "type": "OWNS", "target": "qa-1", "confidence": NaN}',
            "relationships.jsonl:2: not JSON: the line holds NaN",
        ),
        (
            "relationships",
            {"source": "part:valve", "type": "OWNS", "target": "qa-1", "tenant_id": "globex"},
            "relationships.jsonl:2: tenant_id: unknown field",
        ),
        (
            "relationships",
            {"source": "part:valve", "type": "drop()", "target": "qa-1"},
            "relationships.jsonl:2: type: ",
        ),
        ("schemas", {"version": "two"}, "schemas.jsonl:1: version: "),
        ("queries", {"_id": "q2"}, "queries.jsonl:2: text: missing"),
        ("queries", {"_id": "q2", "text": ""}, "queries.jsonl:2: text: "),
        ("queries", {"_id": "q2", "text": "t", "metadata": "m"}, "queries.jsonl:2: metadata: expected an object"),
        (
            "queries",
            {"_id": "q2", "text": "t", "metadata": {"as_of": "then"}},
            "queries.jsonl:2: metadata.as_of: not a date or time",
        ),
        ("queries", QUERIES[0], "queries.jsonl:2: id: 'q1' stands already at queries.jsonl:1"),
    ],
)
def test_a_malformed_line_is_named_by_file_line_and_field(
    folder: Path, name: str, line: str | bytes | dict[str, Any], expected: str
) -> None:
    append(folder / f"{name}.jsonl", line)
    found = mistakes(folder, judged=True)
    assert len(found) == 1
    assert found[0].startswith(expected)


def test_a_line_that_is_too_long_is_named_and_the_lines_after_it_keep_their_numbers(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "MAX_LINE_BYTES", 200)
    for length in (190, 201, 400, 401, 402, 1_000):
        append(folder / "corpus.jsonl", "x" * length)
    expected = [f"corpus.jsonl:{line}: the line is longer than 200 bytes" for line in range(4, 9)]
    assert mistakes(folder) == ["corpus.jsonl:3: not JSON: Expecting value at column 1", *expected]


def test_a_record_newer_than_the_folders_schemas_is_named(folder: Path) -> None:
    write(folder, "schemas.jsonl", [{"version": version, "created_at": "2024-01-01"} for version in (1, 2)])
    append(folder / "corpus.jsonl", {"_id": "old", "text": "t", "schema_version": 2})
    append(folder / "corpus.jsonl", {"_id": "new", "text": "t", "schema_version": 3})
    assert mistakes(folder) == ["corpus.jsonl:4: schema_version: 3 is newer than the current version 2"]


def test_every_mistake_of_a_folder_is_listed_at_once(folder: Path) -> None:
    append(folder / "corpus.jsonl", {"text": "no id"})
    append(folder / "corpus.jsonl", "{")
    append(folder / "entities.jsonl", {"id": "x", "weight": 3})
    append(folder / "relationships.jsonl", {"source": "part:valve", "type": "OWNS", "target": "nowhere"})
    assert [line.split(": ")[0] for line in mistakes(folder)] == [
        "corpus.jsonl:3",
        "corpus.jsonl:4",
        "entities.jsonl:3",
        "relationships.jsonl:2",
    ]


def test_what_refers_to_a_malformed_line_is_not_one_more_mistake(folder: Path) -> None:
    append(folder / "entities.jsonl", {"id": "part:pump", "weight": 3})
    append(folder / "relationships.jsonl", {"source": "part:pump", "type": "OWNS", "target": "part:valve"})
    assert mistakes(folder) == ["entities.jsonl:3: weight: unknown field"]


def test_ten_mistakes_are_shown_and_the_others_counted(folder: Path) -> None:
    for _ in range(13):
        append(folder / "corpus.jsonl", "{")
    found = mistakes(folder)
    assert [line.split(": ")[0] for line in found[:-1]] == [f"corpus.jsonl:{line}" for line in range(3, 13)]
    assert found[-1] == "and 3 more"


def test_a_mistake_that_quotes_the_file_does_not_steer_the_terminal(folder: Path) -> None:
    edge = {"source": "part:valve", "type": "OWNS", "target": "x"}
    append(folder / "relationships.jsonl", edge | {"predicate": "p", "\x1b[31mred": 1})
    (found,) = mistakes(folder)
    assert found == "relationships.jsonl:2: �[31mred: unknown field"


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("q1\tqa-1", "expected query-id, corpus-id and a whole score"),
        ("q1\tqa-1\tmuch", "expected query-id, corpus-id and a whole score"),
        ("q1 qa-1 1", "expected query-id, corpus-id and a whole score"),
        ("q1\tqa-1\t1\t0", "expected query-id, corpus-id and a whole score"),
        (b"q\xe9\tqa-1\t1", "not UTF-8"),
    ],
)
def test_a_malformed_judgement_is_named_by_its_line(folder: Path, row: str | bytes, expected: str) -> None:
    append(folder / "qrels" / "test.tsv", row)
    (found,) = mistakes(folder, judged=True)
    assert found.startswith(f"qrels/test.tsv:3: {expected}")


def test_judgements_written_on_windows_are_read(folder: Path) -> None:
    (folder / "qrels" / "test.tsv").write_bytes(QRELS.replace("\n", "\r\n").encode())
    assert read_dataset(folder, "acme", judged=True).judged[0].relevant == {"qa-1": 1}


def test_judgements_are_those_of_test_of_the_only_file_or_of_the_one_that_is_named(folder: Path) -> None:
    def relevant(split: str | None = None) -> dict[str, int]:
        return read_dataset(folder, "acme", judged=True, split=split).judged[0].relevant

    dev, test = (folder / "qrels" / f"{name}.tsv" for name in ("dev", "test"))
    dev.write_text("query-id\tcorpus-id\tscore\nq1\tperson:ada\t2\n", encoding="utf-8")
    assert (relevant(), relevant("dev"), relevant("test")) == ({"qa-1": 1}, {"person:ada": 2}, {"qa-1": 1})
    test.unlink()
    assert relevant() == {"person:ada": 2}
    (folder / "qrels" / "train.tsv").write_text("", encoding="utf-8")
    assert mistakes(folder, judged=True) == ["qrels/test.tsv: missing; --split names another: dev, train"]


def test_a_subfolder_has_other_questions_about_the_same_data(folder: Path) -> None:
    other = folder / "held-back"
    (other / "qrels").mkdir(parents=True)
    span = {"start": "2024-01-01", "end": "2024-02-01T00:00:00Z"}
    write(other, "queries.jsonl", [{"_id": "h1", "text": "Which one?", "metadata": {"time_range": span}}])
    (other / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nh1\tqa-1\t2\n", encoding="utf-8")
    plain, held = (read_dataset(folder, "acme", judged=True, questions=name) for name in (None, "held-back"))
    assert [(one.id, one.relevant) for one in held.judged] == [("h1", {"qa-1": 2})]
    assert held.judged[0].query.filters.time_range == TimeRange.model_validate(span)
    assert plain.judged != held.judged
    assert all(one.query.filters.time_range is None for one in plain.judged)
    assert (plain.content_hash, plain.records) == (held.content_hash, held.records)


@pytest.mark.parametrize(
    ("span", "field"),
    [
        ({"start": "2024-02-01", "end": "2024-01-01"}, "metadata.time_range"),
        ({"start": "the first of May"}, "metadata.time_range.start"),
        ("last week", "metadata.time_range"),
    ],
)
def test_a_malformed_span_of_time_is_named(folder: Path, span: object, field: str) -> None:
    append(folder / "queries.jsonl", {"_id": "q2", "text": "t", "metadata": {"time_range": span}})
    (found,) = mistakes(folder, judged=True)
    assert found.startswith(f"queries.jsonl:2: {field}: ")


def test_a_subfolder_without_questions_is_named(folder: Path) -> None:
    with pytest.raises(DatasetError, match=r"held-back/queries\.jsonl: missing"):
        read_dataset(folder, "acme", judged=True, questions="held-back")


def test_a_question_without_a_relevant_record_is_left_out(folder: Path) -> None:
    append(folder / "queries.jsonl", {"_id": "q2", "text": "unjudged"})
    append(folder / "queries.jsonl", {"_id": "q3", "text": "nothing is relevant"})
    append(folder / "qrels" / "test.tsv", "q3\tqa-1\t0")
    assert [question.id for question in read_dataset(folder, "acme", judged=True).judged] == ["q1"]


@pytest.mark.parametrize("missing", ["queries.jsonl", "qrels/test.tsv"])
def test_a_folder_without_questions_or_judgements_says_which_file_is_missing(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    assert mistakes(folder, judged=True) == [f"{missing}: missing; evaluation needs questions and their judgements"]
    assert read_dataset(folder, "acme").judged == ()


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: None, "no such file or folder"),  # noqa: ARG005
        (lambda path: path.write_text("a file"), "is a file and no dataset folder"),
        (os.mkfifo, "is neither a folder nor a file to be read twice"),
        (lambda path: path.mkdir(), "no corpus.jsonl here"),
    ],
    ids=["absent", "file", "pipe", "empty"],
)
def test_a_folder_that_is_none_is_named(tmp_path: Path, make: Callable[[Path], object], expected: str) -> None:
    make(tmp_path / "data")
    with pytest.raises(DatasetError, match=f"data: {expected}"):
        read_dataset(tmp_path / "data", "acme")


@pytest.mark.parametrize("name", ["entities.jsonl", "relationships.jsonl", "schemas.jsonl"])
def test_a_pipe_in_the_place_of_a_file_is_refused(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(OSError, match="is no regular file") as caught:
        read_dataset(folder, "acme")
    assert str(folder / name) in str(caught.value)


def test_the_hash_is_that_of_what_is_stored_wherever_it_lies(folder: Path, tmp_path: Path) -> None:
    first = read_dataset(folder, "acme").content_hash
    moved = folder.rename(tmp_path / "elsewhere")
    append(moved / "queries.jsonl", {"_id": "q2", "text": "another question"})
    assert read_dataset(moved, "acme").content_hash == first
    for name in ("corpus", "entities", "relationships", "schemas"):
        path = moved / f"{name}.jsonl"
        before = path.read_bytes() if path.exists() else None
        append(path, "")
        assert read_dataset(moved, "acme").content_hash != first
        path.unlink() if before is None else path.write_bytes(before)
    assert read_dataset(moved, "acme").content_hash == first


def test_a_graph_in_one_file_may_stand_beside_the_corpus_and_lead_to_its_records(folder: Path) -> None:
    alone = read_dataset(folder, "acme")
    before = alone.content_hash
    node = {"id": "part:pump", "name": "Pump", "type": "Part", "content": "The pump stands below."}
    edges = [{"source": "part:pump", "target": "manual.pdf#chunk-1", "type": "MENTIONS"}]
    edges.append({"source": "part:valve", "target": "part:pump", "type": "FEEDS"})
    (folder / "graph.json").write_text(json.dumps({"nodes": [node], "links": edges}), encoding="utf-8")
    both = read_dataset(folder, "acme")
    assert {record.id for record in both.records} - {record.id for record in alone.records} == {"part:pump"}
    assert {(edge.source, edge.target) for edge in both.relationships} - {
        (edge.source, edge.target) for edge in alone.relationships
    } == {("part:pump", "manual.pdf#chunk-1"), ("part:valve", "part:pump")}
    assert both.content_hash != before


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"nodes": [{"id": "part:valve"}], "edges": []}, "nodes[0]: id: 'part:valve' stands already at"),
        ({"nodes": [], "edges": [{"source": "part:valve", "target": "x"}]}, "edges[0]: target: 'x' is neither an"),
        ([], "expected one object with nodes and edges, found list"),
    ],
)
def test_a_graph_beside_the_corpus_is_refused_by_file_and_element(folder: Path, graph: object, expected: str) -> None:
    (folder / "graph.json").write_text(json.dumps(graph), encoding="utf-8")
    (mistake,) = mistakes(folder)
    assert f"graph.json: {expected}" in mistake
