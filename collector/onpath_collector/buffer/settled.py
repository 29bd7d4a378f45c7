"""Traces that were released: their ids, and for a while their bytes, so that late spans can re-open them.

`Settled` is one released run. `LateStore` holds the bytes of the youngest ones, within the window and the limit, oldest
out first, and compresses them piece by piece as it fills. `SettledIds` remembers many more ids than that.
"""

from __future__ import annotations

import zlib
from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Final, TypeAlias

from onpath_collector.buffer.run import DECLARED_WEIGHT, Run, TraceIndex

_LEVEL: Final = 1  # spans repeat themselves: an eighth is left at 300 MB/s, higher levels gain little
_WEIGHT: Final = 1000  # bytes that a settled run costs besides its data, about


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


class Packed:
    """Serialised spans, joined (as OTLP messages of one kind may be) and compressed piece by piece."""

    __slots__ = ("_at", "_chunks", "_compressor", "_done", "_pieces", "size")

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = deque(chunks)  # not yet compressed ...
        self._at = 0  # ... but for this much of the first of them
        self._pieces: list[bytes] = []
        self._compressor: zlib._Compress | None = None  # takes a quarter of a megabyte while it works
        self._done = False
        self.size = sum(map(len, chunks))

    def squeeze(self, budget: int) -> int:
        """Compresses up to `budget` bytes; how many that were, 0 when all is compressed."""
        done = 0
        while not self._done and done < budget:
            if self._compressor is None:
                self._compressor = zlib.compressobj(_LEVEL)
            if not self._chunks:
                self._finish()
                break
            chunk = self._chunks[0]
            piece = memoryview(chunk)[self._at : self._at + budget - done]
            self._add(self._compressor.compress(piece))
            self._at += len(piece)
            done += len(piece)
            if self._at == len(chunk):
                self._chunks.popleft()
                self._at = 0
                self.size -= len(chunk)
        return done

    def _finish(self) -> None:
        if self._compressor is not None:
            self._add(self._compressor.flush())
            self._compressor = None
        self._done = True

    def _add(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self.size += len(piece)

    def chunks(self) -> list[bytes]:
        """What was put in; one chunk once compressing has begun. Ends the compressing."""
        if not self._pieces:
            return list(self._chunks)
        self._finish()
        start = zlib.decompress(b"".join(self._pieces))
        return [start + b"".join(self._chunks)[self._at :]]


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
        "anew", "at", "data", "digests", "duplicates", "evidence", "indexes", "late", "links", "marked", "session",
        "size", "spans", "trace_ids",
    )  # fmt: skip

    def __init__(self, run: Run, now: float) -> None:
        super().__init__(run.prior, run.revision)
        self.at = now
        self.trace_ids = tuple(run.traces)
        self.session = run.session
        self.marked = run.forced == "marked" and run.full is None
        self.anew = run.declared is not None and bool(run.declared.roots)
        self.late = run.late
        self.duplicates = run.duplicates
        self.spans = run.spans
        self.data: Packed | None = None
        self.evidence: list[bytes] = []
        self.indexes: dict[bytes, PackedIndex] = {}
        self.digests: array[int] = array("q")
        self.links: set[bytes] = set()
        self.size = 0

    @property
    def memory(self) -> int | None:
        """What is remembered of it without its bytes: an Entry that is no Settled."""
        return ANEW if self.anew else self.revision if self.marked else None

    def keep(self, run: Run) -> None:
        """Keeps what re-opening needs."""
        self.data = Packed(run.chunks)
        self.evidence = run.evidence
        self.indexes = {trace_id: PackedIndex(index) for trace_id, index in run.traces.items()}
        self.digests = array("q", run.all_digests())
        self.links = run.links
        indexes = sum(index.size for index in self.indexes.values())
        self.size = _WEIGHT + run.bytes + indexes + 8 * len(self.digests)

    def drop(self) -> None:
        self.data = None
        self.evidence, self.indexes, self.digests, self.links, self.size = [], {}, array("q"), set(), 0

    def reopened(self, now: float) -> Run:
        """The run again, with all that was held. Its bytes go with it."""
        run = Run(now, self.session)
        run.prior = self
        run.late, run.duplicates, run.spans = self.late, self.duplicates, self.spans
        if self.data is not None:
            run.chunks = self.data.chunks()
            run.evidence = self.evidence
            run.bytes = sum(map(len, run.chunks)) + sum(map(len, run.evidence))
            run.traces = {trace_id: index.restored(now) for trace_id, index in self.indexes.items()}
            if run.declared is not None and len(run.chunks) == 1:
                run.declared.joined()
            run.digests = set(self.digests)
            run.links = self.links
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
        """Compresses up to `budget` bytes, oldest first, once a quarter of the limit is taken."""
        while budget > 0 and self._raw and self.size > self._limit // 4:
            settled = self._raw[0]
            data = settled.data
            before = 0 if data is None else data.size
            done = 0 if data is None else data.squeeze(budget)
            if data is not None:
                settled.size += data.size - before
                self.size += data.size - before
            if done == 0:
                self._raw.popleft()
            budget -= max(done, 1)
