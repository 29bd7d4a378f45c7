"""How much later a request gets to the downstream for the collector in between, also while every check hangs.

From the start of the call to when the downstream has the request, straight and through the collector in turns, at a
steady rate. Both ends read the same clock; a request is known again by its bytes.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
import zlib
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles

import grpc

from benchmarks._load import EXPORT, Load, retried, taking
from benchmarks._peers import ROOT
from tests.support.checks import Given, HangsOnEach
from tests.support.service import collecting

SECONDS = 10
RATES = (1_000, 5_000)
WAYS = ("straight", "checks that pass", "checks that hang")
NEVER = 1 << 128  # no trace id is divisible by it
ROUNDS = 2


def main() -> None:
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])  # workers find the checks
    print(f"{'ms to the downstream, p50 / p99':<34}", *(f"{way:>20}" for way in WAYS), "  added p50 / p99")
    for rate in RATES:
        load = Load(f"{rate:,} spans/s, 50 a request", 50, rate * SECONDS // 50, rate=rate)
        found = {way: min(measured(load, way) for _ in range(ROUNDS)) for way in WAYS}
        straight = found.pop(WAYS[0])
        told = [straight, *found.values()]
        added = (f"{p50 - straight[0]:.1f} / {p99 - straight[1]:.1f}" for p50, p99 in found.values())
        print(f"{load.name:<34}", *(f"{f'{p50:.1f} / {p99:.1f}':>20}" for p50, p99 in told), "  ", ", ".join(added))


def measured(load: Load, way: str) -> tuple[float, float]:
    """The median and the 99th percentile, in ms."""
    requests = load.encoded()
    with child(_sink) as sink:
        address = sink.recv()
        if way == WAYS[0]:
            sent = _send(address, requests, load)
        else:
            with child(_collector, address, 1 if way == WAYS[2] else NEVER) as collector:
                sent = _send(collector.recv(), requests, load)
        sink.send(len(sent))
        came: dict[int, float] = sink.recv()
    cuts = quantiles([(came[key] - at) * 1e3 for key, at in sent.items()], n=100)
    return cuts[49], cuts[98]


@contextmanager
def child(target: object, *arguments: object) -> Iterator[Connection]:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments))  # type: ignore[arg-type]
    process.start()
    try:
        yield ours
    finally:
        ours.close()
        process.join(30)
        process.kill()


def _send(address: str, requests: list[bytes], load: Load) -> dict[int, float]:
    pause = load.spans_per_request / load.rate
    sent: dict[int, float] = {}
    with grpc.insecure_channel(address) as channel, futures.ThreadPoolExecutor(load.at_once) as pool:
        call = channel.unary_unary(EXPORT)
        retried(call, b"")  # connected
        start = time.monotonic()
        for number, body in enumerate(requests):
            time.sleep(max(0.0, start + number * pause - time.monotonic()))
            sent[_key(body)] = time.monotonic()
            pool.submit(retried, call, body)
    return sent


def _key(body: bytes) -> int:
    return zlib.crc32(body)


def _sink(pipe: Connection) -> None:
    """Says when each request came, once as many are there as were sent."""
    came: dict[int, float] = {}

    def take(body: bytes) -> None:
        came.setdefault(_key(body), time.monotonic())

    _server, port = taking(take)  # it stops with the last reference to it
    pipe.send(f"127.0.0.1:{port}")
    expected = pipe.recv()
    deadline = time.monotonic() + 30
    while len(came) < expected and time.monotonic() < deadline:
        time.sleep(0.1)
    pipe.send(came)


def _collector(pipe: Connection, downstream: str, hangs: int) -> None:
    async def run() -> None:
        options = {"buffer": {"settle_delay": "500ms"}, "evaluate": {"workers": 1}, "shutdown_timeout": "1s"}
        forward = {"endpoint": f"grpc://{downstream}"}
        with tempfile.TemporaryDirectory() as folder:
            async with collecting(Path(folder), Given(hangs=HangsOnEach(hangs)), forward=forward, **options) as running:
                pipe.send(running.address)
                with suppress(EOFError):  # once the other end is closed
                    await asyncio.to_thread(pipe.recv)

    asyncio.run(run())


if __name__ == "__main__":
    main()
