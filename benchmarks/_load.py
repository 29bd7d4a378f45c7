"""Load and measures for benchmarks of collectors: pre-encoded requests, a sink downstream, CPU and memory from /proc.

Requests hold agent traces of ten spans with fresh ids that take a few dozen different paths: what is remembered of one
run must not make all others look cheap. Sender and sink are processes of their own, so that their CPU is not counted
and their GIL not shared.
"""

from __future__ import annotations

import math
import os
import random
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

T = TypeVar("T")

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
STEPS = ["lookup_user", "check_balance", "process_payment", "send_receipt"]
PATHS = 48
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Load:
    """`extra` adds that many attributes of `size` bytes to each span; `rate` is spans a second, 0 for all at once."""

    name: str
    spans_per_request: int
    requests: int
    extra: int = 0
    size: int = 0
    rate: int = 0
    at_once: int = 8  # requests in flight
    gzip: bool = False

    @property
    def spans(self) -> int:
        return self.requests * self.spans_per_request

    @property
    def traces(self) -> int:
        return -(-self.spans_per_request // 10) * self.requests

    def encoded(self) -> list[bytes]:
        return [encode(self, random.Random(number)) for number in range(self.requests)]


def encode(load: Load, chance: random.Random) -> bytes:
    """One request; every ten spans are one agent run: model, tool, model, tool, ... under invoke_agent."""
    resource = ResourceSpans()
    resource.resource.attributes.add(key="service.name").value.string_value = "refund-bench"
    scope = resource.scope_spans.add()
    scope.scope.name = "bench"
    for first in range(0, load.spans_per_request, 10):
        add_trace(scope, min(10, load.spans_per_request - first), chance, load)
    return ExportTraceServiceRequest(resource_spans=[resource]).SerializeToString()


def _paths() -> list[list[str]]:
    """Tool calls of runs: first as they should be, then out of order, with steps skipped, repeated or prohibited."""
    chance = random.Random("paths")
    found = [STEPS]
    while len(found) < PATHS:
        path = list(STEPS)
        for _ in range(chance.randint(1, 3)):
            change, at = chance.randrange(4), chance.randrange(len(path))
            if change == 0:
                path.insert(at, path[at])
            elif change == 1 and len(path) > 2:
                del path[at]
            elif change == 2:
                chance.shuffle(path)
            else:
                path.insert(at, chance.choice(["look_into_orders", "ask_colleague", "delete_records"]))
        if path not in found:
            found.append(path)
    return found


_PATHS = _paths()


def add_trace(scope: ScopeSpans, count: int, chance: random.Random, load: Load) -> None:
    path = _PATHS[0] if chance.random() < 0.5 else chance.choice(_PATHS)
    user = chance.randrange(1000, 10_000)
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
            tool = path[i // 2 % len(path)]
            call = {"gen_ai.tool.name": tool, "gen_ai.tool.call.id": f"call_{i}"}
            arguments = {
                "gen_ai.tool.call.arguments": f'{{"user_id": "u_{user}"}}',
                "gen_ai.tool.call.result": f'{{"ok": true, "amount": {chance.randrange(10_000)}}}',
            }
            fill(span, f"execute_tool {tool}", {"gen_ai.operation.name": "execute_tool", **call, **arguments})
        else:
            asked = {"gen_ai.request.model": "gpt-4o", "gen_ai.provider.name": "openai"}
            fill(span, "chat gpt-4o", {"gen_ai.operation.name": "chat", **asked})
            span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = chance.randint(80, 900)
            span.attributes.add(key="gen_ai.usage.output_tokens").value.int_value = chance.randint(5, 200)
        for n in range(load.extra):
            span.attributes.add(key=f"app.payload.{n}").value.string_value = "x" * load.size


def fill(span: Span, name: str, attributes: dict[str, str]) -> None:
    span.name = name
    for key, value in {"gen_ai.agent.name": "refund_agent", **attributes}.items():
        span.attributes.add(key=key).value.string_value = value


def send(address: str, requests: list[bytes], load: Load) -> None:
    """From a process of its own."""
    context = get_context("spawn")
    child = context.Process(target=_send, args=(address, requests, load))
    child.start()
    child.join()
    assert child.exitcode == 0


def _send(address: str, requests: list[bytes], load: Load) -> None:
    compression = grpc.Compression.Gzip if load.gzip else grpc.Compression.NoCompression
    with (
        grpc.insecure_channel(address, compression=compression) as channel,
        futures.ThreadPoolExecutor(load.at_once) as pool,
    ):
        call = channel.unary_unary(EXPORT)
        for each in [pool.submit(retried, call, body) for body in paced(requests, load)]:
            each.result()


def paced(requests: Sequence[T], load: Load) -> Iterator[T]:
    """Each when its time has come by the load's rate, or all at once."""
    pause = load.spans_per_request / load.rate if load.rate else 0.0
    start = time.monotonic()
    for number, request in enumerate(requests):
        time.sleep(max(0.0, start + number * pause - time.monotonic()))
        yield request


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


def _sink(pipe: Connection) -> None:
    server, port = taking(lambda method, request: None)
    pipe.send(port)
    server.wait_for_termination()


def taking(take: Callable[[str, bytes], None]) -> tuple[grpc.Server, int]:
    """A server on loopback that has `take` called with every method and request, and says yes; its port."""

    class Everything(grpc.GenericRpcHandler):
        def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
            def answer(request: bytes, _: grpc.ServicerContext) -> bytes:
                take(details.method, request)
                return b""

            return grpc.unary_unary_rpc_method_handler(answer)

    server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((Everything(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(c) for c in children)]


def cpu(pid: int) -> float:
    """Seconds of user and system time of a process and its children."""
    return cpu_of(*family(pid))


def cpu_of(*pids: int) -> float:
    """Of these processes alone."""
    total = 0
    for member in pids:
        fields = Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def rss(pid: int) -> float:
    """Peak resident MiB of a process and its children together."""
    found = [re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{p}/status").read_text()) for p in family(pid)]
    return sum(int(f[1]) for f in found if f) / 1024


def wait_until_quiet(pid: int, deadline: float = math.inf) -> None:
    """Until a process and its children have used no CPU to speak of for a second and a half."""
    used = cpu(pid)
    quiet = 0
    while quiet < 3 and time.monotonic() < deadline:
        time.sleep(0.5)
        now = cpu(pid)
        quiet = quiet + 1 if now - used < 0.02 else 0
        used = now


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
