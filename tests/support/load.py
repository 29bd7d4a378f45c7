"""Senders of agent traces that behave as OTLP asks: what is refused with UNAVAILABLE is sent again until it is taken.

with Load(address, threads=4) as load: ...     each request holds some traces, whole, of four spans
load.acknowledged                              what the collector has said that it took
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TOOLS = ("lookup_user", "check_balance", "send_receipt")
AGAIN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

SpanKey = tuple[bytes, bytes]


def traces(draw: random.Random, count: int, padding: int = 0, *, root: bool = True) -> list[Span]:
    """`count` agent runs: three tools below their root, which comes last, or not at all."""
    found: list[Span] = []
    for _ in range(count):
        trace_id, root_id = draw.randbytes(16), draw.randbytes(8)
        for number, tool in enumerate((*TOOLS, "")):
            if not tool and not root:
                continue
            span = Span(trace_id=trace_id, span_id=draw.randbytes(8) if tool else root_id)
            span.parent_span_id = root_id if tool else b""
            span.name = f"execute_tool {tool}" if tool else "invoke_agent refund"
            span.start_time_unix_nano = 1_000 * number if tool else 0
            span.end_time_unix_nano = span.start_time_unix_nano + 500 if tool else 10_000
            span.attributes.add(key="gen_ai.operation.name").value.string_value = span.name.partition(" ")[0]
            if tool:
                span.attributes.add(key="gen_ai.tool.name").value.string_value = tool
            if padding:
                span.attributes.add(key="padding").value.string_value = "x" * padding
            found.append(span)
    return found


def request(spans: Iterable[Span], scope: str = "") -> bytes:
    made = ExportTraceServiceRequest()
    group = made.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "load"
    group.scope_spans.add().spans.extend(spans)
    group.scope_spans[0].scope.name = scope
    return made.SerializeToString()


def keys(spans: Iterable[Span]) -> set[SpanKey]:
    return {(span.trace_id, span.span_id) for span in spans}


class Load:
    """`acknowledged` are the spans of requests that were taken. Of every request the first trace may come in two parts:
    its second tool `late` seconds after the rest."""

    def __init__(
        self,
        address: str,
        *,
        threads: int = 4,
        traces: int = 5,
        padding: int = 0,
        rate: float = 0,
        root: bool = True,
        late: float = 0,
        scope: str = "",
    ) -> None:
        """`rate` bounds the requests a second, all threads together; 0 is as fast as it goes."""
        self.address = address
        self.acknowledged: set[SpanKey] = set()
        self.refused = 0
        self.failures: list[grpc.StatusCode] = []
        self._traces, self._padding, self._root, self._late = traces, padding, root, late
        self._scope = scope
        self._pause = threads / rate if rate else 0.0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(threads)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """What is under way is sent to its end, if the collector takes it within some seconds."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(30)

    @property
    def traces(self) -> set[str]:
        """Ids of the traces that were acknowledged."""
        with self._lock:
            return {trace_id.hex() for trace_id, _ in self.acknowledged}

    def _run(self, number: int) -> None:
        draw = random.Random(f"{number} {time.time_ns()}")
        sender = Sender(self.address)
        held: deque[tuple[float, Span]] = deque()
        while not self._stopping.is_set():
            began = time.monotonic()
            spans = traces(draw, self._traces, self._padding, root=self._root)
            if self._late:
                held.append((began + self._late, spans.pop(1)))
            self._send(sender, spans)
            while held and held[0][0] <= time.monotonic():
                self._send(sender, [held.popleft()[1]])
            time.sleep(max(0.0, self._pause - (time.monotonic() - began)))
        if held:
            self._send(sender, [span for _, span in held])
        sender.close()

    def _send(self, sender: Sender, spans: list[Span]) -> None:
        if self._taken(sender, request(spans, self._scope)):
            with self._lock:
                self.acknowledged |= keys(spans)

    def _taken(self, sender: Sender, body: bytes) -> bool:
        """Whether it was, at last."""
        patience: float | None = None
        while patience is None or time.monotonic() < patience:
            code = sender.send(body)
            if code is grpc.StatusCode.OK:
                return True
            if code not in AGAIN:
                with self._lock:
                    self.failures.append(code)
                return False
            self.refused += 1
            if self._stopping.is_set() and patience is None:
                patience = time.monotonic() + 5
            time.sleep(0.05)
        return False


class Sender:
    """One connection, made again after each failure."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._channel: grpc.Channel | None = None

    def send(self, body: bytes) -> grpc.StatusCode:
        if self._channel is None:
            self._channel = grpc.insecure_channel(self._address, options=[("grpc.max_send_message_length", -1)])
        try:
            self._channel.unary_unary(EXPORT)(body, timeout=5)
        except grpc.RpcError as error:
            self.close()
            code = error.code()
            assert isinstance(code, grpc.StatusCode)
            return code
        return grpc.StatusCode.OK

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
