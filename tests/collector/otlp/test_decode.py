"""Serialised OTLP as values: every kind of attribute value, nested, and whatever the bytes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from onpath.model import LogRecord, Resource, Span
from onpath.recordings import read_bytes
from onpath_collector.otlp import DecodeError, decode, split
from tests.collector.otlp.encoding import ATTRIBUTES, VALUES, content, encode, encode_logs, same

TRACE, SPAN = "ab" * 16, "cd" * 8


@given(ATTRIBUTES)
@settings(max_examples=200)
def test_every_kind_of_value(attributes: dict[str, Any]) -> None:
    ((span,), _) = decode([encode([Span(TRACE, SPAN, "", 0, 0, attributes=attributes)])])
    assert content(span.attributes) == content(attributes)


@given(VALUES, ATTRIBUTES, st.integers(0, 2**64 - 1))
@settings(max_examples=60)
def test_log_records(body: Any, attributes: dict[str, Any], time_ns: int) -> None:
    attributes.pop("event.name", None)
    record = LogRecord(
        TRACE, SPAN, time_ns, "gen_ai.choice", body, attributes, Resource({"service.name": "a"}), "scope"
    )
    _, (found,) = decode([], [encode_logs([record])])
    assert content(found) == content(record)


def test_log_records_of_no_span_are_left_out() -> None:
    assert decode([], [encode_logs([LogRecord("", "", 0, "x", None, {})])]) == ([], [])


def test_spans_share_their_resource() -> None:
    resource = Resource({"service.name": "agent"})
    found, _ = decode([encode([Span(TRACE, f"{n:016x}", "", 0, 0, resource=resource) for n in (1, 2)])])
    assert found[0].resource is found[1].resource
    assert found[0].resource.service == "agent"


def test_of_two_values_for_one_key_the_later_counts() -> None:
    data = TracesData.FromString(encode([Span(TRACE, SPAN, "", 0, 0, attributes={"a": 1})]))
    data.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="a").value.int_value = 2
    assert decode([data.SerializeToString()])[0][0].attributes == {"a": 2}


def test_a_value_of_a_kind_to_come_is_none() -> None:
    data = TracesData.FromString(encode([Span(TRACE, SPAN, "", 0, 0, attributes={"a": 1})]))
    pair = data.resource_spans[0].scope_spans[0].spans[0].attributes[0]
    pair.value.CopyFrom(AnyValue.FromString(b"\xc2\x3e\x05later"))
    assert decode([data.SerializeToString()])[0][0].attributes == {"a": None}


def nested(depth: int) -> Any:
    value: Any = "inside"
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


@pytest.mark.parametrize("depth", [10, 25])
def test_nested_values(depth: int) -> None:
    found, _ = decode([encode([Span(TRACE, SPAN, "", 0, 0, attributes={"a": nested(depth)})])])
    assert found[0].attributes == {"a": nested(depth)}


def test_deeper_than_protobuf_reads_is_undecodable() -> None:
    request = encode([Span(TRACE, SPAN, "", 0, 0, attributes={"a": nested(100)})])
    for read in (split, lambda data: decode([data])):
        with pytest.raises(DecodeError):
            read(request)  # type: ignore[operator]


@given(st.binary())
def test_decoding_is_total(data: bytes) -> None:
    with suppress(DecodeError):
        decode([data])
    with suppress(DecodeError):
        decode([], [data])


def test_json_and_protobuf_recordings_read_alike(shared: Path) -> None:
    paths = sorted((shared / "traces" / "py").glob("*/*.jsonl"))[::25]
    assert paths
    for path in paths:
        recording = read_bytes(path.read_bytes(), str(path))
        assert same(decode([encode(recording.spans)])[0], recording.spans)
        logs = decode([], [encode_logs(recording.logs)])[1]
        assert [content(r) for r in logs] == [content(r) for r in recording.logs]
