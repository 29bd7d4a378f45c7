"""`make soak`: load with late spans and duplicates over real gRPC, through restarts and kills, for minutes.

    half of the time: lives that end by SIGTERM and by kill -9 in turn, the load going on
    the other half:   one life, whose rss is watched once it is warm

At the end everything that was acknowledged is downstream and judged, nothing was said in two ways, what the collector
held is gone, and its counts add up.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, linear_regression

from tests.faults.soaking import Life, Metrics, Said, Sending
from tests.support.durable import Lives
from tests.support.numbered import SPANS, Tally, read
from tests.support.otlp_sink import OtlpSink
from tests.support.waiting import until

RESTARTS = ("stop", "kill") * 3
LATE_WINDOW = 30  # seconds
WARM = 2.5 * LATE_WINDOW  # seconds of the last life: then all is full that has a bound
WATCHED = 30  # seconds of it after that, at least, to tell growth by
GROWTH = 0.05  # of rss, and ...
LEAST_GROWTH = 8.0  # ... MiB, that are no growth yet, over what is watched
EMPTY = (
    "buffer_traces",
    "buffer_bytes",
    "buffer_late_bytes",
    "evaluation_queue_size",
    "exporter_queue_size",
    "journal_requests",
    "traces_open",
    "spans_queued",
)


@dataclass
class Soak:
    """All that is counted over all lives. `samples` are of the last one: seconds, MiB."""

    sending: Sending
    said: Said
    downstream: Tally
    began: float = field(default_factory=time.monotonic)
    loaded: float = 0.0
    brought_back: int = 0
    unsent: int = 0
    endings: list[str] = field(default_factory=list)
    stopped: list[dict[str, object]] = field(default_factory=list)
    samples: list[tuple[float, float]] = field(default_factory=list)
    last: Metrics = field(default_factory=dict)

    def start(self, lives: Lives) -> Life:
        life = Life(lives, len(self.endings), self.said)
        self.brought_back += life.brought_back
        self.unsent += life.unsent
        return life

    def end(self, life: Life, how: str) -> None:
        if how == "kill":
            life.kill()
        else:
            self.stopped.append(life.stop())
        self.endings.append(how)

    def watch(self, life: Life, seconds: float) -> list[tuple[float, float]]:
        """Reads its counts and what it says every second, and tells of it."""
        found: list[tuple[float, float]] = []
        end, told = time.monotonic() + seconds, -math.inf
        while time.monotonic() < end:
            self.last, rss = life.metrics(), life.rss()
            self.said.read()
            now = time.monotonic() - self.began
            found.append((now, rss))
            if now - told >= 10:
                told = now
                self.tell(now, rss)
            time.sleep(min(1.0, max(0.0, end - time.monotonic())))
        return found

    def tell(self, now: float, rss: float) -> None:
        last = self.last
        print(
            f"{now:5.0f} s  life {len(self.endings) + 1}  {self.sending.requests:>7} requests  rss {rss:5.0f} MiB  open"
            f" {last['traces_open']:.0f}  queued {last['spans_queued']:.0f}  late {last['buffer_late_bytes']:.0f} B"
            f"  journal {last['journal_requests']:.0f} requests, {last['journal_bytes'] / (1 << 20):.1f} MiB",
            flush=True,
        )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--rate", type=float, default=3000, help="spans a second")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="onpath-soak-") as folder:
        soak = run(Path(folder), given.seconds, given.rate)
    problems = found_wrong(soak)
    summary(soak)
    for problem in problems:
        print("WRONG:", problem)
    print("well" if not problems else f"{len(problems)} things are wrong")
    return bool(problems)


def run(folder: Path, seconds: float, rate: float) -> Soak:
    downstream = Tally()

    def answer(signal: str, body: bytes) -> bytes:
        if signal == "trace":
            downstream.add(read(body)[0])
        return b""

    with OtlpSink(answer=answer, keeps=False) as sink:
        lives = Lives(folder, sink.address, "--settle-delay", "300ms", "--config", str(config(folder, rate)))
        soak = Soak(Sending(lives.address, rate), Said(), downstream)
        through_restarts(soak, lives, seconds / 2)
        life = soak.start(lives)
        soak.samples = soak.watch(life, seconds / 2)
        soak.sending.stop()
        soak.loaded = time.monotonic() - soak.began
        settle(soak, life)
        soak.end(life, "stop")
        soak.said.read()
    return soak


def config(folder: Path, rate: float) -> Path:
    """What it remembers of traces that are settled is bounded, so that it is full before it counts as warm."""
    traces = int(rate / SPANS * LATE_WINDOW * 1.5)
    print(f"buffer.late_window {LATE_WINDOW} s, buffer.settled_memory {traces} traces; all else as it is")
    path = folder / "onpath.yaml"
    path.write_text(f"buffer: {{late_window: {LATE_WINDOW}s, settled_memory: {traces}}}\n", encoding="utf-8")
    return path


def through_restarts(soak: Soak, lives: Lives, seconds: float) -> None:
    for number, how in enumerate(RESTARTS):
        life = soak.start(lives)
        if number == 0:
            soak.sending.start()
        soak.watch(life, seconds / len(RESTARTS))
        soak.end(life, how)


def settle(soak: Soak, life: Life) -> None:
    """Waits until nothing is held any longer."""

    def empty() -> bool:
        soak.last = life.metrics()
        soak.said.read()
        return not any(soak.last[name] for name in EMPTY)

    until(empty, lambda: f"nothing to be held: { {name: soak.last[name] for name in EMPTY} }", LATE_WINDOW + 90)


def found_wrong(soak: Soak) -> list[str]:
    sending, said = soak.sending, soak.said
    acknowledged, runs = sending.acknowledged, sending.acknowledged.numbers()
    missing = soak.downstream.missing_of(acknowledged)
    twice = soak.downstream.total - acknowledged.total
    unanswered = sending.attempted.total - acknowledged.total
    most = unanswered + soak.unsent * max(1, acknowledged.total // max(1, sending.requests))
    growth, allowed = rss_growth(soak)
    found = {
        f"{missing} acknowledged spans are not downstream": missing,
        f"{twice} spans came downstream without an answer to their sender, of {most} that may": not 0 <= twice <= most,
        f"{len(runs - said.runs)} runs have no verdict": runs - said.runs,
        f"{len(said.runs - runs)} runs were judged that nobody sent": said.runs - runs,
        f"{len(said.otherwise)} reports were said in two ways: {said.otherwise[:5]}": said.otherwise,
        f"{len(said.failed() - sending.late)} runs failed that were whole": said.failed() - sending.late,
        f"rss grew by {growth:.1f} MiB, of {allowed:.1f}": growth > allowed,
        f"spans were dropped: {soak.stopped}": any(told["spans_dropped"] for told in soak.stopped),
        f"traces were dropped: {soak.stopped}": any(told["traces_dropped"] for told in soak.stopped),
        f"something is left: {soak.stopped[-1]}": soak.stopped[-1]["traces_open"] or soak.stopped[-1]["spans_queued"],
    }
    return [told for told, wrong in found.items() if wrong]


def rss_growth(soak: Soak) -> tuple[float, float]:
    """MiB, by linear regression over the warm part of the last life, and what it may be. Endless where it is short."""
    warm = warm_samples(soak)
    if len(warm) < WATCHED:
        return 0.0, math.inf
    seconds, sizes = zip(*warm, strict=True)
    slope = linear_regression(seconds, sizes).slope
    return slope * (seconds[-1] - seconds[0]), max(LEAST_GROWTH, GROWTH * fmean(sizes))


def warm_samples(soak: Soak) -> list[tuple[float, float]]:
    return [(at, size) for at, size in soak.samples if at >= soak.samples[0][0] + WARM]


def summary(soak: Soak) -> None:
    sending, said, acknowledged = soak.sending, soak.said, soak.sending.acknowledged
    growth, allowed = rss_growth(soak)
    sizes = [size for _, size in warm_samples(soak) or soak.samples]
    rate = acknowledged.total / soak.loaded
    watched = f"{growth:+.1f} of {allowed:.1f} MiB in {len(sizes)} s" if allowed < math.inf else "too short to tell"
    rows = {
        "lives": f"{len(soak.endings)}: {', '.join(soak.endings)}",
        "acknowledged": f"{acknowledged.total} spans, {rate:.0f} a second over {soak.loaded:.0f} s",
        "each once": f"{acknowledged.distinct} spans of {len(acknowledged.numbers())} runs",
        "requests": f"{sending.requests}, {sending.duplicates} of them duplicates",
        "calls refused": dict(sending.refused),
        "spans downstream": f"{soak.downstream.total}, {soak.downstream.distinct} different",
        "brought back": f"{soak.brought_back} requests, {soak.unsent} of them not yet forwarded",
        "runs judged": f"{len(said.runs)}, {said.revised} of them again for a late span; {dict(said.verdicts)}",
        "reports said again": f"{said.again} after kills, {len(said.otherwise)} in other words",
        "rss, last life": f"{min(sizes):.0f} to {max(sizes):.0f} MiB, growth {watched}",
        "held at the end": {name: soak.last[name] for name in EMPTY},
        "last line": soak.stopped[-1]["message"],
    }
    for name, value in rows.items():
        print(f"{name:<20}{value}")


if __name__ == "__main__":
    sys.exit(main())
