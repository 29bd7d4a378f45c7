"""TraceBuffer: which run a span belongs to, what is released when, which sender is refused. See the package."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Hashable
from typing import Final

from onpath_collector.buffer.openings import Openings
from onpath_collector.buffer.releases import awaited, part_of, whole_of
from onpath_collector.buffer.run import NEVER, RUN_WEIGHT, SPAN_WEIGHT, Run
from onpath_collector.buffer.settled import Judgement, Settled
from onpath_collector.buffer.subtraces import SubTrace
from onpath_collector.buffer.values import LATENESS, BufferSettings, Counts, Evidence, Reason, Released, Spans

_SQUEEZE: Final = 256 << 10  # bytes compressed in one tick, about a millisecond
_LAZY: Final = 1.0  # seconds that late bytes may stay beyond their window while something is open
_OUTGOING: Final = 8  # what is on its way to judgement may exceed the memory limit by this part of it


class TraceBuffer:
    def __init__(self, settings: BufferSettings | None = None) -> None:
        self.settings = settings or BufferSettings()
        self.counts = Counts()
        self.elsewhere = 0  # bytes in other buffers under the same memory limit; the owner keeps it current
        self._declares = bool(self.settings.root_attributes)
        self._soonest = min(self.settings.settle_delay, self.settings.session_idle)
        self.outgoing = 0  # weight of what is released and not yet settled
        self._runs = Openings(self.settings, self.counts)
        self._open, self._ids, self._late = self._runs.open, self._runs.ids, self._runs.late

    # What is held

    @property
    def open_traces(self) -> int:
        """Traces that have never been released; those opened again are not among them."""
        return self._open.fresh

    def is_open(self, trace_id: bytes) -> bool:
        """Whether something of the trace waits for its release, the first one or another."""
        return self._open.get(trace_id) is not None

    @property
    def open_runs(self) -> int:
        """Release units: traces and sessions, opened again or not."""
        return self._open.runs

    @property
    def open_bytes(self) -> int:
        """Serialised spans and log records of open traces."""
        return self._open.bytes

    @property
    def late_bytes(self) -> int:
        """Bytes that settled traces keep."""
        return self._late.size

    @property
    def late_dropped(self) -> int:
        """Settled traces that have lost their bytes before their window was over."""
        return self._late.dropped

    @property
    def memory(self) -> int:
        """All that counts against `memory_limit`, in bytes, about."""
        return self._open.weight + self._late.size + self.outgoing + self._runs.waiting.size + self.elsewhere

    # In

    def admits(self, now: float, size: int, *, early: bool = True) -> bool:
        """Whether a request that takes `size` bytes may come in; otherwise its sender is to come back.

        Over the limit, settled traces lose their bytes first; then, if `early`, the heaviest-times-oldest open traces
        are released. What is on its way to be judged may be over the limit by an eighth of it. Whatever the answer,
        deadlines may have moved.
        """
        limit = self.settings.memory_limit
        if limit is None or self.memory + size <= limit:
            return True
        over = self.memory + size - limit - self.outgoing - self._open.leaving
        if over > 0:
            held = self._late.size
            self._late.shed(max(0, held - over))
            over -= held - self._late.size
        if over > 0 and early:
            self._open.release_early(now, max(over, limit // 16))
        return self.memory + size <= limit + limit // _OUTGOING

    @staticmethod
    def weight_of(size: int, spans: int, traces: int) -> int:
        """What so many bytes of spans of so many traces take of the memory, at most, about."""
        return size + spans * SPAN_WEIGHT + traces * RUN_WEIGHT

    def push(self, now: float, pushed: Spans, tag: int | None = None) -> bool:
        """Takes the spans of one trace that came together. Spans that can't be judged any more are counted.

        False when nothing of it is kept. Otherwise `tag` is among those of the Released that holds these spans first.
        """
        count = len(pushed.spans)
        self.counts.spans += count
        found = self._runs.run_for(now, pushed)
        if found is None:
            return False
        run, index = found
        if run.full is not None:
            self.counts.dropped_spans[run.full] += count
            return False
        size = run.bytes
        new = run.take(now, index, pushed, self._declares)
        if new and self._runs.whole_since and not run.partial:
            run.partial = min([span[3] for span in pushed.spans]) < self._runs.whole_since
        self._open.bytes += run.bytes - size
        self._open.spans += new
        self.counts.duplicates += count - new
        if index.settled:
            run.late += new
            self.counts.late_spans += new
        if index.root_at is not None and index.root_at < now:
            self.counts.lateness[bisect_left(LATENESS, now - index.root_at)] += new
        self._limit(now, run)
        if pushed.complete and new:
            run.force(now, "marked")
        if run.forced is not None or (run.scheduled > now + self._soonest and (index.ends or run.scheduled == NEVER)):
            self._open.schedule(run)  # else these spans can only have made its deadline later
        return self._tagged(run, tag, run.bytes > size)

    def divide(self, now: float, whole_since: int, lag: float) -> None:
        """Which of several collectors gets which trace has changed: parts of those under way may be with another one.

        What is open, and what comes with a span that started before `whole_since` (ns since the epoch), is partial.
        So is a session that opens while an earlier part of it may have gone elsewhere: for `session_idle`, and `lag`,
        by which others may see the change later.
        """
        for run in self._open:
            run.partial = True
        self._runs.whole_since = max(self._runs.whole_since, whole_since)
        self._runs.sessions_whole_from = now + lag + self.settings.session_idle

    def attach(self, now: float, evidence: Evidence, tag: int | None = None) -> bool:
        """Takes log records that name spans of one trace. They never open a trace, but re-open a settled one.

        The answer is that of `push`; the tag of evidence that waits for a first span in vain is given by `take_gone`.
        """
        data = evidence.data
        run = self._open.get(evidence.trace_id)
        if run is None:
            entry = self._ids.get(evidence.trace_id)
            if isinstance(entry, Settled) and self._late.holds(entry, now):
                if hash(data) in entry.digests:
                    return False
                run = self._runs.reopen(now, entry)
            elif evidence.trace_id in self._ids:
                self.counts.dropped_evidence["late"] += 1
                return False
            else:
                self._no_span(self._runs.waiting.add(now, evidence.trace_id, data, tag))
                return True
        if run.full is not None:
            self.counts.dropped_evidence[run.full] += 1
            return False
        size = run.bytes
        self._runs.add_evidence(run, data)
        self._limit(now, run)
        self._open.schedule(run)
        return self._tagged(run, tag, run.bytes > size)

    def take_gone(self) -> list[int]:
        """Tags of evidence that is no longer kept, without having been released. Each is given once."""
        gone, self._runs.waiting.gone = self._runs.waiting.gone, []
        return gone

    @staticmethod
    def _tagged(run: Run, tag: int | None, kept: bool) -> bool:
        if kept and tag is not None:
            run.tags.append(tag)
        return kept

    def complete(self, now: float, trace_id: bytes) -> bool:
        """Ends a trace, or the session it belongs to, at once; False for one that is not open."""
        return self.end(now, trace_id, "marked")

    # Back from before a crash

    def end(self, now: float, trace_id: bytes, reason: Reason) -> bool:
        """Ends a trace, or the session it belongs to, as it had ended; False for one that is not open."""
        run = self._open.get(trace_id)
        if run is None:
            return False
        run.force(now, reason)
        self._open.schedule(run)
        return True

    def end_part(self, now: float, trace_id: bytes, root: bytes, reason: Reason) -> None:
        """Ends a declared root's sub-trace as it had ended, if there is something of it to judge."""
        run = self._open.get(trace_id)
        if run is not None and (sub := run.pending_sub(root)) is not None:
            sub.forced = reason
            self._open.schedule(run, now)

    def is_part_open(self, trace_id: bytes, root: bytes) -> bool:
        """Whether something of a declared root's sub-trace waits for its release."""
        run = self._open.get(trace_id)
        return run is not None and run.pending_sub(root) is not None

    def recovered(self, *, lossy: bool = False) -> None:
        """Everything now open was open when the collector crashed: deadlines release it as `recovered`.

        `lossy`: any span may have been lost. Then a trace that was marked as complete isn't.
        """
        for run in self._open:
            run.recovered = True
            if lossy and run.forced == "marked":
                run.forced = "recovered"

    def memory_of(self, trace_id: bytes) -> int | None:
        """What is remembered of a settled trace for longer than its bytes; for `restore`."""
        entry = self._ids.get(trace_id)
        return entry.memory if isinstance(entry, Settled) else entry

    def restore(self, trace_id: bytes, memory: int | None) -> None:
        """A trace that was settled before the crash: its spans are late, and its bytes are gone."""
        self.counts.forgotten += self._ids.restore(trace_id, memory)

    # Out

    def next_deadline(self) -> float | None:
        """When `tick` has something to do; None for never."""
        deadline, expiry = self._open.next_deadline(), self._late.next_expiry()
        if deadline is None or expiry is None:
            return expiry if deadline is None else deadline
        return min(deadline, expiry + _LAZY)

    def tick(self, now: float, budget: int = 256) -> list[Released]:
        """Lets go of runs whose deadline is over, earliest first, until there are `budget` Released or more.

        More than `budget` come only of one run with several declared roots. `next_deadline` tells when to call again.
        """
        found: list[Released] = []
        for run in self._open.due(now, 4 * budget):  # an entry that is put right is work too
            judgement = awaited(run)
            if judgement is None:
                found += self._leave(now, run)
            else:
                judgement.parked = run
            if len(found) >= budget:
                break
        self._no_span(self._runs.waiting.leave(now))
        self._late.expire(now, 4 * budget)
        self._late.squeeze(_SQUEEZE)
        return found

    def drain(self, now: float) -> list[Released]:
        """Lets go of everything, as `shutdown`; runs already told to leave keep their reason."""
        self._no_span(self._runs.waiting.empty())
        return [found for run in list(self._open) for found in self._close(now, run, now, run.forced or "shutdown")]

    def give_up(self, tags: Container[int], reason: str) -> tuple[int, set[int]]:
        """Drops what is open and holds one of these tags: another collector is to judge it.

        How many traces were dropped that had never been released, and all tags that went with them.
        """
        runs = [run for run in self._open if any(tag in tags for tag in run.tags)]
        for run in runs:
            self._runs.give_up(run)
            self.counts.dropped_spans[reason] += run.spans
        traces = sum(run.fresh for run in runs)
        self.counts.traces_released += traces
        return traces, {tag for run in runs for tag in run.tags}

    def settle(self, released: Released, outcome: Hashable | None) -> Hashable | None:
        """What was released is judged, with a result of `outcome`, or (None) given up. Needed once for each Released.

        Returns the outcome of the release before: the report is a new revision only if that differs.
        """
        judgement = released.judgement
        before = judgement.outcome
        self.outgoing -= released.size + RUN_WEIGHT
        judgement.judging = False
        if outcome is not None and outcome != before:
            judgement.revision = released.revision
            judgement.outcome = outcome
        if judgement.parked is not None and not judgement.parked.closed:
            self._open.schedule(judgement.parked)
        judgement.parked = None
        if isinstance(judgement, Settled) and judgement.data is None:
            self._ids.shrink(judgement)
        return before

    def _no_span(self, chunks: int) -> None:
        if chunks:
            self.counts.dropped_evidence["no_span"] += chunks

    def _limit(self, now: float, run: Run) -> None:
        if run.spans > self.settings.span_limit:
            run.full = "span_limit"
        elif run.bytes > self.settings.trace_bytes_limit:
            run.full = "bytes_limit"
        if run.full is not None:
            run.force(now, run.full)

    # Releases

    def _leave(self, now: float, run: Run) -> list[Released]:
        """Releases what is due of a run: all, or the sub-traces of declared roots while the trace goes on."""
        due, reason = run.due(self.settings)
        declared = run.declared
        if declared is None or run.whole_due(self.settings)[0] <= now:
            return self._close(now, run, due, reason)
        ended: list[SubTrace] = []
        while (sub := run.sub_due(self.settings)) is not None and sub[0] <= now:
            ended.append(declared.pending.pop(sub[1].root))
        if not declared.pending and not declared.loose:
            declared.pending = {sub.root: sub for sub in ended}
            return self._close(now, run, due, reason)
        self._open.schedule(run, run.due(self.settings)[0])
        return [self._release_sub(run, sub, due, reason, 0) for sub in ended]

    def _close(self, now: float, run: Run, due: float, reason: Reason) -> list[Released]:
        """Releases a run: the sub-traces of its declared roots that are not judged, then what is left of it, if any."""
        self._open.remove(run)
        declared = run.declared
        ended = [] if declared is None else list(declared.pending.values())
        settled = Settled(run, now)
        whole = declared is None or declared.loose or not ended
        alone = 0 if whole else run.fresh  # a trace that is nothing but a sub-trace counts once
        found = [self._release_sub(run, sub, due, reason, alone if i == 0 else 0) for i, sub in enumerate(ended)]
        if whole:
            found.append(self._release(whole_of(run, settled, due, reason)))
        else:
            settled.judging = False
            found[-1].tags = tuple(run.tags)
        if declared is not None:
            declared.pending = {}
        self._runs.remember(settled, run)
        return found

    def _release_sub(self, run: Run, sub: SubTrace, due: float, reason: Reason, counted: int) -> Released:
        """`counted` is 1 if it stands for the whole trace, which counts as started already."""
        reason, sub.forced = sub.forced or reason, None
        first = sub.prior is None
        self.counts.traces_started += first and not counted
        sub.prior = Judgement(sub.prior)
        return self._release(part_of(run, sub, sub.prior, due, reason, counted or int(first)))

    def _release(self, released: Released) -> Released:
        self.outgoing += released.size + RUN_WEIGHT
        self.counts.released[released.reason] += 1
        self.counts.traces_released += released.traces
        return released
