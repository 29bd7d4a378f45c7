"""Which run a span belongs to: one that is open, one that is opened for it, or a settled one that is opened again."""

from __future__ import annotations

from typing import Final

from onpath_collector.buffer.evidence import WaitingRoom
from onpath_collector.buffer.open_runs import OpenRuns
from onpath_collector.buffer.run import Run, TraceIndex
from onpath_collector.buffer.settled import ANEW, Entry, LateStore, Settled, SettledIds
from onpath_collector.buffer.values import BufferSettings, Counts, Spans

NEVER_BEFORE: Final = float("-inf")


class Openings:
    """All runs: open, settled with their bytes, remembered by id; and the evidence that waits for one."""

    def __init__(self, settings: BufferSettings, counts: Counts) -> None:
        self.open = OpenRuns(settings)
        self.ids = SettledIds(settings.settled_memory)
        self.late = LateStore(settings.late_window, settings.late_bytes, self._lost_bytes)
        self.waiting = WaitingRoom(settings.idle_timeout, settings.evidence_bytes)
        self.whole_since = 0  # spans that started before (ns) may have siblings at another collector; 0: there is none
        self.sessions_whole_from = NEVER_BEFORE
        self._sessions: dict[str, Run | Settled] = {}
        self._counts = counts

    def run_for(self, now: float, pushed: Spans) -> tuple[Run, TraceIndex] | None:
        """The run and the trace that these spans belong to, opened if need be; None when they can't be judged."""
        found = self.open.find(pushed.trace_id)
        if found is not None and (pushed.session is None or found[0].session is not None):
            return found
        run = self._run_of(now, pushed, None if found is None else found[0])
        return None if run is None else (run, run.traces[pushed.trace_id])

    def _run_of(self, now: float, pushed: Spans, run: Run | None) -> Run | None:
        trace_id, session = pushed.trace_id, pushed.session
        if run is None and trace_id in self.ids:
            entry = self.ids.get(trace_id)
            if not isinstance(entry, Settled) or not self.late.holds(entry, now):
                return self._run_after_window(now, pushed, entry)
            if hash(pushed.data) in entry.digests:
                entry.duplicates += len(pushed.spans)
                self._counts.duplicates += len(pushed.spans)
                return None
            run = self.reopen(now, entry)
        if run is None:
            return self._opened(now, trace_id, session)
        if session is not None and run.session is None:
            return self._join(now, run, session)
        return run

    def _run_after_window(self, now: float, pushed: Spans, entry: Entry) -> Run | None:
        """For spans of a trace whose bytes are gone. One ended by a mark or by a declared root may go on."""
        if entry == ANEW or (isinstance(entry, Settled) and entry.anew):
            return self._opened(now, pushed.trace_id, pushed.session)
        if entry is None or (isinstance(entry, Settled) and not entry.marked):
            self._counts.late_spans += len(pushed.spans)
            self._counts.late_unjudged += len(pushed.spans)
            self._counts.dropped_spans["late"] += len(pushed.spans)
            return None
        run = self._opened(now, pushed.trace_id, pushed.session)
        run.traces[pushed.trace_id].settled = True
        run.partial = True
        if isinstance(entry, int):
            run.revision = max(run.revision, entry)
        elif run.prior is None:
            run.prior = entry
        return run

    def _opened(self, now: float, trace_id: bytes, session: str | None) -> Run:
        """Opens a trace, in the run of its session or one of its own, with the evidence that waited for it."""
        run = None if session is None else self._of_session(now, session)
        if run is None:
            run = Run(now, session)
            self.open.add(run)
            if session is not None:
                self._sessions[session] = run
                run.partial = now < self.sessions_whole_from
        fresh = trace_id not in self.ids
        self.open.add_trace(run, trace_id, fresh)
        self._counts.traces_started += fresh
        self._counts.reopened += not fresh
        waited = self.waiting.take(trace_id)
        if waited is not None:
            run.tags += waited.tags
            for data in waited.chunks:
                self.add_evidence(run, data)
        return run

    def reopen(self, now: float, settled: Settled) -> Run:
        run = settled.reopened(now)
        self.late.take(settled)
        self.open.add(run)
        if run.session is not None:
            self._sessions[run.session] = run
        self._counts.reopened += 1
        return run

    def _of_session(self, now: float, session: str) -> Run | None:
        found = self._sessions.get(session)
        if isinstance(found, Settled):
            return self.reopen(now, found) if self.late.holds(found, now) else None
        return found

    def _join(self, now: float, run: Run, session: str) -> Run:
        """A trace turned out to belong to a session: its run becomes the session's, or part of it."""
        target = self._of_session(now, session)
        if target is not None:
            self.open.merge(run, target)
            return target
        run.session = session
        run.partial = run.partial or now < self.sessions_whole_from
        self._sessions[session] = run
        return run

    def give_up(self, run: Run) -> None:
        """Forgets an open run, as if it had never been; what was judged of it before is remembered."""
        self.open.remove(run)
        if run.session is not None and self._sessions.get(run.session) is run:
            del self._sessions[run.session]
        if run.prior is not None and not run.prior.judging:
            self.ids.shrink(run.prior)

    def add_evidence(self, run: Run, data: bytes) -> None:
        if run.attach(data):
            self.open.bytes += len(data)

    def remember(self, settled: Settled, run: Run) -> None:
        whole = True
        for forgotten in self.ids.put(settled):
            self._counts.forgotten += 1
            # Spans of a forgotten trace open it anew. A session that held it must not bring it back beside that.
            self.late.discard(forgotten)
            whole = whole and forgotten is not settled
        if whole:
            self.late.put(settled, run)
        if settled.session is not None:
            if settled.data is not None:
                self._sessions[settled.session] = settled
            else:
                del self._sessions[settled.session]
        if settled.data is None and not settled.judging:
            self.ids.shrink(settled)

    def _lost_bytes(self, settled: Settled) -> None:
        if settled.session is not None and self._sessions.get(settled.session) is settled:
            del self._sessions[settled.session]
        if not settled.judging:
            self.ids.shrink(settled)
