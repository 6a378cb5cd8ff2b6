"""Writes by the function that carries the models: what it is sent, and how what it says is read."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ReadTimeoutError
from braid.engines.aws.lambda_invocation import IngestFunction
from braid.errors import InvalidRequest, QueueFull, QuotaExceeded, StoreError, TransientStoreError
from braid.ingestion import writing
from braid.ingestion.bulk import import_steps
from braid.ingestion.bulk.step_messages import Task
from braid.models import Record, Relationship, Vertex
from braid.ports.ingestion import WriteRequest
from braid.settings import Settings

from tests.stages import DemoStages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from braid.ports.ingestion import WriteReport

REQUEST = WriteRequest(
    tenant_id="acme",
    records=(Record(id="note", tenant_id="acme", content="The valve stuck."),),
    vertices=(Vertex(id="valve", tenant_id="acme", entity_type="Machine", name="Valve"),),
    relationships=(Relationship(tenant_id="acme", source="note", type="MENTIONS", target="valve"),),
)


class Invoked:
    """Runs the function's own step in this process, as Lambda would."""

    def __init__(self, stages: DemoStages) -> None:
        self.stages = stages

    def invoke(self, **request: Any) -> dict[str, Any]:
        event = json.loads(request["Payload"])
        report = import_steps.run(Task.model_validate(event), self.stages)
        return {"Payload": io.BytesIO(report.model_dump_json().encode())}


class Failing:
    """Fails as the function does."""

    def __init__(self, error: str, message: str) -> None:
        self.said = {"errorType": error, "errorMessage": message}

    def invoke(self, **_: Any) -> dict[str, Any]:
        return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(self.said).encode())}


@pytest.fixture
def stages(tmp_path: Path) -> Iterator[DemoStages]:
    stages = DemoStages(Settings(home=tmp_path))
    yield stages
    stages.close()


def test_what_the_function_writes_is_what_this_process_would_have_written(stages: DemoStages) -> None:
    report = IngestFunction(Invoked(stages), "ingest").write(REQUEST)
    assert (report.written, report.relationships, report.errors) == (1, 1, ())
    (note,) = stages.index.get_many("acme", ["note"])
    assert note.content == "The valve stuck."
    (valve,) = stages.graph.get_many("acme", ["valve"])
    assert (valve.entity_type, valve.name) == ("Machine", "Valve")


def test_items_that_are_wrong_are_in_its_report(stages: DemoStages) -> None:
    wrong = REQUEST.model_copy(update={"vertices": ()})
    report = IngestFunction(Invoked(stages), "ingest").write(wrong)
    assert [(error.place, error.field) for error in report.errors] == [("relationships[0]", "target")]


def test_an_item_that_is_wrong_has_the_name_that_it_has_where_this_process_writes(stages: DemoStages) -> None:
    far = Vertex(id="far", tenant_id="acme", aliases=tuple(f"alias {number} " + "x" * 500 for number in range(200)))
    wrong = REQUEST.model_copy(update={"vertices": (*REQUEST.vertices, far)})
    there = IngestFunction(Invoked(stages), "ingest").write(wrong)
    here = writing.write(wrong, stages)
    assert there.errors == here.errors
    assert [(error.place, error.field) for error in here.errors] == [("vertices[1]", "aliases")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("InvalidRequest", InvalidRequest),
        ("TransientStoreError", TransientStoreError),
        ("KeyError", StoreError),
        ("QuotaExceeded", QuotaExceeded),
        ("QueueFull", QueueFull),
    ],
)
def test_its_errors_are_raised_by_their_names(name: str, expected: type[Exception]) -> None:
    with pytest.raises(expected) as caught:
        IngestFunction(Failing(name, "records: too many"), "ingest").write(REQUEST)
    assert type(caught.value) is expected
    if isinstance(caught.value, InvalidRequest):
        assert caught.value.field == "records"


def test_a_write_that_its_caller_has_given_up_keeps_its_tenant_s_place_until_it_ends(
    stages: DemoStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages.settings = stages.settings.model_copy(update={"quota_requests_at_once": 2})
    others = REQUEST.model_copy(
        update={
            "tenant_id": "globex",
            "records": tuple(one.model_copy(update={"tenant_id": "globex"}) for one in REQUEST.records),
            "vertices": tuple(one.model_copy(update={"tenant_id": "globex"}) for one in REQUEST.vertices),
            "relationships": tuple(one.model_copy(update={"tenant_id": "globex"}) for one in REQUEST.relationships),
        }
    )
    write, under_way = import_steps.write_body, []

    def while_it_is_written(body: dict[str, Any], tenant_id: str, store: DemoStages) -> WriteReport:
        under_way.append(tenant_id)
        if under_way == ["acme"]:
            IngestFunction(Invoked(stages), "ingest").write(REQUEST)
        elif under_way == ["acme", "acme"]:
            with pytest.raises(QuotaExceeded, match="2 writes of this tenant are under way"):
                IngestFunction(Invoked(stages), "ingest").write(REQUEST)
            assert IngestFunction(Invoked(stages), "ingest").write(others).written == 1
        return write(body, tenant_id, store)

    monkeypatch.setattr(import_steps, "write_body", while_it_is_written)
    IngestFunction(Invoked(stages), "ingest").write(REQUEST)
    assert under_way == ["acme", "acme", "globex"]
    assert IngestFunction(Invoked(stages), "ingest").write(REQUEST).unchanged == 1, "the places are free again"


def test_an_error_of_the_vertices_as_a_whole_names_the_list_that_was_sent() -> None:
    with pytest.raises(InvalidRequest, match=r"^vertices: more than 100") as caught:
        IngestFunction(Failing("InvalidRequest", "entities: more than 100 items"), "ingest").write(REQUEST)
    assert caught.value.field == "vertices"


def test_a_function_that_does_not_answer_is_worth_trying_again() -> None:
    class Silent:
        def invoke(self, **_: Any) -> dict[str, Any]:
            raise ReadTimeoutError(endpoint_url="https://lambda")

    with pytest.raises(TransientStoreError, match="function ingest"):
        IngestFunction(Silent(), "ingest").write(REQUEST)


def test_an_answer_that_breaks_off_is_an_error_after_which_to_try_again() -> None:
    class BreakingOff:
        def invoke(self, **_: Any) -> dict[str, Any]:
            return {"Payload": self}

        def read(self) -> bytes:
            raise ReadTimeoutError(endpoint_url="https://lambda")

    with pytest.raises(TransientStoreError, match="ReadTimeoutError") as caught:
        IngestFunction(BreakingOff(), "ingest").write(REQUEST)
    assert caught.value.maybe_done
