"""The open runs: by trace, by deadline, and what they weigh together.

Deadlines stand in a heap. A deadline that moves later leaves its entry where it is: the entry is put right when it
comes up. So a span costs the same however many traces are open.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice
from typing import Final

from onpath_collector.buffer.run import DECLARED_WEIGHT, NEVER, RUN_WEIGHT, SPAN_WEIGHT, Run, TraceIndex
from onpath_collector.buffer.values import BufferSettings

_LOOKED_AT: Final = 30_000  # traces weighed at once, some 50 ms


class OpenRuns:
    def __init__(self, settings: BufferSettings) -> None:
        self._settings = settings
        self._span_weight = SPAN_WEIGHT + (DECLARED_WEIGHT if settings.root_attributes else 0)
        self._by_trace: dict[bytes, tuple[Run, TraceIndex]] = {}
        self._heap: list[tuple[float, int, Run]] = []
        self._sequence = 0  # runs with equal deadlines leave in the order in which they were scheduled
        self.runs = 0
        self.fresh = 0  # traces that have never been released
        self.bytes = 0
        self.spans = 0
        self.leaving = 0  # weight of runs told to leave for want of memory

    @property
    def weight(self) -> int:
        """Bytes of memory they take, about."""
        return self.bytes + self.spans * self._span_weight + self.runs * RUN_WEIGHT

    def __iter__(self) -> Iterator[Run]:
        """In order of opening."""
        return iter(dict.fromkeys(run for run, _ in self._by_trace.values()))

    def get(self, trace_id: bytes) -> Run | None:
        found = self._by_trace.get(trace_id)
        return None if found is None else found[0]

    def find(self, trace_id: bytes) -> tuple[Run, TraceIndex] | None:
        return self._by_trace.get(trace_id)

    def add(self, run: Run) -> None:
        self._by_trace.update({trace_id: (run, index) for trace_id, index in run.traces.items()})
        self.runs += 1
        self.fresh += run.fresh
        self.bytes += run.bytes
        self.spans += run.spans

    def add_trace(self, run: Run, trace_id: bytes, fresh: bool) -> None:
        """Adds a trace without spans to a run."""
        index = run.traces[trace_id] = TraceIndex()
        self._by_trace[trace_id] = (run, index)
        run.fresh += fresh
        self.fresh += fresh

    def merge(self, run: Run, target: Run) -> None:
        """`run` becomes part of `target`."""
        target.absorb(run)
        self._by_trace.update({trace_id: (target, index) for trace_id, index in run.traces.items()})
        self.runs -= 1

    def remove(self, run: Run) -> None:
        run.closed = True
        for trace_id in run.traces:
            del self._by_trace[trace_id]
        self.runs -= 1
        self.fresh -= run.fresh
        self.bytes -= run.bytes
        self.spans -= run.spans
        self.leaving -= run.leaving

    def schedule(self, run: Run, at: float | None = None) -> None:
        """Has the run come up no later than `at`, or than its own earliest time."""
        if at is None:
            at = run.earliest(self._settings)
        if at < run.scheduled:
            run.scheduled = at
            self._sequence += 1
            heapq.heappush(self._heap, (at, self._sequence, run))

    def next_deadline(self) -> float | None:
        heap = self._heap
        while heap and (heap[0][2].closed or heap[0][0] != heap[0][2].scheduled):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: float, steps: int) -> Iterator[Run]:
        """Takes out runs whose deadline is over, in order of deadline; looks at `steps` entries at most."""
        heap = self._heap
        while heap and heap[0][0] <= now and steps:
            steps -= 1
            at, _, run = heapq.heappop(heap)
            if run.closed or at != run.scheduled:
                continue
            run.scheduled = NEVER
            deadline = run.due(self._settings)[0]
            if deadline > now:
                self.schedule(run, deadline)
            else:
                yield run

    def release_early(self, now: float, need: int) -> None:
        """Tells the heaviest-times-oldest runs to leave, until they weigh `need` bytes: of very many, of the oldest."""
        oldest = dict.fromkeys(run for run, _ in islice(self._by_trace.values(), _LOOKED_AT))
        runs = [run for run in oldest if run.forced is None]
        queue = [(-run.weight * (now - run.first + 1.0), i) for i, run in enumerate(runs)]
        heapq.heapify(queue)
        while queue and need > 0:
            run = runs[heapq.heappop(queue)[1]]
            run.leaving = run.weight
            self.leaving += run.leaving
            need -= run.leaving
            run.force(now, "memory")
            self.schedule(run)
