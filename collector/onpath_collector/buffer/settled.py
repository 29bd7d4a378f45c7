"""Traces that were released: their ids, and for a while their bytes, so that late spans can re-open them.

`Settled` is one released run. `LateStore` holds the bytes of the youngest ones, within the window and the limit, oldest
out first, and compresses them as it fills. `SettledIds` remembers many more ids than that.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final, TypeAlias

from onpath_collector.buffer.packed import Block, Packed
from onpath_collector.buffer.run import DECLARED_WEIGHT, Run, TraceIndex

_WEIGHT: Final = 1200  # bytes that a settled run costs besides its data, about
_FEW: Final = 4  # numbers that take less room in a tuple than in an array
_BLOCK: Final = 64 << 10  # bytes of small runs that are compressed together


class PackedIndex:
    """A TraceIndex without its sets: ids put together, 8 bytes each."""

    __slots__ = ("_declared", "_known", "_missing", "_remote", "_root_at")

    def __init__(self, index: TraceIndex) -> None:
        self._known = b"".join(index.known)
        self._missing = b"".join(index.missing)
        self._remote = b"".join(index.remote)
        self._root_at = index.root_at
        self._declared = index.declared

    @property
    def size(self) -> int:
        tree = 0 if self._declared is None else len(self._known) // 8 * DECLARED_WEIGHT
        return tree + len(self._known) + len(self._missing) + len(self._remote)

    def restored(self, now: float) -> TraceIndex:
        index = TraceIndex()
        index.settled = True
        index.known = set(_ids(self._known))
        index.missing = dict.fromkeys(_ids(self._missing), now)
        index.remote = dict.fromkeys(_ids(self._remote), now)
        index.root_at = self._root_at
        index.declared = self._declared
        return index


def _ids(joined: bytes) -> Iterator[bytes]:
    return (joined[i : i + 8] for i in range(0, len(joined), 8))


class Judgement:
    """What becomes of something released. It is not released again before that is known."""

    __slots__ = ("judging", "outcome", "parked", "revision")

    def __init__(self, prior: Judgement | None, revision: int = 0) -> None:
        self.judging = True
        self.parked: Run | None = None  # due again, waits for this
        self.revision: int = revision if prior is None else prior.revision + prior.judging  # of the last report
        self.outcome: Hashable | None = None if prior is None else prior.outcome


class Settled(Judgement):
    """A released run. `data` is None once its bytes are gone, or a run again."""

    __slots__ = (
        "anew", "at", "data", "digests", "duplicates", "evidence", "indexes", "late", "marked", "partial",
        "session", "size", "spans", "trace_ids",
    )  # fmt: skip

    def __init__(self, run: Run, now: float) -> None:
        super().__init__(run.prior, run.revision)
        self.at = now
        self.trace_ids = tuple(run.traces)
        self.session = run.session
        self.marked = run.forced == "marked" and run.full is None
        self.anew = run.declared is not None and bool(run.declared.roots)
        self.partial = run.partial
        self.late = run.late
        self.duplicates = run.duplicates
        self.spans = run.spans
        self.data: Packed | None = None
        self.evidence: tuple[bytes, ...] = ()
        self.indexes: tuple[PackedIndex, ...] = ()  # of `trace_ids`
        self.digests: Sequence[int] = ()
        self.size = 0

    @property
    def memory(self) -> int | None:
        """What is remembered of it without its bytes: an Entry that is no Settled."""
        return ANEW if self.anew else self.revision if self.marked else None

    def keep(self, run: Run) -> None:
        """Keeps what re-opening needs."""
        self.data = Packed(run.chunks)
        self.evidence = tuple(run.evidence)
        self.indexes = tuple([PackedIndex(index) for index in run.traces.values()])
        digests = run.all_digests()
        self.digests = tuple(digests) if len(digests) < _FEW else array("q", digests)
        indexes = sum(index.size for index in self.indexes)
        self.size = _WEIGHT + run.bytes + indexes + 8 * len(self.digests)

    def drop(self) -> None:
        self.data = None
        self.evidence, self.indexes, self.digests, self.size = (), (), (), 0

    def reopened(self, now: float) -> Run:
        """The run again, with all that was held. Its bytes go with it."""
        run = Run(now, self.session)
        run.prior = self
        run.partial = self.partial
        run.late, run.duplicates, run.spans = self.late, self.duplicates, self.spans
        if self.data is not None:
            run.chunks = self.data.chunks()
            run.evidence = list(self.evidence)
            run.bytes = sum(map(len, run.chunks)) + sum(map(len, run.evidence))
            restored = [index.restored(now) for index in self.indexes]
            run.traces = dict(zip(self.trace_ids, restored, strict=True))
            if run.declared is not None and len(run.chunks) == 1:
                run.declared.joined()
            run.digests = set(self.digests)
        return run


Entry: TypeAlias = Settled | int | None
"""What is remembered of an id: all; after the window the revision of a marked trace, or ANEW; or that it was there."""

ANEW: Final = -1  # a trace with declared roots goes on after one of them has ended: what comes is no later part of it


class SettledIds:
    """The last `limit` trace ids that were released."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._entries: dict[bytes, Entry] = {}
        self._order: deque[bytes] = deque()  # a dict's own first entry is slow to find once many before it are gone
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, trace_id: bytes) -> bool:
        return trace_id in self._entries

    def get(self, trace_id: bytes) -> Entry:
        return self._entries.get(trace_id)

    def put(self, settled: Settled) -> list[Settled]:
        """Remembers a run's traces; those that were pushed out for it."""
        out: list[Settled] = []
        for trace_id in settled.trace_ids:
            if trace_id not in self._entries:
                self._order.append(trace_id)
            self._entries[trace_id] = settled
        while len(self._entries) > self._limit:
            entry = self._entries.pop(self._order.popleft())
            self.forgotten += 1
            if isinstance(entry, Settled):
                out.append(entry)
        return out

    def shrink(self, settled: Settled) -> None:
        """Its bytes are gone and it is judged: keeps of it what can still matter."""
        for trace_id in settled.trace_ids:
            if self._entries.get(trace_id) is settled:
                self._entries[trace_id] = settled.memory

    def restore(self, trace_id: bytes, memory: int | None) -> bool:
        """Remembers a trace that is not known; whether another was pushed out for it."""
        if trace_id in self._entries:
            return False
        self._order.append(trace_id)
        self._entries[trace_id] = memory
        if len(self._entries) <= self._limit:
            return False
        del self._entries[self._order.popleft()]
        self.forgotten += 1
        return True


class LateStore:
    """Settled runs with their bytes, oldest first, for `window` seconds and within `limit` bytes together."""

    def __init__(self, window: float, limit: int, gone: Callable[[Settled], None]) -> None:
        """`gone` is told of each run that has lost its bytes."""
        self._window = window
        self._limit = limit
        self._gone = gone
        self._queue: deque[Settled] = deque()
        self._raw: deque[Settled] = deque()
        self.size = 0
        self.dropped = 0  # before their window was over

    def put(self, settled: Settled, run: Run) -> None:
        if self._window <= 0 or self._limit <= 0 or run.full is not None:
            return  # what is over a limit is not opened again: it would be over it still, and judged with each span
        settled.keep(run)
        self.size += settled.size
        self._queue.append(settled)
        self._raw.append(settled)
        self.shed(self._limit)

    def holds(self, settled: Settled, now: float) -> bool:
        """Whether it can be opened again."""
        return settled.data is not None and now < settled.at + self._window

    def take(self, settled: Settled) -> None:
        """It was opened again."""
        self.size -= settled.size
        settled.drop()

    def discard(self, settled: Settled) -> None:
        if settled.data is not None:
            self.take(settled)
            self._gone(settled)

    def shed(self, size: int) -> None:
        """Has the oldest lose their bytes until at most `size` bytes are left."""
        while self.size > size and self._queue:
            settled = self._queue.popleft()
            if settled.data is not None:
                self.dropped += 1
                self.discard(settled)

    def expire(self, now: float, budget: int) -> None:
        """Drops the bytes of up to `budget` runs whose window is over."""
        while budget and self._queue and (self._queue[0].data is None or self._queue[0].at + self._window <= now):
            self.discard(self._queue.popleft())
            budget -= 1
        while self._raw and self._raw[0].data is None:
            self._raw.popleft()

    def next_expiry(self) -> float | None:
        return self._queue[0].at + self._window if self._queue else None

    def squeeze(self, budget: int) -> None:
        """Compresses about `budget` bytes, oldest first, once a quarter of the limit is taken."""
        while budget > 0 and self._raw and self.size > self._limit // 4:
            small = self._next_small()
            if len(small) > 1:
                budget -= self._press(small)
            else:
                budget -= max(1, self._press_one(budget))

    def _next_small(self) -> list[tuple[Settled, Packed]]:
        """The oldest runs, as many as go into one block."""
        found: list[tuple[Settled, Packed]] = []
        size = 0
        for settled in self._raw:
            data = settled.data
            if data is not None:
                if not data.is_small or size >= _BLOCK:
                    break
                found.append((settled, data))
                size += data.size
        return found

    def _press(self, small: Sequence[tuple[Settled, Packed]]) -> int:
        """Compresses runs into one block; how many bytes they had."""
        parts = [data.joined() for _, data in small]
        block = Block(parts)
        start = 0
        for (settled, data), part in zip(small, parts, strict=True):
            before = data.size
            data.put_into(block, start, part)
            start += len(part)
            self._grown(settled, data.size - before)
        last = small[-1][0]
        while self._raw.popleft() is not last:
            pass
        return start

    def _press_one(self, budget: int) -> int:
        """Goes on compressing the oldest run; how many bytes that were."""
        settled = self._raw[0]
        data = settled.data
        done = 0
        if data is not None:
            before = data.size
            done = data.squeeze(budget)
            self._grown(settled, data.size - before)
        if done == 0:
            self._raw.popleft()
        return done

    def _grown(self, settled: Settled, by: int) -> None:
        settled.size += by
        self.size += by
