"""Traces that are too large or never end, among others: nobody waits for them, and they leave nothing behind."""

from __future__ import annotations

import json
import random
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

import grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.collector import Collector
from tests.support.durable import POLICY
from tests.support.load import EXPORT, Load, request, traces
from tests.support.waiting import until

SMALL = 5_000
FLOOD = 40_000


def metrics(collector: Collector) -> str:
    with urllib.request.urlopen(f"http://{collector.ports['admin']}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def lag(collector: Collector) -> str:
    """The least bound that 99 of 100 releases kept to, of the histogram's."""
    text = metrics(collector)
    found = re.findall(r'onpath_buffer_deadline_lag_seconds_bucket\{le="([^"]+)"\} ([0-9.]+)', text)
    total = float(found[-1][1])
    return next(f"p99 of the deadline lag at most {le} s" for le, n in found if float(n) >= 0.99 * total)


def written(folder: Path, config: str) -> Path:
    (folder / "onpath.yaml").write_text(config, encoding="utf-8")
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    return policy


def test_a_giant_trace_among_small_ones(tmp_path: Path, tell: Callable[..., None]) -> None:
    draw = random.Random(1)
    tool, *_, agent = traces(draw, 1)
    giant: list[Span] = []
    for number in range(1, 20_002):
        giant.append(Span())
        giant[-1].CopyFrom(tool)
        giant[-1].span_id = number.to_bytes(8, "big")
    policy = written(tmp_path, "forward: {}\n")
    with Collector(policy, tmp_path) as collector:
        with grpc.insecure_channel(collector.ports["OTLP/gRPC"], options=[("grpc.max_send_message_length", -1)]) as way:
            send = way.unary_unary(EXPORT)
            for start in range(0, SMALL, 50):
                send(request(traces(draw, 50)), timeout=30)
                at = start * len(giant) // SMALL
                send(request(giant[at : at + 50 * len(giant) // SMALL]), timeout=30)
            send(request([*giant[-2:], agent]), timeout=30)
        until(lambda: len({r["trace_id"] for r in collector.results}) == SMALL + 1, lambda: "all verdicts", 120)
        tell(lag(collector))
    (large,) = [r for r in collector.results if r["trace_id"] == agent.trace_id.hex() and r["revision"] == 1]
    assert (large["release_reason"], large["complete"]) == ("span_limit", False)
    assert collector.ledger["traces_judged"] == SMALL + 1
    tell(collector.ledger)


def test_a_flood_of_traces_without_roots(tmp_path: Path, tell: Callable[..., None]) -> None:
    """More of them than the memory limit holds, all at once; then they have to go for being idle."""
    policy = written(tmp_path, "buffer: {idle_timeout: 3s, memory_limit: 48MiB, late_bytes: 4MiB}\n")
    with Collector(policy, tmp_path, "--config", str(tmp_path / "onpath.yaml")) as collector:
        load = Load(collector.ports["OTLP/gRPC"], threads=4, traces=100, padding=300, root=False).__enter__()
        until(lambda: len(load.traces) >= FLOOD, lambda: "the flood", 120)
        load.stop()
        expected = len(load.traces)
        until(lambda: len(collector.results) >= expected, lambda: "all verdicts", 180)
        text = metrics(collector)
        tell(lag(collector))
        held = re.search(r"onpath_buffer_bytes(?:\{[^}]*\})? ([0-9.e+]+)", text)
        peak = re.search(r"VmHWM:\s+([0-9]+)", Path(f"/proc/{collector.process.pid}/status").read_text())
    assert {r["release_reason"] for r in collector.results} <= {"idle", "memory"}
    assert collector.ledger["traces_started"] == collector.ledger["traces_judged"] == expected
    tell(f"{expected} traces, {load.refused} calls refused, peak rss {int(peak[1]) >> 10 if peak else 0} MiB,")
    tell(f"buffer bytes at the end {held[1] if held else '?'};", json.dumps(collector.ledger))
