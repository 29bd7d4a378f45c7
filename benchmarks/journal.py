"""What the journal costs: CPU for a span by fsync mode, beside the same load without one, and what the disk is sent.

First the journal alone, in short rounds, so that a busy machine does little harm: written, marked as forwarded, let go.
Then full work, as in `collector`: receive, write, forward, judge, emit. The least of each mode counts.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks._load import Load, cpu, send, sink
from benchmarks._peers import onpath
from benchmarks.collector import wait_for_lines
from onpath_collector.journal import Journal, JournalSettings
from onpath_collector.journal.store import Fsync

LOADS = (
    Load("100 spans a request", 100, 300),
    Load("10 spans a request", 10, 1500),
    Load("100 a request, 3,000 spans/s", 100, 150, rate=3_000),
)
MODES = ("no journal", "never", "interval", "always")
FSYNC: tuple[Fsync, ...] = ("never", "interval", "always")
ROUNDS = 3
SHORT_ROUNDS = 40


def main() -> None:
    print(f"{'us of CPU a span, the journal alone':<34}", *(f"{mode:>20}" for mode in MODES[1:]))
    for load in LOADS[:2]:
        requests = load.encoded()[:200]
        found = (alone(requests, mode) / len(requests) / load.spans_per_request * 1e6 for mode in FSYNC)
        print(f"{load.name:<34}", *(f"{each:>20.2f}" for each in found), flush=True)
    print(f"{'us of CPU a span; KiB written a request':<34}", *(f"{mode:>20}" for mode in MODES))
    for load in LOADS:
        requests = load.encoded()
        found = {mode: min(measured(load, requests, mode) for _ in range(ROUNDS)) for mode in MODES}
        base = found[MODES[0]][0]
        told = (f"{us:.1f} ({us - base:+.1f}) {kib:.0f} KiB" for us, kib in found.values())
        print(f"{load.name:<34}", *(f"{each:>20}" for each in told), flush=True)


def alone(requests: list[bytes], mode: Fsync) -> float:
    """Seconds of CPU, of this thread and the journal's."""

    async def run(folder: Path) -> float:
        journal = Journal.open(JournalSettings(directory=folder, fsync=mode))
        journal.start()

        def take(number: int) -> int:
            journal.hold(number, 1, waits=True)
            return number

        found = []
        for _ in range(SHORT_ROUNDS):
            before = time.process_time()
            numbers = await asyncio.gather(*(journal.append("traces", 100, body, take) for body in requests))
            for number in numbers:
                journal.forwarded(number)
                journal.let_go(number)
            journal.flush([])
            await journal.read(0)  # all of it is written
            found.append(time.process_time() - before)
        await journal.close()
        return min(found)

    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(run(Path(folder)))


def measured(load: Load, requests: list[bytes], mode: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder, sink() as address, fsync(mode):
        report = Path(folder) / "reports.jsonl"
        options = ["--forward", f"grpc://{address}", "--report-file", str(report)]
        if mode != MODES[0]:
            options += ["--journal", str(Path(folder) / "journal")]
        with onpath(options) as (process, at):
            before, wrote = cpu(process.pid), written(process.pid)
            send(at, requests, load)
            wait_for_lines(report, load.traces)
            used, wrote = cpu(process.pid) - before, written(process.pid) - wrote
    return used / load.spans * 1e6, wrote / load.requests / 1024


@contextmanager
def fsync(mode: str) -> Iterator[None]:
    if mode == MODES[0]:
        yield
        return
    os.environ["ONPATH_DURABILITY__FSYNC"] = mode
    try:
        yield
    finally:
        del os.environ["ONPATH_DURABILITY__FSYNC"]


def written(pid: int) -> int:
    """Bytes that a process has written to files and sockets so far, those to files for the most part."""
    told = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(told["write_bytes"])


if __name__ == "__main__":
    main()
