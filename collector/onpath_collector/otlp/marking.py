"""Serialised spans that leave one by one: with attributes added to some of them, or without those that stay behind.

Whatever else is in their messages, unknown fields too, stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from onpath_collector.otlp.splitting import Chunk, fault_of
from onpath_collector.otlp.wire import parse

Marks: TypeAlias = Mapping[tuple[bytes, bytes], bytes]
"""Serialised attributes of a span, by its trace and span id."""


MARKS: Final = frozenset(
    {
        *(f"gen_ai.evaluation.{name}" for name in ("name", "score.value", "score.label", "explanation")),
        *(f"onpath.{name}" for name in ("workflow", "verdict", "severity", "summary", "evaluation.id", "revision")),
        *(f"onpath.{name}" for name in ("complete", "release_reason", "policy.fingerprint", "version")),
    }
)
"""What a verdict on a span consists of. A span that gets one keeps none of these that it had from elsewhere."""


def marked(chunks: Iterable[bytes], marks: Marks) -> bytes:
    """An ExportTraceServiceRequest of these TracesData, one after the other; marks that are there are replaced."""
    return b"".join([_marked(data, marks) if any(span_id in data for _, span_id in marks) else data for data in chunks])


def _marked(data: bytes, marks: Marks) -> bytes:
    request = parse(ExportTraceServiceRequest, data)
    for span in (s for group in request.resource_spans for scope in group.scope_spans for s in scope.spans):
        mark = marks.get((span.trace_id, span.span_id))
        if mark is None:
            continue
        for i in reversed(range(len(span.attributes))):
            if span.attributes[i].key in MARKS:
                del span.attributes[i]
        span.MergeFromString(mark)
    return request.SerializeToString()


def left_over(data: bytes, chunks: Iterable[Chunk], spans: int) -> tuple[bytes, int]:
    """An ExportTraceServiceRequest of so many `spans` without those that go apart, and how many are left.

    As it came, if none does; empty, if all do.
    """
    apart = [chunk for chunk in chunks if chunk.apart]
    left = spans - sum(len(chunk.spans) for chunk in apart)
    if not apart or not left:
        return (b"" if apart else data), left
    gone = {(chunk.trace_id, span[0]) for chunk in apart for span in chunk.spans}
    request = parse(ExportTraceServiceRequest, data)
    for scope in (scope for group in request.resource_spans for scope in group.scope_spans):
        for i in reversed(range(len(scope.spans))):
            span = scope.spans[i]
            if (span.trace_id, span.span_id) in gone and not fault_of(span)[0]:
                del scope.spans[i]
    return request.SerializeToString(), left
