"""Spans with wrong ids: passed on as they came, or, with `forward.drop_invalid`, not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from onpath_collector.otlp import STEP, at_once, sound_only
from tests.collector.otlp.encoding import UNKNOWN
from tests.support.otlp_sink import OtlpSink
from tests.support.requests import span_ids, traces
from tests.support.service import collecting

NO_RESULTS = {signal: {"enabled": False} for signal in ("traces", "logs", "metrics")}


def with_invalid(*broken: int, spans: int = 4) -> tuple[bytes, bytes]:
    """A request with fields to come everywhere, and what is left of it without the spans at these places."""
    request = ExportTraceServiceRequest.FromString(traces(*range(1, spans + 1)))
    group = request.resource_spans[0]
    scope = group.scope_spans[0]
    for message in (request, group, scope, *scope.spans):
        message.MergeFromString(UNKNOWN)
    for number in broken:
        scope.spans[number].span_id = b"short"
    left = ExportTraceServiceRequest()
    left.CopyFrom(request)
    for number in reversed(broken):
        del left.resource_spans[0].scope_spans[0].spans[number]
    return request.SerializeToString(), left.SerializeToString()


@pytest.mark.parametrize("durability", ["memory", "journal"])
@pytest.mark.parametrize("drop", [False, True])
async def test_they_go_on_unless_told_otherwise(tmp_path: Path, sink: OtlpSink, drop: bool, durability: str) -> None:
    request, left = with_invalid(1, 2)
    forward = {"endpoint": f"grpc://{sink.address}", "drop_invalid": drop}
    options: dict[str, Any] = {"forward": forward, "results": NO_RESULTS}
    if durability == "journal":
        options["durability"] = {"mode": "journal", "directory": str(tmp_path / "journal")}
    async with collecting(tmp_path, None, **options) as collector:
        answer = ExportTraceServiceResponse.FromString(await collector.send(request))
        assert answer.partial_success.rejected_spans == 2
        await collector.send(traces(9, trace=9))
        await collector.until(lambda: not collector.ledger.spans_queued)
        assert collector.ledger.spans_received == 5
        assert collector.ledger.spans_dropped == ({"invalid": 2} if drop else {})
    first, second = sink.requests("trace")
    assert second == traces(9, trace=9)
    assert ExportTraceServiceRequest.FromString(first) == ExportTraceServiceRequest.FromString(
        left if drop else request
    )
    assert drop or first == request


async def test_of_a_request_of_nothing_else_nothing_goes_on(tmp_path: Path, sink: OtlpSink) -> None:
    forward = {"endpoint": f"grpc://{sink.address}", "drop_invalid": True}
    async with collecting(tmp_path, None, forward=forward, results=NO_RESULTS) as collector:
        await collector.send(with_invalid(0, 1, 2, 3)[0])
        assert collector.ledger.spans_dropped == {"invalid": 4}
    assert sink.requests("trace") == []


def test_what_is_left_of_a_very_large_request() -> None:
    broken = range(0, 3 * STEP, 2)
    request, left = with_invalid(*broken, spans=3 * STEP)
    found = at_once(sound_only(request))
    assert ExportTraceServiceRequest.FromString(found) == ExportTraceServiceRequest.FromString(left)
    assert len(span_ids(found)) == 3 * STEP - len(broken)
    assert sum(1 for _ in sound_only(request)) > 1
