"""Every event in ``events/`` is met by the real handler: good ones are answered, bad ones refused by field."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from braid import app
from braid.errors import InvalidRequest
from braid.ingestion.deleting import delete_records

from braid_cli.state_machine.invoke_endpoint import FUNCTIONS, LocalContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.stages import DemoStages

EVENTS = Path(__file__).resolve().parents[2] / "events"
GOOD = sorted(EVENTS.glob("*.json"))
BAD = sorted((EVENTS / "malformed").glob("*.json"))
BAD_REQUESTS = [path for path in BAD if path.stem.startswith("search_api--")]
"""What the front door answers rather than raises."""
BAD_EVENTS = [path for path in BAD if path not in BAD_REQUESTS]


@pytest.fixture
def call(stages: DemoStages, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], dict[str, Any]]:
    """Call the handler of ``functions/<stage>/app.py``, over the demo corpus, with an event's file."""
    monkeypatch.setattr(app, "application", lambda: stages)

    def call(stage: str, event: Path) -> dict[str, Any]:
        spec = importlib.util.spec_from_file_location(f"app_of_{stage}", FUNCTIONS / stage / "app.py")
        assert spec
        assert spec.loader
        function = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(function)
        try:
            answered: dict[str, Any] = function.handler(json.loads(event.read_text("utf-8")), LocalContext(stage))
        finally:
            stages.resume()  # other functions do not know that one pauses its stores
        return answered

    return call


def test_each_function_has_an_event() -> None:
    assert {path.stem.split("--")[0] for path in GOOD} == {path.parent.name for path in FUNCTIONS.glob("*/app.py")}
    assert {path.stem.split("--")[0] for path in BAD} == {path.stem.split("--")[0] for path in GOOD}


def test_the_plan_event_is_planned(call: Callable[..., dict[str, Any]]) -> None:
    planned = call("plan", EVENTS / "plan.json")
    assert planned["plan"]["intent"] == "causal"
    assert planned["query"]["text"] == "Why was there a scanner lockout in December?"


def test_the_embed_event_is_embedded_in_the_space_of_its_plan(call: Callable[..., dict[str, Any]]) -> None:
    embedded = call("embed", EVENTS / "embed.json")
    assert embedded["embedding"]["model_id"] == "all-minilm-l6-v2"
    assert embedded["fallback"] is False


def test_the_vector_search_event_finds_records_by_words_and_by_vector(call: Callable[..., dict[str, Any]]) -> None:
    found = call("vector_search", EVENTS / "vector_search.json")
    assert found["lexical"][0]["id"] == "event:kestrelway-lockout"
    assert found["vector"]


def test_the_graph_expand_event_reaches_the_cause(call: Callable[..., dict[str, Any]]) -> None:
    found = call("graph_expand", EVENTS / "graph_expand.json")
    assert "event:tokens-rejected" in {hit["id"] for hit in found["hits"]}


def test_the_fuse_rerank_event_is_answered_with_citations_and_paths(call: Callable[..., dict[str, Any]]) -> None:
    answer = call("fuse_rerank", EVENTS / "fuse_rerank.json")
    assert answer["results"][0]["id"] == "event:kestrelway-lockout"
    assert len(answer["results"]) == 5
    assert answer["degraded"] == []
    assert any(result["paths"] for result in answer["results"])
    assert all(result["citation"]["title"] for result in answer["results"])


def test_the_context_event_is_given_its_last_message_as_it_came_and_what_the_search_found(
    call: Callable[..., dict[str, Any]],
) -> None:
    event = EVENTS / "context.json"
    context = call("context", event)
    last = json.loads(event.read_text(encoding="utf-8"))["messages"][-1]
    assert json.dumps(context["messages"][0]) == json.dumps(last)
    found = [message["metadata"]["id"] for message in context["messages"] if "metadata" in message]
    # What led to the lockout; the lockout itself is in the question.
    assert {"event:clock-drift", "event:tokens-rejected"} <= set(found)
    assert context["degraded"] == []
    assert context["metrics"]["kept"] == len(context["messages"])


@pytest.fixture
def leave_no_trace(stages: DemoStages) -> Iterator[None]:
    """Remove what these events write: the stores are those of all workflow tests."""
    yield
    delete_records("saltmarrow", ["note:late-arrival"], stages)
    for info in list(stages.objects.list("saltmarrow")):
        stages.objects.delete("saltmarrow", info.key)


@pytest.mark.usefixtures("leave_no_trace")
def test_the_ingest_event_of_the_queue_is_written(call: Callable[..., dict[str, Any]], stages: DemoStages) -> None:
    assert call("ingest", EVENTS / "ingest.json") == {"batchItemFailures": []}
    (note,) = stages.index.get_many("saltmarrow", ["note:late-arrival"])
    assert note.content == "The quay lamps were replaced in January."


@pytest.mark.usefixtures("leave_no_trace")
def test_a_poisoned_message_of_the_queues_event_stays_there_alone(call: Callable[..., dict[str, Any]]) -> None:
    event = EVENTS / "malformed" / "queue" / "ingest.json"
    second = json.loads(event.read_text(encoding="utf-8"))["Records"][1]["messageId"]
    assert call("ingest", event) == {"batchItemFailures": [{"itemIdentifier": second}]}


@pytest.mark.usefixtures("leave_no_trace")
def test_the_ingest_event_of_a_new_object_finds_its_batches(
    call: Callable[..., dict[str, Any]], stages: DemoStages, tmp_path: Path
) -> None:
    info = stages.objects.put("saltmarrow", "inbox/late.jsonl", b'{"_id": "late", "text": "late"}\n')
    text = (EVENTS / "ingest--object-created.json").read_text(encoding="utf-8")
    event = tmp_path / "event.json"
    event.write_text(text.replace("@etag@", info.version), encoding="utf-8")
    job = call("ingest", event)
    assert (job["tenant_id"], job["lines"], job["batches"]) == ("saltmarrow", 1, 1)


def test_the_reembed_event_of_the_schedule_begins_a_job(call: Callable[..., dict[str, Any]]) -> None:
    progress = call("reembed", EVENTS / "reembed.json")
    assert (progress["job"], progress["status"], progress["phase"]) == ("refresh", "running", "fill")


def test_the_small_modes_event_of_the_schedule_embeds_again(call: Callable[..., dict[str, Any]]) -> None:
    progress = call("small", EVENTS / "small.json")
    assert (progress["job"], progress["status"], progress["phase"]) == ("refresh", "finished", "done")


def test_the_reembed_event_of_the_queue_is_worked_off(call: Callable[..., dict[str, Any]], stages: DemoStages) -> None:
    (before,) = stages.index.get_many("saltmarrow", ["event:kestrelway-lockout"])
    stages.index.upsert([before.model_copy(update={"embeddings": ()})])
    assert stages.migration.count("saltmarrow", model_missing="all-minilm-l6-v2") == 1
    assert call("reembed", EVENTS / "reembed--queue.json") == {"batchItemFailures": []}
    assert stages.migration.count("saltmarrow", model_missing="all-minilm-l6-v2") == 0


def test_poisoned_messages_of_the_reembed_queue_stay_there_alone(call: Callable[..., dict[str, Any]]) -> None:
    event = EVENTS / "malformed" / "queue" / "reembed.json"
    ids = [record["messageId"] for record in json.loads(event.read_text(encoding="utf-8"))["Records"]]
    assert call("reembed", event) == {"batchItemFailures": [{"itemIdentifier": each} for each in ids[1:]]}


def test_the_request_of_api_gateway_is_answered_for_the_tenant_of_its_token(
    call: Callable[..., dict[str, Any]],
) -> None:
    answered = call("search_api", EVENTS / "search_api.json")
    assert answered["statusCode"] == 200
    assert "event:tokens-rejected" in {result["id"] for result in json.loads(answered["body"])["results"]}


def test_a_request_without_a_token_is_told_that_the_function_runs(call: Callable[..., dict[str, Any]]) -> None:
    assert json.loads(call("search_api", EVENTS / "search_api--health.json")["body"])["status"] == "ok"


@pytest.mark.parametrize("event", BAD_REQUESTS, ids=[path.stem for path in BAD_REQUESTS])
def test_a_malformed_request_is_answered_with_the_field_that_its_file_names(
    event: Path, call: Callable[..., dict[str, Any]]
) -> None:
    answered = call("search_api", event)
    assert answered["statusCode"] == 422
    assert [error["field"] for error in json.loads(answered["body"])["errors"]] == [event.stem.split("--")[1]]


@pytest.mark.parametrize("event", BAD_EVENTS, ids=[path.stem for path in BAD_EVENTS])
def test_a_malformed_event_is_refused_by_the_field_that_its_file_names(
    event: Path, call: Callable[..., dict[str, Any]]
) -> None:
    stage, field, _ = event.stem.split("--")
    with pytest.raises(InvalidRequest) as caught:
        call(stage, event)
    assert caught.value.field == field
    assert field in str(caught.value)
