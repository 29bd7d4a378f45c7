"""OpenTelemetry's JavaScript exporters against the receivers: gRPC, protobuf and JSON, plain and compressed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from onpath_collector.otlp import DecodeError, decode
from onpath_collector.receivers.base import Refused
from onpath_collector.receivers.otlp_grpc import GrpcReceiver, GrpcSettings
from onpath_collector.receivers.otlp_http import HttpReceiver, HttpSettings
from tests.conftest import ROOT
from tests.support.consumers import KeepingConsumer
from tests.support.requests import span_ids

pytestmark = pytest.mark.npm

HERE = Path(__file__).resolve().parent
PROTOCOLS = ("grpc", "proto", "http")


@pytest.fixture(scope="session")
def program() -> Path:
    """The program beside its packages, installed once as the lock file says."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("there is no npm here")
    lock = (HERE / "package-lock.json").read_bytes()
    folder = ROOT / ".cache" / "js" / hashlib.sha256(lock).hexdigest()[:16]
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        done = subprocess.run(
            ["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"the exporters can't be had: {done.stderr[-300:]}")
        (folder / "complete").touch()
    return Path(shutil.copy(HERE / "export.mjs", folder))


@asynccontextmanager
async def receiving(protocol: str, consumer: KeepingConsumer) -> AsyncIterator[str]:
    """The base URL."""
    receiver: GrpcReceiver | HttpReceiver
    if protocol == "grpc":
        receiver = GrpcReceiver(GrpcSettings(endpoint="127.0.0.1:0"), consumer)
    else:
        receiver = HttpReceiver(HttpSettings(endpoint="127.0.0.1:0"), consumer)
    try:
        yield f"http://{await receiver.start()}"
    finally:
        await receiver.stop(1)


async def export(program: Path, protocol: str, signal: str, base: str, compression: str = "none") -> dict[str, Any]:
    """What the exporter was told; `ids` are of the spans that were sent."""
    paths = {"trace": "/v1/traces", "metrics": "/v1/metrics", "logs": "/v1/logs"}
    url = base if protocol == "grpc" else base + paths[signal]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "node", str(program), protocol, signal, url, compression, stdout=pipe, stderr=pipe
    )
    out, errors = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, errors.decode()
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_spans_are_taken_and_read(program: Path, protocol: str, compression: str) -> None:
    consumer = KeepingConsumer()
    async with receiving(protocol, consumer) as base:
        told = await export(program, protocol, "trace", base, compression)
    assert told["results"] == [{"code": 0, "error": None}]
    (request,) = consumer.requests()
    assert sorted(i.hex() for i in span_ids(request)) == sorted(told["ids"])
    spans, _ = decode([request])
    by_name = {span.name: span for span in spans}
    root, tool = by_name["invoke_agent refund"], by_name["execute_tool lookup_user"]
    assert (tool.parent_span_id, tool.trace_id) == (root.span_id, root.trace_id)
    assert (tool.attributes["n"], tool.attributes["list"]) == (7, ["a", "b"])
    assert [(event.name, event.attributes) for event in tool.events] == [("called", {"ok": True})]
    assert root.attributes["cut"] == "�"
    assert root.resource.service == "js-tests"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_metrics_and_logs_are_taken(program: Path, protocol: str) -> None:
    consumer = KeepingConsumer()
    async with receiving(protocol, consumer) as base:
        for signal in ("metrics", "logs"):
            told = await export(program, protocol, signal, base)
            assert told["results"] == [{"code": 0, "error": None}]
    (request,) = consumer.requests("metrics")
    metrics = ExportMetricsServiceRequest.FromString(request).resource_metrics[0].scope_metrics[0].metrics
    assert {metric.name: metric.WhichOneof("data") for metric in metrics} == {"calls": "sum", "seconds": "histogram"}
    assert len(consumer.requests("logs")) == 1


@pytest.mark.parametrize("protocol", ["proto", "http"])
async def test_what_is_refused_for_now_comes_again(program: Path, protocol: str) -> None:
    """Over HTTP alone: the gRPC exporter tries nothing again, whatever it is told."""
    arrived: list[float] = []

    def refuse_once(request: bytes) -> Exception | None:
        arrived.append(time.monotonic())
        return Refused("queue_full", 2.0) if len(arrived) == 1 else None

    consumer = KeepingConsumer(refuse_once)
    async with receiving(protocol, consumer) as base:
        told = await export(program, protocol, "trace", base)
    assert told["results"] == [{"code": 0, "error": None}]
    assert len(consumer.requests()) == 1
    assert len(arrived) == 2
    assert arrived[1] - arrived[0] >= 1.9


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_what_is_refused_for_good_does_not(program: Path, protocol: str) -> None:
    asked: list[bytes] = []

    def refuse(request: bytes) -> Exception:
        asked.append(request)
        return DecodeError("told to")

    async with receiving(protocol, KeepingConsumer(refuse)) as base:
        told = await export(program, protocol, "trace", base)
    ((result),) = told["results"]
    assert result["code"] == 1
    assert result["error"]
    assert len(asked) == 1
