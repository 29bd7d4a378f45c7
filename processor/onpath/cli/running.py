"""One run of `onpath check` over its recordings: batches go out to be judged, results come back and are put in order.

Data flow: Plan -> batches -> pool -> outcomes -> `Results`, counts; what there is of a trace in one batch is held until
the last batch that names the trace has come, then judged together.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from onpath.cli.judged import Judged
from onpath.cli.judged.results import Results
from onpath.cli.judging import Outcome, Setup, judge_batch, judge_parts
from onpath.cli.pool import Here, Processes
from onpath.cli.recorded import BATCH, Batch, Plan

_EACH: Final = 4  # batches for which it pays to begin a process


class _Unforeseen(Exception):
    """A trace stands in a batch in which it had not been seen, so it may have been judged in part."""


def judge_plan(
    plan: Plan,
    setup: Setup,
    results: Results,
    *,
    jobs: int | None = None,
    strict: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Judged:
    """Judges all, in `jobs` processes, or as many as there are cores and it pays for; `advance` is told of bytes done.

    The same comes of it however many there are. Raises RecordingError, OSError, and BrokenProcessPool where a process
    died.
    """
    if setup.group_by is None:
        much = max(len(plan), plan.size // BATCH)
        number = min(jobs or _cores(), much if jobs else much // _EACH)
        with Processes(replace(setup, spreads=True), number) if number > 1 else Here(setup) as pool:
            run = _Run(plan, results, advance)
            try:
                return run.judged(pool, strict)
            except _Unforeseen:
                results.clear()
    with Here(setup) as pool:
        run = _Run(None, results, advance)
        run.put(plan.whole(), pool)
        return run.judged(pool, strict)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Run:
    """With a plan, what stands in each of its batches; without one, a single batch has all."""

    def __init__(self, plan: Plan | None, results: Results, advance: Callable[[int], None]) -> None:
        self._plan = plan
        self._results = results
        self._advance = advance
        self._under_way: deque[tuple[int, int, frozenset[str]] | None] = deque()  # None: parts of traces, together now
        self._to_come = {} if plan is None else {trace_id: len(held) for trace_id, held in plan.holders.items()}
        self._held: defaultdict[str, list[bytes]] = defaultdict(list)
        self._ready: list[bytes] = []
        self._ready_size = 0
        self._traces = 0
        self._unmatched: Counter[str] = Counter()
        self._files: dict[str, str] = {}
        self._time_lines: dict[str, Any] = {}

    def judged(self, pool: Here | Processes, strict: bool) -> Judged:
        for batch in self._plan.batches() if self._plan is not None else ():
            self.put(batch, pool)
            while pool.is_full:
                self._take(pool)
        while len(pool) or self._ready:
            if not len(pool):
                self._put_ready(pool)
            self._take(pool)
        self._results.sort()
        return Judged(
            results=self._results,
            verdicts=self._results.verdicts,
            files=self._files,
            unmatched=self._unmatched,
            traces=self._traces,
            strict=strict,
            time_lines=self._time_lines,
        )

    def put(self, batch: Batch, pool: Here | Processes) -> None:
        self._under_way.append((batch.number, batch.size, batch.shared))
        pool.submit(judge_batch, batch)

    def _put_ready(self, pool: Here | Processes) -> None:
        self._under_way.append(None)
        pool.submit(judge_parts, self._ready)
        self._ready, self._ready_size = [], 0

    def _take(self, pool: Here | Processes) -> None:
        outcome: Outcome = pool.outcome()
        batch = self._under_way.popleft()
        if batch is not None:
            number, size, shared = batch
            self._hold(outcome, number, shared, pool)
            self._advance(size)
        for told in outcome.traces:
            self._results.add(told.place, told.lines, told.verdicts)
        self._traces += len(outcome.traces)
        self._unmatched.update(outcome.unmatched)
        self._time_lines.update(outcome.time_lines)

    def _hold(self, outcome: Outcome, number: int, shared: frozenset[str], pool: Here | Processes) -> None:
        """What there is of traces that go on, and what a batch says of the others."""
        for trace_id, file in outcome.files.items():
            self._files.setdefault(trace_id, file)
        spread = [trace_id for trace_id in outcome.parts if trace_id not in shared]
        if self._plan is not None:
            alone = (*(told.place[-1] for told in outcome.traces), *spread)
            if not all(self._plan.is_alone(trace_id, number) for trace_id in alone):
                raise _Unforeseen
        for trace_id, part in outcome.parts.items():
            self._held[trace_id].append(part)
        for trace_id in (*shared, *spread):
            to_come = self._to_come[trace_id] = self._to_come.get(trace_id, 1) - 1
            if not to_come:
                parts = self._held.pop(trace_id, [])
                self._ready += parts
                self._ready_size += sum(map(len, parts))
                if self._ready_size >= BATCH:
                    self._put_ready(pool)
