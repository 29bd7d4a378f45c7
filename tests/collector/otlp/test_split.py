"""Requests taken apart by trace: nothing lost, nothing changed, wrong ids told apart."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from onpath.model import LogRecord, Resource, Span
from onpath_collector.otlp import DecodeError, Wanted, decode, split, split_logs
from tests.collector.otlp.encoding import UNKNOWN, encode, encode_logs, same, spans

TRACE = "ab" * 16
NOW = 1_700_000_000_000_000_000


def one(number: int, trace_id: str = TRACE, **fields: Any) -> Span:
    return Span(trace_id, f"{number:016x}", f"span {number}", NOW + number, NOW + number + 1, **fields)


def records(data: bytes, trace_id: bytes | None = None) -> Counter[tuple[bytes, ...]]:
    """Every span with all that stands around it, as bytes."""
    found: Counter[tuple[bytes, ...]] = Counter()
    message = TracesData.FromString(data)
    for group in message.resource_spans:
        for scope in group.scope_spans:
            inside = list(scope.spans)
            around = TracesData.FromString(data)
            del around.resource_spans[:]
            head, middle = type(group)(), type(scope)()
            head.CopyFrom(group)
            middle.CopyFrom(scope)
            head.ClearField("scope_spans")
            middle.ClearField("spans")
            parts = [m.SerializeToString(deterministic=True) for m in (around, head, middle)]
            for span in inside:
                if trace_id is None or span.trace_id == trace_id:
                    found[(*parts, span.SerializeToString(deterministic=True))] += 1
    return found


@given(spans(), st.booleans())
@settings(max_examples=100, deadline=None)
def test_every_span_is_in_its_traces_chunk_as_it_was(original: list[Span], unknown: bool) -> None:
    request = encode(original, unknown)
    batch = split(request)
    assert batch.spans == len(original)
    assert [c.trace_id.hex() for c in batch.chunks] == list(dict.fromkeys(s.trace_id for s in original))
    for chunk in batch.chunks:
        mine = [s for s in original if s.trace_id == chunk.trace_id.hex()]
        assert records(chunk.data) == records(request, chunk.trace_id)
        assert same(decode([chunk.data])[0], mine)
        assert chunk.spans == [
            (
                bytes.fromhex(s.span_id),
                bytes.fromhex(s.parent_span_id or ""),
                s.has_remote_parent,
                s.start_ns,
                s.end_ns,
            )
            for s in mine
        ]


@given(spans(st.just(TRACE)), st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_request_of_one_trace_stays_as_it_is(original: list[Span], unknown: bool) -> None:
    request = encode(original, unknown)
    (chunk,) = split(request).chunks
    assert chunk.data is request


def test_large_spans_are_taken_apart_as_small_ones_are() -> None:
    resources = [Resource({"service.name": name}) for name in ("a", "b")]
    original = [
        one(number, trace_id, attributes={"text": "x" * size}, resource=resource, scope_name=scope)
        for resource in resources
        for scope in ("one", "other")
        for trace_id in (TRACE, "cd" * 16)
        for number, size in enumerate((10, 5_000, 70_000, 0), 1)
    ]
    request = encode(original, unknown=True)
    batch = split(request)
    assert len(batch.chunks) == 2
    for chunk in batch.chunks:
        assert records(chunk.data) == records(request, chunk.trace_id)


def test_unknown_fields_stay_when_a_request_is_taken_apart() -> None:
    first, second = split(encode([one(1), one(2, "cd" * 16)], unknown=True)).chunks
    for chunk in (first, second):
        assert chunk.data.count(UNKNOWN) == 5  # request, resource spans, resource, scope spans, span


def test_empty_requests() -> None:
    assert split(b"").chunks == []
    empty = ExportTraceServiceRequest()
    empty.resource_spans.add().scope_spans.add()
    assert split(empty.SerializeToString()).spans == 0


@pytest.mark.parametrize(
    ("ids", "reason", "message"),
    [
        ({"trace_id": b"short"}, "trace_id", "span 'wrong': trace_id of 5 bytes, expected 16"),
        ({"trace_id": b""}, "trace_id", "span 'wrong': trace_id of 0 bytes, expected 16"),
        ({"trace_id": bytes(16)}, "trace_id", "span 'wrong': trace_id all zero"),
        ({"span_id": b"longer than 8"}, "span_id", "span 'wrong': span_id of 13 bytes, expected 8"),
        ({"span_id": bytes(8)}, "span_id", "span 'wrong': span_id all zero"),
        ({"parent_span_id": b"x"}, "parent_span_id", "span 'wrong': parent_span_id of 1 bytes, expected 8"),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
def test_wrong_ids_are_left_out_alone(ids: dict[str, bytes], reason: str, message: str, alone: bool) -> None:
    request = ExportTraceServiceRequest.FromString(b"" if alone else encode([one(1), one(2)]))
    wrong = request.resource_spans.add().scope_spans.add().spans.add(name="wrong")
    wrong.trace_id, wrong.span_id = bytes.fromhex(TRACE), b"12345678"
    for name, value in ids.items():
        setattr(wrong, name, value)
    batch = split(request.SerializeToString())
    assert batch.rejected == {reason: 1}
    assert batch.message == message
    assert batch.spans == (1 if alone else 3)
    assert [s.name for c in batch.chunks for s in decode([c.data])[0]] == ([] if alone else ["span 1", "span 2"])


def test_an_all_zero_parent_is_none() -> None:
    request = ExportTraceServiceRequest.FromString(encode([one(1)]))
    request.resource_spans[0].scope_spans[0].spans[0].parent_span_id = bytes(8)
    (chunk,) = split(request.SerializeToString()).chunks
    assert chunk.spans[0][1] == b""
    assert decode([chunk.data])[0][0].parent_span_id is None


def test_the_first_of_many_wrong_ids_is_told() -> None:
    request = ExportTraceServiceRequest()
    for length in range(1, 2000):
        request.resource_spans.add().scope_spans.add().spans.add(name="x" * 300, trace_id=b"1" * 16, span_id=b"")
        request.resource_spans[-1].scope_spans[0].spans[0].trace_id = b"1" * length
    batch = split(request.SerializeToString())
    assert batch.rejected.total() == 1999
    assert len(batch.message) < 200


def test_odd_times_and_duplicates_are_no_fault() -> None:
    original = [
        Span(TRACE, f"{1:016x}", "future", 2**64 - 1, 2**64 - 1),
        Span(TRACE, f"{2:016x}", "backwards", NOW, NOW - 5),
        Span(TRACE, f"{1:016x}", "again", 0, 0),
    ]
    batch = split(encode(original))
    assert batch.rejected.total() == 0
    assert same(decode([batch.chunks[0].data])[0], original)


def test_twenty_thousand_spans() -> None:
    request = encode([one(n, f"{n % 3 + 1:032x}", parent_span_id=f"{1:016x}") for n in range(1, 20_002)])
    batch = split(request)
    assert [len(c.spans) for c in batch.chunks] == [6667, 6667, 6667]


@pytest.mark.parametrize(
    ("value", "marked"), [(True, True), (False, False), ("true", False), (1, False), (None, False)]
)
def test_the_mark(value: Any, marked: bool) -> None:
    plain, mark = split(encode([one(1), one(2, "cd" * 16, attributes={"onpath.trace.complete": value})])).chunks
    assert (plain.complete, mark.complete) == (False, marked)


def test_declared_roots_have_all_the_attributes() -> None:
    wanted = Wanted({"gen_ai.operation.name": "invoke_agent", "tenant": "7"})
    matching = {"gen_ai.operation.name": "invoke_agent", "tenant": 7}
    batch = split(
        encode(
            [
                one(1, attributes={"gen_ai.operation.name": "invoke_agent"}),
                one(2, attributes=matching),
                one(3, attributes={**matching, "tenant": "8"}),
                one(4, attributes={**matching, "tenant": "7"}),
            ]
        ),
        wanted,
    )
    assert batch.chunks[0].roots == tuple(n.to_bytes(8) for n in (2, 4))


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false"), (1.5, "1.5"), (-3, "-3"), ("x", "x")])
def test_values_of_declared_roots_compare_as_text(value: Any, text: str) -> None:
    request = encode([one(1, attributes={"key": value})])
    assert split(request, Wanted({"key": text})).chunks[0].roots
    assert not split(request, Wanted({"key": text + "?"})).chunks[0].roots


@pytest.mark.parametrize(
    ("value", "session"), [("s", "s"), (42, "42"), ("", None), (True, None), (None, None), ([], None)]
)
def test_sessions_are_text_or_integers(value: Any, session: str | None) -> None:
    request = encode([one(1, attributes={"session.id": value})])
    assert split(request, Wanted(group_by="session.id")).chunks[0].session == session
    assert split(request).chunks[0].session is None


def test_the_earliest_span_names_the_session_else_the_resource() -> None:
    resource = Resource({"session.id": "resource"})
    wanted = Wanted(group_by="session.id")
    later = one(5, attributes={"session.id": "later"}, resource=resource)
    earlier = one(4, attributes={"session.id": "earlier"}, resource=resource)
    assert split(encode([later, earlier]), wanted).chunks[0].session == "earlier"
    assert split(encode([one(1, resource=resource)]), wanted).chunks[0].session == "resource"
    assert split(encode([one(1, resource=resource), later]), wanted).chunks[0].session == "later"


def test_own_results_are_left_out() -> None:
    own = Resource({"service.name": "onpath", "service.instance.id": "this one"})
    other = Resource({"service.name": "onpath", "service.instance.id": "another"})
    request = encode([one(1, resource=own), one(2, resource=other), one(3, "cd" * 16, resource=own)])
    batch = split(request, Wanted(own_instance="this one"))
    assert (batch.own, batch.spans) == (2, 3)
    (chunk,) = batch.chunks
    assert [s.span_id for s in decode([chunk.data])[0]] == [f"{2:016x}"]
    assert len(split(request, Wanted(own_instance="another one")).chunks) == 2


def test_own_spans_are_known_by_their_ids_where_the_scope_is_ours() -> None:
    ours, posing = one(1, scope_name="onpath"), one(2, scope_name="onpath")
    alike = one(1, "cd" * 16, scope_name="onpath.other")
    batch = split(encode([ours, posing, alike]), Wanted(own_spans={bytes.fromhex(ours.span_id)}))
    assert (batch.own, batch.impersonated, batch.spans) == (1, 1, 3)
    assert [len(chunk.spans) for chunk in batch.chunks] == [1, 1]
    assert [s.span_id for s in decode([chunk.data for chunk in batch.chunks])[0]] == [posing.span_id, alike.span_id]


def test_own_events_are_no_evidence() -> None:
    made = ExportLogsServiceRequest()
    for instance in ("this one", "another one"):
        group = made.resource_logs.add()
        group.resource.attributes.add(key="service.instance.id").value.string_value = instance
        record = group.scope_logs.add().log_records.add(event_name="gen_ai.evaluation.result")
        record.trace_id, record.span_id = bytes(15) + b"\x01", bytes(7) + b"\x01"
    data = made.SerializeToString()
    assert [e.records for e in split_logs(data, "this one")] == [1]
    assert [e.records for e in split_logs(data, "neither")] == [2]


def test_events_that_name_a_span_are_evidence() -> None:
    def event(trace_id: str, name: str, body: Any, **fields: Any) -> LogRecord:
        return LogRecord(trace_id, f"{1:016x}", NOW, name, body, fields)

    data = encode_logs(
        [
            event(TRACE, "gen_ai.choice", {"message": "hello"}),
            event("cd" * 16, "gen_ai.user.message", "hi"),
            event(TRACE, "", "by attribute", **{"event.name": "gen_ai.tool.message"}),
            event(TRACE, "", "an application's log line"),
        ]
    )
    request = ExportLogsServiceRequest.FromString(data)
    for fields in ({"trace_id": b"", "span_id": b""}, {"trace_id": b"1" * 16, "span_id": b""}, {"trace_id": bytes(16)}):
        record = request.resource_logs.add().scope_logs.add().log_records.add(event_name="x", span_id=b"12345678")
        for name, value in fields.items():
            setattr(record, name, value)
    found = split_logs(request.SerializeToString())
    assert [(e.trace_id.hex(), e.records) for e in found] == [(TRACE, 2), ("cd" * 16, 1)]
    _, logs = decode([], [e.data for e in found])
    assert [record.body for record in logs] == [{"message": "hello"}, "by attribute", "hi"]
    assert [record.event_name for record in logs] == ["gen_ai.choice", "gen_ai.tool.message", "gen_ai.user.message"]


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x0a", b"\x0a\x06\x12"]))
def test_splitting_is_total(data: bytes, start: bytes) -> None:
    for function in (split, split_logs):
        with suppress(DecodeError):
            function(start + data)


@given(spans(), st.data())
@settings(max_examples=60, deadline=None)
def test_splitting_and_decoding_damaged_requests_is_total(original: list[Span], data: st.DataObject) -> None:
    request = bytearray(encode(original))
    for _ in range(data.draw(st.integers(1, 3))):
        request[data.draw(st.integers(0, len(request) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(request[: data.draw(st.integers(0, len(request)))])
    try:
        batch = split(damaged, Wanted({"a": "b"}, "session.id", "x"))
    except DecodeError:
        return
    for chunk in batch.chunks:
        assert len(decode([chunk.data])[0]) == len(chunk.spans)
