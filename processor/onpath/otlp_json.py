"""OTLP/JSON -> Span and LogRecord values.

The rules are OTLP's own, not protobuf's JSON mapping: ids are hex in either case, enums are integers, 64-bit integers
are decimal strings (numbers are accepted), bytes are base64, names are lowerCamelCase, unknown fields are ignored.
Source: OpenTelemetry protocol specification, "JSON Protobuf Encoding".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from onpath.model import Attributes, AttributeValue, Event, Link, LogRecord, Resource, Span

_TRACE_ID: Final = re.compile(r"(?!0{32})[0-9a-f]{32}")
_SPAN_ID: Final = re.compile(r"(?!0{16})[0-9a-f]{16}")
_NO_PARENT: Final = (None, "", "0" * 16)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,20}")
MAX_DEPTH: Final = 100  # nesting of an attribute value; protobuf readers stop there too


class OtlpJsonError(ValueError):
    """A document that is no OTLP/JSON; says where."""


def spans_of(document: Any, where: str = "") -> list[Span]:
    """The spans of an ExportTraceServiceRequest or TracesData object.

    Raises OtlpJsonError with the path of the first value that can't be read; `where` is put before it.
    """
    spans: list[Span] = []
    for resource, scope, record, at in _records(document, where, "resourceSpans", "scopeSpans", "spans"):
        spans.append(_span(record, resource, scope, at))
    return spans


def logs_of(document: Any, where: str = "") -> list[LogRecord]:
    """The log records of an ExportLogsServiceRequest or LogsData object that name a span. Raises OtlpJsonError."""
    records: list[LogRecord] = []
    for resource, scope, record, at in _records(document, where, "resourceLogs", "scopeLogs", "logRecords"):
        if not record.get("traceId") or not record.get("spanId"):
            continue
        attributes = _attributes(record.get("attributes"), at + ".attributes")
        name = record.get("eventName") or attributes.get("event.name")
        records.append(
            LogRecord(
                trace_id=_id(record.get("traceId"), _TRACE_ID, at + ".traceId"),
                span_id=_id(record.get("spanId"), _SPAN_ID, at + ".spanId"),
                time_ns=_int(record.get("timeUnixNano") or record.get("observedTimeUnixNano") or 0, at),
                event_name=name if isinstance(name, str) else "",
                body=_value(record.get("body"), at + ".body"),
                attributes=attributes,
                resource=resource,
                scope_name=_text(scope.get("name"), at),
            )
        )
    return records


def _records(
    document: Any, where: str, outer: str, middle: str, inner: str
) -> Iterator[tuple[Resource, Mapping[str, Any], Mapping[str, Any], str]]:
    if not isinstance(document, dict):
        raise OtlpJsonError(f"{where or 'document'}: expected an object, got {_kind(document)}")
    for i, group in _objects(document, outer, where):
        at = f"{where}{outer}[{i}]"
        described = _object(group.get("resource") or {}, at + ".resource")
        resource = Resource(_attributes(described.get("attributes"), at + ".resource.attributes"))
        for j, part in _objects(group, middle, at + "."):
            inside = f"{at}.{middle}[{j}]"
            scope = _object(part.get("scope") or {}, inside + ".scope")
            for k, record in _objects(part, inner, inside + "."):
                yield resource, scope, record, f"{inside}.{inner}[{k}]"


def _span(record: Mapping[str, Any], resource: Resource, scope: Mapping[str, Any], at: str) -> Span:
    status = _object(record.get("status") or {}, at + ".status")
    parent = record.get("parentSpanId")
    return Span(
        trace_id=_id(record.get("traceId"), _TRACE_ID, at + ".traceId"),
        span_id=_id(record.get("spanId"), _SPAN_ID, at + ".spanId"),
        parent_span_id=_id(parent, _SPAN_ID, at + ".parentSpanId") if parent not in _NO_PARENT else None,
        name=_text(record.get("name"), at + ".name"),
        start_ns=_int(record.get("startTimeUnixNano", 0), at + ".startTimeUnixNano"),
        end_ns=_int(record.get("endTimeUnixNano", 0), at + ".endTimeUnixNano"),
        attributes=_attributes(record.get("attributes"), at + ".attributes"),
        resource=resource,
        kind=_int(record.get("kind", 0), at + ".kind"),
        status_code=_int(status.get("code", 0), at + ".status.code"),
        status_message=_text(status.get("message"), at + ".status.message"),
        events=tuple(
            Event(
                _text(e.get("name"), f"{at}.events[{i}].name"),
                _int(e.get("timeUnixNano", 0), f"{at}.events[{i}].timeUnixNano"),
                _attributes(e.get("attributes"), f"{at}.events[{i}].attributes"),
            )
            for i, e in _objects(record, "events", at + ".")
        ),
        links=tuple(
            Link(
                _id(link.get("traceId"), _TRACE_ID, f"{at}.links[{i}].traceId"),
                _id(link.get("spanId"), _SPAN_ID, f"{at}.links[{i}].spanId"),
                _attributes(link.get("attributes"), f"{at}.links[{i}].attributes"),
            )
            for i, link in _objects(record, "links", at + ".")
        ),
        scope_name=_text(scope.get("name"), at),
        scope_version=_text(scope.get("version"), at),
        flags=_int(record.get("flags", 0), at + ".flags"),
    )


def _attributes(value: Any, at: str, depth: int = 0) -> Attributes:
    found: dict[str, AttributeValue] = {}
    if value is None:
        return found
    for i, pair in enumerate(_list(value, at)):
        # Nearly all attributes are text; the place of a value is put together for the others alone.
        if type(pair) is dict and type(held := pair.get("value")) is dict:
            key, text = pair.get("key"), held.get("stringValue")
            if type(key) is str and type(text) is str:
                found[key] = text
                continue
        entry = _object(pair, f"{at}[{i}]")
        found[_text(entry.get("key"), f"{at}[{i}].key")] = _value(entry.get("value"), f"{at}[{i}].value", depth)
    return found


def _value(value: Any, at: str, depth: int = 0) -> AttributeValue:
    """An AnyValue; absent, null and an empty object are None."""
    if value is None:
        return None
    if depth > MAX_DEPTH:
        raise OtlpJsonError(f"{at[:200]}: nested more than {MAX_DEPTH} deep")
    held = _object(value, at)
    for key, read in _READERS.items():
        if key in held:
            return read(held[key], f"{at}.{key}", depth)
    return None


def _bool(value: Any, at: str, _depth: int) -> bool:
    if not isinstance(value, bool):
        raise OtlpJsonError(f"{at}: expected true or false, got {_kind(value)}")
    return value


def _double(value: Any, at: str, _depth: int) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        return float(value)
    except ValueError:
        raise OtlpJsonError(f"{at}: expected a number, got {_kind(value)}") from None


def _bytes(value: Any, at: str, _depth: int) -> bytes:
    try:
        return base64.b64decode(_text(value, at), validate=True)
    except binascii.Error:
        raise OtlpJsonError(f"{at}: expected base64") from None


def _array(value: Any, at: str, depth: int) -> list[AttributeValue]:
    values = _object(value, at).get("values") or []
    return [_value(v, f"{at}.values[{i}]", depth + 1) for i, v in enumerate(_list(values, at + ".values"))]


def _kvlist(value: Any, at: str, depth: int) -> Attributes:
    return _attributes(_object(value, at).get("values"), at + ".values", depth + 1)


_READERS: Final[Mapping[str, Callable[[Any, str, int], AttributeValue]]] = {
    "stringValue": lambda v, at, _: _text(v, at),
    "boolValue": _bool,
    "intValue": lambda v, at, _: _int(v, at),
    "doubleValue": _double,
    "arrayValue": _array,
    "kvlistValue": _kvlist,
    "bytesValue": _bytes,
}


def _objects(holder: Mapping[str, Any], key: str, where: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    items = holder.get(key)
    for i, item in enumerate(_list(items, where + key) if items else ()):
        yield i, _object(item, f"{where}{key}[{i}]")


def _list(value: Any, at: str) -> list[Any]:
    if not isinstance(value, list):
        raise OtlpJsonError(f"{at}: expected a list, got {_kind(value)}")
    return value


def _object(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):  # not Mapping, which is ten times as slow to ask for
        raise OtlpJsonError(f"{at}: expected an object, got {_kind(value)}")
    return value


def _text(value: Any, at: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise OtlpJsonError(f"{at}: expected text, got {_kind(value)}")
    return value


def _int(value: Any, at: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        return int(value)
    raise OtlpJsonError(f"{at}: expected an integer or a decimal string, got {_kind(value)}")


def _id(value: Any, form: re.Pattern[str], at: str) -> str:
    if isinstance(value, str) and form.fullmatch(low := value.lower()):
        return low
    digits = 32 if form is _TRACE_ID else 16
    raise OtlpJsonError(f"{at}: expected {digits} hex digits, not all zero")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {str: "text", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)
