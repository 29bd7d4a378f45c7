"""Sending to a real downstream over HTTP: the bytes, the table of answers, hints; TLS over both protocols."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from onpath_collector.downstream import Delivered, Downstream, Failed, GrpcSender, Retry, Sender, TlsSettings, connect
from tests.support.grpc_peers import Sink, serving
from tests.support.http_sink import HttpAnswer, HttpSink, serving_http
from tests.support.requests import traces


@asynccontextmanager
async def sending(
    behave: Callable[[int], HttpAnswer] | HttpAnswer = HttpAnswer(),  # noqa: B008 - a frozen value
    path: str = "",
    **options: Any,
) -> AsyncIterator[tuple[Sender, HttpSink]]:
    sink = HttpSink(behave if callable(behave) else lambda _: behave)
    async with serving_http(sink):
        sender = connect(Downstream(endpoint=f"http://{sink.address}{path}", **options), "traces")
        try:
            yield sender, sink
        finally:
            await sender.close()


async def test_bytes_arrive_as_they_are() -> None:
    request = b"\xfa\x3f\x03abc" + traces(1, 2)
    async with sending(headers={"X-Tenant": "blue"}) as (sender, sink):
        assert await sender.send(request) == Delivered()
        assert sink.requests == [("/v1/traces", request)]
        assert sink.headers[0]["Content-Type"] == "application/x-protobuf"
        assert sink.headers[0]["X-Tenant"] == "blue"
        assert sink.headers[0]["User-Agent"].startswith("onpath/")


@pytest.mark.parametrize(
    ("path", "full"), [("/", "/v1/traces"), ("/otlp", "/otlp/v1/traces"), ("/otlp/", "/otlp/v1/traces")]
)
async def test_the_signal_is_added_to_the_path(path: str, full: str) -> None:
    async with sending(path=path) as (sender, sink):
        await sender.send(traces(1))
        assert sink.requests[0][0] == full


async def test_gzip_is_said_and_done() -> None:
    async with sending(compression="gzip") as (sender, sink):
        await sender.send(traces(1, padding=5000))
        assert sink.headers[0]["Content-Encoding"] == "gzip"
        assert int(sink.headers[0]["Content-Length"]) < 1000
        assert sink.requests[0][1] == traces(1, padding=5000)


@pytest.mark.parametrize(
    "status", [400, 401, 403, 404, 408, 413, 415, 418, 429, 500, 501, 502, 503, 504, 505, 301, 304]
)
async def test_the_table_of_answers(status: int) -> None:
    body = b"" if status == 304 else Status(code=3, message="told to").SerializeToString()
    async with sending(HttpAnswer(status, body, {"Location": "/elsewhere"})) as (sender, sink):
        outcome = await sender.send(traces(1))
        assert len(sink.requests) == 1
    assert type(outcome) is (Retry if status in (429, 502, 503, 504) else Failed)
    assert outcome.reason == f"http_{status}"
    assert outcome.message == ("Not Modified" if status == 304 else "told to")


@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:27:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-5"}, None),
        ({}, None),
    ],
)
async def test_when_to_come_back(headers: dict[str, str], after: float | None) -> None:
    async with sending(HttpAnswer(503, headers=headers)) as (sender, _):
        outcome = await sender.send(traces(1))
    assert isinstance(outcome, Retry)
    assert outcome.after == after


async def test_partial_success_is_told() -> None:
    partial = ExportTracePartialSuccess(rejected_spans=3, error_message="bad ids")
    body = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    async with sending(HttpAnswer(200, body)) as (sender, _):
        assert await sender.send(traces(1)) == Delivered(3, "bad ids")


@pytest.mark.parametrize(
    "answer",
    [
        HttpAnswer(202),
        HttpAnswer(200, b"OK", content_type="text/plain"),
        HttpAnswer(200, b"\xff\xff not protobuf"),
        HttpAnswer(200, bytes(5 << 20)),
    ],
)
async def test_a_success_is_one_whatever_its_body_says(answer: HttpAnswer) -> None:
    async with sending(answer) as (sender, _):
        assert await sender.send(traces(1)) == Delivered()


async def test_a_hanging_downstream_is_left_after_the_timeout() -> None:
    async with sending(HttpAnswer(None), timeout=0.2) as (sender, _):
        assert await sender.send(traces(1)) == Retry("timeout")


async def test_a_downstream_that_goes_away_is_retryable() -> None:
    async with sending() as (sender, _):
        assert await sender.send(traces(1)) == Delivered()
    late = connect(Downstream(endpoint="http://127.0.0.1:1"), "traces")
    outcome = await late.send(traces(1))
    await late.close()
    assert isinstance(outcome, Retry)
    assert outcome.reason == "unavailable"


async def test_the_scheme_names_the_protocol_unless_it_is_named() -> None:
    assert isinstance(connect(Downstream(endpoint="grpc://127.0.0.1:1"), "traces"), GrpcSender)
    assert isinstance(connect(Downstream(endpoint="http://127.0.0.1:1", protocol="grpc"), "traces"), GrpcSender)
    assert not isinstance(connect(Downstream(endpoint="http://127.0.0.1:1"), "traces"), GrpcSender)
    with pytest.raises(ValueError, match="http://"):
        connect(Downstream(endpoint="grpc://127.0.0.1:1", protocol="http"), "traces")
    with pytest.raises(ValueError, match="path"):
        connect(Downstream(endpoint="grpc://127.0.0.1:1/v1"), "traces")


@pytest.mark.parametrize("header", [("a b", "x"), ("", "x"), ("token-bin", "x"), ("a", "x\r\nb: c"), ("a", "\u00fc")])
@pytest.mark.parametrize("scheme", ["grpc", "http"])
async def test_headers_that_cannot_be_sent_are_refused_at_once(scheme: str, header: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="header"):
        connect(Downstream(endpoint=f"{scheme}://127.0.0.1:1", headers=dict([header])), "traces")


# TLS


class Certificates:
    """An authority with a server's and a client's certificate, as PEM files."""

    def __init__(self, folder: Path) -> None:
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(str(self.ca))
        self.server = self.authority.issue_cert("127.0.0.1", "collector.test")
        client = self.authority.issue_cert("agent.test")
        self.cert, self.key = folder / "client.pem", folder / "client.key"
        client.private_key_pem.write_to_path(str(self.key))
        self.cert.write_bytes(b"".join(pem.bytes() for pem in client.cert_chain_pems))

    def for_grpc(self) -> grpc.ServerCredentials:
        """Asks for a client's certificate."""
        chain = b"".join(pem.bytes() for pem in self.server.cert_chain_pems)
        pair = (self.server.private_key_pem.bytes(), chain)
        return grpc.ssl_server_credentials([pair], self.authority.cert_pem.bytes(), require_client_auth=True)

    def for_http(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.server.configure_cert(context)
        self.authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        return context


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def secure(certificates: Certificates, protocol: str, tls: TlsSettings) -> AsyncIterator[Sender]:
    if protocol == "grpc":
        grpc_sink = Sink()
        async with serving(grpc_sink, credentials=certificates.for_grpc()):
            sender = connect(Downstream(endpoint=f"grpcs://{grpc_sink.address}", tls=tls, timeout=5), "traces")
            yield sender
            await sender.close()
    else:
        http_sink = HttpSink()
        async with serving_http(http_sink, certificates.for_http()):
            sender = connect(Downstream(endpoint=f"https://{http_sink.address}", tls=tls, timeout=5), "traces")
            yield sender
            await sender.close()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("server_name", [None, "collector.test"])
async def test_both_sides_show_certificates(certificates: Certificates, protocol: str, server_name: str | None) -> None:
    tls = TlsSettings(ca=certificates.ca, cert=certificates.cert, key=certificates.key, server_name=server_name)
    async with secure(certificates, protocol, tls) as sender:
        assert await sender.send(traces(1)) == Delivered()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_nothing_is_sent_to_a_server_nobody_vouches_for(certificates: Certificates, protocol: str) -> None:
    wrong_name = TlsSettings(ca=certificates.ca, cert=certificates.cert, key=certificates.key, server_name="other.test")
    no_client = TlsSettings(ca=certificates.ca)
    for tls in (TlsSettings(), wrong_name, no_client):
        async with secure(certificates, protocol, tls) as sender:
            assert isinstance(await sender.send(traces(1)), Retry)
