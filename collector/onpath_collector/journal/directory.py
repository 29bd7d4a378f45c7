"""The journal's directory: private, one collector's alone; what is damaged in it is set aside and the rest saved.

open_store -> the log and the file are read -> sound: as they are
                                            -> damaged: rows that are whole -> a new file; the old ones renamed
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import sqlite3
import uuid
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from onpath_collector.journal.records import Contents
from onpath_collector.journal.room import LEAST
from onpath_collector.journal.salvage import Pages, Salvaged, salvage
from onpath_collector.journal.store import HEADER, Damaged, Foreign, Fsync, Marks, Store, is_ours
from onpath_collector.journal.wal import Log, read_log

log: Final = logging.getLogger("onpath")

_RESERVE: Final = 8 << 20  # bytes; an eighth of a small disk
_BATCH: Final = 64  # requests written at once


class JournalError(Exception):
    """The journal cannot be had; the message says why."""


def _advice(path: Path) -> str:
    """A volume belongs to whoever made it, and only the owner of a folder can make it private."""
    try:
        foreign = path.stat().st_uid != os.geteuid()
    except OSError:
        return ""
    return f"; it belongs to another user: name a folder in it, such as {path / 'journal'}" if foreign else ""


class Directory:
    """Locked until it is closed: the operating system sees to that when the process ends, however it does."""

    def __init__(self, path: Path) -> None:
        """Raises JournalError when another has it, or it cannot be made or written."""
        self.path = path
        self.damaged = 0  # journals set aside
        self._file = path / "journal.sqlite3"
        self._log = path / "journal.sqlite3-wal"  # SQLite's own name for it
        self._new = path / "new.sqlite3"
        self._repaired = path / "repaired.sqlite3"  # complete, to take the file's place
        self._reserve = path / "reserve"
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.chmod(0o700)
            self.reserve = max(LEAST, min(_RESERVE, shutil.disk_usage(path).total // 8))
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise JournalError(f"the journal {path}: {error.strerror or error}{_advice(path)}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise JournalError(f"the journal {path} is in use by another collector") from None

    def close(self) -> None:
        """Safe again."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def instance(self) -> str:
        """The random id of the collector whose journal this is, the same after a restart."""
        path = self.path / "instance"
        try:
            return str(uuid.UUID(path.read_text(encoding="ascii")))
        except (OSError, ValueError):  # not there yet, or damaged
            found = str(uuid.uuid4())
        with suppress(OSError):  # no room: the next start has another
            _write_private(path, found.encode())
        return found

    def open_store(self, fsync: Fsync) -> tuple[Store, Contents]:
        """The journal and all that can be read of it, damage set aside. Raises JournalError."""
        try:
            for path in (self._file, self._log):
                self._make_private(path)
            if self._repaired.exists():
                self._put_in_place()
            logged = read_log(_bytes(self._log))
            if not self._file.exists() and logged.sound and not logged.pages and not logged.tail:
                self._make(Salvaged(), self._file)
            why = self._fault(logged)
            try:
                if not why:
                    return _open(self._file, fsync)
            except Damaged as error:
                why = str(error)
            lost = self._repair(logged, why)
            store, found = _open(self._file, fsync)
            found.lost, found.damaged = lost, True
            return store, found
        except (OSError, Damaged, Foreign, sqlite3.Error) as error:
            raise JournalError(f"the journal {self.path} cannot be opened: {error}") from None

    def _make_private(self, path: Path) -> None:
        """A link is refused: SQLite would keep the log where it points to, and a crash would lose that."""
        if path.is_symlink():
            raise JournalError(f"the journal {self.path} cannot be opened: {path.name} is a link")
        if path.is_file():
            path.chmod(0o600)  # it may have come from a backup

    def _fault(self, logged: Log) -> str:
        """What is wrong at first sight; SQLite would pass over it in silence."""
        if not logged.sound:
            return "its log is not as it was written"
        if not self._file.exists() or not self._file.stat().st_size:
            return "its file is empty or gone"
        if not is_ours(_bytes(self._file, HEADER)):
            return "the header of its file is not as it was written"
        return ""

    def _repair(self, logged: Log, why: str) -> int:
        """Puts a new journal, of all rows that are whole, in the place of a damaged one; how many requests are lost."""
        data = _bytes(self._file)
        found = salvage(Pages(data, logged.pages))
        if logged.tail:  # committed or not: what it removed stays, what it added comes
            found.add(salvage(Pages(data, logged.pages | logged.tail)))
        self._make(found, self._repaired)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        aside = self.path / f"damaged-{stamp}.sqlite3"
        for source, target in ((self._file, aside), (self._log, Path(f"{aside}-wal"))):
            if source.exists():
                _copy(source, target)
        self._put_in_place()
        self.damaged += 1
        log.error(
            "the journal is damaged (%s): it is set aside as %s; %d requests were saved from it, at least %d lost",
            *(why, aside, len(found.requests), found.lost),
        )
        return found.lost

    def _put_in_place(self) -> None:
        self._log.unlink(missing_ok=True)  # first: it is of the file that goes
        self._repaired.replace(self._file)
        _sync(self.path)

    def _make(self, contents: Salvaged, target: Path) -> None:
        """A new journal, complete or not there at all."""
        for name in (self._new, Path(f"{self._new}-wal")):
            name.unlink(missing_ok=True)
        _write_private(self._new, b"")
        store = Store(self._new, "interval")
        try:
            requests = list(contents.requests.values())
            for i in range(0, len(requests), _BATCH):
                store.write(requests[i : i + _BATCH], Marks())
            known = contents.forwarded & contents.requests.keys()
            store.write([], Marks(forwarded=known, endings=contents.endings))
        finally:
            store.close()
        self._new.replace(target)
        _sync(self.path)

    @property
    def free(self) -> int:
        """Bytes of the disk."""
        return shutil.disk_usage(self.path).free

    def take_reserve(self) -> bool:
        """Whether there is room, now kept, for what must be written when others have taken all the rest: to write the
        log back, to remove rows."""
        try:
            if not self._reserve.exists() or self._reserve.stat().st_size < self.reserve:
                _write_private(self._reserve, bytes(self.reserve))
        except OSError:
            self.give_reserve()
            return False
        return True

    def give_reserve(self) -> None:
        with suppress(OSError):
            self._reserve.unlink()


def _open(path: Path, fsync: Fsync) -> tuple[Store, Contents]:
    """Raises Damaged; sqlite3.OperationalError where it is not the file's fault."""
    try:
        store = Store(path, fsync)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        raise Damaged(str(error)) from None
    try:
        return store, store.check()
    except BaseException:
        store.close()
        raise


def _bytes(path: Path, most: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except FileNotFoundError:
        return b""


def _write_private(path: Path, data: bytes) -> None:
    """Raises OSError, also when the disk is full."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with memoryview(data) as rest:
            done = 0
            while done < len(rest):
                done += os.write(descriptor, rest[done:])
    finally:
        os.close(descriptor)


def _copy(source: Path, target: Path) -> None:
    """Under another name: at no cost where the file system knows links."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
