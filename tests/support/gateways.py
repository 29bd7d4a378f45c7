"""Gateways that share traces under one name, each on a loopback address of its own, at the same port; and a sender.

`Gateway` is one of them through all its lives, with a journal and a downstream of its own, so that it can be told what
came to whom. `Sender` plays agents: runs whose spans come one by one over a second, those of many runs in one request.
"""

from __future__ import annotations

import random
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.collector import Collector, Result
from tests.support.durable import Lives
from tests.support.load import AGAIN, EXPORT, SpanKey, keys, request
from tests.support.otelcol import Names
from tests.support.otlp_sink import OtlpSink

TOOLS = ("lookup_user", "check_balance", "send_receipt")
STEP = 0.3  # seconds between two spans of a run
TICK = 0.1  # seconds between two requests


def free_port(hosts: Sequence[str]) -> int:
    """Free on all of them."""
    for _ in range(50):
        probes = [socket.socket() for _ in hosts]
        try:
            probes[0].bind((hosts[0], 0))
            port: int = probes[0].getsockname()[1]
            for host, probe in zip(hosts[1:], probes[1:], strict=True):
                probe.bind((host, port))
        except OSError:
            continue
        else:
            return port
        finally:
            for probe in probes:
                probe.close()
    raise AssertionError("no port is free on all loopback addresses")


class Gateway:
    def __init__(self, folder: Path, names: Names, sink: OtlpSink, settings: str) -> None:
        folder.mkdir()
        self.sink = sink
        self.lives = Lives(folder, sink.address, "--config", str(folder / "onpath.yaml"))
        (folder / "onpath.yaml").write_text(settings, encoding="utf-8")
        self._names = names

    def start(self, host: str, port: int) -> Collector:
        """Not entered yet. It has what those before it left in the journal."""
        collector = self.lives.start("--grpc", f"{host}:{port}", "--settle-delay", "5s")
        collector.command = self._names.within(collector.command)
        return collector

    @property
    def results(self) -> list[Result]:
        return self.lives.results

    def spans(self) -> dict[str, set[bytes]]:
        """What went downstream of it, by trace."""
        found: dict[str, set[bytes]] = defaultdict(set)
        for span in self.sink.spans():
            if span.name.startswith(("execute_tool", "invoke_agent")):  # no results
                found[span.trace_id.hex()].add(span.span_id)
        return found


class Sender:
    """`with Sender(address, rate=20): ...` begins so many runs a second, and ends those that it began.

    Every other run leaves a step out: `skips`. `began` has the time of each run's first span, seconds since the epoch.
    `session_of` runs are of one session each, if that is not 0.
    """

    def __init__(self, address: str, rate: float, session_of: int = 0) -> None:
        self.acknowledged: set[SpanKey] = set()
        self.began: dict[str, float] = {}
        self.skips: set[str] = set()
        self.sessions: dict[str, list[str]] = defaultdict(list)
        self._address, self._rate, self._session_of = address, rate, session_of
        self._draw = random.Random(time.time_ns())
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: Exception | None = None

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "the sender did not come to its end"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with grpc.insecure_channel(self._address) as channel:
                self._send_all(channel.unary_unary(EXPORT))
        except Exception as error:  # noqa: BLE001  # handed to who waits for it
            self._failure = error

    def _send_all(self, call: grpc.UnaryUnaryMultiCallable[bytes, bytes]) -> None:
        due: list[tuple[float, Span]] = []
        started = time.monotonic()
        count = 0
        while due or not self._stopping.is_set():
            now = time.monotonic()
            while not self._stopping.is_set() and count < (now - started) * self._rate:
                due += self._new_run(now, count)
                count += 1
            ready = [span for at, span in due if at <= now]
            due = [(at, span) for at, span in due if at > now]
            if ready:
                self._deliver(call, ready)
            time.sleep(TICK)

    def _new_run(self, now: float, number: int) -> list[tuple[float, Span]]:
        """Its spans and when they are sent: each when it has ended, as SDKs do."""
        trace_id, root = self._draw.randbytes(16), self._draw.randbytes(8)
        epoch = time.time_ns()
        self.began[trace_id.hex()] = epoch / 1e9
        tools = [tool for tool in TOOLS if number % 2 == 0 or tool != "check_balance"]
        if len(tools) < len(TOOLS):
            self.skips.add(trace_id.hex())
        found = []
        for place, tool in enumerate((*tools, "")):
            span = Span(trace_id=trace_id, span_id=self._draw.randbytes(8) if tool else root)
            span.parent_span_id = root if tool else b""
            span.name = f"execute_tool {tool}" if tool else "invoke_agent refund"
            span.start_time_unix_nano = epoch + (int(place * STEP * 1e9) if tool else 0)
            span.end_time_unix_nano = epoch + int((place + 0.9) * STEP * 1e9)
            span.attributes.add(key="gen_ai.operation.name").value.string_value = span.name.partition(" ")[0]
            if tool:
                span.attributes.add(key="gen_ai.tool.name").value.string_value = tool
            if self._session_of:
                session = f"session {number // self._session_of}"
                span.attributes.add(key="session.id").value.string_value = session
                if not tool:
                    self.sessions[session].append(trace_id.hex())
            found.append((now + place * STEP, span))
        return found

    def _deliver(self, call: grpc.UnaryUnaryMultiCallable[bytes, bytes], spans: list[Span]) -> None:
        """As OTLP asks: what is refused for now is sent again."""
        body = request(spans)
        patience = time.monotonic() + 60
        while True:
            try:
                call(body, timeout=10)
            except grpc.RpcError as error:
                if error.code() not in AGAIN or time.monotonic() > patience:
                    raise
                time.sleep(0.2)
            else:
                self.acknowledged |= keys(spans)
                return
