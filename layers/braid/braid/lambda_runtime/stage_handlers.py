"""Handlers of stages, which parse the event and serialise the response, with logs, metrics and traces.

No text of a question or of a record is logged, unless ``BRAID_LOG_QUERIES`` is true. Outside Lambda, metrics
of CloudWatch are off and logs go to standard error, so that a handler called in process leaves standard output alone.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from aws_lambda_powertools.utilities.parser import parse
from opentelemetry.trace import SpanKind

from braid.deadline import CircuitBreaker, Stopwatch
from braid.errors import BraidError, InvalidRequest, as_invalid_request
from braid.models import Answer, Frozen, Plan, Query, Source
from braid.retrieval.stages import results_and_citations
from braid.settings import load_settings
from braid.settings.folders import in_lambda
from braid.telemetry import exporting, names, recording

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from aws_lambda_powertools.utilities.typing import LambdaContext

    from braid.settings import Settings

    Handler: TypeAlias = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]


NAMESPACE = "Braid"
"""Namespace of metrics unless ``POWERTOOLS_METRICS_NAMESPACE`` sets another, as the template does."""
SLOW_COLLECTOR_MS = 800.0
"""Milliseconds of sending after which the collector of telemetry is taken to have failed: exporters do not tell."""
COLLECTOR_REST_S = 30.0
"""Seconds for which no invocation waits for a collector that has failed."""
_COLLECTOR = CircuitBreaker(COLLECTOR_REST_S)

Request = TypeVar("Request", bound=Frozen)
Response = TypeVar("Response", bound=Frozen)


def stage_handler(
    stage: str,
    request: type[Request],
    run: Callable[[Request], Response],
    *,
    measure: Callable[[Response], Mapping[str, int | float]] | None = None,
    count: Callable[[], Mapping[str, int]] | None = None,
) -> Handler:
    """Return the Lambda handler of one stage.

    Called while ``app.py`` is imported, so that an invalid setting fails the cold start and not the first question.

    Raises ConfigurationError if a setting is missing or malformed.

    Parameters
    ----------
    stage
        Name of the stage: the service of its logs, metrics and traces, and its key in ``slow_stage_ms``.
    request
        Model of the event; its ``tenant_id``, if it has one, is the tenant to which usage is attributed.
    run
        Runs the stage; heavy imports happen in its first call.
    measure
        Returns the metrics of a response by name: integers are counts, a ``…Latency`` is in ms.
    count
        Returns counters since its last call by metric name, such as hits of caches.

    Returns
    -------
    Callable
        ``handler(event, context)`` that returns the result of ``run`` as JSON values. It raises
        :class:`~braid.errors.InvalidRequest`, naming the field, if the event is not a valid ``request``, and otherwise
        the errors of ``run``: the state machine matches on their class names. Of one that is not Braid's own it raises
        the name alone, as a RuntimeError.
    """
    settings = load_settings()
    request.model_rebuild()  # while the function starts, not in its first question
    exporting.start(stage)
    logger = stage_logger(stage)
    cold = True

    def handler(event: dict[str, Any], _context: LambdaContext) -> dict[str, Any]:
        nonlocal cold
        # One set of counters per invocation: in process, stages and questions overlap.
        metrics = _metrics(stage)
        if cold:
            metrics.add_metric(name="ColdStart", unit=MetricUnit.Count, value=1)
            cold = False
        started = time.perf_counter()
        tenant_id = None
        try:
            with as_invalid_request():
                parsed = parse(event=event, model=request)
            tenant_id = getattr(parsed, "tenant_id", None)
            result = run(parsed)
            for name, figure in (measure(result) if measure else {}).items():
                metrics.add_metric(name=name, unit=_unit(name, figure), value=figure)
        except Exception as error:
            _log_failure(logger, error)
            metrics.add_metric(name="Errors", unit=MetricUnit.Count, value=1)
            metrics.add_metadata(key="error", value=type(error).__name__)
            if isinstance(error, BraidError):
                raise
            # Lambda's runtime writes the message to the log and to X-Ray, and a library's may quote its input.
            raise RuntimeError(type(error).__name__).with_traceback(error.__traceback__) from None
        finally:
            elapsed_ms = (time.perf_counter() - started) * 1000
            for name, number in (count() if count else {}).items():
                metrics.add_metric(name=name, unit=MetricUnit.Count, value=number)
            metrics.add_metric(name="Latency", unit=MetricUnit.Milliseconds, value=round(elapsed_ms, 3))
            _add_usage(metrics, tenant_id, elapsed_ms)
            if in_lambda():
                metrics.flush_metrics()
        _log_done(logger, settings, stage, parsed, result, elapsed_ms=elapsed_ms)
        return result.model_dump(mode="json")

    return logger.inject_lambda_context(_traced(stage, handler), log_event=False)


class RequestLog:
    """Logs and metrics of the HTTP requests of one function, without the text of questions or answers."""

    def __init__(self, service: str) -> None:
        self._service = service
        self._logger = stage_logger(service)

    def done(
        self,
        *,
        route: str | None,
        method: str,
        status: int,
        tenant_id: str | None,
        request_id: str | None,
        elapsed_ms: float,
        counts: Mapping[str, int],
    ) -> None:
        """Log one request.

        Parameters
        ----------
        route
            The route and not the path, which has ids; None if no route matches.
        counts
            Counters by metric name, such as hits of caches.
        """
        fields = {"route": route, "method": method, "status": status, "tenant_id": tenant_id}
        self._logger.info(
            "request done", extra={**fields, "latency_ms": round(elapsed_ms, 1), "function_request_id": request_id}
        )
        if in_lambda():
            metrics = _metrics(self._service)
            metrics.add_metric(name="Latency", unit=MetricUnit.Milliseconds, value=round(elapsed_ms, 3))
            metrics.add_metric(name=f"Status{status // 100}xx", unit=MetricUnit.Count, value=1)
            for name, number in counts.items():
                metrics.add_metric(name=name, unit=MetricUnit.Count, value=number)
            metrics.add_metadata(key="route", value=route)
            _add_usage(metrics, tenant_id, elapsed_ms)
            metrics.flush_metrics()

    def failed(
        self, error: str, request_id: str | None, *, reason: str | None = None, where: Sequence[str] = ()
    ) -> None:
        """Log a failure: the kind of error, and the store's message or the lines where it happened."""
        fields = {"error": error, "reason": reason, "where": list(where), "function_request_id": request_id}
        self._logger.error("request failed", extra=fields)


def _metrics(service: str) -> EphemeralMetrics:
    return EphemeralMetrics(namespace=os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or NAMESPACE, service=service)


def _add_usage(metrics: EphemeralMetrics, tenant_id: str | None, elapsed_ms: float) -> None:
    """Add the tenant and the GB-seconds of an invocation to the log line of its metrics.

    The dashboard sums these lines for the costs of a tenant; as a dimension, each tenant would create separate metrics.
    """
    if tenant_id is not None:
        megabytes = float(os.environ.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE") or 0)
        metrics.add_metadata(key="tenant_id", value=tenant_id)
        metrics.add_metadata(key="GbSeconds", value=round(elapsed_ms / 1000 * megabytes / 1024, 6))


def _unit(name: str, figure: float) -> MetricUnit:
    if name.endswith("Latency"):
        return MetricUnit.Milliseconds
    return MetricUnit.Count if isinstance(figure, int) else MetricUnit.NoUnit


class _CurrentStream(logging.Handler):
    """Writes to the current standard output (in Lambda) or standard error (elsewhere).

    Loggers live as long as the process; a stream that one holds may have been replaced and closed since.
    """

    def emit(self, record: logging.LogRecord) -> None:
        stream = sys.stdout if in_lambda() else sys.stderr
        stream.write(self.format(record) + "\n")
        stream.flush()


def _quiet_libraries() -> None:
    """Keep libraries from logging what they send and receive: questions, texts, secrets and signatures.

    Lambda's runtime sets the root logger, from which they take their level, to ``LogLevel`` of the template.
    """
    root = logging.getLogger()
    if logging.NOTSET < root.level < logging.INFO:
        logging.getLogger("braid").setLevel(root.level)
        root.setLevel(logging.INFO)


@cache
def stage_logger(stage: str) -> Logger:
    """Return the logger of a stage or function.

    Timestamps have the format that Lambda parses; lines with another format would count as INFO.
    """
    if in_lambda():
        _quiet_libraries()
    logger = Logger(service=stage, logger_handler=_CurrentStream(), use_rfc3339=True)
    for handler in exporting.log_handlers():
        logger.addHandler(handler)
    return logger


def send_recorded() -> None:
    """Send spans, metrics and logs before Lambda freezes the container; elsewhere threads send them periodically.

    Not just after the collector failed: every stage of every question would wait for it.
    """
    if not in_lambda() or _COLLECTOR.is_open():
        return
    watch = Stopwatch()
    exporting.flush()
    if watch.ms() > SLOW_COLLECTOR_MS:
        _COLLECTOR.open()


def _traced(stage: str, handler: Handler) -> Handler:
    """Return a handler that records each invocation as a span in the trace of the event's ``traceparent``."""

    def traced(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        carrier: object = None
        if isinstance(event, dict):
            carrier, event = event.get(recording.TRACEPARENT), {**event}
            event.pop(recording.TRACEPARENT, None)
        try:
            with recording.operation(
                stage,
                {names.STAGE: stage},
                duration=names.STAGE_DURATION,
                kind=SpanKind.SERVER,
                parent=recording.invocation_trace_headers(carrier),
            ):
                return handler(event, context)
        finally:
            send_recorded()

    return traced


def _log_failure(logger: Logger, error: Exception) -> None:
    fields: dict[str, object] = {"error": type(error).__name__}
    if isinstance(error, InvalidRequest):
        logger.warning("request refused", extra=fields | {"field": error.field})
    elif isinstance(error, BraidError):
        logger.error("stage failed", extra=fields | {"reason": str(error)})
    else:
        # The message of a library may quote its input; the runtime logs the stack.
        logger.error("stage failed", extra=fields)


def _log_done(
    logger: Logger, settings: Settings, stage: str, parsed: Frozen, result: Frozen, *, elapsed_ms: float
) -> None:
    limit_ms, with_text = settings.slow_stage_ms.get(stage), settings.log_queries
    described = _described(parsed, with_text=with_text)
    fields: dict[str, object] = {"latency_ms": round(elapsed_ms, 1), **described}
    if limit_ms is not None and elapsed_ms > limit_ms:
        logger.warning("slow stage", extra=fields | {"limit_ms": limit_ms})
    else:
        logger.info("stage done", extra=fields)
    if isinstance(result, Answer) and (
        why := results_and_citations.slow_answer_fields(result, settings.slow_total_ms, with_text=with_text)
    ):
        logger.warning("slow answer", extra={**described, **why})


def _described(parsed: Frozen, *, with_text: bool) -> Mapping[str, object]:
    """Return the log fields of a request: its plan, and its question if ``with_text``."""
    fields: dict[str, object] = {}
    plan = getattr(parsed, "plan", None)
    if isinstance(plan, Plan):
        fields["plan"] = (plan if with_text else plan.without_quotes()).model_dump(mode="json")
    query = parsed if isinstance(parsed, Query) else getattr(parsed, "query", None)
    if with_text and isinstance(query, Query):
        fields["query"] = query.text
    return fields


LOST_PREFIX = "Lost"


def answer_metrics(answer: Answer) -> dict[str, int | float]:
    """Return the metrics of one answer by name.

    Returns
    -------
    dict
        ``AnswerLatency`` in ms, end to end; ``AnswerDegraded`` and ``AnswerEmpty``, 0 or 1, so
        that their means are shares; ``LostRerank`` and the like, 1 for each lost part and absent otherwise;
        ``CandidatesVector`` and the like, hits by source; ``Superseded`` and ``OutdatedMet``, records;
        ``RerankCostUsd``.
    """
    return {
        "AnswerLatency": answer.latency_ms["total"],
        "AnswerDegraded": int(bool(answer.degraded)),
        "AnswerEmpty": int(not answer.results),
        **{lost_metric(part): 1 for part in answer.degraded},
        **{f"Candidates{source.value.title()}": answer.counts[source.value] for source in Source},
        "Superseded": answer.superseded,
        "OutdatedMet": answer.counts["outdated"],
        "RerankCostUsd": answer.rerank_cost_usd,
    }


def lost_metric(part: str) -> str:
    """Return the metric name of a lost part: ``LostVectorSearch`` for ``vector_search``."""
    return LOST_PREFIX + part.title().replace("_", "")
