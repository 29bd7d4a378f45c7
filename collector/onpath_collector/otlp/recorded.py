"""A serialised OTLP message of which it is not known what it is: spans or log records, told by their ids.

Both are `{resource, scope, records}` on the wire, and each parses as the other now and then, but never with sound ids.
"""

from __future__ import annotations

from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from onpath.model import LogRecord, Span
from onpath_collector.otlp.decoding import decode
from onpath_collector.otlp.splitting import fault_of
from onpath_collector.otlp.wire import DecodeError, parse


def decode_recorded(data: bytes) -> tuple[list[Span], list[LogRecord]]:
    """Of TracesData or LogsData (export requests have the same form). Raises DecodeError, also for a wrong id."""
    if not data:
        return [], []
    fault = _fault_in_traces(data)
    if not fault:
        return decode([data])
    if _are_logs(data):
        return decode([], [data])
    raise DecodeError(fault)  # as spans: what most recordings are


def _fault_in_traces(data: bytes) -> str:
    try:
        traces = parse(TracesData, data)
    except DecodeError as error:
        return str(error)
    if not traces.resource_spans:
        return "no resource spans"
    spans = (span for group in traces.resource_spans for scope in group.scope_spans for span in scope.spans)
    return next((f"span {span.name[:100]!r}: {fault}" for span in spans if (fault := fault_of(span)[1])), "")


def _are_logs(data: bytes) -> bool:
    try:
        logs = parse(LogsData, data)
    except DecodeError:
        return False
    records = (record for group in logs.resource_logs for scope in group.scope_logs for record in scope.log_records)
    return bool(logs.resource_logs) and all(
        len(record.trace_id) in (0, 16) and len(record.span_id) in (0, 8) for record in records
    )
