"""Golden traces: each two values of what a span may hold, together at least once, through the whole collector.

fields (allpairspy) -> request -> the collector, over each transport -> downstream: the same bytes
                              `-> taken apart by trace: each span's own bytes, fields of OTLP to come included
"""

from __future__ import annotations

import gzip
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import Any

import grpc
import pytest
from allpairspy import AllPairs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from onpath_collector.otlp import decode, from_json, split
from tests.collector.otlp.encoding import UNKNOWN
from tests.support.grpc_peers import METHODS
from tests.support.http_peers import JSON, PROTOBUF, http_client
from tests.support.otlp_sink import OtlpSink
from tests.support.requests import as_json
from tests.support.service import collecting

PAIRS = AnyValue()
PAIRS.kvlist_value.values.add(key="inner").value.array_value.values.add(int_value=1)
LIST = AnyValue()
for number in (1, 2):
    LIST.array_value.values.add(string_value=str(number))

FIELDS: dict[str, list[Any]] = OrderedDict(
    resource=["none", "empty", "attributes", "dropped"],
    scope=["none", "named", "attributes"],
    parent=["none", "zero", "there", "absent", "remote"],
    trace_state=["", "a=1", "vendor=" + "x" * 500],
    kind=[0, 1, 2, 3, 4, 5],
    attribute=[
        None,
        AnyValue(),
        AnyValue(string_value="text ☃"),
        AnyValue(string_value=""),
        AnyValue(bool_value=False),
        AnyValue(int_value=-(2**63)),
        AnyValue(double_value=-0.0),
        AnyValue(bytes_value=b"\0\xff"),
        LIST,
        PAIRS,
    ],
    events=[0, 1, 3],
    links=[0, 1, 2],
    status=["unset", "ok", "error"],
    times=["usual", "zero", "backwards", "latest"],
    unknown=[False, True],
    traces=[1, 2],
    transport=["grpc", "grpc gzip", "protobuf", "protobuf gzip", "protobuf deflate", "json", "json gzip"],
)
TIMES = {"usual": (10**18, 10**18 + 5), "zero": (0, 0), "backwards": (10**18, 1), "latest": (2**64 - 1, 2**64 - 1)}
CASES = [dict(zip(FIELDS, values, strict=True)) for values in AllPairs(list(FIELDS.values()))]


def golden(number: int, case: dict[str, Any]) -> bytes:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    if case["resource"] != "none":
        group.resource.SetInParent()
    if case["resource"] in ("attributes", "dropped"):
        group.resource.attributes.add(key="service.name").value.string_value = "golden"
        group.schema_url = "https://opentelemetry.io/schemas/1.37.0"
    if case["resource"] == "dropped":
        group.resource.dropped_attributes_count = 2**32 - 1
    scope = group.scope_spans.add()
    if case["scope"] != "none":
        scope.scope.name, scope.scope.version = "golden", "1"
    if case["scope"] == "attributes":
        scope.scope.attributes.add(key="k").value.bool_value = True
    for trace in range(case["traces"]):
        for position in range(2):
            fill(scope, number * 10 + trace, position, case)
    if case["unknown"]:
        for message in (request, group, group.resource, scope, *scope.spans):
            message.MergeFromString(UNKNOWN)
    return request.SerializeToString()


def fill(scope: ScopeSpans, trace: int, position: int, case: dict[str, Any]) -> None:
    span = scope.spans.add(trace_id=(trace + 1).to_bytes(16, "big"), span_id=(position + 1).to_bytes(8, "big"))
    span.name, span.kind, span.trace_state = f"span {position}", case["kind"], case["trace_state"]
    span.parent_span_id = parent_of(position, case["parent"])
    span.flags = 0x300 if case["parent"] == "remote" else 0x101
    span.start_time_unix_nano, span.end_time_unix_nano = TIMES[case["times"]]
    if case["attribute"] is not None:
        for key in ("k", "k", ""):  # a key twice, and none
            span.attributes.add(key=key).value.CopyFrom(case["attribute"])
    for number in range(case["events"]):
        span.events.add(name=f"event {number}", time_unix_nano=number, dropped_attributes_count=number)
        span.events[-1].attributes.add(key="e").value.int_value = number
    for number in range(case["links"]):
        link = span.links.add(trace_id=bytes([number]) * 16, span_id=b"\1" * 8, trace_state="b=2", flags=1)
        link.attributes.add(key="l").value.string_value = "x"
    if case["status"] != "unset":
        span.status.code = {"ok": 1, "error": 2}[case["status"]]
        span.status.message = "because" if case["status"] == "error" else ""


def parent_of(position: int, kind: str) -> bytes:
    if position == 0:
        return {"zero": bytes(8), "remote": b"\7" * 8}.get(kind, b"")
    return {"none": b"", "zero": bytes(8), "absent": b"\x09" * 8}.get(kind, (1).to_bytes(8, "big"))


def spans_of(request: bytes) -> dict[tuple[bytes, bytes], bytes]:
    parsed = ExportTraceServiceRequest.FromString(request)
    return {
        (span.trace_id, span.span_id): span.SerializeToString()
        for group in parsed.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    }


REQUESTS = [golden(number, case) for number, case in enumerate(CASES)]


def as_sent(request: bytes, case: dict[str, Any]) -> bytes:
    """JSON has no fields that are not known."""
    return from_json("traces", as_json(request)) if "json" in case["transport"] else request


async def test_they_go_on_byte_for_byte_over_every_transport(tmp_path: Path, sink: OtlpSink) -> None:
    forward = {"endpoint": f"grpc://{sink.address}"}
    codings: dict[str, Any] = {"gzip": gzip.compress, "deflate": zlib.compress, "": bytes}
    async with collecting(tmp_path, None, forward=forward) as collector:
        receiver = next(r for r in collector.service.receivers if r.transport == "http")
        async with http_client(receiver.address) as client, grpc.aio.insecure_channel(collector.address) as channel:
            export = channel.unary_unary(METHODS["traces"])
            for request, case in zip(REQUESTS, CASES, strict=True):
                transport, _, coding = case["transport"].partition(" ")
                if transport == "grpc":
                    compression = grpc.Compression.Gzip if coding else None
                    assert await export(request, compression=compression, timeout=20) == b""
                    continue
                body, kind = (as_json(request), JSON) if transport == "json" else (request, PROTOBUF)
                headers = {"Content_Encoding": coding} if coding else {}
                reply = await client.send("traces", codings[coding](body), kind, **headers)
                assert (reply.status, reply.body) == (200, b"{}" if transport == "json" else b"")
        await collector.until(lambda: not collector.ledger.spans_queued)
        assert collector.ledger.spans_dropped == {}
    sent = [as_sent(request, case) for request, case in zip(REQUESTS, CASES, strict=True)]
    assert sorted(sink.requests("trace")) == sorted(sent)


def test_they_are_json_and_back_again() -> None:
    for request, case in zip(REQUESTS, CASES, strict=True):
        if not case["unknown"]:
            assert from_json("traces", as_json(request)) == request, case


@pytest.mark.parametrize("with_others", [False, True])
def test_taken_apart_by_trace_each_span_keeps_its_bytes(with_others: bool) -> None:
    for request, case in zip(REQUESTS, CASES, strict=True):
        whole = REQUESTS[-1] + request if with_others and request != REQUESTS[-1] else request
        batch = split(whole)
        assert (batch.rejected, batch.spans) == ({}, len(spans_of(whole)))
        kept = {key: data for chunk in batch.chunks for key, data in spans_of(chunk.data).items()}
        assert kept == spans_of(whole), case
        for chunk in batch.chunks:
            assert {bytes.fromhex(span.trace_id) for span in decode([chunk.data])[0]} == {chunk.trace_id}


def test_each_two_values_are_together_once() -> None:
    names = list(FIELDS)
    for number, first in enumerate(names):
        for second in names[number + 1 :]:
            found = {(repr(case[first]), repr(case[second])) for case in CASES}
            assert len(found) == len(FIELDS[first]) * len(FIELDS[second]), (first, second)
    assert len(CASES) < 120
