"""Operations as spans and durations, and the trace context (W3C ``traceparent``) that requests and messages carry.

Errors are recorded by type only: their messages may quote questions or stored texts.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from contextlib import contextmanager, nullcontext
from functools import wraps
from inspect import isgeneratorfunction
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opentelemetry import context, metrics, trace
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from braid.telemetry import names
from braid.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

TRACEPARENT: Final = "traceparent"
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_TRACER = trace.get_tracer("braid", __version__)
_METER = metrics.get_meter("braid", __version__)
_HISTOGRAMS = {name: _METER.create_histogram(name, unit="s") for name in names.DURATIONS}
_X_RAY: Final = re.compile(r"Root=1-(?P<time>[0-9a-f]{8})-(?P<id>[0-9a-f]{24});Parent=(?P<parent>[0-9a-f]{16})")
_Class = TypeVar("_Class", bound=type)


class Operation:
    """A running operation: its span, and the attributes with which its duration is recorded."""

    def __init__(self, span: Span, attributes: dict[str, AttributeValue]) -> None:
        self._span = span
        self._attributes = attributes

    def set(self, attributes: Mapping[str, AttributeValue]) -> None:
        """Add attributes."""
        self._attributes.update(attributes)
        self._span.set_attributes(attributes)

    def fail(self, error_type: str) -> None:
        """Mark the operation as failed."""
        self.set({names.ERROR_TYPE: error_type})
        self._span.set_status(StatusCode.ERROR)

    def rename(self, name: str) -> None:
        """Change the span's name."""
        self._span.update_name(name)


@contextmanager
def operation(
    name: str,
    attributes: Mapping[str, AttributeValue],
    *,
    duration: str | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: Mapping[str, str] | None = None,
) -> Iterator[Operation]:
    """Record a block as a span, and its duration in a histogram.

    Parameters
    ----------
    duration
        The histogram, one of :data:`braid.telemetry.names.DURATIONS`, with the attributes in
        :data:`~braid.telemetry.names.DIMENSIONS`. None records only a span.
    parent
        Carrier of the trace context, such as headers in lower case. Without a valid ``traceparent`` in it, the current
        span is the parent.
    """
    known = dict(attributes)
    if parent is None and _nobody_records():
        # Making a span, even if none is recorded, takes ten times as long as the rest of this.
        span: AbstractContextManager[Span] = nullcontext(trace.INVALID_SPAN)
    else:
        within = _PROPAGATOR.extract(parent, context.get_current()) if parent else None
        span = _TRACER.start_as_current_span(
            name, within, kind, known, record_exception=False, set_status_on_exception=False
        )
    started = time.perf_counter()
    with span as current:
        running = Operation(current, known)
        try:
            yield running
        except Exception as error:
            running.fail(type(error).__name__)
            raise
        finally:
            if duration:
                dimensions = {key: value for key, value in known.items() if key in names.DIMENSIONS}
                _HISTOGRAMS[duration].record(time.perf_counter() - started, dimensions)


def _nobody_records() -> bool:
    unset = isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    return unset and isinstance(_TRACER, trace.ProxyTracer)


def trace_headers() -> dict[str, str]:
    """Return the headers of the current trace context (``traceparent``); empty outside of a span."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier


def own_traceparent() -> str | None:
    """Return the current trace context under an id of its own, that of the current span if it is recorded.

    Without an SDK the current span is the caller's, whose id may come with several requests. Returns None outside of a
    trace.
    """
    carried = trace_headers().get(TRACEPARENT)
    if carried is None or trace.get_current_span().is_recording():
        return carried
    version, trace_id, _, flags = carried.split("-")
    return f"{version}-{trace_id}-{secrets.token_hex(8)}-{flags}"


def invocation_trace_headers(traceparent: object) -> dict[str, str] | None:
    """Return the headers of the trace context of this invocation: a valid ``traceparent``, else Lambda's X-Ray trace.

    X-Ray's trace has the same ids in all functions of one execution. Its sampling decision is ignored, as it samples
    few requests. Returns None without either.
    """
    if isinstance(traceparent, str) and trace.INVALID_SPAN is not _span_of(traceparent):
        return {TRACEPARENT: traceparent}
    found = _X_RAY.match(os.environ.get("_X_AMZN_TRACE_ID", ""))
    return {TRACEPARENT: f"00-{found['time']}{found['id']}-{found['parent']}-01"} if found else None


def _span_of(traceparent: str) -> Span:
    return trace.get_current_span(_PROPAGATOR.extract({TRACEPARENT: traceparent}, context.Context()))


@contextmanager
def stage(name: str) -> Iterator[Operation]:
    """Record a block as one stage of a question."""
    with operation(name, {names.STAGE: name}, duration=names.STAGE_DURATION) as running:
        yield running


def store_calls(system: str) -> Callable[[_Class], _Class]:
    """Return a class decorator that records each call of a public method as a call of a store."""

    def decorate(store: _Class) -> _Class:
        for name, method in list(vars(store).items()):
            if _is_call(name, method):
                setattr(store, name, _recorded(method, f"{name} {system}", _of_store(system, name)))
        return store

    return decorate


_NO_REQUESTS: Final = {"close", "of_tenant"}


def _is_call(name: str, method: object) -> bool:
    if not isinstance(method, FunctionType) or isgeneratorfunction(method):
        return False
    return name not in _NO_REQUESTS and not name.startswith("_")


def _of_store(system: str, name: str) -> dict[str, AttributeValue]:
    return {names.DB_SYSTEM: system, names.DB_OPERATION: name}


def _recorded(method: Callable[..., Any], span: str, attributes: dict[str, AttributeValue]) -> Callable[..., Any]:
    @wraps(method)
    def recorded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - the method's own
        with operation(span, attributes, duration=names.STORE_DURATION, kind=SpanKind.CLIENT):
            return method(*args, **kwargs)

    return recorded
