"""The journal as the event loop sees it: requests are kept until nothing needs them, endings until no request does.

    append -> written -> taken: pushed to the buffer, queued downstream -> acknowledged
                           |-- holds: one for each trace that has spans of it and is not settled
                           '-- waits: until the downstream has it                     -> neither: removed

    released -> ending written -> judged -> results sent -> settled: its requests are held one time less

The ending of a trace is written before its results leave. So after a crash it is released for the same reason again,
with the same spans, and its results say the same under the same ids.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from onpath_collector.journal.directory import Directory
from onpath_collector.journal.records import Contents, Ending, Request, Signal
from onpath_collector.journal.room import room_for
from onpath_collector.journal.store import Fsync, Marks, Store
from onpath_collector.journal.writer import Work, Writer

T = TypeVar("T")

_LATER: Final = 0.1  # seconds that marks wait for a request to be written with
_PENDING: Final = 64 << 20  # bytes submitted and not yet written
_REMEMBERED: Final = 100_000  # settled endings kept for late spans; older ones only as long as a request needs them
_PRUNE: Final = 10_000  # endings between two looks for those that can go
_ENDING: Final = 128  # bytes on the disk, about


class Full(Exception):
    """The journal takes no request now; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSettings:
    """Bytes and seconds. `interval` is that of fsync, where it is by `interval`."""

    directory: Path
    fsync: Fsync = "interval"
    interval: float = 0.1
    max_bytes: int = 1 << 30


@dataclass(slots=True)
class _Kept:
    size: int
    came: float  # by the monotonic clock
    holds: int = 0
    waits: bool = False
    taken: bool = False


@dataclass(slots=True, eq=False)
class Closing:
    """What was released together, until it is settled; `written` is done when it would be released again so.

    `unjudged` and `unsent` count the releases that it consists of: one, but for the declared roots of one trace.
    """

    ending: Ending
    requests: Sequence[int]
    written: asyncio.Future[None]
    unjudged: int = 1
    unsent: int = 1
    finished: bool = False
    results: list[bytes] = field(default_factory=list)


class Journal:
    """One directory's. Owned by one event loop once started. `close` is safe without `start`, and again."""

    def __init__(self, settings: JournalSettings, directory: Directory, store: Store, contents: Contents) -> None:
        self.instance = directory.instance()
        self.contents = contents  # as it was opened, for who brings it back
        self._settings = settings
        self._directory = directory
        self._store = store
        self._writer = Writer(store, directory, settings.interval)
        self._started = self._closed = False
        now, wall = time.monotonic(), time.time_ns()
        self._kept = {
            number: _Kept(room_for(size), now - max(0, wall - at) / 1e9)
            for number, (at, size) in contents.requests.items()
        }
        self._next = 1 + max([0, *self._kept, *(e.upto for e in contents.endings)])
        self._next_ending = 1 + max([0, *(e.id for e in contents.endings)])
        self._last_taken = self._next - 1
        self._endings = len(contents.endings)
        self._size = sum(kept.size for kept in self._kept.values())
        self._parts: dict[bytes, list[int]] = {}  # endings of sub-traces, by trace
        self._unsent: dict[Closing, None] = {}  # judged, with results under way
        self._marks = Marks()
        self._timer: asyncio.TimerHandle | None = None
        self._pending = (0, 0)

    @classmethod
    def open(cls, settings: JournalSettings) -> Journal:
        """Blocks. Raises JournalError: in use by another collector, not to be written, not to be repaired."""
        directory = Directory(settings.directory)
        try:
            store, contents = directory.open_store(settings.fsync)
            return cls(settings, directory, store, contents)
        except BaseException:
            directory.close()
            raise

    # What it is and holds

    @property
    def size(self) -> int:
        """Bytes on the disk that requests and endings take, about."""
        return self._size + self._endings * _ENDING

    @property
    def requests(self) -> int:
        return len(self._kept)

    @property
    def oldest_age(self) -> float:
        """Seconds since the oldest request came that is not judged or not forwarded, in this life or an earlier one."""
        oldest = next(iter(self._kept.values()), None)
        return 0.0 if oldest is None else time.monotonic() - oldest.came

    @property
    def pending(self) -> tuple[int, int]:
        """Requests, and their bytes, that are being written."""
        return self._pending

    @property
    def failures(self) -> int:
        """Attempts to write that failed."""
        return self._writer.failures

    @property
    def damaged(self) -> int:
        """Journals set aside at the start, for damage."""
        return self._directory.damaged

    def start(self) -> None:
        self._started = True
        self._writer.start()

    async def close(self) -> None:
        """Writes what is owed. What is not settled stays for the next start."""
        if self._closed:
            return
        self._flush()
        self._closed = True
        if self._started:
            await asyncio.to_thread(self._writer.stop)
        self._store.close()
        self._directory.close()

    # Requests

    def admit(self, size: int) -> None:
        """Raises Full when a request of so many bytes can't be taken now."""
        if self._closed or self._writer.failing is not None:
            raise Full(self._writer.failing or "closed")
        if self.size + room_for(size) > self._settings.max_bytes:
            raise Full("max_bytes")
        if self.pending[1] + size > max(_PENDING, size):
            raise Full("the disk is slow")

    def _count_pending(self, requests: int, size: int) -> None:
        self._pending = (self._pending[0] + requests, self._pending[1] + size)

    async def append(self, signal: Signal, items: int, body: bytes, take: Callable[[int], T]) -> T:
        """Writes a request, then has it taken: `take` is called with its number, in order of numbers.

        Raises Full, and what `take` raises. Once written it is taken, also if the caller has ceased to wait.
        """
        self.admit(len(body))
        number, kept = self._next, _Kept(room_for(len(body)), time.monotonic())
        self._next += 1
        self._size += kept.size
        self._count_pending(1, len(body))
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        future.add_done_callback(_retrieve)

        def done(why: str | None) -> None:
            self._count_pending(-1, -len(body))
            if why is not None:
                self._size -= kept.size
                future.set_exception(Full(why))
                return
            self._kept[number] = kept
            self._last_taken = number
            try:
                future.set_result(take(number))
            except Exception as error:  # noqa: BLE001 - for the one who waits
                future.set_exception(error)
            self.taken(number)

        self._writer.submit(Work([Request(number, signal, items, time.time_ns(), body)], self._take_marks(), done))
        return await asyncio.shield(future)

    def hold(self, number: int, holds: int, *, waits: bool) -> None:
        """What needs a request: so many traces, and (`waits`) the downstream. While it is being taken."""
        kept = self._kept[number]
        kept.holds += holds
        kept.waits = waits

    def taken(self, number: int) -> None:
        """All that needs a request is known."""
        self._kept[number].taken = True
        self._check(number)

    def let_go(self, number: int) -> None:
        """A trace needs it no longer."""
        self._kept[number].holds -= 1
        self._check(number)

    def forwarded(self, number: int) -> None:
        """The downstream has it, or will never have it."""
        self._kept[number].waits = False
        if not self._check(number):
            self._note().forwarded.add(number)

    def _check(self, number: int) -> bool:
        """Removes a request that nothing needs."""
        kept = self._kept[number]
        if not kept.taken or kept.holds or kept.waits:
            return False
        del self._kept[number]
        self._size -= kept.size
        marks = self._note()
        marks.forwarded.discard(number)
        marks.removed.append(number)
        return True

    async def read(self, number: int) -> Request | None:
        """One of `contents`. None if it can't be read any more."""
        return await self._ask(lambda store: store.read(number))

    # Endings

    def releasing(self, traces: tuple[bytes, ...], reason: str, requests: Sequence[int], root: bytes = b"") -> Closing:
        """Notes that traces were released, with the spans of these requests; `flush` is to follow.

        `root`: a declared root's sub-trace, while its trace goes on.
        """
        upto = self._last_taken if root else max(requests, default=0)
        ending = Ending(self._next_ending, traces, upto, reason, root)
        self._next_ending += 1
        self._endings += 1
        if root:
            self._parts.setdefault(traces[0], []).append(ending.id)
        self._note().endings[ending.id] = ending
        return Closing(ending, requests, asyncio.get_running_loop().create_future())

    def flush(self, closings: Iterable[Closing]) -> None:
        """Has their endings written at once."""
        futures = [closing.written for closing in closings]

        def done(_: str | None) -> None:  # also if it can't be written: results don't wait for a full disk
            for future in futures:
                future.set_result(None)

        self._writer.submit(Work(marks=self._take_marks(), done=done))

    def judged(self, closing: Closing, memory: int | None, results: Iterable[bytes] = ()) -> None:
        """One of its releases is judged. `memory` is what the buffer remembers of it, `results` are ids of spans."""
        closing.ending = replace(closing.ending, memory=memory)
        closing.results += results
        closing.unjudged -= 1
        if closing.unjudged == 0:
            self._unsent[closing] = None
        while self._unsent and self.size > self._settings.max_bytes // 2:
            self._finish(next(iter(self._unsent)))  # who takes no results must not fill the journal

    def sent(self, closing: Closing) -> None:
        """The results of one of its releases, if there were any, have been sent or given up. After `judged`."""
        closing.unsent -= 1
        if closing.unsent == 0 and closing.unjudged == 0 and not closing.finished:
            self._finish(closing)

    def _finish(self, closing: Closing) -> None:
        self._unsent.pop(closing, None)
        closing.finished = True
        if closing.ending.root:
            return  # brought back as long as its trace is open
        settled = replace(closing.ending, settled=True, results=tuple(closing.results))
        self._note().endings[settled.id] = settled
        for trace_id in settled.traces:
            self.forget(self._parts.pop(trace_id, ()))
        for number in closing.requests:
            self.let_go(number)
        if settled.id % _PRUNE == 0:
            self._prune()

    def forget(self, endings: Sequence[int]) -> None:
        """Endings that are never needed again."""
        if endings:
            self._endings -= len(endings)
            self._note().forgotten += endings

    def _prune(self) -> None:
        oldest = next(iter(self._kept), self._next)
        before = self._next_ending - _REMEMBERED
        task = asyncio.ensure_future(self._ask(lambda store: store.prune(before, oldest)))
        task.add_done_callback(self._pruned)

    def _pruned(self, task: asyncio.Future[int | None]) -> None:
        self._endings -= task.result() or 0

    # To the writer

    async def _ask(self, task: Callable[[Store], T]) -> T | None:
        """Runs a task with the store; None if it fails."""
        future: asyncio.Future[T | None] = asyncio.get_running_loop().create_future()
        found: list[T] = []
        self._writer.submit(
            Work(
                task=lambda store: found.append(task(store)),
                done=lambda _: future.set_result(found[0] if found else None),
            )
        )
        return await future

    def _note(self) -> Marks:
        """Where to note what may wait for a moment."""
        if self._timer is None and self._started and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_LATER, self._flush)
        return self._marks

    def _flush(self) -> None:
        if self._started and not self._closed:
            self._writer.submit(Work(marks=self._take_marks()))

    def _take_marks(self) -> Marks:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        marks, self._marks = self._marks, Marks()
        return marks


def _retrieve(future: asyncio.Future[T]) -> None:
    """The sender may have gone: then nobody asks."""
    if not future.cancelled():
        future.exception()
