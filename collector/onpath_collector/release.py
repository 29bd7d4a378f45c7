"""From released to reported: watches the buffer's deadlines, has each released trace judged, hands on the outcome.

    timer at the next deadline -> TraceBuffer.tick -> queue (bounded) -> Judge.run -> Outcome -> exporters

What is released is accounted for here: every trace ends as judged (by outcome) or dropped (by reason). With a journal
what can't be judged before the end stays open, for the next start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

from onpath_collector.buffer import Released, TraceBuffer
from onpath_collector.counts import TraceCounts
from onpath_collector.exporters.base import ResultExporter
from onpath_collector.hold import Hold, Parcel
from onpath_collector.journal import Closing
from onpath_collector.judging import Job, Outcome, verdicts_in
from onpath_collector.settling import Keeper, Settling
from onpath_collector.workers import JobFailed, JobTimeout, Judge

log: Final = logging.getLogger("onpath")
_AFTER_FAULT: Final = 1.0  # seconds: a fault must neither stop releases for good nor fill the log
_STEP: Final = 200  # traces taken from the buffer at once, so that a flood of them never holds up the loop


class Observer(Protocol):
    """Told of times, in seconds."""

    def released(self, lag: float) -> None:
        """A trace was let go so long after its deadline."""

    def judged(self, seconds: Mapping[tuple[str, str], float]) -> None:
        """A trace was judged, which took so long by workflow and check."""

    def told(self, delay: float | None, unknown: Mapping[tuple[str, str], int]) -> None:
        """A report goes out, so long after its trace's root had ended (None: a revision, or nobody knows), with so
        many checks unknown, by workflow and why."""


class _Leaving(NamedTuple):
    """What goes with a release: its ending in a journal, its spans if they were held."""

    released: Released
    closing: Closing | None
    parcel: Parcel | None


class Release:
    """Owned by the loop. `judge` None: there is no policy, and what is released counts as judged, `no_policy`.

    A release counts for as many traces as it lets go for the first time: none for a revision, several for a session.
    """

    def __init__(
        self,
        buffer: TraceBuffer,
        judge: Judge | None,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], int],
        parallel: int,
        queue: int,
        observer: Observer | None = None,
        journal: Keeper | None = None,
        hold: Hold | None = None,
    ) -> None:
        """`clock` is the buffer's, in seconds; `wall_clock` gives nanoseconds since the Unix epoch. With `hold` spans
        are passed on when they are judged, and a journal keeps them until then."""
        self.counts = TraceCounts()
        self._buffer = buffer
        self._judge = judge
        self._clock = clock
        self._wall_clock = wall_clock
        self._parallel = parallel
        self._queue: asyncio.Queue[_Leaving] = asyncio.Queue()
        self._limit = queue
        self._observer = observer
        self._settling = None if journal is None else Settling(journal, buffer)
        self._hold = hold
        self._exporters: Sequence[ResultExporter] = ()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._told: set[str] = set()

    def start(self, exporters: Sequence[ResultExporter]) -> None:
        self._exporters = exporters
        if self._settling is not None:
            self._settling.start(exporters)
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._parallel)]

    def schedule(self) -> None:
        """Sets the timer to the buffer's next deadline; called whenever that may have moved."""
        deadline = self._buffer.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        self._set_timer(deadline)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer_at = at
        self._timer = loop.call_later(max(0.0, at - self._clock()), self.tick)

    def tick(self) -> None:
        """Takes from the buffer what is due, as far as there is room for it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        room = min(_STEP, self._limit - self._queue.qsize())
        if room <= 0:
            return  # the next trace judged schedules again
        try:
            self.take(self._buffer.tick(self._clock(), room))
        except Exception:
            if not self.counts.faults:
                log.exception("a fault of the buffer, tried again in %g s; further ones are only counted", _AFTER_FAULT)
            self.counts.faults += 1
            self._set_timer(self._clock() + _AFTER_FAULT)
            return
        self.schedule()

    def take(self, found: Sequence[Released]) -> None:
        """Has them judged."""
        closings = [None] * len(found) if self._settling is None else self._settling.enter(found)
        parcels = [None] * len(found) if self._hold is None else self._hold.released(found)
        for each in map(_Leaving, found, closings, parcels):
            self._take(each)

    def _take(self, leaving: _Leaving) -> None:
        released = leaving.released
        self.counts.releases[released.reason] += 1
        if self._observer is not None:
            self._observer.released(max(0.0, self._clock() - released.due_at))
        if self._judge is None:
            self._buffer.settle(released, None)
            self.counts.judged["no_policy"] += released.traces
            self._export(_empty(released, "no_policy"))
            self._leave(leaving, None)
        else:
            self._queue.put_nowait(leaving)

    async def _work(self) -> None:
        while True:
            leaving = await self._queue.get()
            try:
                await self._settle(leaving)
            finally:
                self._queue.task_done()
                self.schedule()

    async def _settle(self, leaving: _Leaving) -> None:
        outcome = await self._judged(leaving.released)
        if leaving.closing is not None:
            await leaving.closing.written
        if self._hold is not None and leaving.parcel is not None:
            self._hold.judged(leaving.parcel, {} if outcome is None else outcome.marks)
        told = self._tell_of(leaving.released, outcome)
        self._leave(leaving, outcome if told else None)

    def _leave(self, leaving: _Leaving, outcome: Outcome | None) -> None:
        settling, closing = self._settling, leaving.closing
        if settling is None or closing is None:
            return
        if leaving.parcel is None:
            settling.leave(leaving.released, closing, outcome)
        else:
            leaving.parcel.when_sent(lambda: settling.leave(leaving.released, closing, outcome))

    def _tell_of(self, released: Released, outcome: Outcome | None) -> bool:
        """Counts what became of a release and exports what is new; whether that is anything."""
        before = self._buffer.settle(released, outcome and outcome.signature)
        if outcome is None:
            self.counts.dropped["evaluation_failed"] += released.traces
            if before is None:  # who waits is told that nothing comes
                self._export(_empty(released, "evaluation_failed"))
            return False
        self.counts.judged[_label(outcome)] += released.traces
        if self._observer is not None:
            self._observer.judged(outcome.seconds)
        if outcome.signature == before:
            self.counts.unchanged += 1
            return False
        if isinstance(before, str) and released.root is None:
            again = len(released.trace_ids) - released.traces
            self.counts.changed[_worst(verdicts_in(before))] -= again
            self.counts.changed[_label(outcome)] += again
        for broken in outcome.broken:
            self._tell("broken", f"a check failed by itself and is unknown: {broken}")
        if self._observer is not None:
            self._observer.told(self._delay(outcome), outcome.unknown)
        self._export(outcome)
        return True

    def _export(self, outcome: Outcome) -> None:
        for exporter in self._exporters:
            exporter.export(outcome)

    def _delay(self, outcome: Outcome) -> float | None:
        if outcome.ended_ns is None or outcome.revision > 1 or not outcome.verdicts:
            return None
        return max(0, self._wall_clock() - outcome.ended_ns) / 1e9

    async def _judged(self, released: Released) -> Outcome | None:
        """A trace whose checks can't be finished is run once more without them: unknown, for that reason."""
        assert self._judge is not None
        reason = "earlier_spans_gone" if released.partial else None
        for _ in range(2):
            try:
                return _named(await self._judge.run(self._job(released, reason)), released)
            except JobTimeout:
                reason = "evaluation_timeout"
                self._tell(reason, f"trace {released.trace_id.hex()} took too long to judge; its checks are unknown")
            except JobFailed as error:
                reason = "evaluation_failed"
                self._tell(reason, f"trace {released.trace_id.hex()} could not be judged: {error}")
        return None

    def _job(self, released: Released, unknown: str | None) -> Job:
        return Job(
            chunks=released.chunks,
            evidence=released.evidence,
            release_reason=released.reason,
            judged_at_ns=self._wall_clock(),
            session=released.session,
            revision=released.revision,
            late=released.late,
            duplicates=released.duplicates,
            root=released.root,
            without=released.without,
            unknown=unknown,
            before=released.before if isinstance(released.before, str) else None,
        )

    def _tell(self, kind: str, message: str) -> None:
        """Logs each kind of trouble once; all are counted."""
        if kind not in self._told:
            self._told.add(kind)
            log.error("%s; further ones are only counted", message)

    async def stop(self, deadline: float, *, leave: bool = False) -> None:
        """Judges everything open as `shutdown` until the clock reads `deadline`. What is left is counted as dropped;
        with a journal it is still open. `leave` has it left as it is."""
        if self._timer is not None:
            self._timer.cancel()
        if not leave:
            self.take(self._buffer.drain(self._clock()))
        if self._tasks and not leave:
            try:
                async with asyncio.timeout(max(0.0, deadline - self._clock())):
                    await self._queue.join()
            except TimeoutError:
                log.warning("stopped with %d traces not judged", self._unjudged())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._settling is None and (left := self._unjudged()):
            self.counts.dropped["shutdown"] += left
        if self._judge is not None:
            await self._judge.close()

    @property
    def waiting(self) -> int:
        """Releases that wait to be judged, those being judged not counted."""
        return self._queue.qsize()

    def sums(self) -> dict[str, Any]:
        """The traces' half of the ledger; a trace released and not yet judged is still open."""
        return {
            "traces_started": self._buffer.counts.traces_started,
            "traces_judged": self.counts.judged.total(),
            "traces_dropped": dict(self.counts.dropped),
            "traces_open": self._buffer.open_traces + self._unjudged(),
        }

    def _unjudged(self) -> int:
        """Released, neither judged nor dropped: waiting or being judged."""
        return self._buffer.counts.traces_released - self.counts.judged.total() - self.counts.dropped.total()


def _named(outcome: Outcome, released: Released) -> Outcome:
    """With the other traces of a session."""
    traces = [trace_id.hex() for trace_id in released.trace_ids]
    return outcome if len(traces) < 2 else replace(outcome, others=tuple(t for t in traces if t != outcome.trace_id))


def _empty(released: Released, why: str) -> Outcome:
    """Without results."""
    root = None if released.root is None else released.root.hex()
    found = Outcome(released.trace_id.hex(), released.revision, "", root=root, unmatched={why: 1})
    return _named(found, released)


def _label(outcome: Outcome) -> str:
    """The worst verdict of the trace's results, or `unmatched` without any."""
    return _worst({v.verdict for v in outcome.verdicts})


def _worst(found: set[str]) -> str:
    return next((label for label in ("fail", "unknown", "pass") if label in found), "unmatched")
