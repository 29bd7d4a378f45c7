"""Recordings: every format that is read, and what is said of what can't be."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onpath.recordings import Recording, RecordingError, read_bytes, read_files, traces_of

T1, T2, S1, S2 = "5B8EFFF798038103D269B633813FC60C", "f" * 32, "EEE19B7EC3C1B174", "0000000000000002"


def request(trace_id: str = T1, span_id: str = S1, **fields: Any) -> dict[str, Any]:
    span = {"traceId": trace_id, "spanId": span_id, "name": "run", "startTimeUnixNano": "1", "endTimeUnixNano": "5"}
    scope = {"scope": {"name": "lib", "version": "1"}, "spans": [span | fields]}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "refund"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def encoded(*documents: Any) -> bytes:
    return "\n".join(json.dumps(d) for d in documents).encode()


def attribute(value: Any) -> Any:
    found = read_bytes(encoded(request(attributes=[{"key": "k", "value": value}])))
    return found.spans[0].attributes["k"]


@pytest.mark.parametrize(
    "data",
    [
        encoded(request(), request(span_id=S2)),
        b"\n" + encoded(request(), request(span_id=S2)) + b"\n\n",
        json.dumps([request(), request(span_id=S2)], indent=2).encode(),
        b"\xef\xbb\xbf" + encoded(request(), request(span_id=S2)),
        gzip.compress(encoded(request(), request(span_id=S2)), mtime=0),
    ],
    ids=["lines", "blank lines", "one document", "byte order mark", "gz"],
)
def test_formats(data: bytes) -> None:
    spans = read_bytes(data).spans
    assert [s.span_id for s in spans] == [S1.lower(), S2]
    assert spans[0].trace_id == T1.lower()
    assert spans[0].resource.service == "refund"
    assert (spans[0].scope_name, spans[0].scope_version, spans[0].end_ns) == ("lib", "1", 5)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"stringValue": "x"}, "x"),
        ({"intValue": "42"}, 42),
        ({"intValue": 42}, 42),
        ({"doubleValue": 1.5}, 1.5),
        ({"doubleValue": "NaN"}, pytest.approx(float("nan"), nan_ok=True)),
        ({"boolValue": False}, False),
        ({"bytesValue": "AAE="}, b"\x00\x01"),
        ({"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "b"}]}}, [1, "b"]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "1"}}]}}, {"a": 1}),
        ({}, None),
        (None, None),
        ({"somethingNew": 1}, None),
    ],
)
def test_attribute_values(value: Any, read: Any) -> None:
    assert attribute(value) == read


def test_absent_fields_have_their_defaults() -> None:
    (span,) = read_bytes(encoded(request(parentSpanId="", unknownField={"a": 1}))).spans
    assert (span.parent_span_id, span.kind, span.status_code, span.flags, span.events) == (None, 0, 0, 0, ())


def test_log_records_that_name_a_span_are_evidence() -> None:
    named = {"traceId": T1, "spanId": S1, "timeUnixNano": 3}
    record = {**named, "eventName": "gen_ai.choice", "body": {"stringValue": "b"}}
    unrelated = {"timeUnixNano": 3, "body": {"stringValue": "other"}}
    found = read_bytes(encoded({"resourceLogs": [{"scopeLogs": [{"logRecords": [record, unrelated]}]}]}))
    assert [(r.span_id, r.event_name, r.body) for r in found.logs] == [(S1.lower(), "gen_ai.choice", "b")]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"not json at all", "rec: "),
        (b'{"resourceSpans": [', "rec: not JSON"),
        (b'{}\n{"resourceSpans": 5}', "rec:2: resourceSpans: expected a list, got a number"),
        (b'{"spans": []}', "rec:1: expected OTLP/JSON with resourceSpans or resourceLogs, got an object with spans"),
        (b'{"workflows": []}', "rec:1: expected OTLP/JSON .* got an object with workflows; it looks like a policy"),
        (
            b"- name: x\n  seq!: [a]",
            "rec: neither OTLP/JSON nor OTLP protobuf, but some other text; it looks like a policy",
        ),
        (b"some words: caf\xc3\xa9\n", "rec: neither OTLP/JSON nor OTLP protobuf, but some other text$"),
        (b"[1]", "rec:1: expected an OTLP/JSON object, got int"),
        (b"\xff{", "rec: "),
        (b'{"a": "\xff"}', "rec: not UTF-8 text at byte 7"),
        (gzip.compress(b"{}", mtime=0)[:-4], "rec: damaged gzip"),
        (encoded(request(traceId="0" * 32)), r"spans\[0\].traceId: expected 32 hex digits, not all zero"),
        (encoded(request(spanId="abc")), r"rec:1: resourceSpans\[0\].scopeSpans\[0\].spans\[0\].spanId: "),
        (encoded(request(kind="SPAN_KIND_CLIENT")), "kind: expected an integer"),
        (encoded(request(name=5)), "name: expected text, got a number"),
        (encoded(request(attributes=[{"key": "a", "value": {"bytesValue": "?"}}])), "expected base64"),
        (encoded(request(attributes=[{"key": "a", "value": {"intValue": "1.5"}}])), "expected an integer"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(data: bytes, told: str) -> None:
    with pytest.raises(RecordingError, match=told):
        read_bytes(data, "rec")


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    deep = '{"arrayValue":{"values":[' * 5000 + "{}" + "]}}" * 5000
    text = json.dumps(request(attributes=[{"key": "k", "value": "HERE"}])).replace('"HERE"', deep)
    with pytest.raises(RecordingError, match="deep"):
        read_bytes(text.encode())


def test_nothing_is_an_empty_recording() -> None:
    assert read_bytes(b"").spans == []
    assert traces_of(Recording()) == []


def test_files_are_read_together_as_one_run(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(encoded(request(startTimeUnixNano="9")))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(encoded(request(trace_id=T2, span_id=S2))))
    traces = traces_of(read_files([tmp_path / "a.jsonl", tmp_path / "b.json.gz"]))
    assert [t.trace_id for t in traces] == [T2, T1.lower()]


def test_traces_join_by_a_session_attribute() -> None:
    session = {"attributes": [{"key": "session.id", "value": {"stringValue": "s"}}]}
    data = encoded(request(**session), request(trace_id=T2, span_id=S2, **session), request(trace_id="1" * 32))
    traces = traces_of(read_bytes(data), "session.id")
    assert [(t.session, len(t.spans)) for t in traces] == [("s", 2), (None, 1)]


KEYS = ["resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "traceId", "events"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner),
    max_leaves=12,
)


@given(st.binary(max_size=60) | json_values.map(lambda v: json.dumps(v).encode()))
def test_reading_is_total(data: bytes) -> None:
    with suppress(RecordingError):
        assert isinstance(read_bytes(data, "rec"), Recording)
