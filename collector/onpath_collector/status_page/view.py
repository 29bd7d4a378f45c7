"""What the status page shows, as plain values: read from the parts' counters when someone asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final

from onpath.results import version
from onpath_collector.admin import Health
from onpath_collector.buffer import LATENESS
from onpath_collector.own_metrics import Parts
from onpath_collector.reports import Filter, Page, StoredReport
from onpath_collector.reports.values import judged_ms
from onpath_collector.status_page.timeline import Drawing, draw, duration

VERDICTS: Final = ("pass", "fail", "unknown")
_ENOUGH: Final = 0.99  # of the spans that come after their root are to be waited for
_BILLION: Final = 10**9


@dataclass(frozen=True, slots=True)
class Workflow:
    """Verdicts of one workflow since the start."""

    name: str
    passed: int
    failed: int
    unknown: int

    @property
    def judged(self) -> int:
        return self.passed + self.failed + self.unknown

    @property
    def rate(self) -> float:
        return self.passed / self.judged if self.judged else 0.0


@dataclass(frozen=True, slots=True)
class Shown:
    """One result of a report, ready to be drawn."""

    report: StoredReport
    result: Mapping[str, Any]
    drawing: Drawing
    ago: str

    @property
    def finding(self) -> str | None:
        """What a reader wants to know first of what is wrong."""
        deciding = [e for e in self.result["evaluations"] if e["label"] == self.result["verdict"] != "pass"]
        for evaluation in deciding:
            for finding in evaluation["findings"]:
                message: str = finding["message"]
                return message
        for evaluation in deciding:
            told: str = (evaluation["explanation"] or evaluation.get("reason") or "").partition("\n")[0]
            return told
        return None


@dataclass(frozen=True, slots=True)
class Queue:
    name: str
    waiting: int
    capacity: int
    sent: int | None
    retries: int | None
    lost: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """A count that is 0 in good times, and what it means."""

    name: str
    count: int
    meaning: str
    normal: bool = False


@dataclass(frozen=True, slots=True)
class Lateness:
    """Spans by how long after their root they came; `share` of the largest bar, from 0 to 1."""

    bars: Sequence[tuple[str, int, float]]
    total: int
    suggested: str | None
    settle_delay: str
    covered: float


def status(
    parts: Parts, health: Health, page: Page, verdicts: Mapping[tuple[str, str], int], now: float
) -> dict[str, Any]:
    """All of the page. `now` in seconds since the Unix epoch."""
    judged = parts.release.counts.standing
    return {
        "version": version(),
        "state": health.state,
        "now": datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "ledger": parts.ledger(),
        "judged": judged,
        "workflows": list(_workflows(verdicts)),
        "shown": [each for report in page.reports for each in shown(report, now)],
        "next_token": page.next_token,
        "queues": list(_queues(parts)),
        "troubles": list(_troubles(parts)),
        "lateness": lateness(parts.buffer.counts.lateness, parts.buffer.settings.settle_delay),
        "releases": parts.buffer.counts.released.most_common(),
        "memory": (parts.buffer.memory, parts.buffer.settings.memory_limit),
    }


def shown(report: StoredReport, now: float) -> Iterator[Shown]:
    for number, result in enumerate(report.results):
        timeline = report.timelines[number] if number < len(report.timelines) else None
        seconds = max(0.0, now - judged_ms(result) / 1000)
        ago = "just now" if seconds < 1 else f"{duration(int(seconds) * _BILLION)} ago"
        yield Shown(report, result, draw(result, timeline), ago)


def asked(query: Mapping[str, str]) -> Filter:
    """What the page's own links ask for; anything else is nothing."""
    verdict = query.get("verdict")
    return Filter(verdict=verdict if verdict in VERDICTS else None, workflow=query.get("workflow") or None, judged=True)


def lateness(counts: Sequence[int], settle_delay: float) -> Lateness:
    """`counts`: up to each of LATENESS, and longer."""
    total, largest = sum(counts), max(counts, default=0)
    names = [f"up to {duration(bound * _BILLION)}" for bound in LATENESS] + [
        f"over {duration(LATENESS[-1] * _BILLION)}"
    ]
    bars = [(name, n, n / largest if largest else 0.0) for name, n in zip(names, counts, strict=True)]
    sums = list(accumulate(counts))
    enough = next((b for b, n in zip(LATENESS, sums, strict=False) if n >= _ENOUGH * total), None) if total else None
    within = max((n for b, n in zip(LATENESS, sums, strict=False) if b <= settle_delay), default=0)
    return Lateness(
        bars=bars,
        total=total,
        suggested=None if enough is None else duration(enough * _BILLION),
        settle_delay=duration(settle_delay * _BILLION),
        covered=within / total if total else 1.0,
    )


def _workflows(verdicts: Mapping[tuple[str, str], int]) -> Iterator[Workflow]:
    for name in sorted({workflow for workflow, _ in verdicts}):
        yield Workflow(name, *(verdicts.get((name, verdict), 0) for verdict in VERDICTS))


def _queues(parts: Parts) -> Iterator[Queue]:
    yield Queue("Runs that wait to be judged", parts.release.waiting, parts.evaluate_queue, None, None, 0)
    what = {"forward": "Telemetry passed on", "results": "Results sent"}
    for (name, signal), forwarder in parts.exporters.items():
        counts = forwarder.counts
        lost = sum(counts.failed_requests.values())
        waiting, sent = counts.queued_requests, counts.sent_requests
        yield Queue(f"{what[name]}: {signal}", waiting, forwarder.capacity, sent, counts.retries, lost)
    for sink in parts.sinks:
        of = sink.counts
        yield Queue(f"Scores: {sink.label}", of.results, sink.settings.results, of.sent, of.retries, of.dropped.total())


def _troubles(parts: Parts) -> Iterator[Trouble]:
    buffer, ledger = parts.buffer.counts, parts.ledger()
    refused: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for receiver in parts.receivers:
        for counts in receiver.counts.values():
            refused.update(counts.refused)
            failed.update(counts.failed)
    yield from _each("Requests sent back", refused, "senders were told to come back later")
    yield from _each("Requests refused", failed, "senders were told not to send this again")
    yield Trouble("Spans with a wrong id", sum(parts.intake.rejected.values()), "not judged; passed on as they came")
    yield from _each("Runs never judged", ledger.traces_dropped, "they have no verdict")
    lost = dict(ledger.spans_dropped)
    if nowhere := lost.pop("no_downstream", 0):
        yield Trouble(
            "Spans not passed on: no downstream", nowhere, "forward.endpoint says where to pass them on", True
        )
    yield from _each("Spans not passed on", lost, "they did not get to the downstream")
    yield from _each("Spans not judged", buffer.dropped_spans, "their run was over a limit, or long over")
    yield Trouble("Late spans", buffer.late_spans, "they came after their run was judged, which is then judged again")
    yield Trouble("Late spans not judged", buffer.late_unjudged, "they came too late even for that")
    yield Trouble("Duplicate spans", buffer.duplicates, "they came twice and are counted once")
    memory = buffer.released["memory"]
    yield Trouble("Runs judged early", memory, "to stay within the memory limit; parts of them may be missing")


def _each(name: str, counts: Mapping[str, int], meaning: str) -> Iterator[Trouble]:
    """One a reason; a single 0 without any."""
    if not any(counts.values()):
        yield Trouble(name, 0, meaning)
    for reason, count in sorted(counts.items()):
        if count:
            yield Trouble(f"{name}: {reason.replace('_', ' ')}", count, meaning)
