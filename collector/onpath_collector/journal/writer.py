"""The thread that writes the journal: whatever has come up while one batch was written is the next one (group commit).

    submit(requests, marks) -> queue -> one transaction -> fsync, if asked for -> done, on the loop, in that order

What the disk has no room for is refused before it is written; marks are kept until they can be. When there is no room
for anything to speak of, or a write fails, requests are refused at once, and each second room is made: what is owed is
written into the reserve, the log is written back, and pages that nothing is on are given back to the disk.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

from onpath_collector.journal.directory import Directory
from onpath_collector.journal.records import Request
from onpath_collector.journal.room import LEAST, Room, room_for
from onpath_collector.journal.store import Marks, Store
from onpath_collector.journal.wal import PAGE

log: Final = logging.getLogger("onpath")

_BATCH: Final = 64  # pieces of work, and ...
_BATCH_BYTES: Final = 8 << 20  # ... bytes, that one transaction takes
_AGAIN: Final = 1.0  # seconds until a journal that can't be written is tried again
_QUIET: Final = 1.0  # seconds without work after which the log is written back
_NO_ROOM: Final = "no room on the disk"
_OWED: Final = 64  # marks written at once, and ...
_PAGES: Final = 16  # ... pages given back at once, when there is little room
_MOVED: Final = 3 * PAGE  # bytes in the log, at most, that it takes to give one back


@dataclass(slots=True, eq=False)
class Work:
    """`done` is called on the loop: with None when all of it is written, else with why not; marks are kept either way.

    `task` is called on the thread, after the batch is written.
    """

    requests: Sequence[Request] = ()
    marks: Marks | None = None
    done: Callable[[str | None], None] | None = None
    task: Callable[[Store], None] | None = None


class Writer:
    """Owns the store once started. `failing` tells why nothing can be written at the moment, None when all is well."""

    def __init__(self, store: Store, directory: Directory, interval: float) -> None:
        self.failing: str | None = None
        self.failures = 0
        self._store = store
        self._directory = directory
        self._interval = interval if store.fsync == "interval" else None
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._owed = Marks()
        self._room_left = True  # in the file, perhaps
        self._batch_bytes = min(_BATCH_BYTES, directory.reserve // 2)
        store.log_limit = min(store.log_limit, directory.reserve // 2)
        self._synced = self._tried = time.monotonic()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="onpath-journal", daemon=True)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def submit(self, work: Work) -> None:
        self._queue.put(work)

    def stop(self) -> None:
        """Writes what was submitted and ends the thread. Blocks."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    # On the thread

    def _run(self) -> None:
        if not self._directory.take_reserve():
            self._fail(_NO_ROOM)
        going = True
        while going:
            batch, going = self._next()
            if batch:
                self._write(batch)
            if self.failing is not None and (not going or time.monotonic() >= self._tried + _AGAIN):
                self._recover()
            self._keep_up(quiet=not batch)

    def _next(self) -> tuple[list[Work], bool]:
        """What has come up, as far as it fits one transaction; False after the last."""
        batch: list[Work] = []
        size = 0
        try:
            work = self._queue.get(timeout=self._patience())
            while work is not None:
                batch.append(work)
                size += sum(len(r.body) for r in work.requests)
                if len(batch) == _BATCH or size > self._batch_bytes:
                    return batch, True
                work = self._queue.get_nowait()
        except Empty:
            return batch, True
        return batch, False

    def _patience(self) -> float:
        if self._interval is not None and self._store.unsynced:
            return max(0.0, self._synced + self._interval - time.monotonic())
        return _AGAIN if self.failing is not None else _QUIET

    def _write(self, batch: list[Work]) -> None:
        for work in batch:
            if work.marks is not None:
                self._owed.add(work.marks)
        taken: list[Work] = []
        if self.failing is None:
            try:
                taken = self._fitting(batch)
                self._store.write([r for work in taken for r in work.requests], self._owed)
                self._owed = Marks()
            except (OSError, sqlite3.Error) as error:
                self._fail(str(error))
                taken = []
        for work in batch:
            if work.task is not None:
                self._perform(work.task)
        self._tell(taken, None)
        self._tell([work for work in batch if work not in taken], self.failing or _NO_ROOM)

    def _fitting(self, batch: list[Work]) -> list[Work]:
        """Those that the disk has room for: one that is too large is refused alone."""
        taken = self._first(batch)
        if len(taken) < len(batch):
            self._make_room()
            taken = self._first(batch)
            if not self._is_well(self._room()):
                self._fail(_NO_ROOM)
        return taken

    def _first(self, batch: list[Work]) -> list[Work]:
        room, size, taken = self._room(), self._owed.room, []
        for work in batch:
            more = sum(room_for(len(request.body)) for request in work.requests)
            if not more or room.fits(size + more):
                size += more
                taken.append(work)
        return taken

    def _room(self) -> Room:
        return self._store.room(self._directory.free)

    def _perform(self, task: Callable[[Store], None]) -> None:
        try:
            task(self._store)
        except sqlite3.Error as error:
            log.error("the journal cannot be read (%s)", error)

    def _tell(self, batch: Sequence[Work], why: str | None) -> None:
        loop = self._loop
        assert loop is not None
        done = [work.done for work in batch if work.done is not None]
        if done:
            loop.call_soon_threadsafe(_call_all, done, why)

    def _keep_up(self, *, quiet: bool) -> None:
        """What is done after the senders have their answer."""
        try:
            if self._interval is not None and self._store.unsynced:
                now = time.monotonic()
                if now >= self._synced + self._interval:
                    self._synced = now
                    self._store.sync()
            if self.failing is None and self._store.log_is_long:
                self._store.write_back()
            elif self.failing is None and quiet:
                self._tidy()
        except (OSError, sqlite3.Error) as error:
            self._fail(str(error))

    def _tidy(self) -> None:
        if self._store.dirty:
            self._store.write_back()
            self._room_left = True
        elif self._room_left:
            self._room_left = self._store.shrink(self._batch_bytes // _MOVED)

    def _fail(self, why: str) -> None:
        self.failures += 1
        self._tried = time.monotonic()
        if self.failing is None:
            self.failing = why
            log.error("the journal cannot be written (%s): senders are told to come back later", why)

    def _recover(self) -> None:
        """Writes what is owed into the room that was kept for that; well again once there is room again."""
        self._tried = time.monotonic()
        self._directory.give_reserve()
        try:
            self._make_room()
            well = self._is_well(self._room(), self._directory.reserve)
        except (OSError, sqlite3.Error) as error:
            self.failing = str(error)
            return
        if well and self._directory.take_reserve():
            self.failing = None
            log.warning("the journal can be written again")

    def _make_room(self) -> None:
        """Writes what is owed, piece by piece, and gives back to the disk what it takes to be well."""
        self._write_back()
        while piece := self._owed.take(_OWED):
            try:
                self._store.write([], piece)
            except sqlite3.Error:
                piece.add(self._owed)
                self._owed = piece
                raise
            self._write_back()
        while not self._is_well(self._room(), self._directory.reserve):
            if not self._store.shrink(_PAGES):
                return
            self._write_back()

    def _is_well(self, room: Room, reserve: int = 0) -> bool:
        """Whether what usually comes at once fits, beside a reserve that is to be taken."""
        return room.fits(self._batch_bytes, LEAST + reserve)

    def _write_back(self) -> None:
        """Empties the log, unless the file would grow by more than there is room for: that would use it up in vain."""
        room = self._room()
        if room.growth <= room.free:
            self._store.write_back(empty=True)


def _call_all(done: Sequence[Callable[[str | None], None]], why: str | None) -> None:
    for each in done:
        each(why)
