"""Recorded protobuf in each of its framings, through the reader that recordings are read with."""

from __future__ import annotations

import gzip
import io
from contextlib import suppress

import pytest
from google.protobuf import proto
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from onpath.model import LogRecord, Span
from onpath.recordings import RecordingError, read_bytes
from onpath_collector.cli.recordings import read
from tests.collector.otlp.encoding import encode, encode_logs, same, spans


def delimited(*messages: TracesData | LogsData) -> bytes:
    out = io.BytesIO()
    for message in messages:
        proto.serialize_length_prefixed(message, out)
    return out.getvalue()


def fixed(*messages: bytes) -> bytes:
    return b"".join(len(m).to_bytes(4) + m for m in messages)


@given(spans(), spans())
@settings(max_examples=40, deadline=None)
def test_every_framing(first: list[Span], second: list[Span]) -> None:
    one, two = encode(first), encode(second)
    assert same(read(one, "x").spans, first)
    assert same(read(one + two, "x").spans, [*first, *second])
    framed = delimited(TracesData.FromString(one), TracesData(), TracesData.FromString(two))
    assert same(read(framed, "x").spans, [*first, *second])
    assert same(read(fixed(one, b"", two), "x").spans, [*first, *second])


def test_a_message_whose_length_looks_like_a_tag() -> None:
    """A stream may begin with 0x0a, the length 10, as a single message does with its tag."""
    small = TracesData()
    small.resource_spans.add().schema_url = "sixsix"
    assert small.ByteSize() == 10
    span = encode([Span("ab" * 16, "cd" * 8, "late", 1, 2)])
    framed = delimited(small, TracesData.FromString(span))
    assert framed[0] == 0x0A
    assert [s.name for s in read(framed, "x").spans] == ["late"]


def test_log_records_beside_spans() -> None:
    span = Span("ab" * 16, "cd" * 8, "s", 1, 2)
    record = LogRecord("ab" * 16, "cd" * 8, 5, "gen_ai.choice", {"content": "hi"}, {})
    mixed = delimited(TracesData.FromString(encode([span])), LogsData.FromString(encode_logs([record])))
    found = read_bytes(gzip.compress(mixed), "x.gz")
    assert same(found.spans, [span])
    assert [r.body for r in found.logs] == [{"content": "hi"}]
    assert read(encode_logs([record]), "x").logs[0].event_name == "gen_ai.choice"


def test_log_records_of_no_span() -> None:
    data = LogsData()
    data.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=1).body.string_value = "plain"
    assert read(data.SerializeToString(), "x").logs == []


def test_what_is_wrong_and_where() -> None:
    good = TracesData.FromString(encode([Span("ab" * 16, "cd" * 8, "s", 1, 2)]))
    bad = TracesData.FromString(encode([Span("ab" * 16, "cd" * 8, "no id", 1, 2)]))
    bad.resource_spans[0].scope_spans[0].spans[0].span_id = b"123"
    whole = delimited(good, bad)
    place = len(delimited(good)) + 1
    with pytest.raises(RecordingError, match=f"^run.pb: no OTLP protobuf at byte {place}: span 'no id': span_id of 3"):
        read(whole, "run.pb")
    with pytest.raises(RecordingError, match=rf"^run.pb: .* at byte {place}: message of \d+ bytes, 5 left"):
        read(whole[: place + 5], "run.pb")
    with pytest.raises(RecordingError, match="byte 0: span 'no id'"):
        read(bad.SerializeToString(), "run.pb")


def test_metrics_hold_nothing_of_interest() -> None:
    data = MetricsData()
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name="tokens", description="d", unit="1")
    metric.sum.data_points.add(as_int=3)
    found = read(data.SerializeToString(), "metrics.pb")
    assert (found.spans, found.logs) == ([], [])


@given(st.binary(min_size=1))
def test_reading_is_total(data: bytes) -> None:
    with suppress(RecordingError):
        read(data, "x")
