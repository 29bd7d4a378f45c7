"""The collector at full work: receive, forward, buffer, decode, judge, emit, against a sink on loopback.

A load generator in its own process sends pre-encoded requests of agent traces (ten spans each) with fresh ids; CPU is
that of the collector and its workers, read from /proc, until every trace has its verdict.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

ROOT = Path(__file__).resolve().parent.parent
POLICY = ROOT / "deploy" / "policies" / "refund.yaml"
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
STEPS = ["lookup_user", "check_balance", "process_payment", "send_receipt"]
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """`extra` adds that many attributes of `size` bytes to each span."""

    name: str
    spans_per_request: int
    requests: int
    extra: int = 0
    size: int = 0


LOADS = [
    Load("10 spans a request", 10, 3000),
    Load("100 spans a request", 100, 600),
    Load("512 spans a request", 512, 150),
    Load("100 a request, 20 x 1,000 B", 100, 100, 20, 1000),
    Load("100 a request, 20 x 5,000 B", 100, 40, 20, 5000),
]


def main(loads: Sequence[Load] = LOADS) -> None:
    print(f"{'load':<30}{'CPU us/span':>12}{'spans/s':>10}{'peak rss MiB':>14}{'traces':>8}")
    for load in loads:
        print(measure(load), flush=True)
    print(idle())


def measure(load: Load) -> str:
    requests = [encode(load, random.Random(i)) for i in range(load.requests)]
    spans = load.requests * load.spans_per_request
    with tempfile.TemporaryDirectory() as folder, sink() as address:
        report = Path(folder) / "reports.jsonl"
        with collector(["--forward", f"grpc://{address}", "--report-file", str(report)]) as (process, at):
            before = cpu(process.pid)
            began = time.monotonic()
            send(at, requests)
            sent = time.monotonic() - began
            traces = -(-load.spans_per_request // 10) * load.requests
            wait_for_lines(report, traces)
            used = cpu(process.pid) - before
            peak = rss(process.pid)
    return f"{load.name:<30}{used / spans * 1e6:>12.1f}{spans / sent:>10.0f}{peak:>14.0f}{traces:>8}"


def idle() -> str:
    began = time.monotonic()
    with collector([]) as (process, _):
        ready = time.monotonic() - began
        time.sleep(1)
        before = cpu(process.pid)
        time.sleep(5)
        share = (cpu(process.pid) - before) / 5
        return f"idle: ready in {ready:.2f} s, rss {rss(process.pid):.0f} MiB, {share:.2%} of a core"


def encode(load: Load, chance: random.Random) -> bytes:
    """One request; every ten spans are one agent run: model, tool, model, tool, ... under invoke_agent."""
    resource = ResourceSpans()
    resource.resource.attributes.add(key="service.name").value.string_value = "refund-bench"
    scope = resource.scope_spans.add()
    scope.scope.name = "bench"
    for first in range(0, load.spans_per_request, 10):
        add_trace(scope, min(10, load.spans_per_request - first), chance, load)
    return ExportTraceServiceRequest(resource_spans=[resource]).SerializeToString()


def add_trace(scope: ScopeSpans, count: int, chance: random.Random, load: Load) -> None:
    trace_id, root = chance.randbytes(16), chance.randbytes(8)
    start = time.time_ns()
    for i in range(count):
        last = i == count - 1
        span = scope.spans.add(trace_id=trace_id, span_id=root if last else chance.randbytes(8))
        span.parent_span_id = b"" if last else root
        span.start_time_unix_nano = start if last else start + i * 1_000_000
        span.end_time_unix_nano = start + (count * 1_000_000 if last else i * 1_000_000 + 900_000)
        if last:
            fill(span, "invoke_agent refund_agent", {"gen_ai.operation.name": "invoke_agent"})
        elif i % 2:
            tool = STEPS[i // 2 % 4]
            call = {"gen_ai.tool.name": tool, "gen_ai.tool.call.id": f"call_{i}"}
            arguments = {
                "gen_ai.tool.call.arguments": '{"user_id": "u_1001"}',
                "gen_ai.tool.call.result": '{"ok": true}',
            }
            fill(span, f"execute_tool {tool}", {"gen_ai.operation.name": "execute_tool", **call, **arguments})
        else:
            asked = {"gen_ai.request.model": "gpt-4o", "gen_ai.provider.name": "openai"}
            fill(span, "chat gpt-4o", {"gen_ai.operation.name": "chat", **asked})
            span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 120
            span.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = 18
        for n in range(load.extra):
            span.attributes.add(key=f"app.payload.{n}").value.string_value = "x" * load.size


def fill(span: Span, name: str, attributes: dict[str, str]) -> None:
    span.name = name
    for key, value in {"gen_ai.agent.name": "refund_agent", **attributes}.items():
        span.attributes.add(key=key).value.string_value = value


def send(address: str, requests: list[bytes]) -> None:
    """From a process of its own, so that its CPU is not counted and its GIL not shared."""
    context = get_context("spawn")
    child = context.Process(target=_send, args=(address, requests))
    child.start()
    child.join()
    assert child.exitcode == 0


def _send(address: str, requests: list[bytes]) -> None:
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(EXPORT)
        with futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda body: retried(call, body), requests))


def retried(call: grpc.UnaryUnaryMultiCallable[bytes, bytes], body: bytes) -> None:
    while True:
        try:
            call(body, timeout=30)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            time.sleep(0.05)
        else:
            return


@contextmanager
def sink() -> Iterator[str]:
    """An OTLP/gRPC server that takes everything, in a process of its own."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_sink, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"127.0.0.1:{ours.recv()}"
    finally:
        process.kill()
        process.join()


def _sink(pipe: object) -> None:
    class Everything(grpc.GenericRpcHandler):
        def service(self, _: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")

    server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((Everything(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    pipe.send(port)  # type: ignore[attr-defined]
    server.wait_for_termination()


@contextmanager
def collector(options: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "onpath.cli", "collector", "--policy", str(POLICY)]
    command += ["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    log_level = {**os.environ, "ONPATH_BUFFER__SETTLE_DELAY": "500ms"}
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, env=log_level)
    assert process.stderr is not None
    address = ""
    for line in process.stderr:
        found = re.search(r"OTLP/gRPC on (\S+?),", line)
        if found:
            address = found[1]
            break
    drain = futures.ThreadPoolExecutor(1)
    drain.submit(process.stderr.read)
    try:
        yield process, address
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(c) for c in children)]


def cpu(pid: int) -> float:
    """Seconds of user and system time of a process and its children."""
    total = 0
    for member in family(pid):
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def rss(pid: int) -> float:
    """Peak resident MiB of a process and its children together."""
    found = [re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{p}/status").read_text()) for p in family(pid)]
    return sum(int(f[1]) for f in found if f) / 1024


def wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 120
    found = 0
    while time.monotonic() < deadline:
        found = path.read_bytes().count(b"\n") if path.exists() else 0
        if found >= count:
            return
        time.sleep(0.2)
    raise TimeoutError(f"{found} of {count} verdicts")


if __name__ == "__main__":
    main()
