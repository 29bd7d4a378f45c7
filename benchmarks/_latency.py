"""How long a request is under way to the sink: a sender at a rate, and a sink that notes when each trace arrived.

Both are processes of their own; the monotonic clock is the machine's, and so the same for both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks._load import EXPORT, Load, paced, retried, taking

Times = Mapping[bytes, float]
"""By trace id, of the first span: seconds of the monotonic clock."""


@dataclass(frozen=True, order=True)
class Latency:
    """Milliseconds."""

    p50: float
    p99: float


class Sink:
    """`address` takes OTLP/gRPC."""

    def __init__(self, pipe: Connection, port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        self._pipe = pipe

    @property
    def size(self) -> int:
        """Bytes of all requests so far."""
        self._pipe.send("size")
        size: int = self._pipe.recv()
        return size

    @property
    def times(self) -> Times:
        """When each trace arrived; nothing from a sink that does not look into requests."""
        self._pipe.send("times")
        times: Times = self._pipe.recv()
        return times


@contextmanager
def noting_sink(*, looks: bool = False) -> Iterator[Sink]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_note, args=(theirs, looks), daemon=True)
    process.start()
    try:
        yield Sink(ours, ours.recv())
    finally:
        process.kill()
        process.join()


def _note(pipe: Connection, looks: bool) -> None:
    times: dict[bytes, float] = {}
    sizes = [0]

    def take(method: str, request: bytes) -> None:
        now = time.monotonic()
        sizes[0] += len(request)
        if looks and method == EXPORT:
            for trace_id in traces_in(request):
                times.setdefault(trace_id, now)

    _server, port = taking(take)  # it stops with the last reference to it
    pipe.send(port)
    while True:
        pipe.send(sizes[0] if pipe.recv() == "size" else times)


def traces_in(request: bytes) -> set[bytes]:
    groups = ExportTraceServiceRequest.FromString(request).resource_spans
    return {span.trace_id for group in groups for scope in group.scope_spans for span in scope.spans}


def under_way(sent: Times, arrived: Times) -> Latency:
    """Of what has arrived; ValueError where less than half has."""
    took = sorted((arrived[trace_id] - at) * 1e3 for trace_id, at in sent.items() if trace_id in arrived)
    if len(took) * 2 < len(sent) or len(took) < 2:
        raise ValueError(f"{len(took)} of {len(sent)} traces arrived")
    return Latency(statistics.median(took), took[int(len(took) * 0.99)])


def send_noting(address: str, requests: Sequence[bytes], load: Load) -> Times:
    """At the load's rate, from a process of its own; when each trace was sent."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=_send, args=(address, requests, load, theirs))
    child.start()
    times: Times = ours.recv()
    child.join()
    return times


def _send(address: str, requests: Sequence[bytes], load: Load, pipe: Connection) -> None:
    ids = [traces_in(request) for request in requests]
    times: dict[bytes, float] = {}
    with grpc.insecure_channel(address) as channel, futures.ThreadPoolExecutor(load.at_once) as pool:
        call = channel.unary_unary(EXPORT)

        def one(number: int) -> None:
            times.update(dict.fromkeys(ids[number], time.monotonic()))
            retried(call, requests[number])

        grpc.channel_ready_future(channel).result(30)
        for each in [pool.submit(one, number) for number in paced(range(len(requests)), load)]:
            each.result()
    pipe.send(times)
