"""OpenTelemetry: names and recording of spans and metrics, and their export.

::

    names.py       names of spans, metrics and attributes
    recording.py   operations as spans and durations; the trace context that requests, messages and workflows carry
    exporting.py   export over OTLP, where the environment names an endpoint

The library records through OpenTelemetry's interface alone, which does nothing until a program or
:func:`braid.telemetry.exporting.start` sets providers.
"""
