"""Handing on: traces go to a real collector whole, and the mark says when they are complete."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from onpath import OnPathSpanProcessor
from onpath.live.book import Book
from onpath.live.counts import Counts
from onpath.live.hand_on import COMPLETE, EndpointError, HandOn, exporter_for
from onpath.live.settings import Settings
from tests.live.support import POLICY, agent, run, tool
from tests.support.collector import Collector


class Kept(SpanExporter):
    """An exporter that keeps what it is given, or refuses it."""

    def __init__(self, result: SpanExportResult = SpanExportResult.SUCCESS) -> None:
        self.requests: list[list[ReadableSpan]] = []
        self.result = result

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.requests.append(list(spans))
        return self.result

    def shutdown(self) -> None:
        """Nothing to be done."""

    @property
    def marked(self) -> list[str]:
        return [s.name for request in self.requests for s in request if (s.attributes or {}).get(COMPLETE) is True]


def handed(exporter: Kept, *spans: Any, starts: Sequence[Any] = ()) -> Counts:
    """A book whose runs are handed on, after these spans of the SDK."""
    counts = Counts()
    book = Book(Settings(), counts, starts=True)
    work = HandOn(lambda: exporter, counts)
    for span in (*starts, *spans):
        parent = span.parent
        parent_id = None if parent is None or parent.is_remote else parent.span_id
        book.start(0, span.context.trace_id, span.context.span_id, parent_id, span)
    for span in spans:
        parent = span.parent
        parent_id = None if parent is None or parent.is_remote else parent.span_id
        book.end(0, span.context.trace_id, span.context.span_id, parent_id, span, 10)
    for released, reason in [*book.due(0), *book.drain()]:
        work.release(released, reason)
        book.settle(released, 0)
    return counts


def a_run(**options: Any) -> list[Any]:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("tests")
    with agent(tracer, **options) as root, tool(tracer, "look_up") as inner:
        pass
    return [inner, root]


def test_the_root_is_marked_and_comes_last() -> None:
    exporter = Kept()
    counts = handed(exporter, *a_run())
    assert exporter.marked == ["invoke_agent refund"]
    assert exporter.requests[-1][-1].name == "invoke_agent refund"
    assert counts.handed_on == counts.traces_started == 1


def test_an_open_span_or_a_parent_in_another_process_leaves_it_to_the_collector() -> None:
    inner, root = a_run()
    exporter = Kept()
    handed(exporter, root, starts=[inner])
    assert exporter.marked == []
    remote = NonRecordingSpan(SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1)))
    exporter = Kept()
    handed(exporter, *a_run(context=set_span_in_context(remote)))
    assert exporter.marked == []
    assert len(exporter.requests) == 1


def test_what_was_not_taken_is_counted() -> None:
    counts = handed(Kept(SpanExportResult.FAILURE), *a_run())
    assert (counts.handed_on, counts.dropped) == (0, {"handing_on_failed": 1})
    assert counts.spans_dropped == {"handing_on": 2}


@pytest.mark.parametrize("endpoint", ["localhost:4317", "ftp://localhost", "http://", ""])
def test_an_endpoint_that_is_none(endpoint: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(EndpointError, match="no endpoint such as"):
        exporter_for(endpoint)
    assert not OnPathSpanProcessor(endpoint=endpoint).active
    assert "no trace is handed on" in caplog.text


def test_a_collector_judges_at_once_what_is_handed_on(tmp_path: Path) -> None:
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps(POLICY))
    with Collector(policy, tmp_path, "--settle-delay", "60s") as collector:
        processor = OnPathSpanProcessor(endpoint="grpc://" + collector.ports["OTLP/gRPC"])
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(processor)
        tracer = provider.get_tracer("tests")
        run(tracer, "look_up", "check", "pay")
        run(tracer, "override")
        assert processor.force_flush()
        found = collector.wait_for(lambda result: len(collector.results) == 2)
        assert sorted(r["verdict"] for r in found) == ["fail", "pass"]
        assert {(r["complete"], r["release_reason"]) for r in found} == {(True, "marked")}
        assert processor.counts.handed_on == 2
        processor.shutdown()
