"""Clients that people have against the HTTP receiver: the OpenTelemetry Python exporters, and curl."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext

from onpath_collector.receivers.base import Refused
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from onpath_collector.security import Certificates, Tokens
from tests.support.consumers import KeepingConsumer
from tests.support.requests import as_json, span_ids, traces
from tests.support.tls import Authority, secret


@asynccontextmanager
async def receiving(consumer: KeepingConsumer, **security: Any) -> AsyncIterator[str]:
    receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0"), consumer, **security)
    address = await receiver.start()
    try:
        yield address
    finally:
        await receiver.stop()


def spans(count: int = 3) -> list[ReadableSpan]:
    tracer = TracerProvider(resource=Resource({"service.name": "tests"}), shutdown_on_exit=False).get_tracer("tests")
    made = []
    for number in range(count):
        span = tracer.start_span(f"span {number}")
        span.end()
        assert isinstance(span, ReadableSpan)
        made.append(span)
    return made


async def exported(export: Callable[[], Any], exporter: Any) -> Any:
    try:
        return await asyncio.to_thread(export)
    finally:
        await asyncio.to_thread(exporter.shutdown)


@pytest.mark.parametrize("compression", list(Compression))
async def test_spans_are_taken(compression: Compression) -> None:
    consumer = KeepingConsumer()
    made = spans()
    async with receiving(consumer) as address:
        exporter = OTLPSpanExporter(f"http://{address}/v1/traces", compression=compression)
        assert await exported(lambda: exporter.export(made), exporter) is SpanExportResult.SUCCESS
    contexts = [span.get_span_context() for span in made]
    (request,) = consumer.requests()
    assert span_ids(request) == [c.span_id.to_bytes(8, "big") for c in contexts if isinstance(c, SpanContext)]


async def test_the_exporter_waits_as_long_as_it_is_told_and_comes_back() -> None:
    """By itself it would wait between 0.8 and 1.2 s; the header tells whole seconds."""
    arrived: list[float] = []

    def refuse_once(request: bytes) -> Exception | None:
        arrived.append(time.monotonic())
        return Refused("queue_full", 1.5) if len(arrived) == 1 else None

    consumer = KeepingConsumer(refuse_once)
    async with receiving(consumer) as address:
        exporter = OTLPSpanExporter(f"http://{address}/v1/traces")
        assert await exported(lambda: exporter.export(spans()), exporter) is SpanExportResult.SUCCESS
    assert len(arrived) == 2
    assert arrived[1] - arrived[0] >= 2
    assert len(consumer.requests()) == 1


async def test_metrics_and_logs_exporters_see_no_error(caplog: pytest.LogCaptureFixture) -> None:
    consumer = KeepingConsumer()
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    provider.get_meter("tests").create_counter("calls").add(1)
    data = reader.get_metrics_data()
    assert data is not None
    async with receiving(consumer) as address:
        metrics = OTLPMetricExporter(f"http://{address}/v1/metrics")
        logs = OTLPLogExporter(f"http://{address}/v1/logs")
        assert await exported(lambda: metrics.export(data), metrics) is MetricExportResult.SUCCESS
        assert (await exported(lambda: logs.export([]), logs)).name == "SUCCESS"
    provider.shutdown()
    assert [signal for signal, _ in consumer.kept] == ["metrics", "logs"]
    assert not caplog.records


async def test_the_exporter_shows_its_certificate_and_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # they would outdo what the exporter is told to trust
        monkeypatch.delenv(name, raising=False)
    authority = Authority(tmp_path)
    certificates = Certificates(*authority.issue(), client_ca=authority.path)
    tokens = Tokens([secret(tmp_path / "token", "letmein")])
    cert, key = authority.issue("client")
    consumer = KeepingConsumer()
    async with receiving(consumer, certificates=certificates, tokens=tokens) as address:
        for token, result in (("letmein", SpanExportResult.SUCCESS), ("wrong", SpanExportResult.FAILURE)):
            exporter = OTLPSpanExporter(
                f"https://{address}/v1/traces",
                certificate_file=str(authority.path),
                client_certificate_file=str(cert),
                client_key_file=str(key),
                headers={"authorization": f"Bearer {token}"},
            )
            assert await exported(lambda e=exporter: e.export(spans()), exporter) is result
    assert len(consumer.requests()) == 1


# curl

CURL = shutil.which("curl")
needs_curl = pytest.mark.skipif(CURL is None, reason="there is no curl here")


async def curl(address: str, *arguments: str, body: bytes | None = None) -> tuple[int, str, bytes]:
    """Status, content type and body of the answer."""
    command = ["curl", "-sS", "--max-time", "20", "-w", "\n%{http_code} %{content_type}", *arguments]
    if body is not None:
        command += ["--data-binary", "@-"]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, f"http://{address}", stdin=pipe, stdout=pipe, stderr=pipe)
    out, errors = await process.communicate(body)
    assert process.returncode == 0, errors.decode()
    answer, _, told = out.rpartition(b"\n")
    status, _, content_type = told.decode().partition(" ")
    return int(status), content_type, answer


@needs_curl
@pytest.mark.parametrize("options", [[], ["--http1.0"], ["--http2"], ["-H", "Transfer-Encoding: chunked"]])
async def test_curl_sends_json(options: list[str]) -> None:
    consumer = KeepingConsumer()
    request = traces(1, 2, padding=2_000_000)  # long enough for curl to ask before it sends
    async with receiving(consumer) as address:
        json_type = ["-H", "Content-Type: application/json"]
        answer = await curl(f"{address}/v1/traces", *json_type, *options, body=as_json(request))
    assert answer == (200, "application/json", b"{}")
    assert consumer.requests() == [request]


@needs_curl
async def test_curl_is_told_in_words_what_is_wrong() -> None:
    async with receiving(KeepingConsumer()) as address:
        for arguments, status in (
            ([f"{address}/"], 404),
            ([f"{address}/v1/traces"], 405),
            ([f"{address}/v1/traces", "-d", "{}"], 415),
            ([f"{address}/v1/traces", "-H", "Content-Type: application/json", "-d", "{"], 400),
        ):
            got, content_type, body = await curl(*arguments)
            assert (got, content_type) == (status, "application/json")
            assert json.loads(body)["message"]
