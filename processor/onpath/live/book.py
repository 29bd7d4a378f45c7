"""Which spans of which traces are open and which have ended, within bounds: the state of the judging thread.

Data flow: starts, ends and events in the order they came -> `Run` by trace -> `due` gives those to let go, each for one
reason -> their owner judges them and calls `settle` -> late spans open a settled run again. Pure: time comes in as an
argument, spans are what the SDK made and are never looked into.

With `starts` (a span processor) a run is over when nothing of it is open, and only `max_age` is a matter of time.
Without (an exporter sees only ends) a span that is named as a parent and has not come is known to be open, and what
else may be is given `settle_delay`, as in a collector.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias

from onpath.live.counts import Counts
from onpath.live.settings import Settings
from onpath.model import LogRecord, Span

Reason: TypeAlias = Literal[
    "root_ended", "idle", "max_age", "span_limit", "bytes_limit", "memory", "marked", "shutdown"
]

_OVER_LIMIT: Final = frozenset({"span_limit", "bytes_limit", "memory"})
_OPEN_WEIGHT: Final = 500  # bytes that an open span costs here; its content is its owner's anyway


class Entry:
    """One span. `sdk` is the SDK's object: the span itself while it is open, then the copy that processors get."""

    __slots__ = ("ended", "parent_id", "sdk", "sent", "size", "span_id", "value")

    def __init__(self, span_id: int, parent_id: int | None, sdk: Any) -> None:
        self.span_id = span_id
        self.parent_id = parent_id  # None for a local root
        self.sdk = sdk
        self.size = _OPEN_WEIGHT
        self.ended = False
        self.sent = False  # handed on to a collector
        self.value: Span | None = None  # as the core sees it, once it has ended and someone wanted it


class Run:
    """What this process has of one trace, open or settled. `history` is whatever its judge wants to keep of it."""

    __slots__ = ("closed", "entries", "fresh", "gone", "history", "last_at", "late", "logs", "open", "opened_at",
                 "planned_at", "released", "rooted_at", "settled_at", "size", "spent", "trace_id")  # fmt: skip

    def __init__(self, trace_id: int, now: float) -> None:
        self.trace_id = trace_id
        self.opened_at = self.last_at = now
        self.rooted_at: float | None = None  # when the first local root had ended
        self.planned_at = float("inf")  # the earliest time for which it stands in the plan
        self.entries: dict[int, Entry] = {}
        self.open: set[int] = set()
        self.fresh: list[Entry] = []  # started or ended since the judge last looked
        self.logs: list[LogRecord] = []
        self.size = 0
        self.gone = False  # some of its spans were not seen
        self.closed: Reason | None = None
        self.released = 0
        self.late = 0
        self.settled_at: float | None = None
        self.spent = False  # settled, and its spans are no longer held
        self.history: Any = None


class Book:
    """All runs. Calls come from one thread; `settle` follows each run that `due` gives before the next call."""

    def __init__(self, settings: Settings, counts: Counts, *, starts: bool, watched: bool = False) -> None:
        """`watched`: someone reads `fresh` of the runs in `touched`."""
        self._settings = settings
        self._counts = counts
        self._starts = starts
        self._watched = watched
        self._open: dict[int, Run] = {}
        self._over: dict[int, Run] = {}  # open ones that are to be let go
        self._plan: list[tuple[float, int]] = []  # a heap of (when to look, trace id)
        self._settled: OrderedDict[int, Run] = OrderedDict()
        self._kept: OrderedDict[int, Run] = OrderedDict()  # of these, those whose spans are held
        self.size = 0  # bytes of open runs
        self.kept_size = 0
        self.touched: dict[int, Run] = {}

    def __len__(self) -> int:
        return len(self._open)

    # ---------------------------------------------------------------- what came

    def start(self, now: float, trace_id: int, span_id: int, parent_id: int | None, sdk: Any) -> None:
        run = self._run(now, trace_id)
        if run is None or span_id in run.entries:
            return
        entry = run.entries[span_id] = Entry(span_id, parent_id, sdk)
        run.open.add(span_id)
        self._weigh(run, entry.size)
        self._touch(run, entry)
        if self._over.pop(trace_id, None) is not None:
            run.closed = None
        self._schedule(run, self._deadline(run)[0])
        self._hold_limits(run)

    def end(
        self,
        now: float,
        trace_id: int,
        span_id: int,
        parent_id: int | None,
        sdk: Any,
        size: int,
        *,
        marked: bool = False,
    ) -> None:
        run = self._run(now, trace_id)
        if run is None:
            return
        entry = run.entries.get(span_id)
        if entry is None:
            run.gone = run.gone or self._starts  # it began before anyone looked: who knows what else did
            entry = run.entries[span_id] = Entry(span_id, parent_id, sdk)
            self._weigh(run, entry.size)
        elif entry.ended:
            self._counts.duplicates += 1
            return
        entry.sdk, entry.ended = sdk, True
        self._weigh(run, size - entry.size)
        entry.size = size
        run.open.discard(span_id)
        if parent_id is None:
            run.rooted_at = now if run.rooted_at is None else run.rooted_at
        elif not self._starts and parent_id not in run.entries:
            run.open.add(parent_id)
        if run.released:
            run.late += 1
            self._counts.late_spans += 1
        self._touch(run, entry)
        self._schedule(run, self._deadline(run)[0])
        self._hold_limits(run)
        if marked:
            self._close(run, "marked")
        elif self._starts and not run.open:
            self._close(run, "root_ended")

    def log(self, now: float, trace_id: int, record: LogRecord, size: int) -> None:
        """Evidence for an open trace; there are no others to be had from inside a process."""
        run = self._open.get(trace_id)
        if run is not None and run.closed not in _OVER_LIMIT:
            run.logs.append(record)
            self._weigh(run, size)
            self._hold_limits(run)

    def lost(self, now: float, *trace_ids: int) -> None:
        """A start or an end of each had to be dropped: they can't be judged as complete any more."""
        for trace_id in trace_ids:
            run = self._run(now, trace_id)
            if run is not None:
                run.gone = True
                self._close(run, "memory")

    def open_ids(self) -> list[int]:
        return list(self._open)

    # ---------------------------------------------------------------- what goes

    def due(self, now: float) -> list[tuple[Run, Reason]]:
        """The runs to let go now, the oldest first within each cause; each is to be settled."""
        self._forget(now)
        while self._plan and self._plan[0][0] <= now:
            _, trace_id = heapq.heappop(self._plan)
            run = self._open.get(trace_id)
            if run is None:
                continue
            run.planned_at = float("inf")
            at, reason = self._deadline(run)
            if at <= now:
                self._close(run, reason)
            else:
                self._schedule(run, at)
        self._relieve(now)
        return self._take()

    def ready(self) -> list[tuple[Run, Reason]]:
        """As `due`, with those that only wait for what may not come: for whoever wants verdicts at once."""
        for run in self._open.values():
            if not self._starts and run.rooted_at is not None and not run.open:
                self._close(run, "root_ended")
        return self._take()

    def drain(self) -> list[tuple[Run, Reason]]:
        """All of them."""
        done = self.ready()
        for run in self._open.values():
            self._close(run, "shutdown")
        return done + self._take()

    def settle(self, run: Run, now: float) -> None:
        """The run has been judged; its spans are kept for those that may come late, as long as there is room."""
        run.settled_at = now
        run.closed = None
        run.fresh.clear()
        self.size -= run.size
        self._settled[run.trace_id] = self._kept[run.trace_id] = run
        self.kept_size += run.size
        if run.spent:
            self._drop_spans(run)
        self._forget(now)

    def next_deadline(self) -> float | None:
        return self._plan[0][0] if self._plan else None

    def touched_runs(self) -> Iterator[Run]:
        """Open runs with something fresh since the last call."""
        touched, self.touched = self.touched, {}
        return (run for run in touched.values() if run.trace_id in self._open)

    # ---------------------------------------------------------------- inside

    def _run(self, now: float, trace_id: int) -> Run | None:
        """The run to add to; None when it no longer takes any."""
        run = self._open.get(trace_id)
        if run is None:
            run = self._settled.pop(trace_id, None)
            if run is None:
                run = Run(trace_id, now)
                self._counts.traces_started += 1
            elif run.spent:
                self._settled[trace_id] = run
                self._counts.spans_dropped["late"] += 1
                return None
            else:
                self._reopen(run, now)
            self._open[trace_id] = run
        elif run.closed in _OVER_LIMIT:
            self._counts.spans_dropped["late"] += 1
            return None
        run.last_at = now
        return run

    def _reopen(self, run: Run, now: float) -> None:
        del self._kept[run.trace_id]
        self.kept_size -= run.size
        self.size += run.size
        run.settled_at = None
        run.opened_at = now

    def _deadline(self, run: Run) -> tuple[float, Reason]:
        last = run.opened_at + self._settings.max_age
        if self._starts:
            return last, "max_age"
        at: float
        reason: Reason = "root_ended"
        if run.rooted_at is None:
            at, reason = run.last_at + self._settings.idle_timeout, "idle"
        elif run.open:
            at = max(run.rooted_at + self._settings.orphan_delay, run.last_at)
        else:
            at = run.last_at + self._settings.settle_delay
        return (at, reason) if at <= last else (last, "max_age")

    def _schedule(self, run: Run, at: float) -> None:
        if at < run.planned_at:
            run.planned_at = at
            heapq.heappush(self._plan, (at, run.trace_id))

    def _touch(self, run: Run, entry: Entry) -> None:
        if self._watched:
            run.fresh.append(entry)
            self.touched[run.trace_id] = run

    def _weigh(self, run: Run, more: int) -> None:
        run.size += more
        self.size += more

    def _hold_limits(self, run: Run) -> None:
        if len(run.entries) > self._settings.span_limit:
            self._close(run, "span_limit")
        elif run.size > self._settings.trace_bytes_limit:
            self._close(run, "bytes_limit")

    def _relieve(self, now: float) -> None:
        """Over the memory limit settled spans go first, then the runs that are heaviest times oldest."""
        while self.size + self.kept_size > self._settings.memory_limit and self._kept:
            self._drop_spans(next(iter(self._kept.values())))
        closing = sum(run.size for run in self._over.values())
        while self.size - closing > self._settings.memory_limit:
            held = [run for run in self._open.values() if run.closed is None]
            heaviest = max(held, key=lambda run: run.size * (now - run.opened_at + 1))
            closing += heaviest.size
            self._close(heaviest, "memory")

    def _close(self, run: Run, reason: Reason) -> None:
        if run.closed is None or reason in _OVER_LIMIT:
            run.closed = reason
        if reason in _OVER_LIMIT:
            run.spent = True
        self._over[run.trace_id] = run

    def _take(self) -> list[tuple[Run, Reason]]:
        taken: list[tuple[Run, Reason]] = []
        for trace_id, run in self._over.items():
            reason = run.closed or "root_ended"
            del self._open[trace_id]
            run.released += 1
            self._counts.released[reason] += 1
            taken.append((run, reason))
        self._over = {}
        return taken

    def _forget(self, now: float) -> None:
        while self._kept:
            oldest = next(iter(self._kept.values()))
            settled_at = now if oldest.settled_at is None else oldest.settled_at
            if self.kept_size <= self._settings.late_bytes and settled_at + self._settings.late_window > now:
                break
            self._drop_spans(oldest)
        while len(self._settled) > self._settings.settled_memory:
            trace_id, run = self._settled.popitem(last=False)
            if self._kept.pop(trace_id, None) is not None:
                self.kept_size -= run.size

    def _drop_spans(self, run: Run) -> None:
        if self._kept.pop(run.trace_id, None) is not None:
            self.kept_size -= run.size
        run.entries, run.open, run.logs = {}, set(), []
        run.size = 0
        run.spent = True
        run.history = None
