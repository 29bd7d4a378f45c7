"""Results -> serialised OTLP export requests, byte for byte what the OpenTelemetry SDK's exporters send of them.

The SDK's way over record objects costs as much as all checks of a small trace, so what traces share is serialised once:
resource and scope (by the SDK's encoder), each attribute with its value. Serialised protobuf messages of one type, put
one after another, are one message: a record is its fields before the attributes, the attributes, and those behind them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from opentelemetry._logs import LogRecord as ApiLogRecord
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span, SpanFlags, Status
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from onpath.report import Verdict
from onpath.results import EVALUATION_ID, EVENT_NAME, SCOPE_NAME, Leaving, SpanMode, SpanValues, version
from onpath.results_presets import Preset
from onpath_collector.otlp.marking import MARKS
from onpath_collector.otlp.wire import joined, varint

_RESOURCES: Final = b"\x0a"  # wire tags, length-delimited: resource_spans and resource_logs, field 1 ...
_SCOPES: Final = b"\x12"  # ... scope_spans and scope_logs, field 2 ...
_RECORDS: Final = b"\x12"  # ... spans and log_records, field 2 ...
_LOG_ATTRIBUTE: Final = b"\x32"  # ... attributes of a log record, field 6 ...
_SPAN_ATTRIBUTE: Final = b"\x4a"  # ... and of a span, field 9

_SAMPLED: Final = 1  # W3C trace flags
_KNOWN: Final = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_REMOTE: Final = _KNOWN | SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_LONGEST: Final = 256  # characters of a text that may be kept for the next trace


def encode_events(leaving: Iterable[Leaving], resource: Mapping[str, str], observed_ns: int) -> bytes:
    """An ExportLogsServiceRequest with one record an evaluation; empty without any."""
    records = [record for one in leaving for record in _log_records(one, observed_ns)]
    return _request(resource, records) if records else b""


def encode_spans(
    leaving: Iterable[Leaving],
    resource: Mapping[str, str],
    mode: SpanMode,
    judged_at_ns: int,
    presets: Collection[Preset] = (),
) -> bytes:
    """An ExportTraceServiceRequest with one evaluation span a Result; empty without any."""
    if mode == "off":
        return b""
    records = [_span(one.span(mode, presets), judged_at_ns) for one in leaving]
    return _request(resource, records) if records else b""


def encode_marks(leaving: Iterable[Leaving]) -> dict[tuple[bytes, bytes], bytes]:
    """What the scopes' own spans take on (`marking.Marks`): of several workflows on one span, the worst verdict."""
    worst: dict[tuple[str, str], Leaving] = {}
    for one in leaving:
        place = (one.result.trace_id, one.result.span_id)
        found = worst.get(place)
        if found is None or Verdict.of([found.result.verdict, one.result.verdict]) != found.result.verdict:
            worst[place] = one
    return {(_trace_id(trace), _span_id(span)): _mark(one) for (trace, span), one in worst.items()}


def _mark(one: Leaving) -> bytes:
    found = one.span("clamped").attributes
    return _attributes({k: v for k, v in found.items() if k in MARKS}, _SPAN_ATTRIBUTE)


def _request(resource: Mapping[str, str], records: Sequence[bytes]) -> bytes:
    resource_head, scope_head = _heads(tuple(resource.items()))
    inner = joined(scope_head, _RECORDS, records)
    return joined(b"", _RESOURCES, (joined(resource_head, _SCOPES, (inner,)),))


@lru_cache(maxsize=8)
def _heads(resource: tuple[tuple[str, str], ...]) -> tuple[bytes, bytes]:
    """What the SDK's encoder puts around records; it is the same on the wire around spans and around log records."""
    scope = InstrumentationScope(SCOPE_NAME, version())
    around = encode_logs([ReadableLogRecord(ApiLogRecord(), Resource(dict(resource)), scope)]).resource_logs[0]
    inner = around.scope_logs[0]
    inner.ClearField("log_records")
    around.ClearField("scope_logs")
    return around.SerializeToString(), inner.SerializeToString()


def _log_records(leaving: Leaving, observed_ns: int) -> Iterable[bytes]:
    common = behind = None
    for values in leaving.events():
        if common is None or behind is None:
            common = _attributes(values.common, _LOG_ATTRIBUTE)
            behind = LogRecord(
                flags=_SAMPLED,
                trace_id=_trace_id(values.trace_id),
                span_id=_span_id(values.span_id),
                observed_time_unix_nano=observed_ns,
                event_name=EVENT_NAME,
            ).SerializeToString()
        yield b"".join(
            (
                _before(values.end_ns or observed_ns, values.severity),
                _attributes(values.judged, _LOG_ATTRIBUTE),
                common,
                _LOG_ATTRIBUTE,
                _ID_HEAD,
                values.id.encode(),
                behind,
            )
        )


@lru_cache(maxsize=16)  # the records of one result differ in nothing of this as a rule
def _before(time_ns: int, severity: SeverityNumber) -> bytes:
    number: Any = severity.value  # the two enumerations are one
    return LogRecord(
        time_unix_nano=time_ns,
        severity_number=number,
        severity_text=severity.name,
        body=AnyValue(),
    ).SerializeToString()


def _span(values: SpanValues, judged_at_ns: int) -> bytes:
    time_ns = judged_at_ns if values.end_ns is None else values.end_ns
    before = Span(
        trace_id=_trace_id(values.trace_id),
        span_id=_span_id(values.span_id),
        parent_span_id=b"" if values.parent_span_id is None else _span_id(values.parent_span_id),
        name=values.name,
        kind=Span.SpanKind.SPAN_KIND_INTERNAL,
        start_time_unix_nano=time_ns,
        end_time_unix_nano=time_ns,
    )
    links = b""
    if values.links:
        made = [Span.Link(trace_id=_trace_id(t), span_id=_span_id(s), flags=_REMOTE) for t, s in values.links]
        links = Span(links=made).SerializeToString()
    return b"".join(
        (
            before.SerializeToString(),
            _attributes(values.judged, _SPAN_ATTRIBUTE),
            _attributes(values.common, _SPAN_ATTRIBUTE),
            _attributes(values.own, _SPAN_ATTRIBUTE),
            links,
            _ENDS[values.parent_span_id is not None],
        )
    )


_ENDS: Final = [Span(status=Status(), flags=flags).SerializeToString() for flags in (_KNOWN, _REMOTE)]


def _trace_id(text: str) -> bytes:
    return int(text, 16).to_bytes(16)


def _span_id(text: str) -> bytes:
    return int(text, 16).to_bytes(8)


def _attributes(attributes: Mapping[str, Any], tag: bytes) -> bytes:
    """Each as a field of a record; one whose text UTF-8 can't hold is left out, as the SDK does."""
    pieces: list[bytes] = []
    for key, value in attributes.items():
        if key == EVALUATION_ID:
            pieces += (tag, _ID_HEAD, value.encode())
            continue
        pair = _pair if type(value) is str and len(value) > _LONGEST else _kept
        try:
            pieces += (tag, pair(key, value))
        except UnicodeEncodeError:
            continue
    return b"".join(pieces)


def _pair(key: str, value: str | bool | int | float) -> bytes:
    """A serialised KeyValue behind its length."""
    match value:
        case str():
            held = AnyValue(string_value=value)
        case bool():
            held = AnyValue(bool_value=value)
        case int():
            held = AnyValue(int_value=value)
        case float():
            held = AnyValue(double_value=value)
    data = KeyValue(key=key, value=held).SerializeToString()
    return varint(len(data)) + data


_kept: Final = lru_cache(maxsize=4096, typed=True)(_pair)
_ID_HEAD: Final = _pair(EVALUATION_ID, "0" * 32)[:-32]  # ids are of one length, and stand at the end
