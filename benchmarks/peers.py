"""onpath beside others that receive what agents send, in the same run. `--publish` writes deploy/bench.md.

Full work: receive, forward, buffer, decode, judge by the refund policy, emit to a sink on loopback and a report file,
until every trace has its verdict. Passing on: receive and forward alone; so do rotel (Rust) and the OpenTelemetry
Collector (Go), which also holds traces as onpath does, with tail_sampling and groupbytrace. agentevals keeps what it
gets. CPU is that of a process and its children; each has a trace before it is measured, so that the start of workers is
not counted. What can't be had is left out, and said so.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from benchmarks._latency import Latency, noting_sink, send_noting, under_way
from benchmarks._load import Load, cpu, encode, rss, send, wait_until_quiet
from benchmarks._peers import (
    Process,
    agentevals,
    agentevals_program,
    onpath,
    otelcol,
    otelcol_program,
    rotel,
    rotel_program,
)
from benchmarks.collector import FIRST, wait_for_lines

LOADS = (
    Load("10 spans a request", 10, 3000),
    Load("100 spans a request", 100, 600),
    Load("100 spans a request, gzip", 100, 600, gzip=True),
    Load("512 spans a request", 512, 150),
    Load("100 a request, 10,000 spans/s", 100, 2000, rate=10_000),
    Load("100 a request, 20 x 1,000 B", 100, 100, 20, 1000),
    Load("100 a request, 20 x 5,000 B", 100, 40, 20, 5000, at_once=16),
)
STEADY = Load("100 a request, 5,000 spans/s", 100, 600, rate=5_000)
PATIENCE = 90.0  # seconds until what was sent has been worked off

Started: TypeAlias = AbstractContextManager[tuple[Process, str]]
"""The process and the address of its OTLP/gRPC receiver."""


@dataclass(frozen=True)
class System:
    """`start` is given where to forward to, and the file for reports of one that judges."""

    name: str
    start: Callable[[str, Path], Started]
    forwards: bool = True
    judges: bool = False
    share: int = 1  # of the requests of a load, one in so many: for one that takes a millisecond a span


@dataclass(frozen=True)
class Measured:
    """Microseconds of CPU for a span, spans a second that were taken in, MiB at most."""

    cpu: float
    rate: float
    rss: float

    @property
    def spans_per_core(self) -> float:
        """A second."""
        return 1e6 / self.cpu


@dataclass(frozen=True)
class Resting:
    """Seconds until it answers, MiB, share of a core; what it adds to the way of a request that it passes on."""

    ready: float
    rss: float
    cpu: float
    added: Latency | None


@dataclass
class Found:
    """`loads` by load and system, None where it refused the load; `resting` by system."""

    rounds: int
    loads: dict[str, dict[str, Measured | None]] = field(default_factory=dict)
    resting: dict[str, Resting] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


FULL = "onpath, full work"
PASSING = "onpath, passing on"


def main(loads: Sequence[Load] = LOADS, *, publish: bool = False, rounds: int | None = None) -> None:
    """One round of each, or three to be published, unless `rounds` says how many."""
    found = Found(rounds=rounds or (3 if publish else 1))
    systems = available(found)
    for load in loads:
        requests = load.encoded()
        row = found.loads[load.name] = {}
        print(f"\n{load.name}")
        for system in systems:
            all_rounds = [measured(system, load, requests) for _ in range(found.rounds if system.share == 1 else 1)]
            whole = [each for each in all_rounds if each is not None]
            row[system.name] = best = min(whole, key=lambda each: each.cpu) if whole else None
            print(f"  {system.name:<40}{_row(best, row[FULL])}", flush=True)
    print("\nat rest, and what it adds to the way of a request")
    direct = latency_of(None)
    for system in systems:
        found.resting[system.name] = rested = resting(system, direct)
        print(f"  {system.name:<40}{_rest(rested)}", flush=True)
    if publish:
        from benchmarks._page import write

        write(found)


def _row(one: Measured | None, full: Measured | None) -> str:
    if one is None:
        return "refused it"
    ratio = f"full work / this {full.cpu / one.cpu:>5.1f}" if full is not None and full is not one else ""
    return f"{one.cpu:>7.1f} us  {one.spans_per_core:>8,.0f}/s a core  {one.rss:>5.0f} MiB  {ratio}"


def _rest(one: Resting) -> str:
    added = "-" if one.added is None else f"p50 {one.added.p50:.1f} ms, p99 {one.added.p99:.1f} ms"
    return f"ready in {one.ready:.2f} s, {one.rss:>4.0f} MiB, {one.cpu:.2%} of a core, {added}"


def available(found: Found) -> list[System]:
    systems = [System(FULL, _full, judges=True), System(PASSING, _passing)]
    if (program := rotel_program()) is not None:
        systems.append(System("rotel, passing on", partial(_rotel, program)))
    else:
        found.missing.append("rotel is not installed")
    if (collector := otelcol_program()) is not None:
        systems.append(System("OpenTelemetry Collector, passing on", partial(_otelcol, collector, ())))
        systems += [
            System(f"OpenTelemetry Collector, {over}", partial(_otelcol, collector, (over,)))
            for over in ("tail_sampling", "groupbytrace")
        ]
    else:
        found.missing.append("the OpenTelemetry Collector is not built (make otelcol)")
    if (evaluator := agentevals_program()) is not None:
        systems.append(System("agentevals, receiving", partial(_agentevals, evaluator), forwards=False, share=10))
    else:
        found.missing.append("agentevals-cli can't be installed")
    for reason in found.missing:
        print(f"left out: {reason}")
    return systems


def _full(to: str, report: Path) -> Started:
    return onpath(["--forward", f"grpc://{to}", "--report-file", str(report)])


def _passing(to: str, _: Path) -> Started:
    return onpath(["--forward", f"grpc://{to}"], policy=None)


def _rotel(program: Path, to: str, _: Path) -> Started:
    return rotel(program, to)


def _otelcol(program: Path, over: Sequence[str], to: str, _: Path) -> Started:
    return otelcol(program, to, *over)


def _agentevals(program: Path, _: str, __: Path) -> Started:
    return agentevals(program)


@contextmanager
def _started(system: System, to: str) -> Iterator[tuple[Process, str, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "reports.jsonl"
        with system.start(to, report) as (process, address):
            yield process, address, report


def measured(system: System, load: Load, requests: list[bytes]) -> Measured | None:
    """None where it refuses the load. Raises where spans got lost on the way."""
    load = replace(load, requests=load.requests // system.share)
    requests = requests[: load.requests]
    with noting_sink() as sink, _started(system, sink.address) as (process, address, report):
        _warm(system, address, report)
        before, size = cpu(process.pid), sink.size
        began = time.monotonic()
        try:
            send(address, requests, load)
        except AssertionError:
            return None
        sent = time.monotonic() - began
        if system.judges:
            wait_for_lines(report, FIRST.traces + load.traces)
        else:
            whole = size + 0.95 * sum(map(len, requests)) if system.forwards else 0.0
            _wait_until_done(process.pid, lambda: sink.size >= whole)
        used, most = cpu(process.pid) - before, rss(process.pid)
        if system.forwards and sink.size - size < 0.95 * sum(map(len, requests)):
            raise RuntimeError(f"{system.name} has passed on {sink.size - size} bytes of {sum(map(len, requests))}")
    return Measured(used / load.spans * 1e6, load.spans / sent, most)


def _warm(system: System, address: str, report: Path) -> None:
    """One trace, and all that comes of it."""
    send(address, [encode(FIRST, random.Random("first"))], FIRST)
    if system.judges:
        wait_for_lines(report, FIRST.traces)


def _wait_until_done(pid: int, whole: Callable[[], bool] = lambda: True) -> None:
    """Until all is there, and a process and its children have used hardly any CPU for a second and a half."""
    deadline = time.monotonic() + PATIENCE
    while not whole() and time.monotonic() < deadline:
        time.sleep(0.1)
    wait_until_quiet(pid, deadline)


def resting(system: System, direct: Latency) -> Resting:
    with noting_sink() as sink:
        began = time.monotonic()
        with _started(system, sink.address) as (process, _, _):
            ready = time.monotonic() - began
            time.sleep(2)
            before = cpu(process.pid)
            time.sleep(5)
            share, size = (cpu(process.pid) - before) / 5, rss(process.pid)
    added = None
    if system.forwards:
        through = latency_of(system)
        added = Latency(max(0.0, through.p50 - direct.p50), max(0.0, through.p99 - direct.p99))
    return Resting(ready, size, share, added)


def latency_of(system: System | None) -> Latency:
    """Of requests at a steady rate to the sink, through a system or straight."""
    requests = STEADY.encoded()
    with noting_sink(looks=True) as sink:
        if system is None:
            times = send_noting(sink.address, requests, STEADY)
        else:
            with _started(system, sink.address) as (process, address, _):
                times = send_noting(address, requests, STEADY)
                _wait_until_done(process.pid)
        return under_way(times, sink.times)


if __name__ == "__main__":
    main()
