"""What goes wrong around a collector, in short: each ends with counts that add up. The long forms: tests/faults."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.conftest import ROOT
from tests.support.checks import Given, HangsOnEach, RaisesOnEach
from tests.support.durable import POLICY
from tests.support.load import request, traces
from tests.support.otlp_sink import Answer, OtlpSink
from tests.support.proxy import Proxy
from tests.support.service import collecting

SOON = {"settle_delay": "50ms", "orphan_delay": "100ms"}
RETRY = {"initial": "20ms", "max": "50ms", "elapsed": "30s"}
PARTIAL = ExportTraceServiceResponse(
    partial_success=ExportTracePartialSuccess(rejected_spans=1, error_message="told to")
).SerializeToString()


def forward(address: str, **options: Any) -> dict[str, Any]:
    return {"endpoint": f"grpc://{address}", "retry": RETRY, **options}


def runs(count: int, seed: int = 1) -> list[bytes]:
    draw = random.Random(seed)
    return [request(traces(draw, 1)) for _ in range(count)]


# The downstream


async def test_it_is_away_more_often_than_not(tmp_path: Path, policy: Path, sink: OtlpSink) -> None:
    draw = random.Random(7)
    sink.answer = lambda signal, body: StatusCode.UNAVAILABLE if draw.random() < 0.7 else b""
    bodies = runs(40)
    async with collecting(tmp_path, policy, buffer=SOON, forward=forward(sink.address)) as collector:
        for body in bodies:
            await collector.send(body)
        await collector.until(lambda: collector.ledger.spans_forwarded == 160)
        await collector.until_results(40)
    assert sorted(body for body in sink.requests("trace") if body in set(bodies)) == sorted(bodies)  # each once
    assert (collector.ledger.spans_dropped, collector.ledger.spans_queued) == ({}, 0)


async def test_it_hangs(tmp_path: Path, policy: Path, sink: OtlpSink) -> None:
    sink.answer = lambda signal, body: None
    settings = forward(sink.address, timeout="200ms")
    async with collecting(tmp_path, policy, buffer=SOON, forward=settings) as collector:
        for body in runs(20):
            await collector.send(body)
        await collector.until_results(20)  # no check waits for it
        assert collector.ledger.spans_queued == 80
        sink.answer = lambda signal, body: b""
        await collector.until(lambda: collector.ledger.spans_forwarded == 80)


async def test_it_resets_connections(tmp_path: Path, policy: Path, sink: OtlpSink) -> None:
    with Proxy(sink.address, resets=lambda chunk: chunk <= 12 and chunk % 3 == 0) as proxy:
        async with collecting(tmp_path, policy, buffer=SOON, forward=forward(proxy.address)) as collector:
            for body in runs(20):
                await collector.send(body)
            await collector.until(lambda: collector.ledger.spans_forwarded == 80)
            await collector.until_results(20)
        assert proxy.broken
    assert set(runs(20)) <= set(sink.requests("trace"))


async def test_it_refuses_for_good(tmp_path: Path, policy: Path, sink: OtlpSink) -> None:
    bodies = runs(10)
    sink.answer = lambda signal, body: StatusCode.INVALID_ARGUMENT if body in bodies[:4] else b""
    async with collecting(tmp_path, policy, buffer=SOON, forward=forward(sink.address)) as collector:
        for body in bodies:
            await collector.send(body)
        await collector.until(lambda: not collector.ledger.spans_queued)
        await collector.until_results(10)
    (dropped,) = collector.ledger.spans_dropped.values()
    assert (dropped, collector.ledger.spans_forwarded) == (16, 24)


async def test_it_takes_requests_in_part(tmp_path: Path, policy: Path, sink: OtlpSink) -> None:
    bodies = set(runs(10))
    answers: dict[bool, Answer] = {True: PARTIAL, False: b""}
    sink.answer = lambda signal, body: answers[body in bodies]
    async with collecting(tmp_path, policy, buffer=SOON, forward=forward(sink.address)) as collector:
        for body in bodies:
            await collector.send(body)
        await collector.until_results(10)
        await collector.until(lambda: not collector.ledger.spans_queued)
    assert collector.ledger.spans_dropped == {"partial_success": 10}
    assert collector.ledger.spans_forwarded == 30


async def test_it_is_dead_when_the_collector_stops(tmp_path: Path, policy: Path, sink: OtlpSink) -> None:
    sink.answer = lambda signal, body: StatusCode.UNAVAILABLE
    options = {"buffer": {"settle_delay": "10m"}, "shutdown_timeout": "2s"}
    async with collecting(tmp_path, policy, forward=forward(sink.address), **options) as collector:
        for body in runs(5):
            await collector.send(body)
    assert collector.ledger.spans_dropped == {"shutdown": 20}
    assert {result["release_reason"] for result in collector.results} == {"shutdown"}
    assert len(collector.results) == 5


# Traces


async def test_a_giant_trace_does_not_hold_up_small_ones(tmp_path: Path, policy: Path) -> None:
    *tools, agent = traces(random.Random(3), 1)
    giant = [*tools, agent]
    for number in range(1, 12_000):
        giant.append(Span())
        giant[-1].CopyFrom(tools[0])
        giant[-1].span_id = number.to_bytes(8, "big")
    async with collecting(tmp_path, policy, buffer=SOON, evaluate={"workers": 1}) as collector:
        await collector.send(request(giant))
        for body in runs(200, seed=4):
            await collector.send(body)
        await collector.until_results(201)
    assert collector.ledger.traces_judged == 201


async def test_a_flood_of_traces_without_roots_leaves_nothing_behind(tmp_path: Path, policy: Path) -> None:
    draw = random.Random(5)
    buffer = {**SOON, "idle_timeout": "300ms", "late_bytes": "1MiB"}
    async with collecting(tmp_path, policy, buffer=buffer, evaluate={"workers": 1}) as collector:
        for _ in range(20):
            await collector.send(request(traces(draw, 100, root=False)))
        await collector.until(lambda: collector.ledger.traces_judged == 2000, 60)
        assert collector.service.buffer.open_bytes == 0
        assert collector.service.buffer.late_bytes <= 1 << 20
    assert {result["release_reason"] for result in collector.results} == {"idle"}
    assert collector.service.release.counts.releases == {"idle": 2000}


# Checks and policies


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_check_hangs(tmp_path: Path, sink: OtlpSink, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are judged, and nothing that is passed on waits for it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)  # workers find the check there
    source = Given(hangs=HangsOnEach(8))
    evaluate = {"workers": workers, "timeout": "3s"}
    options = {"buffer": SOON, "forward": forward(sink.address), "evaluate": evaluate}
    async with collecting(tmp_path, source, **options) as collector:
        for body in runs(16):
            await collector.send(body)
        await collector.until(lambda: collector.ledger.spans_forwarded == 64)
        results = await collector.until_results(16)
    hung = [r for r in results if int(r["trace_id"], 16) % 8 == 0]
    assert hung
    assert {e["reason"] for r in hung for e in r["evaluations"]} == {"evaluation_timeout"}
    assert {r["verdict"] for r in results if r not in hung} == {"pass"}
    assert collector.service.release.counts.judged == {"pass": 16 - len(hung), "unknown": len(hung)}


async def test_a_check_raises(tmp_path: Path) -> None:
    async with collecting(tmp_path, Given(raises=RaisesOnEach(3)), buffer=SOON) as collector:
        for body in runs(30):
            await collector.send(body)
        results = await collector.until_results(30)
    broken = [r for r in results if int(r["trace_id"], 16) % 3 == 0]
    assert broken
    assert {(r["verdict"], e["error_type"]) for r in broken for e in r["evaluations"]} == {
        ("unknown", "ZeroDivisionError")
    }
    assert {r["verdict"] for r in results if r not in broken} == {"pass"}


async def test_the_policy_changes_under_load(tmp_path: Path, policy: Path) -> None:
    other = POLICY.replace("lookup_user, check_balance, send_receipt]\n", "lookup_user]\n")
    async with collecting(tmp_path, policy, buffer=SOON) as collector:
        for number, body in enumerate(runs(60)):
            await collector.send(body)
            if number % 6 == 0:
                text = (POLICY, "not a policy", other)[number // 6 % 3]
                await asyncio.to_thread(policy.write_text, text, encoding="utf-8")
                await collector.service.reload()
                await asyncio.sleep(0.1)  # something is judged by it
        await collector.until(lambda: collector.ledger.traces_judged == 60)
    assert {r["verdict"] for r in collector.results} == {"pass", "fail"}
    assert len({r["policy_fingerprint"] for r in collector.results}) == 2
