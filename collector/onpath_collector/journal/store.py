"""The journal's tables: SQLite with a write-ahead log, one row a request. Blocking; owned by one thread at a time."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from onpath_collector.journal.records import (
    Contents,
    Ending,
    Request,
    forwarded_row,
    read_ending,
    read_forwarded,
    read_request,
)
from onpath_collector.journal.room import Room, room_for
from onpath_collector.journal.wal import PAGE, length_of

Fsync: TypeAlias = Literal["always", "interval", "never"]

_VERSION: Final = 1  # of the tables
_SYNCHRONOUS: Final = {"always": "FULL", "interval": "NORMAL", "never": "OFF"}
_MARK: Final = 256  # bytes on the disk, about
_LOG: Final = length_of(1000)  # bytes that the log keeps on the disk; cut there, it ends well
HEADER: Final = 100  # bytes at the start of the file, see https://www.sqlite.org/fileformat2.html#the_database_header
_FIXED: Final = (  # of it what is always so in our files; by some of these SQLite takes a file for read-only or too new
    (0, b"SQLite format 3\0" + PAGE.to_bytes(2, "big") + bytes((2, 2, 0, 64, 32, 32))),
    (44, (4).to_bytes(4, "big")),  # format of the schema
    (56, (1).to_bytes(4, "big")),  # UTF-8
    (72, bytes(20)),
)
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS requests(id INTEGER PRIMARY KEY, signal TEXT, items INTEGER, at INTEGER, body BLOB,"
    " sum INTEGER)",
    "CREATE TABLE IF NOT EXISTS forwarded(id INTEGER PRIMARY KEY, sum INTEGER)",
    "CREATE TABLE IF NOT EXISTS endings(id INTEGER PRIMARY KEY, traces BLOB, upto INTEGER, reason TEXT, root BLOB,"
    " settled INTEGER, memory INTEGER, results BLOB, sum INTEGER)",
)


class Damaged(Exception):
    """The file holds something else than what was written."""


class Foreign(Exception):
    """The file is whole, and another version's."""


@dataclass(slots=True)
class Marks:
    """What is to be noted of requests that are there already, all at once."""

    forwarded: set[int] = field(default_factory=set)
    endings: dict[int, Ending] = field(default_factory=dict)  # new ones, and those that have changed
    removed: list[int] = field(default_factory=list)  # requests
    forgotten: list[int] = field(default_factory=list)  # endings

    def __bool__(self) -> bool:
        return bool(self.forwarded or self.removed or self.endings or self.forgotten)

    @property
    def room(self) -> int:
        """Bytes in the log, about, that it takes to write them."""
        return PAGE * (1 + len(self.removed)) + _MARK * (len(self.forwarded) + len(self.endings) + len(self.forgotten))

    def add(self, later: Marks) -> None:
        self.forwarded |= later.forwarded
        self.forwarded.difference_update(later.removed)
        self.endings |= later.endings
        for number in later.forgotten:
            self.endings.pop(number, None)
        self.removed += later.removed
        self.forgotten += later.forgotten

    def take(self, most: int) -> Marks:
        """Takes out a part that may be written by itself: removals first, since they make room."""
        piece = Marks(removed=self.removed[:most], forgotten=self.forgotten[:most])
        if not piece:
            piece.forwarded = set(list(self.forwarded)[:most])
            piece.endings = dict(list(self.endings.items())[:most])
        self.forwarded -= piece.forwarded
        for number in piece.endings:
            del self.endings[number]
        del self.removed[: len(piece.removed)]
        del self.forgotten[: len(piece.forgotten)]
        return piece


class Store:
    """`path` is there and private: SQLite gives its log the same mode. Whatever fails raises sqlite3.Error; a file that
    is not this version's, Damaged or Foreign."""

    def __init__(self, path: Path, fsync: Fsync) -> None:
        self.fsync = fsync
        self._path = path
        self.log_limit = _LOG  # bytes that the log may grow to before it is written back
        self._unchecked = 0  # bytes in the log that are not written back, about
        self._unsynced = False
        self._log: int | None = None
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise
        with suppress(FileNotFoundError):  # nothing has ever been logged
            self._log = os.open(f"{path}-wal", os.O_RDWR | os.O_CLOEXEC)

    def _set_up(self) -> None:
        run = self._connection.execute
        run("PRAGMA locking_mode=EXCLUSIVE").fetchall()  # first: no shared memory, which a full disk turns into SIGBUS
        fresh = self._is_fresh()
        for setting in (
            f"page_size={PAGE}",
            "auto_vacuum=INCREMENTAL",  # see `shrink`; of a new file alone
            "journal_mode=WAL",
            f"synchronous={_SYNCHRONOUS[self.fsync]}",
            "wal_autocheckpoint=0",  # see `write_back`: after the senders have their answer
            f"journal_size_limit={_LOG}",
            "secure_delete=OFF",  # removing must not take room: on a full disk it is the way out
            "temp_store=MEMORY",
        ):
            run(f"PRAGMA {setting}").fetchall()
        for statement in (*_TABLES, f"PRAGMA user_version={_stamp(_VERSION)}") if fresh else ():
            run(statement)

    def _is_fresh(self) -> bool:
        """Whether nothing is in the file yet. Raises Damaged and Foreign."""
        (found,) = self._connection.execute("PRAGMA user_version").fetchone()
        (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not found and not tables:
            return True
        if found != _stamp(found >> 16):
            raise Damaged("its version is not as it was written")
        if found != _stamp(_VERSION):
            raise Foreign(f"it is of version {found >> 16}, and this onpath knows version {_VERSION}")
        return False

    def check(self) -> Contents:
        """Reads all there is. Raises Damaged."""
        try:
            for (told,) in self._connection.execute("PRAGMA quick_check(1)"):
                if told != "ok":
                    raise Damaged(told)
            return self._contents()
        except sqlite3.DatabaseError as error:
            raise Damaged(str(error)) from None

    def _contents(self) -> Contents:
        found = Contents()
        for row in self._connection.execute("SELECT * FROM requests ORDER BY id"):
            if (request := read_request(row)) is None:
                raise Damaged(f"request {row[0]} is not as it was written")
            found.requests[request.id] = (request.at, len(request.body))
        for row in self._connection.execute("SELECT * FROM forwarded"):
            if (forwarded := read_forwarded(row)) is None:
                raise Damaged(f"the mark of request {row[0]} is not as it was written")
            found.forwarded.add(forwarded)
        for row in self._connection.execute("SELECT * FROM endings ORDER BY id"):
            if (ending := read_ending(row)) is None:
                raise Damaged(f"ending {row[0]} is not as it was written")
            found.endings.append(ending)
        return found

    def read(self, request_id: int) -> Request | None:
        """A request that `check` has found; None if it is no longer there."""
        rows = self._connection.execute("SELECT * FROM requests WHERE id = ?", (request_id,)).fetchall()
        return read_request(rows[0]) if rows else None

    def prune(self, before: int, oldest: int) -> int:
        """Removes settled endings with ids below `before` that no request from `oldest` on needs; how many."""
        sql = "DELETE FROM endings WHERE id < ? AND settled AND upto < ?"
        return self._connection.execute(sql, (before, oldest)).rowcount

    def write(self, requests: Sequence[Request], marks: Marks) -> None:
        """All of it or, when it raises, nothing. With `fsync: always` it is on the disk then."""
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            self._write(requests, marks)
            run("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # SQLite has rolled back by itself
                run("ROLLBACK")
            raise
        self._unsynced = True
        self._unchecked += sum(room_for(len(r.body)) for r in requests) + marks.room

    def _write(self, requests: Sequence[Request], marks: Marks) -> None:
        many = self._connection.executemany
        if requests:
            many("INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?)", [request.row() for request in requests])
        if marks.forwarded:
            many("INSERT OR REPLACE INTO forwarded VALUES (?, ?)", [forwarded_row(i) for i in marks.forwarded])
        if marks.endings:
            rows = [ending.row() for ending in marks.endings.values()]
            many("INSERT OR REPLACE INTO endings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        for table, ids in (("requests", marks.removed), ("forwarded", marks.removed), ("endings", marks.forgotten)):
            if ids:
                many(f"DELETE FROM {table} WHERE id = ?", [(i,) for i in ids])

    @property
    def log_is_long(self) -> bool:
        return self._unchecked > self.log_limit

    @property
    def unsynced(self) -> bool:
        """There is something that a loss of power would lose."""
        return self._unsynced

    def sync(self) -> None:
        """Has the disk keep what was written. Raises OSError."""
        self._unsynced = False
        if self._log is not None:
            os.fsync(self._log)

    def write_back(self, *, empty: bool = False) -> None:
        """Moves the log's pages to their places in the file; `empty` gives its room on the disk back, too."""
        mode = "TRUNCATE" if empty else "PASSIVE"
        self._connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        self._unchecked = 0

    def room(self, free: int) -> Room:
        """`free`: bytes of the disk."""
        pages, unused = (
            self._connection.execute(f"PRAGMA {n}").fetchone()[0] for n in ("page_count", "freelist_count")
        )
        return Room(free, self._path.stat().st_size, pages * PAGE, unused * PAGE)

    def shrink(self, pages: int) -> bool:
        """Takes up to so many pages that nothing is on out of the file; False if there are none. The disk has them
        back once the log is written back."""
        if not self._connection.execute("PRAGMA freelist_count").fetchone()[0]:
            return False
        self._connection.executescript(f"PRAGMA incremental_vacuum({pages})")  # `execute` would stop after one page
        self._unchecked += PAGE
        return True

    @property
    def dirty(self) -> bool:
        return self._unchecked > 0

    def close(self) -> None:
        """Writes the log back, if the disk has room, and lets go of the file."""
        with suppress(sqlite3.Error):  # it stays, and is read at the next start
            self._connection.close()
        if self._log is not None:
            os.close(self._log)
            self._log = None


def is_ours(header: bytes) -> bool:
    return all(header[at : at + len(fixed)] == fixed for at, fixed in _FIXED)


def _stamp(version: int) -> int:
    """A version that a flipped bit does not turn into another."""
    return version << 16 | zlib.crc32(version.to_bytes(2, "big", signed=True)) & 0xFFFF
