"""How soon after its verdict a report is there for who waits: WaitForReport, idle and beside 300 runs a second.

Measured from the report's own `judged_at`, which is taken when judging begins and cut to milliseconds: judging is
included, so the true figure is smaller.
"""

from __future__ import annotations

import random
import socket
import statistics
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks._load import EXPORT, Load, encode, retried
from benchmarks._peers import onpath
from onpath_collector.v1 import results_service_pb2 as pb
from onpath_collector.v1.results_service_pb2_grpc import ResultsServiceStub

WAITS = 100
BAR = 200.0  # milliseconds


def main() -> None:
    port = free_port()
    with onpath(["--admin", f"127.0.0.1:{port}"]) as (_, at):  # noqa: SIM117 - channels close first
        with grpc.insecure_channel(at) as sending, grpc.insecure_channel(f"127.0.0.1:{port}") as asking:
            wait(sending, asking, 0)  # the worker is started
            print(told("idle", [wait(sending, asking, seed) for seed in range(1, WAITS)]), flush=True)
            stop = threading.Event()
            with ThreadPoolExecutor(1) as pool:
                busy = pool.submit(load, sending, stop)
                found = [wait(sending, asking, 10_000 + seed) for seed in range(WAITS)]
                stop.set()
            print(told(f"beside {busy.result():.0f} runs a second", found), flush=True)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def wait(sending: grpc.Channel, asking: grpc.Channel, seed: int) -> float:
    """Milliseconds from the verdict on one run to the answer of a call that was waiting for it."""
    body = encode(Load("one", 10, 1), random.Random(f"wait {seed}"))
    request = ExportTraceServiceRequest.FromString(body)
    trace_id = request.resource_spans[0].scope_spans[0].spans[0].trace_id.hex()
    call = ResultsServiceStub(asking).WaitForReport.future(pb.WaitForReportRequest(trace_id=trace_id), timeout=60)
    retried(sending.unary_unary(EXPORT), body)
    report = call.result().report
    return time.time() * 1e3 - report.results[0].judged_at.ToNanoseconds() / 1e6


def load(sending: grpc.Channel, stop: threading.Event) -> float:
    """Sends runs until told to stop; how many a second."""
    call = sending.unary_unary(EXPORT)
    runs, began = 0, time.monotonic()
    while not stop.is_set():
        retried(call, encode(Load("load", 30, 1), random.Random(runs)))
        runs += 3
        time.sleep(max(0.0, runs / 300 - (time.monotonic() - began)))
    return runs / (time.monotonic() - began)


def told(name: str, found: Sequence[float]) -> str:
    worst = max(found)
    p50, p99 = statistics.median(found), statistics.quantiles(found, n=100)[98]
    verdict = "within" if worst <= BAR else "OVER"
    return f"{name:<28} p50 {p50:6.1f} ms   p99 {p99:6.1f} ms   worst {worst:6.1f} ms   {verdict} {BAR:.0f} ms"


if __name__ == "__main__":
    main()
