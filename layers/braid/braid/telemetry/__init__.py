"""OpenTelemetry: names and recording of spans and metrics, and their export.

::

    names.py       names of spans, metrics and attributes
    recording.py   operations as spans and durations; the trace context that requests, messages and workflows carry
    exporting.py   export over OTLP, where the environment names an endpoint

Spans begin in ``braid.api.handler`` (a request), ``braid.lambda_runtime.stage_handlers`` (a function), ``braid.app`` (a
question), ``braid.retrieval.pipeline`` (a stage), and in engine classes that ``recording.store_calls`` decorates.
CloudWatch's metrics of an answer are made by ``answer_metrics`` of ``braid.lambda_runtime.stage_handlers``.
The trace of an answer, its explanation stage by stage, is not one of these: ``braid.api.answer_traces``.

The library records through OpenTelemetry's interface alone, which does nothing until a program or
:func:`braid.telemetry.exporting.start` sets providers.
"""
