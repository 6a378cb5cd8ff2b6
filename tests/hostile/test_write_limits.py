"""What one record may hold is bounded on every way in, and whatever is stored can be read, listed and removed."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from braid import strict_json
from braid.errors import DatasetError, InvalidRequest
from braid.ingestion.inline_writes import write_message
from braid.ingestion.item_parsing import read_lines
from braid.ingestion.writing import WriteRequest
from braid.models import Embedding, Record, Vertex, records
from braid.models.records import (
    MAX_ALIASES,
    MAX_CONTENT_BYTES,
    MAX_CONTENT_JSON,
    MAX_METADATA_BYTES,
    MAX_METADATA_KEYS,
)
from braid.retrieval.context import episodes
from braid.settings import Settings

from braid_cli.datasets.dataset import read_dataset
from tests.front_door import FrontDoor
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TENANT = "saltmarrow"
MANY_KEYS = {f"key {number}": number for number in range(110_000)}
TOO_MUCH: dict[str, dict[str, Any]] = {
    "metadata": {"metadata": dict(list(MANY_KEYS.items())[: strict_json.MAX_KEYS])},
    "metadata of one key too many": {"metadata": dict(list(MANY_KEYS.items())[: MAX_METADATA_KEYS + 1])},
    "metadata of one long value": {"metadata": {"a": "é" * (records.MAX_METADATA_VALUE_BYTES // 2 + 1)}},
    "metadata of long lists": {"metadata": {f"k{n}": list(range(100)) for n in range(11)}},
    "metadata of a number too long in a list": {"metadata": {"k": [2**63]}},
    "metadata of one long key": {"metadata": {"k" * (records.MAX_METADATA_KEY_BYTES + 1): 1}},
    "metadata that is long in all": {"metadata": {str(at): "x" * 16_000 for at in range(5)}},
    "aliases": {"aliases": [f"alias {number}" for number in range(MAX_ALIASES + 1)]},
    "aliases that are longer than they look": {"aliases": ["Berg", "\ufdfa" * 4]},
    "name that is longer than it looks": {"name": "\ufdfa" * 4},
    "content": {"content": "x" * 1_900_000},
    "content of control characters": {"content": "\x01" * (MAX_CONTENT_JSON // 6 + 1)},
    "content of one byte too many": {"content": "x" * (MAX_CONTENT_BYTES + 1)},
}


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = demo_stages(tmp_path_factory.mktemp("limits"))
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def door(stages: DemoStages) -> FrontDoor:
    return FrontDoor(stages)


def record(**fields: Any) -> dict[str, Any]:
    return {"id": "much", "content": "text", **fields}


much = pytest.mark.parametrize(("field", "fields"), [(name.split()[0], each) for name, each in TOO_MUCH.items()])


@much
def test_it_is_refused_over_http_by_the_name_of_its_field(door: FrontDoor, field: str, fields: dict[str, Any]) -> None:
    begun = time.thread_time()
    # The body is longer than one may be before it is the metadata that is too long.
    answered = door.ask("POST", "/records", {"records": [record(**fields)]})
    assert answered.status in {413, 422}
    if answered.status == 422:
        assert answered.fields == [f"records.0.{field}"]
    assert time.thread_time() - begun < 5
    assert door.ask("GET", "/entities/much").status == 404


def test_an_answer_names_the_first_of_very_many_wrong_items(door: FrontDoor) -> None:
    lost = [f"é{number}" for number in range(10)]
    body = {"records": [record(id=f"r{number}", supersedes=lost) for number in range(100)]}
    answered = door.ask("POST", "/records", body)
    assert answered.status == 422
    assert answered.fields[0] == "records.0.supersedes"
    assert len(answered.fields) == 100
    assert answered.json()["detail"].endswith("nothing was written; the first 100 of 1,000 are named")


@much
def test_it_is_refused_of_a_line_of_an_import(field: str, fields: dict[str, Any]) -> None:
    line = json.dumps(record(**fields)).encode()
    (error,) = read_lines([("line 1", line)], TENANT).errors
    assert error.field == field


@much
def test_it_is_refused_of_a_queued_write(stages: DemoStages, field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=f"{field}: "):
        write_message(json.dumps({"tenant_id": TENANT, "records": [record(**fields)]}), stages)


@much
def test_it_is_refused_of_a_call_of_the_library(stages: DemoStages, field: str, fields: dict[str, Any]) -> None:
    written = stages.write(WriteRequest(tenant_id=TENANT, records=(Record(tenant_id=TENANT, **record(**fields)),)))
    assert [error.field for error in written.errors] == [field]
    assert not written.written


@much
def test_it_is_refused_of_a_folder(tmp_path: Path, field: str, fields: dict[str, Any]) -> None:
    row = {"_id": "much", "text": fields.get("content", "text"), **fields}
    row.pop("content", None)
    (tmp_path / "corpus.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DatasetError, match=f"corpus.jsonl:1: {'text' if field == 'content' else field}: "):
        read_dataset(tmp_path, TENANT)


def test_an_episode_is_bounded_as_well(stages: DemoStages) -> None:
    with pytest.raises(InvalidRequest, match="text: must not be longer"):
        episodes.record_decision(text="x" * (MAX_CONTENT_BYTES + 1), action_type="act", tenant_id=TENANT, store=stages)
    with pytest.raises(InvalidRequest, match="metadata: must not hold more"):
        episodes.record_decision(text="x", action_type="act", tenant_id=TENANT, store=stages, metadata=MANY_KEYS)


def test_vertices_and_vectors_are_bounded_as_well() -> None:
    aliases = tuple(f"alias {number}" for number in range(MAX_ALIASES + 1))
    found = records.too_much(Vertex(id="v", tenant_id=TENANT, aliases=aliases))
    assert found
    assert found.field == "aliases"
    long = Embedding(space="s", model_id="m", vector=b"\0\0\x80?" * (records.MAX_VECTOR_VALUES + 1))
    found = records.too_much(Record(id="r", tenant_id=TENANT, embeddings=(long,)))
    assert found
    assert found.field == "embeddings"


def test_what_is_accepted_at_its_greatest_is_read_listed_and_removed(stages: DemoStages, door: FrontDoor) -> None:
    value = "\x01" * (MAX_METADATA_BYTES // 8)
    greatest = record(
        id="greatest",
        content="\x01" * (MAX_CONTENT_JSON // 6 - 1),
        metadata={str(at): value[:-1] for at in range(8)},
        aliases=[f"{at} " + "\U0001d4b3" * 500 for at in range(MAX_ALIASES)],
    )
    # Six bytes of JSON for each, so that only an import's line could bring it.
    (written,) = read_lines([("line 1", json.dumps(greatest).encode())], TENANT).request().records
    assert stages.write(WriteRequest(tenant_id=TENANT, records=(written,))).written == 1
    read = door.ask("GET", "/entities/greatest").json()
    assert (read["content"], read["metadata"], read["shortened"]) == (greatest["content"], greatest["metadata"], False)
    listed = {each["id"]: each for each in pages(door)}
    (alone,) = door.ask("POST", "/records:read", {"ids": ["greatest"]}).json()["records"]
    for each in (listed["greatest"], alone):
        assert (each["content"], each["metadata"], each["shortened"]) == (read["content"], read["metadata"], False)
    assert len(listed) == len({each["id"] for each in listed.values()}) > 20
    assert door.ask("DELETE", "/records/greatest").json()["records"] == 1


def test_the_longest_page_of_names_and_of_documents_fits_into_an_answer(tmp_path: Path) -> None:
    stages = DemoStages(Settings(home=tmp_path))
    long = "é" * 8_000
    vertices = [
        Vertex(
            id=f"{at:03}",
            tenant_id=TENANT,
            name=f"{'🦩' * 500} {at}",
            aliases=tuple(f"{'é' * 500} {n}" for n in range(40)),
        )
        for at in range(500)
    ]
    stages.graph.upsert(vertices, [])
    said = {"file": long, "format": long}
    stages.index.upsert([Record(id=f"{at:03}", tenant_id=TENANT, metadata=said) for at in range(100)])
    door = FrontDoor(stages)
    for path, limit in (("entities", 500), ("documents", 100)):
        answered = door.ask("GET", f"/{path}", query={"limit": limit})
        assert (answered.status, len(answered.json()[path])) == (200, limit)
    stages.close()


def test_what_an_older_version_wrote_is_listed_by_its_id_and_can_be_removed(
    stages: DemoStages, door: FrontDoor
) -> None:
    before = [each["id"] for each in pages(door)]
    for at in range(3):
        old = Record(
            id=f"a-{at}", tenant_id=TENANT, content="\x01" * 1_900_000, metadata=MANY_KEYS if at else {}, name="Old"
        )
        stages.index.upsert([old])
    found = pages(door)
    assert [each["id"] for each in found if not each["id"].startswith("a-")] == before
    stubs = [each for each in found if each["id"].startswith("a-")]
    assert [(each["name"], each["shortened"], each["content"]) for each in stubs] == [("Old", True, "")] * 3
    read = door.ask("GET", "/entities/a-1")
    assert (read.status, read.json()["shortened"]) == (200, True)
    assert read.json()["content"].startswith("\x01")
    assert door.ask("POST", "/records:delete", {"ids": ["a-0", "a-1", "a-2"]}).json()["records"] == 3
    assert [each["id"] for each in pages(door)] == before


def test_a_problem_names_no_more_fields_than_anybody_reads(door: FrontDoor) -> None:
    wrong = {f"key {number}": {} for number in range(strict_json.MAX_KEYS)}
    answered = door.ask("POST", "/records", {"records": [record(metadata=wrong)]})
    assert answered.status == 422
    assert len(answered.fields) == 100
    assert len(answered.text) < 100_000


def pages(door: FrontDoor) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    query: dict[str, Any] = {"limit": 100}
    while True:
        answered = door.ask("GET", "/records", query=query)
        assert answered.status == 200, answered.text[:200]
        page = answered.json()
        found += page["records"]
        if page["next"] is None:
            return found
        query["after"] = page["next"]
