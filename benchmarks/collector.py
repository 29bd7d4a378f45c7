"""The collector under load, beside others in the same run: CPU and memory of each for the same requests.

Full work: receive, forward, buffer, decode, judge by the refund policy, emit to a sink on loopback and a report file,
until every trace has its verdict. Passing on: receive and forward alone, without a policy; so does rotel (in Rust, from
PyPI), where it is installed. CPU is that of the process and its workers together, and of each of the two; each has a
trace before it is measured, so that the start of workers, half a second, is not counted.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks._load import Load, cpu, cpu_of, encode, rss, send, sink, wait_until_quiet
from benchmarks._peers import onpath, rotel, rotel_program

FIRST = Load("one trace", 10, 1)
LOADS = [
    Load("10 spans a request", 10, 3000),
    Load("100 spans a request", 100, 600),
    Load("512 spans a request", 512, 150),
    Load("100 a request, 10,000 spans/s", 100, 2000, rate=10_000),
    Load("100 a request, 20 x 1,000 B", 100, 100, 20, 1000),
    Load("100 a request, 20 x 5,000 B", 100, 40, 20, 5000, at_once=16),
]


@dataclass(frozen=True)
class Measured:
    """Microseconds of CPU for a span, of them those of the process itself; spans a second taken in, MiB at most."""

    cpu: float
    own: float
    rate: float
    rss: float

    def __str__(self) -> str:
        workers = self.cpu - self.own
        parts = f" = {self.own:.1f} + {workers:.1f}" if workers else ""
        return f"{self.cpu:>6.1f}{parts} us {self.rss:>4.0f} MiB {self.rate:>6.0f}/s"


def main(loads: Sequence[Load] = LOADS) -> None:
    program = rotel_program()
    if program is None:
        print("rotel is not installed (`uv pip install rotel`), and left out")
    columns = ("onpath, full work", "onpath, passing on", "rotel, passing on")
    print(f"{'CPU a span, peak rss, spans taken in':<38}", *(f"{name:<41}" for name in columns))
    for load in loads:
        requests = load.encoded()
        full, passing = full_work(load, requests), passing_on(load, requests)
        peer = None if program is None else rotel_passing_on(program, load, requests)
        ratio = "" if peer is None else f"full work / rotel {full.cpu / peer.cpu:.1f}"
        print(f"{load.name:<38}", f"{full!s:<41}", f"{passing!s:<41}", f"{peer or '-'!s:<41}", ratio, flush=True)
    print(idle())


def full_work(load: Load, requests: list[bytes]) -> Measured:
    with tempfile.TemporaryDirectory() as folder, sink() as address:
        report = Path(folder) / "reports.jsonl"
        with onpath(["--forward", f"grpc://{address}", "--report-file", str(report)]) as (process, at):
            return _measured(load, requests, process.pid, at, report)


def passing_on(load: Load, requests: list[bytes]) -> Measured:
    with sink() as address, onpath(["--forward", f"grpc://{address}"], policy=None) as (process, at):
        return _measured(load, requests, process.pid, at)


def rotel_passing_on(program: Path, load: Load, requests: list[bytes]) -> Measured:
    with sink() as address, rotel(program, address) as (process, at):
        return _measured(load, requests, process.pid, at)


def _measured(load: Load, requests: list[bytes], pid: int, at: str, report: Path | None = None) -> Measured:
    send(at, [encode(FIRST, random.Random("first"))], FIRST)
    if report is not None:
        wait_for_lines(report, FIRST.traces)
    before, own = cpu(pid), cpu_of(pid)
    began = time.monotonic()
    send(at, requests, load)
    sent = time.monotonic() - began
    if report is None:
        wait_until_quiet(pid)
    else:
        wait_for_lines(report, FIRST.traces + load.traces)
    used, own = cpu(pid) - before, cpu_of(pid) - own
    return Measured(used / load.spans * 1e6, own / load.spans * 1e6, load.spans / sent, rss(pid))


def idle() -> str:
    began = time.monotonic()
    with onpath([]) as (process, _):
        ready = time.monotonic() - began
        time.sleep(1)
        before = cpu(process.pid)
        time.sleep(5)
        share = (cpu(process.pid) - before) / 5
        return f"idle: ready in {ready:.2f} s, rss {rss(process.pid):.0f} MiB, {share:.2%} of a core"


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
