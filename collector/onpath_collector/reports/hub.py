"""Reports as they are made: kept, and handed at once to who waits for one or watches them all.

export(Outcome) -> waiting calls, watches -> (gathered for a moment) -> Store, on a thread: disks may be slow

Who asks for one trace doesn't wait for what others have to be written: what is not in the store yet is found here.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Final, TypeVar

from onpath_collector.judging import Outcome
from onpath_collector.reports.store import Store
from onpath_collector.reports.values import Filter, Made, Page, StoredReport

T = TypeVar("T")

_log: Final = logging.getLogger("onpath")
_GATHER: Final = 1.0  # seconds until a file has a report; one transaction for each would be many
_SLICE: Final = 50  # reports written at once, some milliseconds: then it is the turn of who reads
_BEHIND: Final = 1000  # reports that a watch may be behind ...
_LARGE: Final = 16 << 20  # ... or bytes of them, and as many wait to be written


class TooSlow(Exception):
    """A watch was more reports behind than are kept for it."""


class Watch:
    """Each report made from now on that the filter takes. Close it when done."""

    def __init__(self, wanted: Filter, closed: Callable[[Watch], None]) -> None:
        self._wanted = wanted
        self._closed = closed
        self._queue: asyncio.Queue[Made] = asyncio.Queue(_BEHIND)
        self._bytes = 0
        self._lost = False

    def offer(self, outcome: Made) -> None:
        if self._lost or self._queue.full() or self._bytes > _LARGE:
            self._lost = True
            return
        self._queue.put_nowait(outcome)
        self._bytes += outcome.size

    async def reports(self) -> AsyncGenerator[StoredReport, None]:
        """Raises TooSlow."""
        while not self._lost:
            made = await self._queue.get()
            self._bytes -= made.size
            report = StoredReport.of(made)
            if self._wanted.takes(report):
                yield report
        raise TooSlow(f"more than {_BEHIND} reports, or {_LARGE >> 20} MiB of them, behind")

    def close(self) -> None:
        self._closed(self)


class Reports:
    """An exporter of results, and where they are read. Owned by one event loop."""

    def __init__(self, path: Path | None, limit: int, parts: bool = False) -> None:
        """`parts`: a trace may have several, for roots that are declared. Raises StoreError."""
        self.failed = 0  # reports that could not be written
        self.verdicts: Counter[tuple[str, str]] = Counter()  # standing, by workflow; judged since the start
        self._store = Store(path, limit)
        self._thread = ThreadPoolExecutor(1, "onpath-reports")
        # With results, and without; of each no more than would be kept anyway.
        self._pending: tuple[deque[Made], deque[Made]] = (deque(maxlen=limit), deque(maxlen=limit))
        self._pending_bytes = 0  # at most
        self._unwritten: deque[Made] = deque()  # is being written
        self._parts = parts
        self._made = 0
        self._lasting = path is not None
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[None] | None = None
        self._waiting: dict[str, set[asyncio.Future[Made]]] = {}
        self._watches: set[Watch] = set()
        self._closed = False

    def export(self, outcome: Outcome) -> None:
        for one in outcome.measured:
            for instrument, value, names in one.measures[
                :2
            ]:  # a verdict stands before all else, where it was before next
                if instrument == "onpath.verdicts":
                    self.verdicts[names[0], names[1]] += int(value)
                elif instrument == "onpath.revised" and self.verdicts[names[0], names[1]]:  # not before the start
                    self.verdicts[names[0], names[1]] -= int(value)
        self._made += 1
        made = Made.of(outcome, self._made)
        self._pending[not outcome.lines].append(made)
        self._pending_bytes += made.size
        if self._pending_bytes > _LARGE:
            self._flush()
        elif self._lasting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_GATHER, self._flush)
        if self._waiting:
            for waiting in chain.from_iterable([self._waiting.pop(trace_id, ()) for trace_id in made.traces]):
                if not waiting.done():
                    waiting.set_result(made)
        for watch in self._watches:
            watch.offer(made)

    async def get(self, trace_id: str) -> StoredReport | None:
        """The newest revision; `trace_id` in lower-case hex, of a session that of any of its traces."""
        if self._parts:
            return await self._read(lambda: self._store.get(trace_id))
        found = [made for made in chain(self._unwritten, *self._pending) if made.is_of(trace_id)]
        if found:
            return StoredReport.of(max(found))
        return await self._on_thread(lambda: self._store.get(trace_id))

    async def page(self, wanted: Filter, size: int, token: str = "") -> Page:
        """Newest first. Raises BadToken."""
        return await self._read(lambda: self._store.page(wanted, size, token))

    async def wait(self, trace_id: str, seconds: float) -> StoredReport:
        """The report of a trace as soon as there is one. Raises TimeoutError."""
        coming: asyncio.Future[Made] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(trace_id, set()).add(coming)
        try:
            async with asyncio.timeout(seconds):
                found = await self.get(trace_id)
                if found is not None:
                    return found
                made = await coming
            return await self.get(trace_id) or StoredReport.of(made)
        finally:
            others = self._waiting.get(trace_id, set())
            others.discard(coming)
            if not others:
                self._waiting.pop(trace_id, None)

    def watch(self, wanted: Filter) -> Watch:
        watch = Watch(wanted, self._watches.discard)
        self._watches.add(watch)
        return watch

    @property
    def followers(self) -> int:
        """Calls that wait for a report, and watches."""
        return sum(len(waiting) for waiting in self._waiting.values()) + len(self._watches)

    async def close(self) -> None:
        """Writes what is left. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        await self._written()
        self._thread.shutdown()
        self._store.close()

    async def _read(self, read: Callable[[], T]) -> T:
        """After all that was exported before."""
        await self._written()
        return await self._on_thread(read)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _written(self) -> None:
        self._flush()
        if self._writing is not None:
            await asyncio.shield(self._writing)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._unwritten.extend(sorted(chain(*self._pending)))  # as they were made
        for pending in self._pending:
            pending.clear()
        self._pending_bytes = 0
        if self._unwritten and (self._writing is None or self._writing.done()):
            self._writing = asyncio.ensure_future(self._write_out())

    async def _write_out(self) -> None:
        while batch := list(islice(self._unwritten, _SLICE)):
            await self._on_thread(partial(self._write, batch))
            for _ in batch:
                self._unwritten.popleft()

    def _write(self, batch: Sequence[Made]) -> None:
        try:
            self._store.write(batch)
        except sqlite3.Error as error:
            if not self.failed:
                _log.error("report store: %s; further failures are counted, not logged", error)
            self.failed += len(batch)
