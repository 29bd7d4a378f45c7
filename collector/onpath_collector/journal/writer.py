"""The thread that writes the journal: whatever has come up while one batch was written is the next one (group commit).

    submit(requests, marks) -> queue -> one transaction -> fsync, if asked for -> done, on the loop, in that order

When a batch can't be written (disk full, mostly), its requests are refused and its marks are kept. From then on
requests are refused at once, and each second it is tried again whether what is owed can be written.
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
from onpath_collector.journal.store import Marks, Store

log: Final = logging.getLogger("onpath")

_BATCH: Final = 64  # pieces of work, and ...
_BATCH_BYTES: Final = 8 << 20  # ... bytes, that one transaction takes
_AGAIN: Final = 1.0  # seconds until a journal that can't be written is tried again
_QUIET: Final = 1.0  # seconds without work after which the log is written back
_OWED: Final = 256  # marks written at once when there is little room


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
            self._fail("no room on the disk")
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
                if len(batch) == _BATCH or size > _BATCH_BYTES:
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
        why = self.failing
        if why is None:
            try:
                self._store.write([r for work in batch for r in work.requests], self._owed)
                self._owed = Marks()
            except sqlite3.Error as error:
                why = str(error)
                self._fail(why)
        for work in batch:
            if work.task is not None:
                self._perform(work.task)
        self._tell(batch, why)

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
            if self.failing is None and (self._store.log_is_long or (quiet and self._store.dirty)):
                self._store.write_back()
        except (OSError, sqlite3.Error) as error:
            self._fail(str(error))

    def _fail(self, why: str) -> None:
        self.failures += 1
        self._tried = time.monotonic()
        if self.failing is None:
            self.failing = why
            log.error("the journal cannot be written (%s): senders are told to come back later", why)

    def _recover(self) -> None:
        """Writes what is owed, in pieces, into the room that was kept for that; well again once it is there again."""
        self._tried = time.monotonic()
        self._directory.give_reserve()
        piece = Marks()
        try:
            self._store.write_back(empty=True)
            while piece := self._owed.take(_OWED):
                self._store.write([], piece)
                self._store.write_back(empty=True)
        except sqlite3.Error as error:
            piece.add(self._owed)
            self._owed = piece
            self.failing = str(error)
            return
        if self._directory.take_reserve():
            self.failing = None
            log.warning("the journal can be written again")


def _call_all(done: Sequence[Callable[[str | None], None]], why: str | None) -> None:
    for each in done:
        each(why)
