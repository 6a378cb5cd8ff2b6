"""What is exported where an endpoint is named, and that nothing is where none is."""

from __future__ import annotations

import logging

import pytest
from braid.telemetry import exporting, recording
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

GENERAL, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@pytest.mark.parametrize(
    ("said", "started"),
    [
        ({}, set()),
        ({GENERAL: ""}, set()),
        ({GENERAL: "http://c"}, {"traces", "metrics", "logs"}),
        ({TRACES: "http://c/v1/traces"}, {"traces"}),
        ({GENERAL: "http://c", "OTEL_LOGS_EXPORTER": "none"}, {"traces", "metrics"}),
        ({GENERAL: "http://c", "OTEL_SDK_DISABLED": "True"}, set()),
    ],
)
def test_a_signal_is_exported_where_an_endpoint_is_named_for_it(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, str], started: set[str]
) -> None:
    for name in (GENERAL, TRACES):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    begun: set[str] = set()
    monkeypatch.setattr(exporting, "_FLUSHES", [])
    for signal in ("traces", "metrics", "logs"):
        monkeypatch.setattr(exporting, f"_export_{signal}", lambda _resource, signal=signal: begun.add(signal))
    exporting.start("braid")
    assert begun == started


def test_a_log_record_is_exported_with_its_fields_and_trace_and_without_what_an_exception_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider()
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = logging.getLogger("braid.tried")
    monkeypatch.setattr(logger, "handlers", [exporting.LogExport(provider)])
    parent = {recording.TRACEPARENT: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    with recording.operation("caller", {}, parent=parent):
        try:
            raise ValueError("a secret")  # noqa: TRY301 - as a library would
        except ValueError:
            logger.warning("slow %s", "stage", extra={"limit_ms": 800, "plan": {"nested": 1}}, exc_info=True)
    (sent,) = exporter.get_finished_logs()
    assert (sent.log_record.body, sent.log_record.severity_text) == ("slow stage", "WARNING")
    assert sent.log_record.attributes == {"limit_ms": 800}
    assert sent.log_record.trace_id == 0x4BF92F3577B34DA6A3CE929D0E0E4736
    assert "secret" not in str(vars(sent.log_record))
