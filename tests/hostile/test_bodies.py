"""What a body, a header and a path may be: read alike by every reader, and never as something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from braid.errors import InvalidRequest
from braid.ingestion.inline_writes import write_message
from braid.ingestion.item_parsing import read_lines

from tests.front_door import FrontDoor
from tests.stages import DemoStages, demo_stages

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoStages]:
    stages = demo_stages(tmp_path_factory.mktemp("bodies"))
    yield stages
    stages.close()


@pytest.fixture(scope="module")
def door(stages: DemoStages) -> FrontDoor:
    return FrontDoor(stages)


@pytest.mark.parametrize("name", ["content-type", "Content-Type", "CONTENT-TYPE"])
@pytest.mark.parametrize("value", ["Application/json", "APPLICATION/JSON; charset=UTF-8", "application/json"])
def test_the_spelling_of_a_content_type_makes_no_difference(door: FrontDoor, name: str, value: str) -> None:
    assert door.ask("POST", "/search", raw='{"text": "Beacon"}', headers={name: value}).status == 200


@pytest.mark.parametrize(
    "record_id", ["x/related", "related", "a/b/related", "x/related/related", "50%2Frelated?a,b#c"]
)
def test_a_record_is_read_whatever_slashes_its_id_holds(door: FrontDoor, record_id: str) -> None:
    assert door.ask("POST", "/records", {"records": [{"id": record_id, "content": "here"}]}).status == 200
    read = door.ask("POST", "/entities:read", {"id": record_id})
    assert (read.status, read.json()["id"], read.json()["content"]) == (200, record_id, "here")


def test_an_id_that_nobody_wrote_is_not_found(door: FrontDoor) -> None:
    assert door.ask("POST", "/entities:read", {"id": "nobody/related"}).status == 404


DOUBLED = (
    '{"id": "twice", "id": "other", "content": "x"}',
    '{"record": {"id": "twice", "content": "x", "content": "y"}}',
    '{"id": "twice", "content": "x", "metadata": {"a": 1, "a": 2}}',
)


@pytest.mark.parametrize("line", DOUBLED)
def test_a_line_to_be_imported_with_a_key_twice_is_refused(line: str) -> None:
    (error,) = read_lines([("line 1", line.encode())], "saltmarrow").errors
    assert error.message == "not JSON: the line holds a key twice in one object"


def test_a_queued_write_with_a_key_twice_is_refused(stages: DemoStages) -> None:
    text = '{"tenant_id": "saltmarrow", "tenant_id": "pellworth", "records": [{"id": "a", "content": "b"}]}'
    with pytest.raises(InvalidRequest, match="body: holds a key twice"):
        write_message(text, stages)
