"""Serialised OTLP -> `onpath.model` values, once, when a trace is judged or a recording is read.

The decoding of attributes is the hot path of the product: text first, which most values are, without asking which kind
a value has; every field of a message is read once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from onpath.model import Attributes, AttributeValue, Event, Link, LogRecord, Resource, Span
from onpath_collector.otlp.wire import parse

_NO_PARENT: Final = bytes(8)

# A frozen dataclass's own constructor takes three times as long as setting its slots.
_new = object.__new__
(
    _set_trace_id, _set_span_id, _set_name, _set_start_ns, _set_end_ns, _set_parent_span_id, _set_attributes,
    _set_resource, _set_kind, _set_status_code, _set_status_message, _set_events, _set_links, _set_scope_name,
    _set_scope_version, _set_flags,
) = (getattr(Span, name).__set__ for name in Span.__slots__)  # fmt: skip


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
            for message in scope_spans.spans:
                if message.trace_id != trace_bytes:
                    trace_bytes = message.trace_id
                    trace_id = trace_bytes.hex()
                parent = message.parent_span_id
                status = message.status
                span = _new(Span)
                _set_trace_id(span, trace_id)
                _set_span_id(span, message.span_id.hex())
                _set_name(span, message.name)
                _set_start_ns(span, message.start_time_unix_nano)
                _set_end_ns(span, message.end_time_unix_nano)
                _set_parent_span_id(span, parent.hex() if parent and parent != _NO_PARENT else None)
                _set_attributes(span, attributes_of(message.attributes))
                _set_resource(span, resource)
                _set_kind(span, message.kind)
                _set_status_code(span, status.code)
                _set_status_message(span, status.message)
                _set_events(span, _events(message.events))
                _set_links(span, _links(message.links))
                _set_scope_name(span, scope_name)
                _set_scope_version(span, scope_version)
                _set_flags(span, message.flags)
                spans.append(span)


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
        found[pair.key] = value.string_value or value.int_value or _value(value)
    return found


def _value(value: Any) -> AttributeValue:
    """An AnyValue; one without a value is None. Protobuf bounds the depth: deeper messages don't parse."""
    match value.WhichOneof("value"):
        case "double_value":
            return value.double_value
        case "bool_value":
            return value.bool_value
        case "array_value":
            return [item.string_value or _value(item) for item in value.array_value.values]
        case "kvlist_value":
            return attributes_of(value.kvlist_value.values)
        case "int_value":
            return value.int_value
        case "string_value":
            return value.string_value
        case "bytes_value":
            return value.bytes_value
    return None
