"""Many threads and asyncio tasks at once: every run gets its own right verdict, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from opentelemetry.trace import Tracer

from tests.live.support import Watched, agent, conserved, tool
from tests.support.waiting import until

GOOD, BAD = ("look_up", "check", "pay"), ("look_up", "override")
THREADS, TASKS, RUNS = 8, 20, 20


@pytest.fixture
def switching() -> Iterator[None]:
    """Threads take turns far more often than usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def some_runs(tracer: Tracer, seed: int) -> None:
    chosen = random.Random(seed)
    for number in range(RUNS):
        with agent(tracer):
            for name in GOOD if number % 2 else BAD:
                with tool(tracer, name, content="x" * chosen.randrange(5000)):
                    pass


async def one_run(tracer: Tracer, number: int) -> None:
    with agent(tracer):
        for name in GOOD if number % 2 else BAD:
            with tool(tracer, name):
                await asyncio.sleep(0)


async def all_runs(tracer: Tracer) -> None:
    for _ in range(RUNS // 2):
        await asyncio.gather(*(one_run(tracer, number) for number in range(TASKS)))


@pytest.mark.usefixtures("switching")
def test_threads_and_tasks() -> None:
    told: Counter[str] = Counter()
    with Watched(on_violation=lambda finding, _: told.update([finding.rule])) as watched:
        threads = [threading.Thread(target=some_runs, args=(watched.tracer, seed)) for seed in range(THREADS)]
        for thread in threads:
            thread.start()
        asyncio.run(all_runs(watched.tracer))
        for thread in threads:
            thread.join()
        watched.flushed()
        runs = THREADS * RUNS + TASKS * RUNS // 2
        assert Counter(watched.sink.verdicts) == {"pass": runs // 2, "fail": runs // 2}
        assert told["prohibited_called"] == runs // 2
        assert len({r.trace_id for r in watched.sink.reports}) == runs
        assert not watched.processor.counts.faults
        conserved(watched)


@pytest.mark.usefixtures("switching")
def test_flushes_and_a_shutdown_in_the_midst_of_it() -> None:
    watched = Watched(queue_size=200)
    threads = [threading.Thread(target=some_runs, args=(watched.tracer, seed)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        assert watched.processor.force_flush()
    watched.processor.shutdown()
    for thread in threads:
        thread.join()
    assert watched.processor.force_flush()
    conserved(watched)
    assert not watched.processor.counts.faults


class Cycle:
    """Ends a span when the garbage collector finds it: in whatever code happens to run."""

    def __init__(self, tracer: Tracer) -> None:
        self.span = tracer.start_span("collected")
        self.me = self

    def __del__(self) -> None:
        self.span.end()


def test_spans_that_end_in_a_destructor() -> None:
    with Watched() as watched:
        before = gc.get_threshold()
        gc.set_threshold(5, 2, 2)
        try:
            for _ in range(200):
                Cycle(watched.tracer)
                watched.run(*GOOD)
        finally:
            gc.set_threshold(*before)
        counts = watched.processor.counts

        def all_judged() -> bool:
            gc.collect()  # the judging thread may be at it, and end spans after this
            watched.flushed()
            return counts.judged.total() >= 400

        until(all_judged, lambda: f"400 traces; there are {counts.sums()}")
        assert Counter(watched.sink.verdicts) == {"pass": 200}
        assert counts.judged == {"pass": 200, "unmatched": 200}
        conserved(watched)
