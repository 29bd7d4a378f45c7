"""The HTTP receiver on loopback: every row of the table of answers, both encodings, limits, compression, stopping."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from google.rpc import code_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from onpath_collector.listening import ListenError
from onpath_collector.otlp import DecodeError
from onpath_collector.receivers.base import Refused
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from tests.support.consumers import KeepingConsumer
from tests.support.http_peers import JSON, PROTOBUF, HttpClient, HttpReply, http_client, post, raw_connection
from tests.support.requests import logs, metrics, traces

MIB = 1 << 20
SIGNALS = {"traces": traces(1, 2), "metrics": metrics(), "logs": logs()}
IDS = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1"}


def json_of(*spans: Any) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


@asynccontextmanager
async def receiving(
    consumer: KeepingConsumer | None = None, **options: Any
) -> AsyncIterator[tuple[HttpReceiver, HttpClient, KeepingConsumer]]:
    consumer = consumer or KeepingConsumer()
    receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0", **options), consumer)
    async with http_client(await receiver.start()) as client:
        try:
            yield receiver, client, consumer
        finally:
            await receiver.stop(5)


# Success


@pytest.mark.parametrize("signal", list(SIGNALS))
@pytest.mark.parametrize("coding", ["none", "identity", "gzip", "deflate", "chunked"])
async def test_what_is_taken_reaches_the_consumer_as_it_came(signal: str, coding: str) -> None:
    request = SIGNALS[signal] * 20
    headers = {} if coding in ("none", "chunked") else {"Content_Encoding": coding}
    body: Any = {"gzip": gzip.compress, "deflate": zlib.compress}.get(coding, bytes)(request)
    if coding == "chunked":
        body = pieces(request, 7)
    async with receiving() as (receiver, client, consumer):
        reply = await client.send(signal, body, **headers)
        assert (reply.status, reply.content_type, reply.body) == (200, PROTOBUF, b"")
        assert consumer.kept == [(signal, request)]
        assert receiver.counts[signal].requests == 1  # type: ignore[index]


async def pieces(body: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.parametrize("content_type", [JSON, "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'])
@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_json_becomes_the_protobuf_it_stands_for(content_type: str, coding: str) -> None:
    body = json_of({**IDS, "name": "s", "startTimeUnixNano": "5"})
    sent = gzip.compress(body) if coding == "gzip" else body
    async with receiving() as (_, client, consumer):
        reply = await client.send("traces", sent, content_type, Content_Encoding=coding)
        assert (reply.status, reply.content_type, reply.body) == (200, JSON, b"{}")
        (request,) = consumer.requests()
    span = ExportTraceServiceRequest.FromString(request).resource_spans[0].scope_spans[0].spans[0]
    assert (span.name, span.start_time_unix_nano, span.span_id) == ("s", 5, (1).to_bytes(8))


@pytest.mark.parametrize("signal", list(SIGNALS))
@pytest.mark.parametrize(
    ("body", "content_type", "answer"),
    [(b"", PROTOBUF, b""), (b"{}", JSON, b"{}"), (gzip.compress(b"", mtime=0), "gzip", b"")],
)
async def test_an_empty_request_is_a_success(signal: str, body: bytes, content_type: str, answer: bytes) -> None:
    headers = {"Content_Encoding": "gzip"} if content_type == "gzip" else {}
    async with receiving() as (_, client, _):
        reply = await client.send(signal, body, PROTOBUF if headers else content_type, **headers)
        assert (reply.status, reply.body) == (200, answer)


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
async def test_a_span_with_a_wrong_id_is_rejected_alone(content_type: str) -> None:
    body = json_of(IDS, {**IDS, "traceId": "0" * 32}, {**IDS, "spanId": "00"}, {**IDS, "spanId": "A" * 16})
    if content_type == PROTOBUF:
        async with receiving() as (_, client, consumer):
            await client.send("traces", body, JSON)
            (body,) = consumer.requests()
    async with receiving() as (receiver, client, consumer):
        reply = await client.send("traces", body, content_type)
        assert (reply.status, reply.content_type) == (200, content_type)
        counts = receiver.counts["traces"]
        assert (counts.items, counts.rejected) == (2, 2)
        assert len(consumer.requests()) == 1
    if content_type == JSON:
        answer = ParseDict(json.loads(reply.body), ExportTraceServiceResponse())
        assert json.loads(reply.body)["partialSuccess"]["rejectedSpans"] == "2"
    else:
        answer = ExportTraceServiceResponse.FromString(reply.body)
    assert answer.partial_success.rejected_spans == 2
    assert answer.partial_success.error_message


async def test_one_connection_takes_request_after_request() -> None:
    async with receiving() as (receiver, _, consumer), raw_connection(receiver.address) as connection:
        for number in range(1, 4):
            await connection.send(post(traces(number)))
            assert b" 200 " in await connection.until(b"\r\n\r\n")
        assert len(consumer.kept) == 3


# The table of errors, in both encodings

BODIES = {PROTOBUF: traces(1), JSON: json_of(IDS)}


def check(reply: HttpReply, status: int, code: int, content_type: str) -> None:
    assert (reply.status, reply.content_type) == (status, content_type)
    assert reply.told.code == code
    assert reply.told.message


@pytest.mark.parametrize("content_type", list(BODIES))
@pytest.mark.parametrize("reason", ["memory", "queue_full", "journal_full", "shutting_down"])
@pytest.mark.parametrize(("asked", "told", "header"), [(0.25, 0.25, "1"), (1.0, 1.0, "1"), (60.0, 3.0, "3")])
async def test_a_refusal_says_when_to_come_back(
    content_type: str, reason: str, asked: float, told: float, header: str
) -> None:
    async with receiving(KeepingConsumer(lambda _: Refused(reason, asked, items=4))) as (receiver, client, _):
        reply = await client.send("traces", BODIES[content_type], content_type)
        check(reply, 503, code_pb2.UNAVAILABLE, content_type)
        assert (reply.hint, reply.headers["Retry-After"]) == (told, header)
        counts = receiver.counts["traces"]
        assert (counts.refused, counts.refused_items) == ({reason: 1}, {reason: 4})


@pytest.mark.parametrize("signal", list(SIGNALS))
@pytest.mark.parametrize(("content_type", "body"), [(PROTOBUF, b"\x0a"), (JSON, b""), (JSON, b"{]"), (JSON, b"[]")])
async def test_an_undecodable_body_is_400(signal: str, content_type: str, body: bytes) -> None:
    async with receiving(KeepingConsumer(lambda _: DecodeError("no such message"))) as (receiver, client, _):
        reply = await client.send(signal, b"" if content_type == PROTOBUF else body, content_type)
        check(reply, 400, code_pb2.INVALID_ARGUMENT, content_type)
        assert receiver.counts[signal].failed == {"undecodable": 1}  # type: ignore[index]


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", traces(1)),
        ("gzip", gzip.compress(traces(1), mtime=0)[:-5]),
        ("gzip", gzip.compress(traces(1), mtime=0) + b"tail"),
        ("deflate", zlib.compress(traces(1))[:-2]),
        ("gzip", b""),
    ],
)
async def test_damaged_compression_is_400(coding: str, body: bytes) -> None:
    async with receiving() as (_, client, consumer):
        check(await client.send("traces", body, Content_Encoding=coding), 400, code_pb2.INVALID_ARGUMENT, PROTOBUF)
        assert consumer.kept == []


@pytest.mark.parametrize("content_type", list(BODIES))
async def test_a_fault_of_our_own_is_500_and_logged_once_with_its_stack(
    content_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(request: bytes) -> Exception | None:
        raise ZeroDivisionError("secret")

    async with receiving(KeepingConsumer(fail)) as (receiver, client, consumer):
        for _ in range(3):
            reply = await client.send("traces", BODIES[content_type], content_type)
            check(reply, 500, code_pb2.INTERNAL, content_type)
            assert b"secret" not in reply.body
        assert receiver.counts["traces"].failed == {"internal": 3}
        (record,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
        assert record.exc_info is not None
        consumer.object_to = lambda _: None
        assert (await client.send("traces", traces(1))).status == 200


@pytest.mark.parametrize("path", ["/", "/v1/trace", "/v1/traces/", "/V1/traces", "/v1/profiles", "/v1%2Ftraces/x"])
@pytest.mark.parametrize("content_type", list(BODIES))
async def test_an_unknown_path_is_404(path: str, content_type: str) -> None:
    async with receiving() as (_, client, consumer):
        reply = await client.request("POST", path, BODIES[content_type], {"Content-Type": content_type})
        check(reply, 404, code_pb2.UNIMPLEMENTED, content_type)
        check(await client.request("GET", path), 404, code_pb2.UNIMPLEMENTED, JSON)
        assert consumer.kept == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])
async def test_another_method_is_405(method: str) -> None:
    async with receiving() as (receiver, client, _):
        reply = await client.request(method, "/v1/traces", None)
        check(reply, 405, code_pb2.UNIMPLEMENTED, JSON)
        assert reply.headers["Allow"] == "POST"
        assert receiver.counts["traces"].failed == {"method": 1}


@pytest.mark.parametrize(
    "content_type",
    ["", "text/plain", "application/protobuf", "application/jsonl", "application/json; charset=latin-1", "x" * 500],
)
async def test_another_content_type_is_415(content_type: str) -> None:
    async with receiving() as (receiver, client, consumer):
        headers = {"Content-Type": content_type} if content_type else {}
        reply = await client.request("POST", "/v1/traces", traces(1), headers)
        check(reply, 415, code_pb2.UNIMPLEMENTED, JSON)
        assert reply.headers["Accept"] == f"{PROTOBUF}, {JSON}"
        assert receiver.counts["traces"].failed == {"content_type": 1}
        assert consumer.kept == []


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress"])
async def test_another_content_encoding_is_415(coding: str) -> None:
    async with receiving() as (_, client, _):
        reply = await client.send("traces", traces(1), Content_Encoding=coding)
        check(reply, 415, code_pb2.UNIMPLEMENTED, PROTOBUF)
        assert reply.headers["Accept-Encoding"] == "gzip, deflate"


# Limits


@pytest.mark.parametrize("way", ["length", "chunked", "gzip"])
async def test_a_request_over_the_limit_is_413_without_a_hint(way: str) -> None:
    request = traces(1, padding=MIB)
    body: Any = {"length": request, "chunked": pieces(request, 1 << 16), "gzip": gzip.compress(request)}[way]
    async with receiving(max_request=len(request) - 1) as (receiver, client, consumer):
        reply = await client.send("traces", body, **({"Content_Encoding": "gzip"} if way == "gzip" else {}))
        check(reply, 413, code_pb2.RESOURCE_EXHAUSTED, PROTOBUF)
        assert reply.hint is None
        assert "Retry-After" not in reply.headers
        assert receiver.counts["traces"].failed == {"too_large": 1}
        assert consumer.kept == []
        assert (await client.send("traces", traces(1))).status == 200


async def test_a_request_of_just_the_limit_is_taken() -> None:
    request = traces(1, padding=MIB)
    async with receiving(max_request=len(request)) as (_, client, consumer):
        assert (await client.send("traces", request)).status == 200
        assert (await client.send("traces", pieces(request, 99_999))).status == 200
        assert (await client.send("traces", gzip.compress(request), Content_Encoding="gzip")).status == 200
        assert consumer.requests() == [request] * 3


async def test_what_is_too_large_is_refused_before_it_is_sent() -> None:
    """A sender that waits to be asked for its body is not asked."""
    async with receiving() as (receiver, _, _), raw_connection(receiver.address) as connection:
        await connection.send(post(b"", length=64 * MIB + 1, more="Expect: 100-continue\r\n"))
        answer = await connection.rest()
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_sender_that_waits_is_asked_for_its_body() -> None:
    request = traces(1)
    async with receiving() as (receiver, _, consumer), raw_connection(receiver.address) as connection:
        await connection.send(post(b"", length=len(request), more="Expect: 100-continue\r\n"))
        assert await connection.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await connection.send(request)
        assert (await connection.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert consumer.requests() == [request]


async def test_json_of_values_beyond_measure_is_413() -> None:
    body = b'{"resourceSpans":[' + b"{}," * 200_000 + b"{}]}"
    async with receiving(max_request=MIB) as (_, client, _):
        check(await client.send("traces", body, JSON), 413, code_pb2.RESOURCE_EXHAUSTED, JSON)


async def test_a_request_of_empty_messages_is_413() -> None:
    """Each takes two bytes on the wire and thirty times that in memory."""
    async with receiving(max_request=4 * MIB, max_in_flight=16 * MIB) as (_, client, consumer):
        bomb = gzip.compress(b"\x0a\x00" * MIB)
        reply = await client.send("traces", bomb, Content_Encoding="gzip")
        check(reply, 413, code_pb2.RESOURCE_EXHAUSTED, PROTOBUF)
        assert consumer.kept == []
        assert (await client.send("traces", traces(1, padding=3 * MIB))).status == 200


async def test_large_json_is_read() -> None:
    spans = [
        {**IDS, "spanId": f"{n:016x}", "attributes": [{"key": "k", "value": {"intValue": n}}]} for n in range(1, 3000)
    ]
    async with receiving() as (receiver, client, _):
        replies = await asyncio.gather(*(client.send("traces", json_of(*spans), JSON) for _ in range(4)))
        assert {reply.status for reply in replies} == {200}
        assert receiver.counts["traces"].items == 4 * 2999


async def test_many_bombs_at_once_are_refused_one_by_one() -> None:
    bomb = gzip.compress(bytes(96 * MIB), 9)
    async with receiving() as (_, client, _):
        replies = await asyncio.gather(*(client.send("traces", bomb, Content_Encoding="gzip") for _ in range(12)))
        assert {reply.status for reply in replies} <= {413, 503}
        assert 413 in {reply.status for reply in replies}
        assert (await client.send("traces", traces(1))).status == 200


async def test_many_senders_at_once_share_little_room() -> None:
    async with receiving(max_request=MIB, max_in_flight=2 * MIB) as (_, client, consumer):
        bodies = [traces(n, padding=MIB // 2) for n in range(1, 41)]
        replies = await asyncio.gather(*(client.send("traces", pieces(body, 100_000)) for body in bodies))
        assert {reply.status for reply in replies} == {200}
        assert sorted(consumer.requests()) == sorted(bodies)


# Start and stop


async def test_a_taken_port_is_a_clear_error() -> None:
    async with receiving() as (receiver, _, _):
        second = HttpReceiver(HttpSettings(endpoint=receiver.address), KeepingConsumer())
        with pytest.raises(ListenError, match=rf"OTLP/HTTP on {receiver.address}: Address already in use"):
            await second.start()
        await second.stop()


@pytest.mark.parametrize("endpoint", ["192.0.2.1:0", "no.such.host.invalid:4318"])
async def test_a_host_that_is_not_here_is_a_clear_error(endpoint: str) -> None:
    with pytest.raises(ListenError, match=f"OTLP/HTTP on {endpoint}: "):
        await HttpReceiver(HttpSettings(endpoint=endpoint), KeepingConsumer()).start()


async def test_a_name_stands_for_all_its_addresses() -> None:
    receiver = HttpReceiver(HttpSettings(endpoint="localhost:0"), KeepingConsumer())
    address = await receiver.start()
    assert address.startswith("localhost:")
    async with http_client(address) as client:
        assert (await client.send("traces", b"")).status == 200
    await receiver.stop()


async def test_stopping_is_safe_without_start_and_again() -> None:
    receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0"), KeepingConsumer())
    await receiver.stop()
    await receiver.stop()
    async with receiving() as (started, _, _):
        await started.stop()
        await started.stop()


async def test_a_request_in_flight_at_stop_is_told_to_come_back() -> None:
    request = traces(1)
    async with receiving() as (receiver, client, consumer), raw_connection(receiver.address) as connection:
        await connection.send(post(request)[:-5])
        await asyncio.sleep(0.05)
        stopping = asyncio.create_task(receiver.stop(10))
        await asyncio.sleep(0.05)
        reply = await client.send("traces", request)
        check(reply, 503, code_pb2.UNAVAILABLE, PROTOBUF)
        await connection.send(request[-5:])
        answer = await connection.rest()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in answer
        await stopping
        assert consumer.kept == []
        assert receiver.counts["traces"].refused == {"shutting_down": 2}


async def test_idle_connections_do_not_hold_up_the_stop() -> None:
    async with receiving() as (receiver, client, _), raw_connection(receiver.address) as connection:
        assert (await client.send("traces", b"")).status == 200
        async with asyncio.timeout(3):
            await receiver.stop(60)
            assert await connection.rest() == b""
