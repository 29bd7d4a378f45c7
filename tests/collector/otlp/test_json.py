"""OTLP/JSON to protobuf: the rules one by one, the recordings, and the reader of recordings as its peer."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from onpath.otlp_json import logs_of, spans_of
from onpath_collector.otlp import DecodeError, decode, from_json, split
from tests.conftest import SHARED
from tests.support.requests import as_json

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
RECORDINGS = sorted((SHARED / "traces").rglob("*.raw.jsonl")) if SHARED.is_dir() else []


def of_span(**fields: Any) -> bytes:
    span = {"traceId": TRACE, "spanId": SPAN, "name": "s", **fields}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def span_of(body: bytes) -> Span:
    request = ExportTraceServiceRequest.FromString(from_json("traces", body))
    return request.resource_spans[0].scope_spans[0].spans[0]


def value_of(value: Any) -> Any:
    return span_of(of_span(attributes=[{"key": "k", "value": value}])).attributes[0].value


def same(body: bytes) -> None:
    """What the collector makes of a body is what is read of it as a recording."""
    serialised = from_json("traces", body)
    spans, _ = decode([serialised])
    assert [asdict(span) for span in spans] == [asdict(span) for span in spans_of(json.loads(body))]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_bodies_of_javascript_exporters_are_read_as_their_recordings_are(path: Path) -> None:
    bodies = path.read_bytes().splitlines()
    assert bodies
    for body in bodies:
        same(body)
        assert not split(from_json("traces", body)).rejected


def test_there_are_recordings(shared: Path) -> None:
    assert len(RECORDINGS) >= 20


# Rules of the encoding


@pytest.mark.parametrize("spelt", [TRACE, TRACE.upper(), TRACE[:16].upper() + TRACE[16:]])
def test_ids_are_hex_in_either_case(spelt: str) -> None:
    assert span_of(of_span(traceId=spelt)).trace_id == bytes.fromhex(TRACE)


def test_ids_of_the_wrong_length_are_for_split_to_reject_one_by_one() -> None:
    spans = [{"traceId": TRACE, "spanId": SPAN}, {"traceId": TRACE[:30], "spanId": SPAN}, {"spanId": SPAN}]
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
    batch = split(from_json("traces", body))
    assert (batch.spans, batch.rejected.total()) == (3, 2)


@pytest.mark.parametrize("value", ["1796048447617000000", 1796048447617000000])
def test_64_bit_integers_are_decimal_strings_or_numbers(value: Any) -> None:
    assert span_of(of_span(startTimeUnixNano=value)).start_time_unix_nano == 1796048447617000000


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"intValue": 7}, 7),
        ({"intValue": 7.0}, 7),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": 3}, 3.0),
        ({"doubleValue": "-Infinity"}, -math.inf),
        ({"doubleValue": "1.5e3"}, 1500.0),
        ({"boolValue": False}, False),
        ({"stringValue": ""}, ""),
        ({"stringValue": "ключ \U0001f600"}, "ключ \U0001f600"),
        ({"stringValue": "cut \ud83d"}, "cut �"),
        ({"bytesValue": "+/+/AA=="}, b"\xfb\xff\xbf\x00"),
        ({"bytesValue": "-_-_AA"}, b"\xfb\xff\xbf\x00"),
    ],
)
def test_values_of_every_kind(value: dict[str, Any], read: Any) -> None:
    got = value_of(value)
    kind = got.WhichOneof("value")
    assert (kind, getattr(got, kind)) == (f"{next(iter(value))[:-5]}_value", read)


def test_nan_is_a_text() -> None:
    assert math.isnan(value_of({"doubleValue": "NaN"}).double_value)


def test_nested_and_empty_values() -> None:
    assert value_of({"arrayValue": {}}).WhichOneof("value") == "array_value"
    assert value_of({"kvlistValue": {"values": []}}).WhichOneof("value") == "kvlist_value"
    assert value_of({}).WhichOneof("value") is None
    pairs = {"kvlistValue": {"values": [{"key": "a", "value": {"arrayValue": {"values": [{"intValue": "1"}, {}]}}}]}}
    (pair,) = value_of(pairs).kvlist_value.values
    first, second = pair.value.array_value.values
    assert (pair.key, first.int_value, second.WhichOneof("value")) == ("a", 1, None)


def test_null_is_a_field_that_is_not_there() -> None:
    """JSON.stringify writes it for NaN, and some exporters for what they leave out."""
    span = span_of(of_span(parentSpanId=None, attributes=None, status=None, startTimeUnixNano=None, kind=None))
    assert span == span_of(of_span())
    assert value_of({"doubleValue": None}).WhichOneof("value") is None


def test_names_are_lower_camel_case_and_what_is_unknown_is_ignored() -> None:
    body = of_span(start_time_unix_nano="5", StartTimeUnixNano="5", future={"a": [1, {"b": None}]}, endTimeUnixNano="6")
    span = span_of(body)
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (0, 6)
    old = b'{"resource_spans": [{}], "instrumentationLibrarySpans": [[]], "schemaUrl": 3}'
    assert from_json("traces", old) == b""


def test_enums_are_integers_alone() -> None:
    assert span_of(of_span(kind=3, status={"code": 2})).status.code == 2
    assert span_of(of_span(kind=99)).kind == 99
    for kind in ("SPAN_KIND_CLIENT", "3", 3.0):
        with pytest.raises(DecodeError, match=r"spans\[0\]\.kind: expected an enum's integer"):
            from_json("traces", of_span(kind=kind))


@pytest.mark.parametrize(
    "body", [b"{}", b' \n{ "resourceSpans" : [ ] }\t', b'{"resourceSpans":null}', "\ufeff{}".encode()]
)
def test_an_empty_request_is_one(body: bytes) -> None:
    assert from_json("traces", body) == b""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "not JSON"),
        (b"null", "the body: expected an object, got null"),
        (b"[]", "the body: expected an object, got a list"),
        (b"{", "not JSON"),
        (b"{}{}", "not JSON: something after the request"),
        (b'{"resourceSpans":[{},]}', "not JSON"),
        (b'{"resourceSpans":[{}', "not JSON: expected ]"),
        (b'{"resourceSpans"[]}', "not JSON: expected :"),
        (b'{"resourceSpans":[],}', "not JSON: expected a name in quotes"),
        (b'{"resourceSpans":{}}', "resourceSpans: expected a list, got an object"),
        (b'{"resourceSpans":[[]]}', r"resourceSpans\[0\]: expected an object, got a list"),
        (b'{"resourceSpans":[{"scopeSpans":[{"spans":[{},3]}]}]}', r"resourceSpans\[0\]\.scopeSpans\[0\]\.spans\[1\]"),
        (b'{"a":NaN}', "not JSON: NaN is no JSON number"),
        (b'{"a":"\xff"}', "not UTF-8 text at byte 6"),
        (b'{"a":' + b"[" * 100_000, "nested too deep"),
        (of_span(traceId="xyz"), "expected an id of hex digits"),
        (of_span(traceId=7), "expected an id of hex digits"),
        (of_span(spanId=SPAN[1:]), "expected an id of hex digits"),
        (of_span(name=5), r"spans\[0\]\.name: expected text, got a number"),
        (of_span(startTimeUnixNano="-1"), "out of range"),
        (of_span(startTimeUnixNano=2**64), "out of range"),
        (of_span(startTimeUnixNano="1e9"), "expected an integer or a decimal string"),
        (of_span(startTimeUnixNano=True), "expected an integer or a decimal string, got a boolean"),
        (of_span(kind=2**40), "out of range"),
        (of_span(attributes=[{"key": "k", "value": {"bytesValue": "*"}}]), r"attributes\[0\]\.value\.bytesValue"),
        (of_span(attributes=[{"key": "k", "value": {"doubleValue": "1_0"}}]), "expected a number"),
        (of_span(attributes=[{"key": "k", "value": {"doubleValue": 10**400}}]), "out of range"),
        (of_span(attributes=[{"key": "k", "value": {"boolValue": 1}}]), "expected true or false"),
        (of_span(attributes=[{"key": "k", "value": "text"}]), "expected an object, got text"),
        (of_span(attributes=["k"]), r"attributes\[0\]: expected an object, got text"),
        (of_span(attributes={"k": "v"}), "attributes: expected a list, got an object"),
    ],
)
def test_what_is_no_request_is_told_with_its_place(body: bytes, told: str) -> None:
    with pytest.raises(DecodeError, match=told):
        from_json("traces", body)


# Metrics and logs, against protobuf's own JSON where that says the same


def metrics_request() -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add(schema_url="https://opentelemetry.io/schemas/1.40.0")
    group.resource.attributes.add(key="service.name").value.string_value = "agent"
    metrics = group.scope_metrics.add().metrics
    metrics.add(name="gauge", unit="1").gauge.data_points.add(as_double=1.5, time_unix_nano=2**63)
    total = metrics.add(name="sum").sum
    total.aggregation_temporality, total.is_monotonic = 2, True
    total.data_points.add(as_int=-3, flags=1).attributes.add(key="a").value.bool_value = True
    histogram = metrics.add(name="histogram").histogram
    histogram.aggregation_temporality = 1
    point = histogram.data_points.add(count=7, sum=1.25, bucket_counts=[3, 4], explicit_bounds=[0.5], min=0.0)
    point.exemplars.add(as_double=0.25, trace_id=bytes.fromhex(TRACE), span_id=bytes.fromhex(SPAN))
    exponential = metrics.add(name="exponential").exponential_histogram.data_points.add(count=5, scale=-2, zero_count=1)
    exponential.positive.offset = -7
    exponential.positive.bucket_counts.extend([1, 3])
    quantiles = metrics.add(name="summary").summary.data_points.add(count=2, sum=3.5).quantile_values
    quantiles.add(quantile=0.99, value=2.0)
    return request


def logs_request() -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    record = records.add(time_unix_nano=1, observed_time_unix_nano=2, severity_number=9, severity_text="INFO", flags=1)
    record.trace_id, record.span_id, record.event_name = bytes.fromhex(TRACE), bytes.fromhex(SPAN), "gen_ai.choice"
    body = record.body.kvlist_value.values.add(key="content").value.array_value.values
    body.add().bytes_value = b"\x00\xff"
    body.add().string_value = "text"
    return request


def test_metrics_of_every_kind() -> None:
    request = metrics_request()
    assert ExportMetricsServiceRequest.FromString(from_json("metrics", as_json(request))) == request


def test_logs() -> None:
    request = logs_request()
    body = as_json(request)
    assert ExportLogsServiceRequest.FromString(from_json("logs", body)) == request
    _, (record,) = decode([], [from_json("logs", body)])
    assert [asdict(record)] == [asdict(known) for known in logs_of(json.loads(body))]


# Laws

texts = st.text(max_size=8)
values = st.recursive(
    st.one_of(
        st.builds(lambda v: {"stringValue": v}, texts),
        st.builds(lambda v: {"intValue": str(v)}, st.integers(-(2**63), 2**63 - 1)),
        st.builds(lambda v: {"doubleValue": v}, st.floats(allow_nan=False, allow_infinity=False)),
        st.builds(lambda v: {"boolValue": v}, st.booleans()),
        st.builds(lambda v: {"bytesValue": base64.b64encode(v).decode()}, st.binary(max_size=5)),
        st.just({}),
    ),
    lambda inner: st.one_of(
        st.builds(lambda v: {"arrayValue": {"values": v}}, st.lists(inner, max_size=3)),
        st.builds(
            lambda v: {"kvlistValue": {"values": v}}, st.lists(st.builds(dict, key=texts, value=inner), max_size=3)
        ),
    ),
    max_leaves=8,
)
attributes = st.lists(st.builds(dict, key=texts, value=values), max_size=4)
times = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1).map(str))
spans = st.fixed_dictionaries(
    {"traceId": st.just(TRACE), "spanId": st.sampled_from([SPAN, SPAN.upper()])},
    optional={
        "parentSpanId": st.sampled_from(["", SPAN, "0" * 16]),
        "name": texts,
        "kind": st.integers(0, 5),
        "flags": st.integers(0, 2**32 - 1),
        "startTimeUnixNano": times,
        "endTimeUnixNano": times,
        "attributes": attributes,
        "events": st.lists(
            st.fixed_dictionaries({"name": texts}, optional={"timeUnixNano": times, "attributes": attributes}),
            max_size=2,
        ),
        "links": st.lists(st.fixed_dictionaries({"traceId": st.just(TRACE), "spanId": st.just(SPAN)}), max_size=2),
        "status": st.fixed_dictionaries({}, optional={"code": st.integers(0, 2), "message": texts}),
        "somethingNew": values,
    },
)


@settings(max_examples=150)
@given(st.lists(spans, max_size=3), attributes, st.booleans())
def test_the_reader_of_recordings_says_the_same(some: list[Any], resource: list[Any], ascii_only: bool) -> None:
    group = {"scopeSpans": [{"spans": some, "scope": {"name": "x"}}], "resource": {"attributes": resource}}
    same(json.dumps({"resourceSpans": [group]}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass"))


json_values: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["resourceSpans", "scopeSpans", "spans", "attributes", "key", "value", "traceId", "kind"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=12,
)


@settings(max_examples=200)
@given(st.one_of(st.binary(max_size=30), json_values.map(lambda v: json.dumps(v).encode())))
@example(b'{"resourceSpans":[' * 3)
def test_whatever_comes_is_a_request_or_an_error(body: bytes) -> None:
    try:
        serialised = from_json("traces", body)
    except DecodeError:
        return
    ExportTraceServiceRequest.FromString(serialised)
