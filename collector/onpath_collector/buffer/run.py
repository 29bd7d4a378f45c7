"""What is held of one release unit: a trace, or all traces of a session. Bytes, small sets, and its deadline."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from onpath_collector.buffer.subtraces import Declared, SubTrace
from onpath_collector.buffer.values import BufferSettings, Reason, Spans

if TYPE_CHECKING:
    from onpath_collector.buffer.settled import Settled

SPAN_WEIGHT: Final = 128  # bytes that the index of one span costs, about
DECLARED_WEIGHT: Final = 400  # and its place in the tree, where roots are declared
RUN_WEIGHT: Final = 1500  # and an open trace besides its spans

NEVER: Final = float("inf")


class TraceIndex:
    """What is known of one trace's tree: its span ids, and the parents that are named but have not arrived.

    `missing` and `remote` map such a parent to the time it was first named; a dict keeps that order, so its first entry
    is the oldest. Parents named by a local child are known to be open; those of remote children may never come.
    """

    __slots__ = ("declared", "known", "missing", "remote", "root_at", "settled")

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.missing: dict[bytes, float] = {}
        self.remote: dict[bytes, float] = {}
        self.root_at: float | None = None
        self.declared: Declared | None = None  # where roots are declared
        self.settled = False  # has been released before: what comes now is late

    def add(self, now: float, spans: Iterable[tuple[bytes, bytes, bool, int, int]]) -> int:
        """Notes spans; how many of them were new."""
        known, missing, remote = self.known, self.missing, self.remote
        before = len(known)
        note = known.add
        for span_id, parent_id, is_remote, _, _ in spans:
            if span_id in known:
                continue
            note(span_id)
            if span_id in missing:
                del missing[span_id]
            if span_id in remote:
                del remote[span_id]
            if not parent_id:
                if self.root_at is None:
                    self.root_at = now
            elif parent_id not in known:
                (remote if is_remote else missing).setdefault(parent_id, now)
        return len(known) - before

    @property
    def ends(self) -> bool:
        """Whether its end is awaited for some cause, not just for want of spans."""
        return self.root_at is not None or bool(self.remote) or self.declared is not None

    def wait_since(self) -> tuple[float | None, bool]:
        """Since when the trace's end is awaited (None: no root yet), and whether a parent is outstanding.

        A root is a span without parent; while none has come, one with a remote parent stands in for it.
        """
        missing, remote, root_at = self.missing, self.remote, self.root_at
        if root_at is None:
            if not remote:
                return None, bool(missing)
            since = next(iter(remote.values()))
            return (max(since, next(iter(missing.values()))) if missing else since), True
        if not missing and not remote:
            return root_at, False
        oldest = min(next(iter(named.values())) for named in (missing, remote) if named)
        return max(root_at, oldest), True


class Run:
    """One release unit while it is open."""

    __slots__ = (
        "bytes", "chunks", "closed", "digests", "duplicates", "evidence", "first", "forced", "forced_at", "fresh",
        "full", "last", "late", "leaving", "partial", "prior", "recovered", "revision", "scheduled",
        "session", "spans", "tags", "traces",
    )  # fmt: skip

    def __init__(self, now: float, session: str | None = None) -> None:
        self.session = session
        self.traces: dict[bytes, TraceIndex] = {}
        self.chunks: list[bytes] = []
        self.evidence: list[bytes] = []
        self.digests: set[int] | None = None  # see `holds`
        self.tags: list[int] = []
        self.bytes = 0
        self.spans = 0
        self.late = 0
        self.duplicates = 0
        self.fresh = 0  # traces that have never been released
        self.revision = 0  # number of its last report
        self.partial = False
        self.recovered = False
        self.full: Reason | None = None  # over a limit: takes nothing more
        self.forced: Reason | None = None  # released as soon as possible, for this reason
        self.forced_at = NEVER
        self.first = now
        self.last = now
        self.scheduled = NEVER  # the time of its entry in the buffer's heap
        self.leaving = 0  # its weight when it was told to leave for want of memory
        self.closed = False
        self.prior: Settled | None = None  # its last release

    @property
    def declared(self) -> Declared | None:
        """Of the one trace of a run that is no session. In a session a declared root is just a root."""
        if self.session is not None or not self.traces:
            return None
        return next(iter(self.traces.values())).declared

    @property
    def weight(self) -> int:
        """Bytes of memory it takes, about."""
        return self.bytes + self.spans * SPAN_WEIGHT + RUN_WEIGHT

    def force(self, now: float, reason: Reason) -> None:
        """The first cause counts."""
        if self.forced is None:
            self.forced = reason
            self.forced_at = now

    def take(self, now: float, index: TraceIndex, pushed: Spans, declares: bool) -> int:
        """Adds a chunk; how many of its spans were new. One that is wholly known and held already changes nothing."""
        new = index.add(now, pushed.spans)
        data = pushed.data
        if not new and self.holds(data):
            self.duplicates += len(pushed.spans)
            return 0
        if self.digests is not None:
            self.digests.add(hash(data))
        self.chunks.append(data)
        self.bytes += len(data)
        if new:
            self.spans += new
            self.last = now
            if declares and self.session is None:
                index.declared = index.declared or Declared()
                index.declared.add(now, pushed.spans, pushed.roots, len(self.chunks) - 1)
            elif pushed.roots and index.root_at is None:
                index.root_at = now
        return new

    def attach(self, data: bytes) -> bool:
        """Adds evidence; False for some that is there already."""
        if self.holds(data):
            return False
        self.all_digests().add(hash(data))
        self.evidence.append(data)
        self.bytes += len(data)
        return True

    def holds(self, data: bytes) -> bool:
        """Whether a chunk or evidence is there already, by its hash (64 bits, keyed by the process)."""
        return hash(data) in self.all_digests()

    def all_digests(self) -> set[int]:
        """Made when first asked for: most traces see no duplicate."""
        if self.digests is None:
            self.digests = set(map(hash, (*self.chunks, *self.evidence)))
        return self.digests

    def absorb(self, other: Run) -> None:
        """Takes over all of another run, which has joined this one's session."""
        self.digests = self.all_digests() | other.all_digests()
        self.traces.update(other.traces)
        self.chunks += other.chunks
        self.evidence += other.evidence
        self.tags += other.tags
        self.bytes += other.bytes
        self.spans += other.spans
        self.late += other.late
        self.duplicates += other.duplicates
        self.fresh += other.fresh
        self.partial = self.partial or other.partial
        self.recovered = self.recovered or other.recovered
        self.full = self.full or other.full
        if other.forced is not None:
            self.force(other.forced_at, other.forced)
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)
        other.closed = True

    def earliest(self, settings: BufferSettings) -> float:
        """No later than `due`, and cheap also for a session of many traces."""
        if self.session is None or self.forced is not None:
            return self.due(settings)[0]
        return min(self.last + settings.session_idle, self.first + settings.max_age)

    def due(self, settings: BufferSettings) -> tuple[float, Reason]:
        """When it is to be released, as things stand, and why."""
        at, reason = self.whole_due(settings)
        sub = self.sub_due(settings) if self.forced is None else None
        if sub is not None and sub[0] <= at:
            at, reason = sub[0], "root_ended"
        return at, "recovered" if self.recovered and self.forced is None else reason

    def whole_due(self, settings: BufferSettings) -> tuple[float, Reason]:
        """The same, sub-traces aside."""
        if self.forced is not None:
            return self.forced_at, self.forced
        at, reason = self._ending(settings)
        oldest = self.first + settings.max_age
        return (oldest, "max_age") if oldest < at else (at, reason)

    def pending_sub(self, root: bytes) -> SubTrace | None:
        """The sub-trace of a declared root, if something of it is not judged."""
        declared = self.declared
        return declared.pending.get(root) if declared is not None else None

    def sub_due(self, settings: BufferSettings) -> tuple[float, SubTrace] | None:
        """The sub-trace of a declared root that is due next, and when."""
        declared = self.declared
        return declared.due(settings, next(iter(self.traces.values())).missing) if declared is not None else None

    def _ending(self, settings: BufferSettings) -> tuple[float, Reason]:
        """The latest of what each of its traces waits for: an unseen root, an outstanding parent, quiet."""
        if self.session is None:
            settle, idle = settings.settle_delay, settings.idle_timeout
        else:
            settle, idle = settings.session_idle, max(settings.idle_timeout, settings.session_idle)
        at = self.last + settle
        reason: Reason = "root_ended"
        for index in self.traces.values():
            since, outstanding = index.wait_since()
            if since is None:
                return self.last + idle, "idle"
            if outstanding and since + settings.orphan_delay > at:
                at = since + settings.orphan_delay
        return at, reason
