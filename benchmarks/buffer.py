"""The trace buffer by itself (spans/s, open traces, largest trace, ticks) and the reading of OTLP (split, decode).

Times are CPU microseconds a span, the best of several runs: what else the machine does only ever makes them worse.
"""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from time import process_time

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.otlp import Chunk, decode, split

RUNS = 3
SPAN_BYTES = 400
NOW = 1_700_000_000_000_000_000


def main() -> None:
    _pushing()
    _open_traces()
    _bounded_work()
    _otlp()


def _best(run: Callable[[], Iterator[None]], spans: int, runs: int = RUNS) -> float:
    """Microseconds a span. `run` yields when it has made ready what it then measures."""
    times = []
    for _ in range(runs):
        steps = run()
        next(steps)
        gc.collect()
        gc.freeze()  # what was made ready is none of the buffer's
        start = process_time()
        next(steps, None)
        times.append(process_time() - start)
        gc.unfreeze()
    return min(times) / spans * 1e6


def _chunks(traces: int, spans: int, per_chunk: int) -> list[Chunk]:
    """Traces whose chunks are mixed as those of many agents are; the root comes last, as exporters send it."""
    found = []
    for _ in range(traces):
        trace_id, ids = os.urandom(16), [os.urandom(8) for _ in range(spans)]
        held = [(span_id, ids[-1], False, NOW, NOW + 1) for span_id in ids[:-1]]
        held.append((ids[-1], b"", False, NOW, NOW + 1))
        for at in range(0, spans, per_chunk):
            part = held[at : at + per_chunk]
            found.append((random.random() + at, Chunk(trace_id, _data(trace_id, part), part)))
    return [chunk for _, chunk in sorted(found, key=lambda f: f[0])]


def _data(trace_id: bytes, spans: list[tuple[bytes, bytes, bool, int, int]]) -> bytes:
    """About as compressible as spans are: ids and numbers differ, keys and texts repeat."""
    return b"".join(
        trace_id + span_id + parent_id + (b"key %d value %d; " % (number, number * 7919) * 40)[: SPAN_BYTES - 32]
        for number, (span_id, parent_id, *_) in enumerate(spans)
    )


def _pushing() -> None:
    print("push, tick and settle at 10,000 spans a second (bar: 200,000 spans a second, 5 us)")
    kept, gone = BufferSettings(), BufferSettings(late_window=0.0)
    for spans, per_chunk, traces in ((10, 10, 10_000), (10, 1, 10_000), (50, 5, 2000), (100, 100, 1000)):
        found = []
        for settings in (kept, gone):

            def run(
                spans: int = spans,
                per_chunk: int = per_chunk,
                traces: int = traces,
                settings: BufferSettings = settings,
            ) -> Iterator[None]:
                buffer, chunks = TraceBuffer(settings), _chunks(traces, spans, per_chunk)
                yield
                now = 0.0
                for chunk in chunks:
                    buffer.push(now, chunk)
                    now += 1e-4 * len(chunk.spans)
                    if (deadline := buffer.next_deadline()) is not None and deadline <= now:
                        for released in buffer.tick(now):
                            buffer.settle(released, "judged")

            found.append(_best(run, spans * traces, 3))
        name = f"traces of {spans:3}, {per_chunk:3} a chunk"
        told = [f"{us:.2f} us a span, {1e6 / us:,.0f} a second" for us in found]
        print(f"  {name}: {told[0]}; without late window {told[1]}")


def _open_traces() -> None:
    print("push by the number of open traces (bar: 100,000 within twice 100)")
    for per_chunk in (1, 10):
        found = []
        for count in (100, 10_000, 100_000):

            def run(count: int = count, per_chunk: int = per_chunk) -> Iterator[None]:
                buffer = TraceBuffer(BufferSettings(span_limit=1 << 30, trace_bytes_limit=1 << 40))
                ids = [os.urandom(16) for _ in range(count)]
                for trace_id in ids:
                    buffer.push(0.0, _of(trace_id, 1))
                more = [_of(random.choice(ids), per_chunk) for _ in range(50_000 // per_chunk)]
                yield
                for chunk in more:
                    buffer.push(1.0, chunk)

            found.append(_best(run, 50_000))
        told = ", ".join(f"{us:.2f}" for us in found)
        print(
            f"  {per_chunk:2} a chunk, 100 | 10,000 | 100,000 open: {told} us a span, ratio {found[-1] / found[0]:.2f}"
        )


def _of(trace_id: bytes, spans: int) -> Chunk:
    held = [(os.urandom(8), b"openroot", False, NOW, NOW + 1) for _ in range(spans)]
    return Chunk(bytes(bytearray(trace_id)), os.urandom(SPAN_BYTES * spans), held)


def _bounded_work() -> None:
    print("one tick")
    for name, traces, spans in (("256 of 20,000 small traces", 20_000, 2), ("one trace of 20,000 spans", 1, 20_000)):

        def run(traces: int = traces, spans: int = spans) -> Iterator[None]:
            buffer = TraceBuffer()
            for chunk in _chunks(traces, spans, min(spans, 100)):
                buffer.push(0.0, chunk)
            yield
            buffer.tick(1000.0)

        print(f"  {name}: {_best(run, 1000):.2f} ms")


def _otlp() -> None:
    print("split and decode, spans of ten attributes and 400 bytes (bar of decode: 6 us a span)")
    for spans, traces in ((10, 1), (100, 1), (512, 1), (100, 10), (512, 50)):
        request = _request(spans, traces)
        chunks = [chunk.data for chunk in split(request).chunks]
        rounds = max(1, 10_000 // spans)

        def splitting(request: bytes = request, rounds: int = rounds) -> Iterator[None]:
            yield
            for _ in range(rounds):
                split(request)

        def decoding(chunks: list[bytes] = chunks, rounds: int = rounds) -> Iterator[None]:
            yield
            for _ in range(rounds):
                decode(chunks)

        times = [_best(run, spans * rounds, 10) for run in (splitting, decoding)]
        size = len(request) / spans
        print(
            f"  {spans:3} spans of {traces:2} traces ({size:.0f} B a span):"
            f" split {times[0]:.2f}, decode {times[1]:.2f} us a span"
        )


def _request(spans: int, traces: int) -> bytes:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    for key in ("service.name", "service.version", "telemetry.sdk.language", "telemetry.sdk.name", "host.name"):
        group.resource.attributes.add(key=key).value.string_value = f"value of {key}"
    scope = group.scope_spans.add()
    scope.scope.name = "opentelemetry.instrumentation.agent"
    ids = [os.urandom(16) for _ in range(traces)]
    for number in range(spans):
        span = scope.spans.add(trace_id=ids[number % traces], span_id=os.urandom(8), parent_span_id=os.urandom(8))
        span.name, span.kind, span.flags = "execute_tool lookup_user", 1, 0x101
        span.start_time_unix_nano, span.end_time_unix_nano = NOW + number, NOW + number + 1000
        for at in range(8):
            span.attributes.add(key=f"gen_ai.attribute.{at}").value.string_value = f"a value, number {number}"
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = number
        span.attributes.add(key="gen_ai.request.temperature").value.double_value = 0.5
    return request.SerializeToString()


if __name__ == "__main__":
    main()
