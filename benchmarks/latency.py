"""How much later a request gets to the downstream for the collector in between, also while every check hangs.

From the start of the call to when the downstream has the request, straight and through the collector in turns, at a
steady rate.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks._latency import Latency, noting_sink, send_noting, under_way
from benchmarks._load import Load
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
        added = (f"{one.p50 - straight.p50:.1f} / {one.p99 - straight.p99:.1f}" for one in found.values())
        print(f"{load.name:<34}", *(f"{f'{one.p50:.1f} / {one.p99:.1f}':>20}" for one in told), "  ", ", ".join(added))


def measured(load: Load, way: str) -> Latency:
    requests = load.encoded()
    with noting_sink(looks=True) as sink:
        if way == WAYS[0]:
            sent = send_noting(sink.address, requests, load)
        else:
            with collector(sink.address, 1 if way == WAYS[2] else NEVER) as address:
                sent = send_noting(address, requests, load)
        deadline = time.monotonic() + 30
        while not (came := sink.times).keys() >= sent.keys():
            assert time.monotonic() < deadline, f"{len(sent.keys() - came.keys())} of {len(sent)} traces did not arrive"
            time.sleep(0.1)
    return under_way(sent, came)


@contextmanager
def collector(downstream: str, hangs: int) -> Iterator[str]:
    """Its address."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_collector, args=(theirs, downstream, hangs))
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        process.join(30)
        process.kill()


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
