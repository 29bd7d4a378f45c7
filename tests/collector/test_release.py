"""From released to reported: each trace ends as judged or dropped, whatever judging it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.exporters.base import Recorded
from onpath_collector.judging import Job, Outcome, Setup, VerdictLine
from onpath_collector.otlp import split
from onpath_collector.release import Observer, Release
from onpath_collector.workers import JobFailed, JobTimeout
from tests.support import requests

NOW = 5_000_000_000  # nanoseconds since the Unix epoch


class Clock:
    """Time that tests move; the loop's own timers follow real time, so deadlines here are in the past."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.005)


class FakeJudge:
    """Answers each job by `answer`, which may raise."""

    def __init__(self, answer: Callable[[Job], Outcome]) -> None:
        self.answer = answer
        self.jobs: list[Job] = []
        self.closed = 0

    async def run(self, job: Job) -> Outcome:
        self.jobs.append(job)
        await asyncio.sleep(0)
        return self.answer(job)

    async def set_up(self, setup: Setup) -> None:
        raise AssertionError("not asked for here")

    async def close(self) -> None:
        self.closed += 1


def outcome(job: Job, verdict: str = "pass", signature: str = "s") -> Outcome:
    line = VerdictLine("w", "unknown" if job.unknown else verdict, None, None, "00", None)
    return Outcome(trace_id="00", revision=job.revision, signature=signature, lines=("{}",), verdicts=(line,))


def over_time(job: Job) -> Outcome:
    if job.unknown:
        return outcome(job)
    raise JobTimeout


def failing(job: Job) -> Outcome:
    raise JobFailed("no")


class Bench:
    def __init__(
        self, answer: Callable[[Job], Outcome], *, with_policy: bool = True, observer: Observer | None = None
    ) -> None:
        self.clock = Clock()
        self.judge = FakeJudge(answer)
        self.buffer = TraceBuffer(BufferSettings(settle_delay=0.0, orphan_delay=0.0))
        self.release = Release(
            self.buffer,
            self.judge if with_policy else None,
            clock=self.clock,
            wall_clock=lambda: NOW,
            parallel=2,
            queue=10,
            observer=observer,
        )
        self.sent = Recorded()
        self.release.start([self.sent])

    def push(self, trace: int, *spans: int) -> None:
        for chunk in split(requests.traces(*spans, trace=trace)).chunks:
            self.buffer.push(self.clock(), chunk)
        self.clock.now += 0.01
        self.release.schedule()

    async def until_idle(self) -> None:
        await until(lambda: not self.release.sums()["traces_open"])


@asynccontextmanager
async def running(
    answer: Callable[[Job], Outcome], *, with_policy: bool = True, observer: Observer | None = None
) -> AsyncIterator[Bench]:
    bench = Bench(answer, with_policy=with_policy, observer=observer)
    yield bench
    await bench.release.stop(bench.clock() + 5)
    sums = bench.release.sums()
    dropped = sum(sums["traces_dropped"].values())
    assert sums["traces_started"] == sums["traces_judged"] + dropped + sums["traces_open"]
    assert sums["traces_open"] == 0


async def test_a_complete_trace_is_judged_and_handed_to_the_exporters() -> None:
    async with running(outcome) as bench:
        bench.push(1, 1)
        await bench.until_idle()
        assert bench.release.counts.judged == {"pass": 1}
        (job,) = bench.judge.jobs
        assert (job.release_reason, job.judged_at_ns, job.revision, job.unknown) == ("root_ended", NOW, 1, None)
        assert len(bench.sent.outcomes) == 1


async def test_over_its_time_a_trace_is_unknown_for_that_reason() -> None:
    async with running(over_time) as bench:
        bench.push(1, 1)
        await bench.until_idle()
        assert [job.unknown for job in bench.judge.jobs] == [None, "evaluation_timeout"]
        assert bench.release.counts.judged == {"unknown": 1}


async def test_what_cannot_be_judged_at_all_is_dropped_with_a_reason() -> None:
    async with running(failing) as bench:
        bench.push(1, 1)
        await bench.until_idle()
        assert bench.release.counts.dropped == {"evaluation_failed": 1}
        (told,) = bench.sent.outcomes  # who waits for a report gets one
        assert (told.trace_id, told.lines, told.unmatched) == (f"{1:032x}", (), {"evaluation_failed": 1})


async def test_without_a_policy_traces_count_as_judged() -> None:
    async with running(outcome, with_policy=False) as bench:
        for trace in range(1, 6):
            bench.push(trace, 1)
        await bench.until_idle()
        assert bench.release.counts.judged == {"no_policy": 5}
        assert bench.judge.jobs == []
        assert [(o.trace_id, dict(o.unmatched)) for o in bench.sent.outcomes] == [
            (f"{trace:032x}", {"no_policy": 1}) for trace in range(1, 6)
        ]


async def test_late_spans_are_a_revision_only_if_the_report_changes() -> None:
    signatures = iter(["a", "a", "b"])
    async with running(lambda job: outcome(job, signature=next(signatures))) as bench:
        bench.push(1, 1)
        await bench.until_idle()
        for late in (2, 3):
            bench.push(1, late)
            bench.clock.now += 20  # past the settle delay that late spans start again
            bench.release.schedule()
            await until(lambda late=late: len(bench.judge.jobs) == late and not bench.buffer.open_runs)
        assert [job.revision for job in bench.judge.jobs] == [1, 2, 2]
        assert [o.revision for o in bench.sent.outcomes] == [1, 2]
        assert bench.release.counts.unchanged == 1
        assert bench.release.counts.judged == {"pass": 1}


async def test_stopping_judges_what_is_open() -> None:
    async with running(outcome) as bench:
        for trace in range(1, 4):
            body = requests.traces(5, trace=trace)
            (chunk,) = split(body).chunks
            chunk.spans[:] = [(chunk.spans[0][0], b"\x00" * 7 + b"\x09", False, 1, 2)]
            bench.buffer.push(bench.clock(), chunk)
    assert {job.release_reason for job in bench.judge.jobs} == {"shutdown"}
    assert bench.release.counts.judged == {"pass": 3}
    assert bench.judge.closed == 1


async def test_a_judge_that_never_answers_is_counted_when_time_is_up() -> None:
    async def forever(job: Job) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    bench = Bench(outcome)
    bench.judge.run = forever  # type: ignore[method-assign]
    bench.push(1, 1)
    await asyncio.sleep(0.05)
    await bench.release.stop(bench.clock() + 0.05)
    assert bench.release.sums()["traces_dropped"] == {"shutdown": 1}


@pytest.mark.parametrize("traces", [500])
async def test_more_traces_than_the_queue_holds_wait_in_the_buffer(traces: int) -> None:
    async with running(outcome) as bench:
        for trace in range(1, traces + 1):
            for chunk in split(requests.traces(1, trace=trace)).chunks:
                bench.buffer.push(bench.clock(), chunk)
        bench.clock.now += 1
        bench.release.schedule()
        await bench.until_idle()
        assert bench.release.counts.judged == {"pass": traces}


async def test_a_revision_that_cannot_be_judged_leaves_the_report_before_it() -> None:
    async with running(lambda job: outcome(job) if job.revision == 1 else failing(job)) as bench:
        bench.push(1, 1)
        await bench.until_idle()
        bench.push(1, 2)
        await until(lambda: len(bench.judge.jobs) == 3)
        await until(lambda: not bench.buffer.is_open((1).to_bytes(16)))
        assert [o.revision for o in bench.sent.outcomes] == [1]


class Told:
    """An Observer that keeps what it is told of reports."""

    def __init__(self) -> None:
        self.reports: list[tuple[float | None, Mapping[tuple[str, str], int]]] = []

    def released(self, lag: float) -> None:
        return

    def judged(self, seconds: Mapping[tuple[str, str], float]) -> None:
        return

    def told(self, delay: float | None, unknown: Mapping[tuple[str, str], int]) -> None:
        self.reports.append((delay, unknown))


async def test_how_late_the_first_verdict_comes_and_what_is_unknown_is_told() -> None:
    def answer(job: Job) -> Outcome:
        found = outcome(job, signature=f"{job.revision}")
        return replace(found, ended_ns=NOW - 2_500_000_000, unknown={("w", "incomplete"): job.revision})

    told = Told()
    async with running(answer, observer=told) as bench:
        bench.push(1, 1)
        await bench.until_idle()
        bench.push(1, 2)
        await until(lambda: len(told.reports) == 2)
        assert told.reports == [(2.5, {("w", "incomplete"): 1}), (None, {("w", "incomplete"): 2})]
