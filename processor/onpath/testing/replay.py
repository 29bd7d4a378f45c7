"""Plays recorded spans to a span processor as the SDK would have: starts and ends in order of time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from opentelemetry.sdk.resources import Resource as SdkResource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from onpath.model import FLAG_REMOTE, Resource, Span

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


def replay(spans: Iterable[Span], processor: SpanProcessor) -> None:
    """Of what happens at one instant, starts come first and outer spans end last."""
    resources: dict[Resource, SdkResource] = {}
    moments = []
    for number, span in enumerate(spans):
        made = sdk_span(span, resources)
        end = span.start_ns if span.end_ns is None else max(span.start_ns, span.end_ns)
        moments.append(((span.start_ns, 0, number), "start", made))
        if span.end_ns is not None:
            moments.append(((end, 1, -number), "end", made))
    for _, moment, made in sorted(moments, key=lambda m: m[0]):
        if moment == "start":
            processor.on_start(made)  # type: ignore[arg-type]
        else:
            processor.on_end(made)


def sdk_span(span: Span, resources: dict[Resource, SdkResource] | None = None) -> ReadableSpan:
    """A recorded span as the SDK hands it to processors. `resources` are those made so far."""
    known = {} if resources is None else resources
    resource = known.get(span.resource)
    if resource is None:
        resource = known[span.resource] = SdkResource(dict(span.resource.attributes))
    parent = None
    if span.parent_span_id:
        remote = bool(span.flags & FLAG_REMOTE)
        parent = SpanContext(int(span.trace_id, 16), int(span.parent_span_id, 16), remote, _SAMPLED)
    return ReadableSpan(
        name=span.name,
        context=SpanContext(int(span.trace_id, 16), int(span.span_id, 16), False, _SAMPLED),
        parent=parent,
        resource=resource,
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
