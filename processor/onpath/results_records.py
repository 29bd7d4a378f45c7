"""Values of events and spans -> records of the OpenTelemetry SDK, for the providers of the process.

Apart from `results`, which processes use too that need no SDK: those that judge.
"""

from __future__ import annotations

from collections.abc import Collection

from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from onpath.report import Report
from onpath.results import EVENT_NAME, SCOPE_NAME, EventValues, Leaving, SpanMode, SpanValues, version
from onpath.results_presets import Preset


def events(report: Report, resource: Resource, observed_ns: int) -> list[ReadableLogRecord]:
    """One `gen_ai.evaluation.result` log record an evaluation, in the context of the scope's span."""
    scope = InstrumentationScope(SCOPE_NAME, version())
    return [
        ReadableLogRecord(_log_record(values, observed_ns), resource, scope)
        for result in report.results
        for values in Leaving(report, result).events()
    ]


def evaluation_spans(
    report: Report, resource: Resource, mode: SpanMode, judged_at_ns: int, presets: Collection[Preset] = ()
) -> list[ReadableSpan]:
    """One finished span a Result, child of the scope's span; `linked` puts it in a trace of its own with one link."""
    if mode == "off":
        return []
    return [_span(Leaving(report, result).span(mode, presets), resource, judged_at_ns) for result in report.results]


def _log_record(values: EventValues, observed_ns: int) -> LogRecord:
    judged = _context(values.trace_id, values.span_id)
    return LogRecord(
        timestamp=values.end_ns or observed_ns,
        observed_timestamp=observed_ns,
        context=set_span_in_context(NonRecordingSpan(judged)),
        severity_number=values.severity,
        severity_text=values.severity.name,
        event_name=EVENT_NAME,
        attributes=values.attributes,
    )


def _span(values: SpanValues, resource: Resource, judged_at_ns: int) -> ReadableSpan:
    time_ns = judged_at_ns if values.end_ns is None else values.end_ns
    own = SpanContext(int(values.trace_id, 16), int(values.span_id, 16), False, TraceFlags(TraceFlags.SAMPLED))
    return ReadableSpan(
        name=values.name,
        context=own,
        parent=None if values.parent_span_id is None else _context(values.trace_id, values.parent_span_id),
        resource=resource,
        attributes=values.attributes,
        links=[Link(_context(*ids, sampled=values.parent_span_id is None)) for ids in values.links],
        start_time=time_ns,
        end_time=time_ns,
        instrumentation_scope=InstrumentationScope(SCOPE_NAME, version()),
    )


def _context(trace_id: str, span_id: str, *, sampled: bool = True) -> SpanContext:
    """Of a span of the agent's."""
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=flags)
