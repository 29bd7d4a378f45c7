"""Plays recorded spans to a span processor as the SDK would have: starts and ends in order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from opentelemetry._logs import LogRecord as SdkLogRecord
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource as SdkResource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context
from opentelemetry.trace.status import Status, StatusCode

from onpath.model import FLAG_REMOTE, LogRecord, Resource, Span

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


def replay(
    spans: Iterable[Span],
    processor: SpanProcessor,
    logs: Iterable[LogRecord] = (),
    take_log: Callable[[ReadableLogRecord], None] | None = None,
) -> None:
    """Of what happens at one instant, starts come first and outer spans end last; `take_log` gets events between."""
    resources: dict[Resource, SdkResource] = {}
    moments: list[tuple[tuple[int, int, int], Callable[[], None]]] = []
    for number, span in enumerate(spans):
        made = sdk_span(span, resources)
        moments.append(((span.start_ns, 0, number), partial(processor.on_start, made)))  # type: ignore[arg-type]
        if span.end_ns is not None:
            moments.append(((max(span.start_ns, span.end_ns), 2, -number), partial(processor.on_end, made)))
    for number, record in enumerate(logs if take_log is not None else ()):
        assert take_log is not None
        moments.append(((record.time_ns, 1, number), partial(take_log, sdk_log(record, resources))))
    for _, happen in sorted(moments, key=lambda moment: moment[0]):
        happen()


def sdk_span(span: Span, resources: dict[Resource, SdkResource] | None = None) -> ReadableSpan:
    """A recorded span as the SDK hands it to processors. `resources` are those made so far."""
    parent = None
    if span.parent_span_id:
        remote = bool(span.flags & FLAG_REMOTE)
        parent = SpanContext(int(span.trace_id, 16), int(span.parent_span_id, 16), remote, _SAMPLED)
    return ReadableSpan(
        name=span.name,
        context=SpanContext(int(span.trace_id, 16), int(span.span_id, 16), False, _SAMPLED),
        parent=parent,
        resource=_resource(span.resource, resources),
        attributes=dict(span.attributes),
        events=[Event(e.name, dict(e.attributes), e.time_ns) for e in span.events],
        links=[
            Link(SpanContext(int(k.trace_id, 16), int(k.span_id, 16), True), dict(k.attributes)) for k in span.links
        ],
        kind=SpanKind(max(0, span.kind - 1)),
        status=Status(StatusCode(span.status_code), span.status_message or None),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope(span.scope_name, span.scope_version),
    )


def sdk_log(record: LogRecord, resources: dict[Resource, SdkResource] | None = None) -> ReadableLogRecord:
    """A recorded event as the SDK hands it to processors."""
    context = SpanContext(int(record.trace_id, 16), int(record.span_id, 16), False, _SAMPLED)
    made = SdkLogRecord(
        timestamp=record.time_ns,
        context=set_span_in_context(NonRecordingSpan(context)),
        event_name=record.event_name,
        body=record.body,
        attributes=dict(record.attributes),
    )
    return ReadableLogRecord(made, _resource(record.resource, resources), InstrumentationScope(record.scope_name))


def _resource(resource: Resource, known: dict[Resource, SdkResource] | None) -> SdkResource:
    made = None if known is None else known.get(resource)
    if made is None:
        made = SdkResource(dict(resource.attributes))
        if known is not None:
            known[resource] = made
    return made
