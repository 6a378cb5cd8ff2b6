"""``braid`` sends traces, metrics and logs to the endpoint that the environment names."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from braid.errors import needs_extra

from tests.e2e.conftest import run
from tests.e2e.test_serve import fetch, serving
from tests.otlp_receiver import otlp_receiver

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "Who owns Keelson, and who is told of its traces?"
"""That no other test asks: its vector is in no cache."""


def test_a_search_sends_its_trace_and_durations_and_no_word_of_the_question(home: Path) -> None:
    with otlp_receiver() as received:
        slow = {"OTEL_EXPORTER_OTLP_ENDPOINT": received.url, "BRAID_SLOW_TOTAL_MS": "1"}
        done = run(home, "search", QUESTION, "-t", "saltmarrow", "--json", **slow)
    assert done.status == 0, done.err
    assert json.loads(done.out)["results"]
    spans = received.spans()
    assert {"retrieval", "plan", "vector_search", "fuse_rerank"} <= {span.name for span in spans}
    assert any(span.name.startswith("embeddings ") for span in spans)
    assert received.services() == {"braid"}
    assert {"gen_ai.client.operation.duration", "db.client.operation.duration"} <= received.metrics()
    assert not any(b"Keelson" in body for bodies in received.bodies.values() for body in bodies)


def test_a_server_goes_on_with_its_callers_traces_and_sends_what_is_left_when_it_is_stopped(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with otlp_receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{received.url}/v1/traces")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "answers")
        with serving(home, "-t", "saltmarrow", "--json") as process:
            assert process.stdout
            said = json.loads(process.stdout.readline())
            fetch(f"{said['url']}/search", said["tokens"]["saltmarrow"], {"text": QUESTION, "top_k": 1})
    assert process.returncode == 0
    spans = {span.name: span for span in received.spans()}
    assert spans["retrieval"].trace_id == spans["POST /search"].trace_id
    assert received.services() == {"answers"}
    assert not received.metrics()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' is not supported; http/protobuf is",
        ),
        (
            {"PYTHONPATH": "hidden"},
            needs_extra("otel", "OTEL_EXPORTER_OTLP_ENDPOINT: export"),
        ),
    ],
    ids=["another protocol", "without the extra"],
)
def test_what_cannot_be_exported_is_said_in_one_line(tmp_path: Path, more: dict[str, str], said: str) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['opentelemetry.sdk'] = None\n")
    more = {name: str(tmp_path) if value == "hidden" else value for name, value in more.items()}
    done = run(tmp_path, "stats", **more, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert done.status == 2
    assert done.err.strip() == f"braid: {said}"
