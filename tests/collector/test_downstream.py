"""Sending to a real downstream over gRPC: the bytes, the table of answers, hints, headers, TLS; and who is oneself."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from grpc import StatusCode

from onpath_collector.downstream import (
    Delivered,
    Downstream,
    Failed,
    GrpcSender,
    Retry,
    Signal,
    is_own_endpoint,
    parse_endpoint,
)
from onpath_collector.forward import Forwarder, ForwardSettings, RetrySettings
from tests.support.grpc_peers import DETAILS, METHODS, RETRY_INFO, Behaviour, Hang, Refuse, Sink, Take, serving
from tests.support.requests import span_ids, traces

RETRYABLE = {"CANCELLED", "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS"}


@asynccontextmanager
async def sending(
    behave: Callable[[int, bytes], Behaviour] | Behaviour = Take(),  # noqa: B008 - a frozen value
    signal: Signal = "traces",
    **options: Any,
) -> AsyncIterator[tuple[GrpcSender, Sink]]:
    sink = Sink(behave if callable(behave) else lambda *_: behave)
    async with serving(sink):
        sender = GrpcSender(Downstream(endpoint=f"grpc://{sink.address}", **options), signal)
        try:
            yield sender, sink
        finally:
            await sender.close()


@pytest.mark.parametrize("signal", list(METHODS))
@pytest.mark.parametrize("compression", ["none", "gzip"])
async def test_bytes_arrive_as_they_are(signal: Signal, compression: str) -> None:
    """Also such as no OTLP library would write: unknown fields, fields out of order, no protobuf at all."""
    request = b"\xfa\x3f\x03abc" + traces(1, 2) + random.Random(1).randbytes(5000)
    async with sending(signal=signal, compression=compression, headers={"X-Tenant": "blue"}) as (sender, sink):
        assert await sender.send(request) == Delivered()
        assert sink.requests == [(signal, request)]
        assert sink.headers[0]["x-tenant"] == "blue"
        assert str(sink.headers[0]["user-agent"]).startswith("onpath/")


@pytest.mark.parametrize("code", [code for code in StatusCode if code is not StatusCode.OK])
async def test_the_table_of_answers(code: StatusCode) -> None:
    async with sending(Refuse(code)) as (sender, _):
        outcome = await sender.send(traces(1))
    kind = Retry if code.name in RETRYABLE else Failed
    assert type(outcome) is kind
    assert outcome.reason == code.name.lower()
    assert outcome.message == "told to"


@pytest.mark.parametrize("places", [(DETAILS,), (RETRY_INFO,), (DETAILS, RETRY_INFO)])
@pytest.mark.parametrize("code", [StatusCode.UNAVAILABLE, StatusCode.RESOURCE_EXHAUSTED])
async def test_a_hint_is_read_from_either_place(places: tuple[str, ...], code: StatusCode) -> None:
    async with sending(Refuse(code, 12.5, places)) as (sender, _):
        assert await sender.send(traces(1)) == Retry(code.name.lower(), 12.5, "told to")


async def test_a_hint_does_not_make_a_permanent_answer_retryable() -> None:
    async with sending(Refuse(StatusCode.INVALID_ARGUMENT, 1.0)) as (sender, _):
        assert type(await sender.send(traces(1))) is Failed


async def test_partial_success_is_told() -> None:
    async with sending(Take(3, "bad ids")) as (sender, _):
        assert await sender.send(traces(1)) == Delivered(3, "bad ids")


async def test_a_hanging_downstream_is_left_after_the_timeout() -> None:
    async with sending(Hang(), timeout=0.2) as (sender, _):
        outcome = await sender.send(traces(1))
    assert isinstance(outcome, Retry)
    assert outcome.reason == "deadline_exceeded"


async def test_a_downstream_that_is_not_there_is_retryable() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        sender = GrpcSender(Downstream(endpoint=f"grpc://127.0.0.1:{unused.getsockname()[1]}"), "traces")
        outcome = await sender.send(traces(1))
        await sender.close()
    assert isinstance(outcome, Retry)
    assert (outcome.reason, outcome.after) == ("unavailable", None)


# Queue and real downstream together


async def forward_all(sink: Sink, requests: list[bytes], **options: Any) -> Forwarder:
    """Sends all requests through a queue with short waits; the queue afterwards, closed."""
    retry = RetrySettings(initial=0.01, max=0.05, elapsed=options.pop("elapsed", 0))
    async with serving(sink):
        sender = GrpcSender(Downstream(endpoint=f"http://{sink.address}", timeout=options.pop("timeout", 5)), "traces")
        forwarder = Forwarder(ForwardSettings(retry=retry, **options), sender)
        forwarder.start()
        for request in requests:
            forwarder.enqueue(request, len(span_ids(request)))
        assert await forwarder.drain(forwarder._clock() + 20)
        await forwarder.close()
    counts = forwarder.counts
    assert counts.queued_requests == counts.queued_items == counts.queued_bytes == 0
    assert counts.accepted_items == counts.sent_items + counts.failed_items.total()
    return forwarder


REQUESTS = [traces(*range(n, n + 5), padding=50) for n in range(1, 1001, 5)]


async def test_byte_equal_to_a_good_downstream_and_in_order_where_one_is_sent_at_a_time() -> None:
    sink = Sink()
    forwarder = await forward_all(sink, REQUESTS, concurrency=1)
    assert [request for _, request in sink.requests] == REQUESTS
    assert forwarder.counts.sent_items == 1000


async def test_a_backlog_is_sent_whole() -> None:
    sink = Sink()
    forwarder = await forward_all(sink, REQUESTS)
    assert sorted(sink.taken) == sorted(REQUESTS)
    assert forwarder.counts.sent_items == 1000
    assert sink.most_concurrent <= 8


async def test_nothing_is_lost_or_doubled_when_most_calls_are_refused() -> None:
    draw = random.Random(3)
    sink = Sink(lambda *_: Refuse() if draw.random() < 0.7 else Take())
    forwarder = await forward_all(sink, REQUESTS)
    assert sorted(sink.taken) == sorted(REQUESTS)
    assert forwarder.counts.sent_items == 1000
    assert forwarder.counts.retries == len(sink.requests) - len(REQUESTS)


async def test_mixed_answers_are_each_accounted_for() -> None:
    answers = [
        Take(),
        Take(2, "two are bad"),
        Refuse(StatusCode.INVALID_ARGUMENT),
        Refuse(StatusCode.RESOURCE_EXHAUSTED),
        Refuse(StatusCode.RESOURCE_EXHAUSTED, 0.02),
        Refuse(StatusCode.UNAVAILABLE, 0.02),
        Hang(),
    ]
    draw = random.Random(5)
    sink = Sink(lambda *_: draw.choice(answers))
    forwarder = await forward_all(sink, REQUESTS[:80], timeout=0.2, concurrency=20)
    counts = forwarder.counts
    assert len(sink.taken) == len(set(sink.taken)) == counts.sent_requests
    assert counts.failed_requests.keys() == {"invalid_argument", "resource_exhausted"}
    assert counts.failed_items["partial_success"] % 2 == 0
    assert counts.sent_items + counts.failed_items["partial_success"] == 5 * len(sink.taken)


async def test_a_downstream_that_comes_back_gets_everything() -> None:
    """It goes away while requests are queued and comes back on the same port."""
    first, second = Sink(), Sink()
    retry = RetrySettings(initial=0.05, max=0.1, elapsed=0)
    async with serving(first):
        sender = GrpcSender(Downstream(endpoint=f"grpc://{first.address}"), "traces")
        forwarder = Forwarder(ForwardSettings(retry=retry), sender)
        forwarder.start()
        forwarder.enqueue(REQUESTS[0], 5)
        await until(lambda: bool(first.taken))
    for request in REQUESTS[1:40]:
        forwarder.enqueue(request, 5)
    await until(lambda: forwarder.counts.retries >= 20)
    async with serving(second, first.address):
        assert await forwarder.drain(forwarder._clock() + 20)
        await forwarder.close()
    assert sorted(first.taken + second.taken) == sorted(REQUESTS[:40])


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.01)


# Endpoints


@pytest.mark.parametrize(
    ("text", "host", "port", "secure"),
    [
        ("grpc://127.0.0.1:4317", "127.0.0.1", 4317, False),
        ("grpc://collector", "collector", 4317, False),
        ("http://collector:4318", "collector", 4318, False),
        ("https://otlp.example.com", "otlp.example.com", 443, True),
        ("grpcs://[::1]:9", "::1", 9, True),
    ],
)
def test_endpoints(text: str, host: str, port: int, secure: bool) -> None:
    endpoint = parse_endpoint(text)
    assert (endpoint.host, endpoint.port, endpoint.secure) == (host, port, secure)


@pytest.mark.parametrize(
    "text", ["", "collector:4317", "ftp://collector", "grpc://", "grpc://host:99999", "grpc://h:x"]
)
def test_what_is_no_endpoint(text: str) -> None:
    with pytest.raises(ValueError, match=r"endpoint|port"):
        parse_endpoint(text)


OTHER_ADDRESS = "192.0.2.77"  # of a documentation network: no machine's own


@pytest.mark.parametrize(
    ("endpoint", "own", "same"),
    [
        ("grpc://127.0.0.1:4317", ["127.0.0.1:4317"], True),
        ("grpc://127.0.0.1:4317", ["127.0.0.1:13133", "127.0.0.1:4317"], True),
        ("grpc://127.0.0.1:4317", ["127.0.0.1:4318"], False),
        ("grpc://127.0.0.1:4317", [], False),
        ("http://localhost:4317", ["127.0.0.1:4317"], True),
        ("grpc://127.0.0.1:4317", ["localhost:4317"], True),
        ("grpc://LOCALHOST", ["127.0.0.1:4317"], True),
        ("grpc://127.0.0.1:4317", ["0.0.0.0:4317"], True),
        ("grpc://127.0.0.9:4317", ["0.0.0.0:4317"], True),
        ("grpc://127.0.0.9:4317", ["127.0.0.1:4317"], False),
        ("grpc://0.0.0.0:4317", ["127.0.0.1:4317"], True),
        ("grpc://[::ffff:127.0.0.1]:4317", ["127.0.0.1:4317"], True),
        ("grpc://127.0.0.1:4317", ["[::]:4317"], True),
        (f"grpc://{OTHER_ADDRESS}:4317", ["0.0.0.0:4317"], False),
        ("grpc://no-such-name.invalid:4317", ["0.0.0.0:4317"], False),
    ],
)
def test_who_is_oneself(endpoint: str, own: list[str], same: bool) -> None:
    assert is_own_endpoint(endpoint, own) is same


def test_the_name_of_this_machine_is_oneself_when_all_addresses_are_listened_on() -> None:
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        pytest.skip("this machine's name does not resolve")
    assert is_own_endpoint(f"grpc://{name}:4317", ["0.0.0.0:4317"])
