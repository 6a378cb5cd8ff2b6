"""A receiver of OTLP over HTTP on a free loopback port."""

from __future__ import annotations

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.loopback import listening

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Received:
    """What was sent to a receiver."""

    def __init__(self) -> None:
        self.url = ""
        self.bodies: dict[str, list[bytes]] = {"/v1/traces": [], "/v1/metrics": [], "/v1/logs": []}

    def spans(self) -> list[Span]:
        """Return all spans."""
        requests = map(ExportTraceServiceRequest.FromString, self.bodies["/v1/traces"])
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def services(self) -> set[str]:
        """Return the names of the services that sent spans."""
        requests = map(ExportTraceServiceRequest.FromString, self.bodies["/v1/traces"])
        return {
            attribute.value.string_value
            for request in requests
            for resource in request.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
        }

    def metrics(self) -> set[str]:
        """Return the names of all metrics."""
        requests = map(ExportMetricsServiceRequest.FromString, self.bodies["/v1/metrics"])
        return {
            metric.name
            for request in requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def logs(self) -> list[str]:
        """Return the texts of all log records."""
        requests = map(ExportLogsServiceRequest.FromString, self.bodies["/v1/logs"])
        return [
            record.body.string_value
            for request in requests
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]


@contextmanager
def otlp_receiver() -> Iterator[Received]:
    """Take what is sent until the block ends."""
    received = Received()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.bodies[self.path].append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """Leave the terminal to the tests."""

    with listening(Receiver) as received.url:
        yield received
