"""Export of traces, metrics and logs over OTLP, if the environment names an endpoint.

The variables are OpenTelemetry's own: ``OTEL_EXPORTER_OTLP_ENDPOINT``, or ``OTEL_EXPORTER_OTLP_TRACES_ENDPOINT``,
``…_METRICS_ENDPOINT`` and ``…_LOGS_ENDPOINT`` for a single signal; ``OTEL_SDK_DISABLED=true`` switches off, and
``OTEL_TRACES_EXPORTER=none`` and the like one signal. The SDK reads the others: headers, samplers, resource attributes.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from typing import TYPE_CHECKING, Final

from opentelemetry import metrics, trace

from braid.errors import ConfigurationError, needs_extra
from braid.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk.resources import Resource

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOL: Final = "http/protobuf"
FLUSH_MS: Final = 1_500
"""Longest time that an invocation waits for its telemetry to be sent, for each signal.

OpenTelemetry's SDK keeps to it for metrics alone; the template limits each request with ``OTEL_EXPORTER_OTLP_TIMEOUT``.
"""
_FLUSHES: list[Callable[[int], object]] = []
_LOG_HANDLERS: list[logging.Handler] = []
_STARTING = threading.Lock()
_SEVERITIES: Final = {"DEBUG": "DEBUG", "WARNING": "WARN", "ERROR": "ERROR", "CRITICAL": "FATAL"}
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""Attributes that every record of :mod:`logging` has; any others are its ``extra`` fields."""


def start(service: str) -> None:
    """Set up export in this process, once, if an endpoint is named and the program has set no providers itself.

    Raises ConfigurationError if an endpoint is named, and the extra ``otel`` is not installed or another protocol is
    asked for.

    Parameters
    ----------
    service
        Name of the service, unless ``OTEL_SERVICE_NAME`` says another.
    """
    starts = {"TRACES": _export_traces, "METRICS": _export_metrics, "LOGS": _export_logs}
    wanted = [signal for signal in starts if _wanted(signal)]
    with _STARTING:
        if not wanted or _FLUSHES or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            return
        protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", _PROTOCOL)
        if protocol != _PROTOCOL:
            raise ConfigurationError(f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol!r} is not supported; {_PROTOCOL} is")
        try:
            from opentelemetry.sdk.resources import Resource

            resource = Resource.create(
                {
                    "service.name": os.environ.get("OTEL_SERVICE_NAME") or service,
                    "service.version": __version__,
                    # One per process: counters of several processes under one id would look like one that goes up and
                    # down.
                    "service.instance.id": str(uuid.uuid4()),
                }
            )
            for signal in wanted:
                starts[signal](resource)
        except ModuleNotFoundError as error:
            raise ConfigurationError(needs_extra("otel", f"{ENDPOINT}: export")) from error


def _wanted(signal: str) -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    named = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or os.environ.get(ENDPOINT)
    return bool(named) and os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp") != "none"


def flush() -> None:
    """Send the recorded telemetry; called in Lambda, which freezes a container between two invocations."""
    for each in _FLUSHES:
        each(FLUSH_MS)


def log_handlers() -> Sequence[logging.Handler]:
    """Return the handlers to add to loggers outside the ``braid`` logger; none if logs are not exported."""
    return _LOG_HANDLERS


def _export_traces(resource: Resource) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    _FLUSHES.append(provider.force_flush)


def _export_metrics(resource: Resource) -> None:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    provider = MeterProvider(resource=resource, metric_readers=[PeriodicExportingMetricReader(OTLPMetricExporter())])
    metrics.set_meter_provider(provider)
    _FLUSHES.append(provider.force_flush)


def _export_logs(resource: Resource) -> None:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider(resource=resource)
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    _LOG_HANDLERS.append(LogExport(provider))
    logging.getLogger("braid").addHandler(_LOG_HANDLERS[0])
    _FLUSHES.append(provider.force_flush)


class LogExport(logging.Handler):
    """Exports log records to OpenTelemetry: message, level and ``extra`` fields.

    Not the SDK's own handler, which adds the messages of exceptions: they may quote a question.
    """

    def __init__(self, provider: LoggerProvider) -> None:
        super().__init__()
        self._provider = provider

    def emit(self, record: logging.LogRecord) -> None:
        """Export one record, with the current trace context."""
        from opentelemetry._logs import LogRecord, SeverityNumber

        fields = {
            name: value
            for name, value in vars(record).items()
            if name not in _STANDARD and isinstance(value, str | bool | int | float)
        }
        self._provider.get_logger(record.name).emit(
            LogRecord(
                timestamp=int(record.created * 1e9),
                severity_text=record.levelname,
                severity_number=SeverityNumber[_SEVERITIES.get(record.levelname, "INFO")],
                body=record.getMessage(),
                attributes=fields,
            )
        )
