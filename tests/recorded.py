"""What OpenTelemetry's SDK would export: spans and metrics, kept in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from braid.telemetry import names, recording
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

if TYPE_CHECKING:
    import pytest
    from opentelemetry.sdk.trace import ReadableSpan


class Recorded:
    """Spans and metrics of one test."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        traces, meters = TracerProvider(), MeterProvider([self._reader])
        traces.add_span_processor(SimpleSpanProcessor(self._exporter))
        meter = meters.get_meter("braid")
        patch.setattr(recording, "_TRACER", traces.get_tracer("braid"))
        patch.setattr(
            recording, "_HISTOGRAMS", {name: meter.create_histogram(name, unit="s") for name in names.DURATIONS}
        )

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """Return the spans that ended."""
        return self._exporter.get_finished_spans()

    def span(self, name: str) -> ReadableSpan:
        """Return the one span of a name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def children(self, parent: ReadableSpan) -> set[str]:
        """Return the names of the spans directly under another."""
        return {
            span.name for span in self.spans if span.parent and span.parent.span_id == parent.get_span_context().span_id
        }

    def traces(self) -> set[int]:
        """Return the trace ids of all spans."""
        return {span.get_span_context().trace_id for span in self.spans}

    def points(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the name and dimensions of each point of a metric."""
        data = self._reader.get_metrics_data()
        return [
            (metric.name, dict(point.attributes or {}))
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        ]

    def text(self) -> str:
        """Return everything that would be exported, as text."""
        return "\n".join([*(span.to_json() for span in self.spans), *map(str, self.points())])
