"""Writes what `benchmarks.peers` found: deploy/bench.md and its picture, with the date and the machine."""

from __future__ import annotations

import datetime
import os
import platform
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks._peers import ROOT
from benchmarks.peers import FULL, PASSING, STEADY, Found, Measured, Resting

PAGE = ROOT / "deploy" / "bench.md"
PICTURE = ROOT / "deploy" / "pictures" / "bench.svg"
COLOURS = ("#1f6feb", "#79b8ff", "#b0532f", "#2f7d5b", "#7fbf9f", "#bfdfcf", "#8a8a8a")


def write(found: Found) -> None:
    PAGE.write_text(page(found), encoding="utf-8")
    draw(found, PICTURE)
    print(f"\nwritten: {PAGE.relative_to(ROOT)}, {PICTURE.relative_to(ROOT)}")


PREFACE = """\
# Speed and size, beside others

Measured {today} by `make bench ARGS=--publish` on {machine}.

All in one run, in turn, on the same requests, {rounds}; agentevals got a tenth of them, once. Load
generator and downstream are processes of their own. CPU is user and system time of the process and its workers. *Full
work* is to receive, pass on, hold each trace until it is complete, decode it, judge it by three checks
([policies/refund.yaml](policies/refund.yaml)), and emit results to the downstream and a report file. The others receive
and pass on; with `tail_sampling` and `groupbytrace` the OpenTelemetry Collector also holds traces for half a second;
agentevals keeps what it gets. The last two columns: how many times the CPU of the program onpath takes.

![CPU a span](pictures/bench.svg)
"""

AT_REST = """
At rest, before the first trace; and what is added to the way of a request, at {rate:,} spans a second, 100 a request,
against the same requests sent straight to the downstream:
"""


def page(found: Found) -> str:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    rounds = "once each" if found.rounds == 1 else f"the best of {found.rounds} rounds"
    rest = AT_REST.format(rate=STEADY.rate)
    return "\n".join(
        [
            PREFACE.format(today=today, machine=machine(), rounds=rounds),
            *_loads(found),
            rest,
            *_resting(found),
            *_missing(found.missing),
            "",
        ]
    )


def _loads(found: Found) -> Iterator[str]:
    yield "| load | program | CPU a span | spans a second per core | peak rss | onpath's full work | its passing on |"
    yield "|---|---|---|---|---|---|---|"
    for load, row in found.loads.items():
        for name, one in row.items():
            yield f"| {load} | {name} | {_cells(one, row)} |"
            load = ""


def _cells(one: Measured | None, row: dict[str, Measured | None]) -> str:
    if one is None:
        return "refused it | | | |"
    ratios = [
        "" if full is None or full is one else f"{full.cpu / one.cpu:.1f} x"
        for full in (row.get(FULL), row.get(PASSING))
    ]
    return " | ".join([f"{one.cpu:.1f} µs", f"{one.spans_per_core:,.0f}", f"{one.rss:.0f} MiB", *ratios])


def _resting(found: Found) -> Iterator[str]:
    yield "| program | ready in | rss | CPU | added, p50 | added, p99 |"
    yield "|---|---|---|---|---|---|"
    for name, one in found.resting.items():
        yield f"| {name} | {one.ready:.2f} s | {one.rss:.0f} MiB | {one.cpu:.2%} | {_added(one)} |"


def _added(one: Resting) -> str:
    return "- | -" if one.added is None else f"{one.added.p50:.1f} ms | {one.added.p99:.1f} ms"


def _missing(missing: Iterable[str]) -> Iterator[str]:
    for reason in missing:
        yield ""
        yield f"Left out: {reason}."


def machine() -> str:
    cpus = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    model = cpus[1].strip() if cpus else platform.machine()
    cores = len(os.sched_getaffinity(0))
    return f"{cores} cores of {model}, {memory:.0f} GiB, Linux, Python {platform.python_version()}"


def draw(found: Found, path: Path) -> None:
    """Bars of CPU a span, on a logarithmic scale, by load; the same file for the same figures."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "onpath", "font.size": 9})
    from matplotlib import pyplot

    names = list(dict.fromkeys(name for row in found.loads.values() for name in row))
    figure, axes = pyplot.subplots(figsize=(11, 5), layout="constrained")
    width = 0.85 / len(names)
    for place, name in enumerate(names):
        rows = [(at, row[name]) for at, row in enumerate(found.loads.values())]
        bars = [(at + (place - len(names) / 2 + 0.5) * width, one.cpu) for at, one in rows if one is not None]
        drawn = axes.bar([x for x, _ in bars], [y for _, y in bars], width, label=name, color=COLOURS[place])
        axes.bar_label(drawn, fmt="%.3g", fontsize=6, rotation=90, padding=2)
    axes.set_yscale("log")
    axes.margins(y=0.12)
    axes.set_xticks(range(len(found.loads)), [load.replace(", ", ",\n") for load in found.loads])
    axes.set_ylabel("microseconds of CPU a span (logarithmic)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=4)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
