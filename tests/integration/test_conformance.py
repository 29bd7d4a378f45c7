"""Every row of the table of answers, asked by real clients: a raw gRPC call, curl, the OpenTelemetry Python exporters.

    row: what is wrong, the status on each protocol, what an exporter makes of it     (spec: OTLP 1.x, "Failures")

An exporter gives up at once what will never be taken, and comes again, no sooner than it was told, for what is refused
for now. The JavaScript exporters are in tests/js.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from grpc import StatusCode
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from onpath_collector.otlp import DecodeError
from onpath_collector.receivers.base import Refused, TooLarge
from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from onpath_collector.security import Tokens
from tests.integration.test_http_exporter import curl, spans
from tests.support.consumers import KeepingConsumer
from tests.support.grpc_peers import METHODS, raw_client
from tests.support.http_peers import JSON, PROTOBUF
from tests.support.requests import as_json, traces
from tests.support.tls import secret

HINT = 1.3  # seconds: what the gRPC exporter takes as it is, and the header rounds up


@dataclass(frozen=True)
class Row:
    name: str
    code: StatusCode
    status: int
    error: Exception | None = None
    again: bool = False  # a sender may come again
    path: bool = True  # one that is served
    limit: int = 64 << 20
    token: bool = False  # is needed, and not sent


ROWS = [
    Row("taken", StatusCode.OK, 200),
    Row("undecodable", StatusCode.INVALID_ARGUMENT, 400, DecodeError("told to")),
    Row("too large as sent", StatusCode.RESOURCE_EXHAUSTED, 413, limit=16),
    Row("too large inside", StatusCode.RESOURCE_EXHAUSTED, 413, TooLarge("told to")),
    Row("memory", StatusCode.UNAVAILABLE, 503, Refused("memory", HINT), again=True),
    Row("queue full", StatusCode.UNAVAILABLE, 503, Refused("queue_full", HINT), again=True),
    Row("journal full", StatusCode.UNAVAILABLE, 503, Refused("journal_full", HINT), again=True),
    Row("shutting down", StatusCode.UNAVAILABLE, 503, Refused("shutting_down", HINT), again=True),
    Row("no credentials", StatusCode.UNAUTHENTICATED, 401, token=True),
    Row("unknown path", StatusCode.UNIMPLEMENTED, 404, path=False),
    Row("fault of our own", StatusCode.INTERNAL, 500, RuntimeError("a fault, told to")),
]
rows = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


class Once(KeepingConsumer):
    """Objects to the first request alone, where it may come again; `at` are the times of all."""

    def __init__(self, row: Row) -> None:
        super().__init__(self._objection)
        self._row = row
        self.at: list[float] = []

    def _objection(self, request: bytes) -> Exception | None:
        self.at.append(time.monotonic())
        return None if self._row.again and len(self.at) > 1 else self._row.error


@asynccontextmanager
async def receiving(row: Row, folder: Path) -> AsyncIterator[tuple[Once, str, str]]:
    """A consumer behind both protocols, and their addresses."""
    consumer = Once(row)
    tokens = Tokens([secret(folder / "token", "letmein")]) if row.token else None
    grpc = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0", max_request=row.limit), consumer, tokens=tokens)
    http = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0", max_request=row.limit), consumer, tokens=tokens)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(grpc.stop)
        stack.push_async_callback(http.stop)
        yield consumer, await grpc.start(), await http.start()


@rows
async def test_a_raw_call(row: Row, tmp_path: Path) -> None:
    async with receiving(row, tmp_path) as (consumer, address, _), raw_client(address) as client:
        reply = await client.call(METHODS["traces"] if row.path else "/no.such.Service/Export", traces(1))
    assert reply.code is row.code
    assert reply.hints == ([HINT, HINT] if row.again else [])
    if row.error is not None or row.token:  # else it is grpcio that answers
        assert (reply.status.code, reply.status.message) == (row.code.value[0], reply.message)
        assert reply.message
    assert len(consumer.kept) == (row.code is StatusCode.OK)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
@rows
async def test_curl(row: Row, content_type: str, tmp_path: Path) -> None:
    body = as_json(traces(1)) if content_type == JSON else traces(1)
    async with receiving(row, tmp_path) as (consumer, _, address):
        path = "/v1/traces" if row.path else "/v1/profiles"
        answer = await curl(address + path, "-H", f"Content-Type: {content_type}", body=body)
    assert answer[:2] == (row.status, content_type)
    assert len(consumer.kept) == (row.status == 200)


@rows
async def test_the_python_grpc_exporter(row: Row, tmp_path: Path) -> None:
    if not row.path:
        pytest.skip("it calls no other")
    async with receiving(row, tmp_path) as (consumer, address, _):
        patience = 2 if row.code is StatusCode.RESOURCE_EXHAUSTED else 10
        exporter = GrpcExporter(address, insecure=True, timeout=patience)
        result = await asyncio.to_thread(exporter.export, spans())
        await asyncio.to_thread(exporter.shutdown)
    if row.code is StatusCode.RESOURCE_EXHAUSTED:  # it tries that again, hint or not, until its time is up
        assert (result, consumer.kept) == (SpanExportResult.FAILURE, [])
    else:
        check(row, consumer, result, HINT)


@rows
async def test_the_python_http_exporter(row: Row, tmp_path: Path) -> None:
    if row.status == 500:
        pytest.skip("it takes any 5xx for something that passes, and tries until its time is up")
    async with receiving(row, tmp_path) as (consumer, _, address):
        path = "traces" if row.path else "profiles"
        exporter = HttpExporter(f"http://{address}/v1/{path}", timeout=10)
        result = await asyncio.to_thread(exporter.export, spans())
        await asyncio.to_thread(exporter.shutdown)
    check(row, consumer, result, 2.0)


def check(row: Row, consumer: Once, result: SpanExportResult, wait: float) -> None:
    taken = row.again or row.code is StatusCode.OK
    assert result is (SpanExportResult.SUCCESS if taken else SpanExportResult.FAILURE)
    assert len(consumer.kept) == taken
    assert len(consumer.at) == (2 if row.again else 1 if row.error is not None or taken else 0)
    if row.again:
        assert consumer.at[1] - consumer.at[0] >= wait
