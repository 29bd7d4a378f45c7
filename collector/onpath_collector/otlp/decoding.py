"""Serialised OTLP -> `onpath.model` values, once, when a trace is judged or a recording is read.

The decoding of attributes is the hot path of the product: text first, which most values are, without asking which kind
a value has; every field of a message is read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from onpath.model import Attributes, AttributeValue, Event, Link, LogRecord, Resource, Span
from onpath_collector.otlp.wire import parse

_NO_PARENT: Final = bytes(8)


def decode(chunks: Iterable[bytes], evidence: Iterable[bytes] = ()) -> tuple[list[Span], list[LogRecord]]:
    """The spans of serialised TracesData and the log records of serialised LogsData, in the order they stand there.

    Ids are not checked (`split` has left wrong ones out), an all-zero parent is none. Raises DecodeError.
    """
    spans: list[Span] = []
    for data in chunks:
        _decode_spans(parse(TracesData, data), spans)
    logs: list[LogRecord] = []
    for data in evidence:
        _decode_logs(parse(LogsData, data), logs)
    return spans, logs


def _decode_spans(traces: TracesData, spans: list[Span]) -> None:
    trace_bytes, trace_id = b"", ""
    for resource_spans in traces.resource_spans:
        resource = Resource(attributes_of(resource_spans.resource.attributes))
        for scope_spans in resource_spans.scope_spans:
            scope = scope_spans.scope
            scope_name, scope_version = scope.name, scope.version
            for span in scope_spans.spans:
                if span.trace_id != trace_bytes:
                    trace_bytes = span.trace_id
                    trace_id = trace_bytes.hex()
                parent = span.parent_span_id
                status = span.status
                spans.append(
                    Span(
                        trace_id,
                        span.span_id.hex(),
                        span.name,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        parent.hex() if parent and parent != _NO_PARENT else None,
                        attributes_of(span.attributes),
                        resource,
                        span.kind,
                        status.code,
                        status.message,
                        _events(span.events),
                        _links(span.links),
                        scope_name,
                        scope_version,
                        span.flags,
                    )
                )


def _events(events: Any) -> tuple[Event, ...]:
    if not events:
        return ()
    return tuple([Event(e.name, e.time_unix_nano, attributes_of(e.attributes)) for e in events])


def _links(links: Any) -> tuple[Link, ...]:
    if not links:
        return ()
    return tuple([Link(k.trace_id.hex(), k.span_id.hex(), attributes_of(k.attributes)) for k in links])


def _decode_logs(data: LogsData, logs: list[LogRecord]) -> None:
    for resource_logs in data.resource_logs:
        resource = Resource(attributes_of(resource_logs.resource.attributes))
        for scope_logs in resource_logs.scope_logs:
            scope_name = scope_logs.scope.name
            for record in scope_logs.log_records:
                if not (record.trace_id and record.span_id):
                    continue
                attributes = attributes_of(record.attributes)
                name = record.event_name or attributes.get("event.name")
                logs.append(
                    LogRecord(
                        record.trace_id.hex(),
                        record.span_id.hex(),
                        record.time_unix_nano or record.observed_time_unix_nano,
                        name if isinstance(name, str) else "",
                        _value(record.body),
                        attributes,
                        resource,
                        scope_name,
                    )
                )


def attributes_of(pairs: Any) -> Attributes:
    """Repeated KeyValue as a dict; of two values of one key the later one counts."""
    found: dict[str, AttributeValue] = {}
    for pair in pairs:
        value = pair.value
        found[pair.key] = value.string_value or _value(value)
    return found


def _value(value: Any) -> AttributeValue:
    """An AnyValue; one without a value is None. Protobuf bounds the depth: deeper messages don't parse."""
    kind = value.WhichOneof("value")
    return _READERS[kind](value) if kind in _READERS else None


_READERS: Final[Mapping[str | None, Callable[[Any], AttributeValue]]] = {
    "string_value": lambda v: v.string_value,
    "bool_value": lambda v: v.bool_value,
    "int_value": lambda v: v.int_value,
    "double_value": lambda v: v.double_value,
    "bytes_value": lambda v: v.bytes_value,
    "array_value": lambda v: [_value(item) for item in v.array_value.values],
    "kvlist_value": lambda v: attributes_of(v.kvlist_value.values),
}
