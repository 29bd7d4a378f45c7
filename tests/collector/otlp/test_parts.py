"""Messages of a request, counted on the wire: as many as there are, and never more work than the limit allows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from onpath_collector.otlp import from_json, more_parts
from tests.collector.otlp.test_json import logs_request, metrics_request, spans


def parts(message: Message) -> Iterator[Message]:
    """All messages below one."""
    for _, value in message.ListFields():
        for inner in value if hasattr(value, "append") else [value]:
            if isinstance(inner, Message):
                yield inner
                yield from parts(inner)


def holds(signal: Any, message: Message) -> None:
    """Exactly as many messages as there are."""
    number = len(list(parts(message)))
    data = message.SerializeToString()
    assert not more_parts(signal, data, number)
    assert number == 0 or more_parts(signal, data, number - 1)


@settings(max_examples=100)
@given(st.lists(spans, max_size=3))
def test_spans_are_counted_with_all_that_is_in_them(some: list[Any]) -> None:
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": some}]}]}).encode()
    holds("traces", ExportTraceServiceRequest.FromString(from_json("traces", body)))


def test_metrics_and_logs_are_counted() -> None:
    holds("metrics", metrics_request())
    holds("logs", logs_request())


@pytest.mark.parametrize("number", [0, 1, 1000])
def test_empty_messages_are_counted(number: int) -> None:
    assert more_parts("traces", b"\x0a\x00" * 1000, number) is (number < 1000)


def test_unknown_fields_are_passed_over() -> None:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add()
    data = request.SerializeToString() + b"\xaa\x3e\x03new" + b"\xb8\x3e\x96\x01" + b"\x85\x01\x00\x00\x00\x00"
    assert not more_parts("traces", data, 3)
    assert more_parts("traces", data, 2)


@settings(max_examples=200)
@given(st.binary(max_size=60), st.integers(0, 5))
def test_whatever_the_bytes_there_is_an_answer(data: bytes, most: int) -> None:
    assert more_parts("traces", data, most) in (True, False)
