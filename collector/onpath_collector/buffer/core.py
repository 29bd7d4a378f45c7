"""TraceBuffer: who owns which span, when which trace is due, and what its release means. The package says the whole.

Deadlines stand in a heap. A deadline that moves later leaves its entry where it is: the entry is put right when it
comes up. So a span costs the same however many traces are open.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Final

from onpath_collector.buffer.evidence import WaitingRoom
from onpath_collector.buffer.run import RUN_WEIGHT, SPAN_WEIGHT, Run, TraceIndex
from onpath_collector.buffer.settled import LateStore, Settled, SettledIds
from onpath_collector.buffer.values import BufferSettings, Counts, Evidence, Reason, Released, Spans

_LINKS: Final = 128  # traces remembered that link to one
_SQUEEZE: Final = 256 << 10  # bytes compressed in one tick, about a millisecond
_OUTGOING: Final = 8  # what is on its way to judgement may exceed the memory limit by this part of it


class TraceBuffer:
    def __init__(self, settings: BufferSettings | None = None) -> None:
        self.settings = settings or BufferSettings()
        self.counts = Counts()
        self.elsewhere = 0  # bytes in other buffers under the same memory limit; the owner keeps it current
        self._open: dict[bytes, Run] = {}
        self._sessions: dict[str, Run | Settled] = {}
        self._heap: list[tuple[float, int, Run]] = []
        self._sequence = 0  # runs with equal deadlines leave in the order in which they were scheduled
        self._fresh = 0
        self._runs = 0
        self._bytes = 0
        self._spans = 0
        self._leaving = 0  # weight of open runs told to leave for want of memory
        self._outgoing = 0  # weight of what is released and not yet settled
        self._ids = SettledIds(self.settings.settled_memory)
        self._late = LateStore(self.settings.late_window, self.settings.late_bytes, self._lost_bytes)
        self._waiting = WaitingRoom(self.settings.idle_timeout, self.settings.evidence_bytes)

    # What is held

    @property
    def open_traces(self) -> int:
        """Traces that have never been released; those opened again are not among them."""
        return self._fresh

    @property
    def open_runs(self) -> int:
        """Release units: traces and sessions, opened again or not."""
        return self._runs

    @property
    def held_bytes(self) -> int:
        """Serialised spans and log records of open traces."""
        return self._bytes

    @property
    def late_bytes(self) -> int:
        """Bytes that settled traces keep."""
        return self._late.size

    @property
    def memory(self) -> int:
        """All that counts against `memory_limit`, in bytes, about."""
        return self._held + self._late.size + self._outgoing + self._waiting.size + self.elsewhere

    @property
    def _held(self) -> int:
        return self._bytes + self._spans * SPAN_WEIGHT + self._runs * RUN_WEIGHT

    # In

    def admits(self, now: float, size: int) -> bool:
        """Whether a request of `size` bytes may come in; otherwise its sender is to come back.

        Over the limit, settled traces lose their bytes first; then the heaviest-times-oldest open traces are released
        early, and what goes out to be judged may be over the limit by an eighth of it.
        """
        limit = self.settings.memory_limit
        if limit is None or self.memory + size <= limit:
            return True
        over = self.memory + size - limit - self._outgoing - self._leaving
        if over > 0:
            freed = self._late.size
            self._late.shed(max(0, freed - over))
            over -= freed - self._late.size
        if over > 0:
            self._release_early(now, max(over, limit // 16))
        return self.memory + size <= limit + limit // _OUTGOING

    def push(self, now: float, pushed: Spans) -> None:
        """Takes the spans of one trace that came together. Spans that can't be judged any more are counted."""
        count = len(pushed.spans)
        self.counts.spans += count
        run = self._run_for(now, pushed)
        if run is None:
            return
        if run.full is not None:
            self.counts.dropped_spans[run.full] += count
            return
        index = run.traces[pushed.trace_id]
        size = run.bytes
        new = run.take(now, index, pushed)
        self._bytes += run.bytes - size
        self._spans += new
        self.counts.duplicates += count - new
        if index.settled:
            run.late += new
            self.counts.late_spans += new
        for target in pushed.links:
            self._link(now, target, pushed.trace_id)
        self._limit(now, run)
        if pushed.complete and new:
            run.force(now, "marked")
        self._schedule(run)

    def attach(self, now: float, evidence: Evidence) -> None:
        """Takes log records that name spans of one trace. They never open a trace, but re-open a settled one."""
        data = evidence.data
        run = self._open.get(evidence.trace_id)
        if run is None:
            entry = self._ids.get(evidence.trace_id)
            if isinstance(entry, Settled) and self._late.holds(entry, now):
                if hash(data) in entry.digests:
                    return
                run = self._reopen(now, entry)
            elif evidence.trace_id in self._ids:
                self.counts.dropped_evidence["late"] += 1
                return
            else:
                self.counts.dropped_evidence["no_span"] += self._waiting.add(now, evidence.trace_id, data)
                return
        if run.full is not None:
            self.counts.dropped_evidence[run.full] += 1
            return
        self._add_evidence(run, data)
        self._limit(now, run)
        self._schedule(run)

    def complete(self, now: float, trace_id: bytes) -> bool:
        """Ends a trace, or the session it belongs to, at once; False for one that is not open."""
        run = self._open.get(trace_id)
        if run is None:
            return False
        run.force(now, "marked")
        self._schedule(run)
        return True

    def recovered(self) -> None:
        """Everything now open was open when the collector crashed: deadlines release it as `recovered`."""
        for run in self._open.values():
            run.recovered = True

    # Out

    def next_deadline(self) -> float | None:
        """When `tick` has something to do; None for never."""
        heap = self._heap
        while heap and (heap[0][2].closed or heap[0][0] != heap[0][2].scheduled):
            heapq.heappop(heap)
        return heap[0][0] if heap else self._late.next_expiry()

    def tick(self, now: float, budget: int = 256) -> list[Released]:
        """Lets go of up to `budget` runs whose deadline is over, in order of deadline. Call again when it is still."""
        found: list[Released] = []
        heap = self._heap
        steps = 4 * budget  # entries that turn out to be stale are work too
        while heap and heap[0][0] <= now and len(found) < budget and steps:
            steps -= 1
            at, _, run = heapq.heappop(heap)
            if run.closed or at != run.scheduled:
                continue
            run.scheduled = float("inf")
            due, reason = run.due(self.settings)
            if due > now:
                self._schedule(run, due)
            elif run.prior is not None and run.prior.judging:
                run.prior.parked = run  # its report would not know which revision it is
            else:
                found.append(self._release(now, run, due, reason))
        self._late.expire(now, 4 * budget)
        self._late.squeeze(_SQUEEZE)
        return found

    def drain(self, now: float) -> list[Released]:
        """Lets go of everything, as `shutdown`; runs already told to leave keep their reason."""
        runs = dict.fromkeys(self._open.values())
        self._heap.clear()
        return [self._release(now, run, now, run.forced or "shutdown") for run in runs]

    def settle(self, released: Released, outcome: Hashable | None) -> Hashable | None:
        """What was released is judged, with a result of `outcome`, or (None) given up. Needed once for each Released.

        Returns the outcome of the release before: the report is a new revision only if that differs.
        """
        settled = released.settled
        before = settled.outcome
        self._outgoing -= released.size + RUN_WEIGHT
        settled.judging = False
        if outcome is not None and outcome != settled.outcome:
            settled.revision = released.revision
            settled.outcome = outcome
        if settled.parked is not None and not settled.parked.closed:
            self._schedule(settled.parked)
        settled.parked = None
        if settled.data is None:
            self._ids.shrink(settled)
        return before

    # Openings

    def _run_for(self, now: float, pushed: Spans) -> Run | None:
        run = self._open.get(pushed.trace_id)
        if run is None:
            return self._arrived(now, pushed)
        if pushed.session is not None and run.session is None:
            return self._join(now, run, pushed.session)
        return run

    def _arrived(self, now: float, pushed: Spans) -> Run | None:
        """The run for spans of a trace that is not open; None when they can't be judged."""
        trace_id, session = pushed.trace_id, pushed.session
        entry = self._ids.get(trace_id)
        if isinstance(entry, Settled) and self._late.holds(entry, now):
            if hash(pushed.data) in entry.digests:
                self.counts.duplicates += len(pushed.spans)
                return None
            found = self._reopen(now, entry)
            return found if session is None or found.session is not None else self._join(now, found, session)
        if trace_id in self._ids:
            return self._arrived_late(now, pushed, entry)
        run = None if session is None else self._of_session(now, session)
        return self._opened(now, run, trace_id, session)

    def _arrived_late(self, now: float, pushed: Spans, entry: Settled | int | None) -> Run | None:
        """Spans of a trace whose bytes are gone. A mark is a promise that its sender may break: those open it again."""
        count = len(pushed.spans)
        revision = entry if isinstance(entry, int) else entry.revision if entry is not None and entry.marked else None
        if revision is None:
            self.counts.late_spans += count
            self.counts.late_unjudged += count
            self.counts.dropped_spans["late"] += count
            return None
        run = self._opened(now, None, pushed.trace_id, None)
        run.traces[pushed.trace_id].settled = True
        run.partial = True
        run.revision = revision
        return run

    def _opened(self, now: float, run: Run | None, trace_id: bytes, session: str | None) -> Run:
        """Opens a trace, in a run that is there or one of its own, with the evidence that waited for it."""
        if run is None:
            run = Run(now, session)
            self._runs += 1
            if session is not None:
                self._sessions[session] = run
        run.traces[trace_id] = TraceIndex()
        self._open[trace_id] = run
        if trace_id in self._ids:
            self.counts.reopened += 1
        else:
            run.fresh += 1
            self._fresh += 1
            self.counts.traces_started += 1
        waited = self._waiting.take(trace_id)
        if waited is not None:
            run.links |= waited.links
            for data in waited.chunks:
                self._add_evidence(run, data)
        return run

    def _reopen(self, now: float, settled: Settled) -> Run:
        run = settled.reopened(now)
        self._late.take(settled)
        self._open.update(dict.fromkeys(run.traces, run))
        if run.session is not None:
            self._sessions[run.session] = run
        self.counts.reopened += 1
        self._runs += 1
        self._bytes += run.bytes
        self._spans += run.spans
        return run

    def _of_session(self, now: float, session: str) -> Run | None:
        found = self._sessions.get(session)
        if isinstance(found, Settled):
            return self._reopen(now, found) if self._late.holds(found, now) else None
        return found

    def _join(self, now: float, run: Run, session: str) -> Run:
        """A trace turned out to belong to a session: its run becomes the session's, or part of it."""
        target = self._of_session(now, session)
        if target is None:
            run.session = session
            self._sessions[session] = run
            return run
        target.absorb(run)
        self._open.update(dict.fromkeys(run.traces, target))
        self._runs -= 1
        return target

    # What is held

    def _add_evidence(self, run: Run, data: bytes) -> None:
        digest = hash(data)
        if digest not in run.digests:
            run.digests.add(digest)
            run.evidence.append(data)
            run.bytes += len(data)
            self._bytes += len(data)

    def _link(self, now: float, target: bytes, source: bytes) -> None:
        run = self._open.get(target)
        if run is None:
            if target not in self._ids:
                self.counts.dropped_evidence["no_span"] += self._waiting.link(now, target, source)
        elif len(run.links) < _LINKS:
            run.links.add(source)

    def _limit(self, now: float, run: Run) -> None:
        if run.spans > self.settings.span_limit:
            run.full = "span_limit"
        elif run.bytes > self.settings.trace_bytes_limit:
            run.full = "bytes_limit"
        else:
            return
        run.force(now, run.full)

    def _release_early(self, now: float, need: int) -> None:
        """Tells the heaviest-times-oldest runs to leave, until they weigh `need` bytes."""
        runs = [run for run in dict.fromkeys(self._open.values()) if run.forced is None]
        queue = [(-run.weight * (now - run.first + 1.0), i) for i, run in enumerate(runs)]
        heapq.heapify(queue)
        while queue and need > 0:
            run = runs[heapq.heappop(queue)[1]]
            run.leaving = run.weight
            run.force(now, "memory")
            self._leaving += run.leaving
            need -= run.leaving
            self._schedule(run)

    def _schedule(self, run: Run, at: float | None = None) -> None:
        if at is None:
            at = run.earliest(self.settings)
        if at < run.scheduled:
            run.scheduled = at
            self._sequence += 1
            heapq.heappush(self._heap, (at, self._sequence, run))

    def _release(self, now: float, run: Run, due: float, reason: Reason) -> Released:
        run.closed = True
        for trace_id in run.traces:
            del self._open[trace_id]
        self._runs -= 1
        self._fresh -= run.fresh
        self._bytes -= run.bytes
        self._spans -= run.spans
        self._leaving -= run.leaving
        self._outgoing += run.bytes + RUN_WEIGHT
        self.counts.released[reason] += 1
        self.counts.traces_released += run.fresh
        settled = Settled(run, now)
        for forgotten in self._ids.put(settled):
            self.counts.forgotten += 1
            if len(forgotten.trace_ids) == 1:
                self._late.discard(forgotten)
        self._late.put(settled, run)
        if run.session is not None:
            self._sessions[run.session] = settled
            if settled.data is None:
                del self._sessions[run.session]
        return Released(
            trace_id=settled.trace_ids[0],
            trace_ids=settled.trace_ids,
            session=run.session,
            reason=reason,
            chunks=tuple(run.chunks),
            evidence=tuple(run.evidence),
            spans=run.spans,
            size=run.bytes,
            traces=run.fresh,
            revision=settled.revision + 1,
            late=run.late,
            duplicates=run.duplicates,
            partial=run.partial,
            linked_from=tuple(sorted(run.links)),
            opened_at=run.first,
            due_at=due,
            settled=settled,
        )

    def _lost_bytes(self, settled: Settled) -> None:
        if settled.session is not None and self._sessions.get(settled.session) is settled:
            del self._sessions[settled.session]
        if not settled.judging:
            self._ids.shrink(settled)
