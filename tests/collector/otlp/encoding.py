"""Span and LogRecord values as OTLP protobuf, and strategies that make them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

from onpath.model import Event, Link, LogRecord, Resource, Span

UNKNOWN = b"\xc2\x3e\x05later"  # field 1000: of a version of OTLP to come


def encode(spans: Iterable[Span], unknown: bool = False) -> bytes:
    """One request. Spans that follow each other with the same Resource, and the same scope, share theirs."""
    request = ExportTraceServiceRequest()
    resource: Resource | None = None
    scope: tuple[str, str] | None = None
    for span in spans:
        if span.resource is not resource:
            resource, scope = span.resource, None
            group = request.resource_spans.add(schema_url="https://opentelemetry.io/schemas/1.26.0")
            fill(group.resource.attributes, resource.attributes)
            if unknown:
                group.MergeFromString(UNKNOWN)
                group.resource.MergeFromString(UNKNOWN)
        if scope != (span.scope_name, span.scope_version):
            scope = (span.scope_name, span.scope_version)
            inside = group.scope_spans.add(schema_url="https://example.com/scope")
            inside.scope.name, inside.scope.version = scope
            if unknown:
                inside.MergeFromString(UNKNOWN)
        put(inside.spans.add(), span)
        if unknown:
            inside.spans[-1].MergeFromString(UNKNOWN)
    if unknown:
        request.MergeFromString(UNKNOWN)
    return request.SerializeToString()


def put(target: Any, span: Span) -> None:
    target.trace_id, target.span_id = bytes.fromhex(span.trace_id), bytes.fromhex(span.span_id)
    target.parent_span_id = bytes.fromhex(span.parent_span_id or "")
    target.name, target.kind, target.flags = span.name, span.kind, span.flags
    target.start_time_unix_nano, target.end_time_unix_nano = span.start_ns, span.end_ns or 0
    target.status.code, target.status.message = span.status_code, span.status_message
    fill(target.attributes, span.attributes)
    for event in span.events:
        fill(target.events.add(name=event.name, time_unix_nano=event.time_ns).attributes, event.attributes)
    for link in span.links:
        ids = {"trace_id": bytes.fromhex(link.trace_id), "span_id": bytes.fromhex(link.span_id)}
        fill(target.links.add(**ids).attributes, link.attributes)


def encode_logs(records: Iterable[LogRecord]) -> bytes:
    data = LogsData()
    for record in records:
        group = data.resource_logs.add()
        fill(group.resource.attributes, record.resource.attributes)
        scope = group.scope_logs.add()
        scope.scope.name = record.scope_name
        target = scope.log_records.add(time_unix_nano=record.time_ns, event_name=record.event_name)
        target.trace_id, target.span_id = bytes.fromhex(record.trace_id), bytes.fromhex(record.span_id)
        fill(target.attributes, record.attributes)
        put_value(target.body, record.body)
    return data.SerializeToString()


def fill(pairs: Any, attributes: Any) -> None:
    for key, value in attributes.items():
        put_value(pairs.add(key=key).value, value)


def put_value(target: Any, value: Any) -> None:
    match value:
        case None:
            target.Clear()
        case bool():
            target.bool_value = value
        case str():
            target.string_value = value
        case int():
            target.int_value = value
        case float():
            target.double_value = value
        case bytes():
            target.bytes_value = value
        case list():
            target.array_value.SetInParent()
            for item in value:
                put_value(target.array_value.values.add(), item)
        case dict():
            target.kvlist_value.SetInParent()
            fill(target.kvlist_value.values, value)


def same(a: Sequence[Span], b: Sequence[Span]) -> bool:
    """Whether two lists hold the same records. Spans compare by identity, so their content is compared."""
    return [content(s) for s in a] == [content(s) for s in b]


def content(record: Span | LogRecord | Event | Link | Resource | Any) -> Any:
    if isinstance(record, Span | LogRecord | Event | Link | Resource):
        return [type(record).__name__, *(content(getattr(record, name)) for name in record.__slots__)]
    if isinstance(record, list | tuple):
        return [content(item) for item in record]
    return repr(record)  # tells 1, 1.0 and True apart, and holds for NaN


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
UINT64 = st.integers(0, 2**64 - 1)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        TEXT,
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
        st.binary(max_size=12),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=8,
)
ATTRIBUTES = st.dictionaries(TEXT, VALUES, max_size=4)
TRACE_IDS = st.sampled_from(["0" * 31 + "1", "ab" * 16, "f" * 32])
SPAN_IDS = st.integers(1, 12).map(lambda n: f"{n:016x}")
RESOURCES = st.builds(Resource, ATTRIBUTES)


@st.composite
def spans(draw: st.DrawFn, traces: st.SearchStrategy[str] = TRACE_IDS) -> list[Span]:
    """Up to eight spans, in requests of a few resources and scopes; ids repeat now and then."""
    resources = draw(st.lists(RESOURCES, min_size=1, max_size=2))
    span = st.builds(
        Span,
        trace_id=traces,
        span_id=SPAN_IDS,
        name=TEXT,
        start_ns=UINT64,
        end_ns=UINT64,
        parent_span_id=st.none() | SPAN_IDS,
        attributes=ATTRIBUTES,
        resource=st.sampled_from(resources),
        kind=st.integers(0, 6),
        status_code=st.integers(0, 2),
        status_message=TEXT,
        events=st.lists(st.builds(Event, TEXT, UINT64, ATTRIBUTES), max_size=2).map(tuple),
        links=st.lists(st.builds(Link, TRACE_IDS, SPAN_IDS, ATTRIBUTES), max_size=2).map(tuple),
        scope_name=st.sampled_from(["", "agent"]),
        scope_version=st.sampled_from(["", "1.0"]),
        flags=st.sampled_from([0, 1, 0x100, 0x300, 0x301]),
    )
    return draw(st.lists(span, min_size=1, max_size=8))
