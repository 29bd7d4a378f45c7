"""Spans read in process are what a collector decodes from the SDK's exporter; their weight bounds what is held."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace as trace_api
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from onpath.live.records import log_of, span_of, weigh
from onpath.model import Span
from onpath.testing.replay import sdk_span
from onpath_collector.otlp import decode

REMOTE = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(1))

scalars: Any = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
)
values: Any = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5), inner, max_size=3),
    ),
    max_leaves=8,
)
attributes: Any = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), values, max_size=5
)


def recorded(**options: Any) -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False, **options)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def plain(span: Any) -> Any:
    """A Span or a part of it with all it holds, to be compared."""
    if isinstance(span, list | tuple):
        return [plain(item) for item in span]
    if hasattr(span, "__dataclass_fields__"):
        return {f.name: plain(getattr(span, f.name)) for f in fields(span)}
    return span


@given(attributes, st.sampled_from(list(StatusCode)), st.sampled_from(list(SpanKind)), st.booleans())
@settings(max_examples=100)
def test_a_span_is_read_as_a_collector_would_decode_it(
    given_attributes: dict[str, Any], status: StatusCode, kind: SpanKind, remote: bool
) -> None:
    provider, exporter = recorded(resource=Resource({"service.name": "refunds", "tags": ["a", "b"]}))
    tracer = provider.get_tracer("tests", "1.2")
    parent = trace_api.set_span_in_context(trace_api.NonRecordingSpan(REMOTE)) if remote else None
    with tracer.start_as_current_span("outer", parent, kind, given_attributes, links=[Link(REMOTE, {"n": 1})]) as outer:
        outer.add_event("said", given_attributes, timestamp=5)
        outer.set_status(Status(status, "why" if status is StatusCode.ERROR else None))
        with tracer.start_as_current_span("inner"):
            pass
    spans = exporter.get_finished_spans()
    decoded, _ = decode([encode_spans(spans).SerializeToString()])
    assert plain([span_of(span) for span in spans]) == plain(decoded)


def test_events_that_name_a_span_are_read_as_a_collector_would_decode_them() -> None:
    exporter = InMemoryLogRecordExporter()
    logs = LoggerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    logger = logs.get_logger("tests")
    provider, _ = recorded()
    body = {"role": "user", "parts": [{"content": "hi"}, None, 3]}
    with provider.get_tracer("tests").start_as_current_span("chat"):
        logger.emit(LogRecord(timestamp=7, event_name="gen_ai.user.message", body=body, attributes={"a": [1, 2]}))
        logger.emit(LogRecord(observed_timestamp=8, body="x", attributes={"event.name": "old.way"}))
        logger.emit(LogRecord(timestamp=9, body="a line of text"))
    logger.emit(LogRecord(timestamp=7, event_name="gen_ai.user.message", body="outside of any span"))
    emitted = exporter.get_finished_logs()
    read = [record for e in emitted if (record := log_of(e)) is not None]
    _, decoded = decode([], [encode_logs(emitted[:2]).SerializeToString()])
    assert plain(read) == plain(decoded)


def test_an_open_span_is_read_without_an_end() -> None:
    provider, _ = recorded()
    span: Any = provider.get_tracer("tests").start_span("open", attributes={"a": 1})
    assert span_of(span).end_ns is None
    span.set_attribute("b", 2)
    assert span_of(span).attributes == {"a": 1, "b": 2}
    span.end()


def test_spans_of_one_resource_share_it() -> None:
    provider, exporter = recorded()
    tracer = provider.get_tracer("tests")
    for name in ("a", "b"):
        tracer.start_span(name).end()
    first, second = (span_of(span) for span in exporter.get_finished_spans())
    assert first.resource is second.resource


def test_what_a_replay_hands_over_is_what_was_recorded() -> None:
    span = Span(
        trace_id="0" * 31 + "1", span_id="0" * 15 + "2", name="x", start_ns=1, end_ns=2, parent_span_id="0" * 15 + "1",
        attributes={"a": [1, {"b": "c"}]}, kind=3, status_code=2, status_message="no", flags=0x100, scope_name="s",
    )  # fmt: skip
    assert plain(span_of(sdk_span(span))) == plain(span)


@pytest.mark.parametrize(
    "value",
    ["x" * 100_000, "\N{SNOWMAN}" * 30_000, [["x" * 10] * 100] * 20, {"a": {"b": ["x" * 1000] * 40}}, b"x" * 50_000],
    ids=["text", "wide text", "lists", "objects", "bytes"],
)
def test_weight_follows_what_is_held(value: Any) -> None:
    provider, exporter = recorded()
    provider.get_tracer("tests").start_span("a", attributes={"content": value}).end()
    [span] = exporter.get_finished_spans()
    text = sum(len(part) for part in _leaves(span.attributes["content"] if span.attributes else None))
    assert text <= weigh(span) <= 10 * text + 5_000
    rough = weigh(span, roughly=True)
    assert text / 3 <= rough <= 10 * text + 5_000


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list | tuple) else [value]


def test_a_span_without_a_context_is_refused() -> None:
    with pytest.raises(ValueError, match="without a context"):
        span_of(ReadableSpan("x"))
