"""Spans and log records of the OpenTelemetry SDK -> `onpath.model` values, and what they weigh.

What comes out is what a collector decodes from the SDK's OTLP exporters: lists for tuples, dicts for mappings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from sys import getsizeof
from typing import Any, Final

from opentelemetry.sdk.resources import Resource as SdkResource
from opentelemetry.sdk.trace import ReadableSpan

from onpath.model import FLAG_REMOTE, FLAG_REMOTE_KNOWN, Event, Link, LogRecord, Resource, Span

OVERHEAD: Final = 1000  # bytes that a span costs besides its attributes, about
_FLAT: Final = frozenset({str, bytes, int, float, bool, type(None)})
_PART: Final = 30  # bytes that a key or a place costs, most keys being shared
_SAMPLE: Final = 2
_DEEP: Final = 5

_resources: dict[int, tuple[SdkResource, Resource]] = {}  # by identity, with the object, so that the id stays taken


def span_of(span: ReadableSpan) -> Span:
    """A span that has ended or, read while its owner may still write to it, one that is open. Raises ValueError."""
    context = span.context
    if context is None:
        raise ValueError("a span without a context")
    parent = span.parent
    flags = FLAG_REMOTE_KNOWN
    if parent is not None and parent.is_remote:
        flags |= FLAG_REMOTE
    scope = span.instrumentation_scope
    return Span(
        trace_id=f"{context.trace_id:032x}",
        span_id=f"{context.span_id:016x}",
        name=span.name,
        start_ns=span.start_time or 0,
        end_ns=span.end_time,
        parent_span_id=None if parent is None or not parent.span_id else f"{parent.span_id:016x}",
        attributes=_attributes(span.attributes),
        resource=resource_of(span.resource),
        kind=span.kind.value + 1,  # OTLP counts from UNSPECIFIED
        status_code=span.status.status_code.value,
        status_message=span.status.description or "",
        events=tuple(Event(e.name, e.timestamp, _attributes(e.attributes)) for e in span.events),
        links=tuple(
            Link(f"{k.context.trace_id:032x}", f"{k.context.span_id:016x}", _attributes(k.attributes))
            for k in span.links
        ),
        scope_name="" if scope is None else scope.name,
        scope_version="" if scope is None else scope.version or "",
        flags=flags,
    )


def resource_of(resource: SdkResource) -> Resource:
    """One value for one resource of the SDK, of which a process has very few."""
    known = _resources.get(id(resource))
    if known is None:
        if len(_resources) >= 64:
            _resources.clear()
        known = _resources[id(resource)] = (resource, Resource(_attributes(resource.attributes)))
    return known[1]


def is_evidence(record: Any) -> bool:
    """Whether a log record of the SDK is an event and names a span; asked of every line that an application logs."""
    return bool(record.trace_id and record.span_id and (record.event_name or "event.name" in (record.attributes or ())))


def log_of(emitted: Any) -> LogRecord | None:
    """An event that names a span; None for any other record. `emitted` is what a LogRecordProcessor is given."""
    record = emitted.log_record
    name = record.event_name or (record.attributes or {}).get("event.name")
    if not (record.trace_id and record.span_id and isinstance(name, str) and name):
        return None
    scope = emitted.instrumentation_scope
    return LogRecord(
        trace_id=f"{record.trace_id:032x}",
        span_id=f"{record.span_id:016x}",
        time_ns=record.timestamp or record.observed_timestamp or 0,
        event_name=name,
        body=_value(record.body),
        attributes=_attributes(record.attributes),
        resource=resource_of(emitted.resource),
        scope_name="" if scope is None else scope.name,
    )


def _attributes(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    copied = _copy(attributes)
    for key, value in copied.items():
        if type(value) not in _FLAT:
            copied[key] = _value(value)
    return copied


def _copy(attributes: Mapping[str, Any] | None) -> dict[str, Any]:
    """In one step, since an open span may be written to meanwhile."""
    if not attributes:
        return {}
    copy = getattr(attributes, "copy", None)
    try:
        copied = copy() if copy is not None else attributes
    except AttributeError:  # a proxy of a mapping that has no such method
        copied = attributes
    return copied if type(copied) is dict else dict(copied)


def _value(value: Any) -> Any:
    if type(value) in _FLAT:
        return value
    if isinstance(value, list | tuple):
        return [_value(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _value(item) for key, item in value.items()}
    return value if isinstance(value, str | bytes | int | float) else str(value)


def weigh(span: ReadableSpan, *, roughly: bool = False) -> int:
    """Bytes that a span holds. Roughly: in a few microseconds, however much its attributes hold."""
    measure = _rough if roughly else _exact
    total = OVERHEAD + _weigh(_copy(span.attributes), measure)
    for event in span.events:
        total += OVERHEAD // 4 + _weigh(_copy(event.attributes), measure)
    return total


def weigh_log(record: LogRecord) -> int:
    return OVERHEAD + _weigh({"body": record.body, **record.attributes}, _exact)


def _weigh(attributes: dict[str, Any], measure: Callable[[Any], int]) -> int:
    total = 0
    for value in attributes.values():
        total += getsizeof(value) if type(value) in _FLAT else measure(value)
    return total


def _parts(value: Any) -> Sequence[Any]:
    """What a value holds. The SDK's own attributes have tuples and dicts."""
    kind = type(value)
    if kind is tuple or kind is list:
        return value  # type: ignore[no-any-return]
    if kind is dict:
        return tuple(value.values())
    return tuple(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()


def _exact(value: Any) -> int:
    total = 0
    waiting: list[Any] = [value]
    while waiting:
        value = waiting.pop()
        parts = () if type(value) in _FLAT else _parts(value)
        total += getsizeof(value) + _PART * len(parts)
        waiting.extend(parts)
    return total


def _rough(value: Any, depth: int = 0) -> int:
    """Of many values the first and the last stand for all."""
    parts = _parts(value)
    many = len(parts)
    total = getsizeof(value) + _PART * many
    if not many or depth == _DEEP:
        return total
    sample = parts if many <= _SAMPLE else (parts[0], parts[-1])
    seen = 0
    for part in sample:
        seen += getsizeof(part) if type(part) in _FLAT else _rough(part, depth + 1)
    return total + (seen if many <= _SAMPLE else seen * many // _SAMPLE)
