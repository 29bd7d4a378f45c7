"""Takes received requests apart by trace: bytes and small tuples for the buffer, evidence from log records.

`split` parses a request once, notes of every span what the buffer must know, and keeps the bytes. Attributes are read
only in requests whose bytes hold a key that matters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from onpath.model import FLAG_REMOTE, FLAG_REMOTE_KNOWN
from onpath.results import SCOPE_NAME
from onpath_collector.otlp.decoding import attributes_of
from onpath_collector.otlp.steps import Pace, Steps, at_once, slices
from onpath_collector.otlp.wire import by_trace, joined, parse

COMPLETE: Final = "onpath.trace.complete"  # attribute with which a sender marks its trace as complete
INSTANCE: Final = "service.instance.id"

SpanIndex: TypeAlias = tuple[bytes, bytes, bool, int, int]
"""span id, parent span id (empty for none), whether the parent is remote, start and end in Unix nanoseconds."""

_REMOTE: Final = FLAG_REMOTE_KNOWN | FLAG_REMOTE
_SCOPE: Final = b"\x0a" + bytes([len(SCOPE_NAME)]) + SCOPE_NAME.encode()  # as a scope's name stands on the wire
_SEARCHED: Final = 512  # bytes that are searched for a text in the time of one look at a scope or an attribute
_ATTRIBUTES: Final = 16  # of a span, about
_ZERO_TRACE: Final = bytes(16)
_ZERO_SPAN: Final = bytes(8)
_SCALARS: Final = frozenset({"string_value", "bool_value", "int_value", "double_value"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `split` looks for in attributes.

    A span that has all of `root_attributes` (values compared as text) is a declared root. `group_by` is the attribute
    whose value names the session. Spans of a resource whose `service.instance.id` is `own_instance`, and spans of the
    scope `onpath` with ids in `own_spans`, are in no chunk: they are this collector's results, come back.
    """

    root_attributes: Mapping[str, str] = field(default_factory=dict)
    group_by: str | None = None
    own_instance: str | None = None
    own_spans: Container[bytes] = ()


@dataclass(slots=True)
class Chunk:
    """The spans of one trace in one request. `data` is a serialised TracesData with these spans and no others."""

    trace_id: bytes
    data: bytes
    spans: list[SpanIndex]
    complete: bool = False  # a span carries the mark
    session: str | None = None  # of the earliest span that names one, else of a resource
    roots: tuple[bytes, ...] = ()  # ids of declared roots
    apart: bool = False  # goes downstream by itself, not with its request


@dataclass(slots=True)
class Batch:
    """A request, taken apart. `spans` were in it, of which `rejected` (by reason) and `own` are in no chunk.

    `impersonated` are of a scope named like this collector's, and not its own: they are treated like all others.
    """

    chunks: list[Chunk]
    spans: int = 0
    own: int = 0
    impersonated: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    message: str = ""  # why the first of them was rejected, in English, for partial_success


@dataclass(frozen=True, slots=True)
class Evidence:
    """The events of one request that name spans of one trace. `data` is a serialised LogsData with just these."""

    trace_id: bytes
    data: bytes
    records: int


_NOTHING: Final = Wanted()


def split(data: bytes, wanted: Wanted = _NOTHING) -> Batch:
    """`splitting`, all at once."""
    return at_once(splitting(data, wanted))


def splitting(data: bytes, wanted: Wanted = _NOTHING) -> Steps[Batch]:
    """Takes an ExportTraceServiceRequest (or TracesData) apart by trace, in order of first appearance.

    Unknown fields stay in the chunks' bytes. A request of a single trace with nothing to leave out becomes a chunk of
    these very bytes. Spans with a wrong trace, span or parent id (length, all zero; an all-zero parent is none) are
    left out and counted. Raises DecodeError, TooManyCopies.
    """
    request = parse(ExportTraceServiceRequest, data)
    batch, pace = Batch([]), Pace()
    groups, few = request.resource_spans, len(data) // _SEARCHED
    if wanted.own_instance and wanted.own_instance.encode() in data:
        batch.own = _leave_out_own(groups, "scope_spans", wanted.own_instance)
    if (len(groups) < few and sum([len(group.scope_spans) for group in groups]) < few) or _SCOPE in data:
        yield from _leave_out_computed(request, wanted.own_spans, batch, pace)
    chunks: dict[bytes, Chunk] = {}
    batch.spans = batch.own
    for resource_spans in groups:
        for scope_spans in resource_spans.scope_spans:
            for spans in slices(scope_spans.spans):
                batch.spans += len(spans)
                _index(spans, chunks, batch, data)
                if pace.over(1 + len(spans)):
                    yield
        if pace.over(1):
            yield
    batch.chunks = list(chunks.values())
    marked = _ATTRIBUTES * batch.spans < few or COMPLETE.encode() in data
    yield from _note_attributes(request, chunks, data, wanted, pace, marked)
    if len(chunks) > 1 or batch.rejected or batch.own:
        sound = _is_sound if batch.rejected else None
        parts = yield from by_trace(request, "resource_spans", "scope_spans", "spans", pace, sound)
        for some in slices(parts.items()):
            for trace_id, (part, _) in some:
                chunks[trace_id].data = part
            if pace.over(len(some)):
                yield
    return batch


def sound_only(data: bytes) -> Steps[bytes]:
    """The request without the spans whose ids are wrong; all else of it, unknown fields included, stays as it is."""
    request, pace = parse(ExportTraceServiceRequest, data), Pace()
    for scope in (scope for group in request.resource_spans for scope in group.scope_spans):
        kept: list[Any] = []
        for spans in slices(scope.spans):
            kept += [span for span in spans if _is_sound(span)]
            if pace.over(1 + len(spans)):
                yield
        if len(kept) < len(scope.spans):
            parts = [span.SerializeToString() for span in kept]
            scope.ClearField("spans")
            scope.MergeFromString(joined(b"", b"\x12", parts))
    return request.SerializeToString()


def _index(spans: Iterable[Any], chunks: dict[bytes, Chunk], batch: Batch, data: bytes) -> None:
    """Notes each span in the chunk of its trace. The hot loop of receiving: every field read here is 50 ns a span."""
    current = b""
    chunk: Chunk | None = None
    for span in spans:
        trace_id, span_id, parent_id = span.trace_id, span.span_id, span.parent_span_id
        if len(span_id) != 8 or span_id == _ZERO_SPAN or (parent_id and len(parent_id) != 8):
            _reject(span, batch)
            continue
        if chunk is None or trace_id != current:
            known = chunks.get(trace_id)
            if known is None:
                if len(trace_id) != 16 or trace_id == _ZERO_TRACE:
                    _reject(span, batch)
                    continue
                known = chunks[trace_id] = Chunk(trace_id, data, [])
            chunk, current = known, trace_id
        if parent_id == _ZERO_SPAN:
            parent_id = b""
        remote = bool(parent_id) and span.flags & _REMOTE == _REMOTE
        chunk.spans.append((span_id, parent_id, remote, span.start_time_unix_nano, span.end_time_unix_nano))


def fault_of(span: Any) -> tuple[str, str]:
    """Which of a span's ids is wrong, and how; empty for a sound span."""
    for name, value, length in (("trace_id", span.trace_id, 16), ("span_id", span.span_id, 8)):
        if len(value) != length:
            return name, f"{name} of {len(value)} bytes, expected {length}"
        if not any(value):
            return name, f"{name} all zero"
    if len(span.parent_span_id) not in (0, 8):
        return "parent_span_id", f"parent_span_id of {len(span.parent_span_id)} bytes, expected 8"
    return "", ""


def _is_sound(span: Any) -> bool:
    return fault_of(span)[0] == ""


def _reject(span: Any, batch: Batch) -> None:
    name, fault = fault_of(span)
    batch.rejected[name] += 1
    batch.message = batch.message or f"span {span.name[:100]!r}: {fault}"


def _leave_out_own(groups: Any, scopes: Literal["scope_spans", "scope_logs"], instance: str) -> int:
    """Takes this collector's own resources out of a request; how many spans they had."""
    spans = 0
    for i in reversed(range(len(groups))):
        if attributes_of(groups[i].resource.attributes).get(INSTANCE) == instance:
            if scopes == "scope_spans":
                spans += sum(len(scope.spans) for scope in groups[i].scope_spans)
            del groups[i]
    return spans


def _leave_out_computed(
    request: ExportTraceServiceRequest, own: Container[bytes], batch: Batch, pace: Pace
) -> Steps[None]:
    """Of what names its scope like this collector, its own spans: known by their ids, whatever their resource."""
    for scope in (scope for group in request.resource_spans for scope in group.scope_spans):
        if pace.over(1):
            yield
        if scope.scope.name != SCOPE_NAME:
            continue
        for i in reversed(range(len(scope.spans))):
            if scope.spans[i].span_id in own:
                del scope.spans[i]
                batch.own += 1
            else:
                batch.impersonated += 1
            if pace.over(1):
                yield


def _note_attributes(
    request: ExportTraceServiceRequest,
    chunks: Mapping[bytes, Chunk],
    data: bytes,
    wanted: Wanted,
    pace: Pace,
    marked: bool,
) -> Steps[None]:
    """Reads marks, if there may be any; declared roots and sessions, if the request's bytes hold their keys at all."""
    roots = wanted.root_attributes if all(k.encode() in data for k in wanted.root_attributes) else {}
    group_by = wanted.group_by if wanted.group_by and wanted.group_by.encode() in data else None
    if not (roots or group_by or marked):
        return
    keys = {COMPLETE, *roots, *([group_by] if group_by else ())}
    found: dict[bytes, list[bytes]] = {}  # trace -> declared roots
    named: dict[bytes, tuple[tuple[int, int, bytes], str]] = {}  # trace -> the earliest span with a session
    for resource_spans in request.resource_spans:
        shared = None
        if group_by:
            shared = _session((yield from _values(resource_spans.resource.attributes, keys, pace)).get(group_by))
        for span in (s for scope_spans in resource_spans.scope_spans for s in scope_spans.spans):
            chunk = chunks.get(span.trace_id)
            if chunk is None or not _is_sound(span):
                continue
            attributes = yield from _values(span.attributes, keys, pace)
            chunk.complete = chunk.complete or attributes.get(COMPLETE) is True
            if roots and is_declared_root(attributes, roots):
                found.setdefault(chunk.trace_id, []).append(span.span_id)
            if group_by is None:
                continue
            chunk.session = chunk.session or shared
            session = _session(attributes.get(group_by))
            if session is not None:
                at = ((span.start_time_unix_nano, span.end_time_unix_nano, span.span_id), session)
                named[chunk.trace_id] = min(named.get(chunk.trace_id, at), at)
    for trace_id, ids in found.items():
        chunks[trace_id].roots = tuple(ids)
    for trace_id, (_, session) in named.items():
        chunks[trace_id].session = session


def _values(pairs: Any, keys: Container[str], pace: Pace) -> Steps[dict[str, Any]]:
    """The attributes of these keys that are one value; of two of one key the later one counts."""
    found: dict[str, Any] = {}
    for some in slices(pairs):
        for pair in some:
            if pair.key in keys:
                kind = pair.value.WhichOneof("value")
                found[pair.key] = getattr(pair.value, kind) if kind in _SCALARS else None
        if pace.over(1 + len(some)):
            yield
    return found


def _session(value: Any) -> str | None:
    """What `onpath.recordings.session_value` takes for a session: text or an integer, not empty."""
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None


def is_declared_root(attributes: Mapping[str, Any], root_attributes: Mapping[str, str]) -> bool:
    """Whether a span has all of these attributes; values compare as text."""
    return all(_text(attributes.get(k)) == v for k, v in root_attributes.items())


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def split_logs(data: bytes, own_instance: str | None = None) -> list[Evidence]:
    """`splitting_logs`, all at once, without the number."""
    return at_once(splitting_logs(data, own_instance))[1]


def splitting_logs(data: bytes, own_instance: str | None = None) -> Steps[tuple[int, list[Evidence]]]:
    """How many log records an ExportLogsServiceRequest (or LogsData) has, and by trace its events that name a span.

    Events are records with an event name; instrumentations that log message content log it so. Those of a resource
    whose `service.instance.id` is `own_instance` are results, and no evidence. Raises DecodeError, TooManyCopies.
    """
    request = parse(ExportLogsServiceRequest, data)
    records, pace = 0, Pace()
    for scope in (scope for group in request.resource_logs for scope in group.scope_logs):
        records += len(scope.log_records)
        if pace.over(1):
            yield
    if own_instance and own_instance.encode() in data:
        _leave_out_own(request.resource_logs, "scope_logs", own_instance)
    parts = yield from by_trace(request, "resource_logs", "scope_logs", "log_records", pace, _is_evidence)
    found: list[Evidence] = []
    for some in slices(parts.items()):
        found += [Evidence(trace_id, part, number) for trace_id, (part, number) in some]
        if pace.over(len(some)):
            yield
    return records, found


def _is_evidence(record: Any) -> bool:
    if len(record.trace_id) != 16 or len(record.span_id) != 8 or not (any(record.trace_id) and any(record.span_id)):
        return False
    return bool(record.event_name) or any(a.key == "event.name" for a in record.attributes)
