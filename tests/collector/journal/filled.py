"""Journals for tests: filled with known requests, and copied as a crash would leave them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from onpath_collector.journal.directory import Directory
from onpath_collector.journal.records import Contents, Ending, Request
from onpath_collector.journal.store import Marks, Store

FILE = "journal.sqlite3"
LOG = "journal.sqlite3-wal"


def fill(folder: Path, sizes: list[int], *, written_back: int = 0) -> dict[int, Request]:
    """A crashed journal of a request for each size, of which every third was removed; those that are left.

    `written_back`: after so many requests the log was written back to the file.
    """
    work = folder.with_name(folder.name + "-open")
    directory = Directory(work)
    store, _ = directory.open_store("interval")
    draw = random.Random(len(sizes))
    left: dict[int, Request] = {}
    for number, size in enumerate(sizes, 1):
        request = Request(number, "traces", 2, 1_000 + number, draw.randbytes(size))
        left[number] = request
        removed = [number - 10] if number > 10 and number % 3 == 0 else []
        store.write([request], Marks(forwarded={number}, removed=removed))
        for gone in removed:
            del left[gone]
        if number == written_back:
            store.write_back()
    store.write([], Marks(endings={1: Ending(1, (bytes(16),), 5, "root_ended", settled=True, memory=3)}))
    crash(work, folder)
    store.close()
    directory.close()
    shutil.rmtree(work)
    return left


def crash(running: Path, folder: Path) -> None:
    """What would be on the disk if the process that has `running` open were killed now."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(running, folder)


def opened(folder: Path) -> tuple[dict[int, Request], Contents, int]:
    """What can be read of a journal: its requests, what else it says, and how many damaged ones were set aside."""
    directory = Directory(folder)
    store, contents = directory.open_store("interval")
    found = {number: request for number in contents.requests if (request := _read(store, number))}
    store.close()
    directory.close()
    return found, contents, directory.damaged


def _read(store: Store, number: int) -> Request | None:
    return store.read(number)
