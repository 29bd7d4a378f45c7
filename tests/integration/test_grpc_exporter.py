"""The OpenTelemetry Python gRPC exporters against the receiver: taken, refused with a hint, rejected in part."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from grpc import Compression
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import SpanContext

from onpath_collector.receivers.base import Refused
from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings
from tests.support.consumers import KeepingConsumer
from tests.support.requests import span_ids


@asynccontextmanager
async def receiving(consumer: KeepingConsumer) -> AsyncIterator[str]:
    receiver = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0"), consumer)
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


@asynccontextmanager
async def exporting(address: str, compression: Compression | None = None) -> AsyncIterator[OTLPSpanExporter]:
    exporter = OTLPSpanExporter(address, insecure=True, compression=compression, timeout=10)
    try:
        yield exporter
    finally:
        await asyncio.to_thread(exporter.shutdown)


@pytest.mark.parametrize("compression", [None, Compression.Gzip])
async def test_spans_are_taken(compression: Compression | None) -> None:
    consumer = KeepingConsumer()
    made = spans()
    async with receiving(consumer) as address, exporting(address, compression) as exporter:
        assert await asyncio.to_thread(exporter.export, made) is SpanExportResult.SUCCESS
    contexts = [span.get_span_context() for span in made]
    (request,) = consumer.requests()
    assert span_ids(request) == [c.span_id.to_bytes(8, "big") for c in contexts if isinstance(c, SpanContext)]


async def test_the_exporter_waits_as_long_as_it_is_told_and_comes_back() -> None:
    """By itself it would wait between 0.8 and 1.2 s."""
    hint = 1.5
    arrived: list[float] = []

    def refuse_once(request: bytes) -> Exception | None:
        arrived.append(time.monotonic())
        return Refused("queue_full", hint) if len(arrived) == 1 else None

    consumer = KeepingConsumer(refuse_once)
    async with receiving(consumer) as address, exporting(address) as exporter:
        assert await asyncio.to_thread(exporter.export, spans()) is SpanExportResult.SUCCESS
    assert len(arrived) == 2
    assert arrived[1] - arrived[0] >= hint
    assert len(consumer.requests()) == 1


async def test_metrics_and_logs_exporters_see_no_error(caplog: pytest.LogCaptureFixture) -> None:
    consumer = KeepingConsumer()
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    provider.get_meter("tests").create_counter("calls").add(1)
    data = reader.get_metrics_data()
    assert data is not None
    async with receiving(consumer) as address:
        metric_exporter = OTLPMetricExporter(address, insecure=True)
        log_exporter = OTLPLogExporter(address, insecure=True)
        assert await asyncio.to_thread(metric_exporter.export, data) is MetricExportResult.SUCCESS
        assert (await asyncio.to_thread(log_exporter.export, [])).name == "SUCCESS"
        await asyncio.to_thread(metric_exporter.shutdown)
        await asyncio.to_thread(log_exporter.shutdown)
    provider.shutdown()
    assert [signal for signal, _ in consumer.kept] == ["metrics", "logs"]
    assert not caplog.records
