"""The journal as the loop sees it: what is acknowledged is back after a crash, as long as something needs it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from onpath_collector.journal import Full, Journal, JournalError, JournalSettings, Request
from onpath_collector.journal.core import Closing
from onpath_collector.journal.directory import Directory
from onpath_collector.journal.records import Ending
from onpath_collector.journal.store import Fsync, Marks, Store, _stamp
from tests.collector.journal.filled import crash, opened
from tests.support.disks import own_disk

TRACE = bytes(15) + b"\x01"


def settings(folder: Path, **changes: object) -> JournalSettings:
    return JournalSettings(directory=folder, **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def running(folder: Path, **changes: object) -> AsyncIterator[Journal]:
    journal = Journal.open(settings(folder, **changes))
    journal.start()
    try:
        yield journal
    finally:
        await journal.close()


async def killed(journal: Journal, folder: Path) -> Path:
    """What is left of it if the process is killed once all that was noted is written."""
    journal.flush([])
    await journal.read(0)
    left = folder.with_name("killed")
    crash(folder, left)
    return left


async def append(journal: Journal, body: bytes, holds: int = 1, *, waits: bool = False) -> int:
    def take(number: int) -> int:
        journal.hold(number, holds, waits=waits)
        return number

    return await journal.append("traces", 3, body, take)


async def until(journal: Journal, requests: int) -> None:
    async with asyncio.timeout(20):
        while journal.requests != requests:  # noqa: ASYNC110 - what is awaited has no event of its own
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("fsync", ["always", "interval", "never"])
async def test_what_is_acknowledged_is_back_after_a_crash(tmp_path: Path, fsync: Fsync) -> None:
    async with running(tmp_path / "j", fsync=fsync) as journal:
        before = time.time_ns()
        number = await append(journal, b"one")
        await asyncio.sleep(0.15)  # past the interval of fsync
        found, contents, aside = opened(await killed(journal, tmp_path / "j"))
    at = found[number].at
    assert before <= at <= time.time_ns()
    assert found == {number: Request(number, "traces", 3, at, b"one")}
    assert (contents.forwarded, contents.endings, aside) == (set(), [], 0)


async def test_a_request_stays_until_neither_a_trace_nor_the_downstream_needs_it(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        number = await append(journal, b"one", 2, waits=True)
        journal.let_go(number)
        journal.forwarded(number)
        found, contents, _ = opened(await killed(journal, tmp_path / "j"))
        assert (list(found), contents.forwarded) == ([number], {number})
        journal.let_go(number)
        assert journal.requests == 0
        found, contents, _ = opened(await killed(journal, tmp_path / "j"))
        assert (found, contents.forwarded) == ({}, set())


async def test_what_nothing_needs_goes_at_once(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        await append(journal, b"one", 0)
        await until(journal, 0)
        assert journal.size == 0
        assert opened(await killed(journal, tmp_path / "j"))[0] == {}


async def test_requests_are_taken_in_order_of_their_numbers(tmp_path: Path) -> None:
    taken: list[int] = []
    async with running(tmp_path / "j") as journal:

        def take(number: int) -> int:
            journal.hold(number, 1, waits=False)
            taken.append(number)
            return number

        bodies = [os.urandom(i * 37 % 5000) for i in range(300)]
        numbers = await asyncio.gather(*(journal.append("logs", 1, body, take) for body in bodies))
        assert journal.pending == (0, 0)
        found, _, _ = opened(await killed(journal, tmp_path / "j"))
    assert taken == sorted(taken) == list(numbers)
    assert [found[number].body for number in numbers] == bodies


async def test_what_is_written_is_taken_though_the_sender_has_gone(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        sender = asyncio.create_task(append(journal, b"one"))
        await asyncio.sleep(0)
        sender.cancel()
        await until(journal, 1)
        assert len(opened(await killed(journal, tmp_path / "j"))[0]) == 1


async def test_a_fault_in_taking_reaches_the_sender_and_nobody_else(tmp_path: Path) -> None:
    def fail(number: int) -> int:
        raise RuntimeError("a fault")

    async with running(tmp_path / "j") as journal:
        with pytest.raises(RuntimeError, match="a fault"):
            await journal.append("traces", 1, b"one", fail)
        await until(journal, 0)
        assert await append(journal, b"two")


async def test_over_its_limit_it_takes_nothing_until_something_is_done(tmp_path: Path) -> None:
    async with running(tmp_path / "j", max_bytes=100_000) as journal:
        numbers = [await append(journal, bytes(30_000)) for _ in range(3)]
        with pytest.raises(Full, match="max_bytes"):
            await append(journal, bytes(30_000))
        assert journal.pending == (0, 0)
        journal.let_go(numbers[0])
        await append(journal, bytes(30_000))


async def test_what_waits_to_be_written_is_bounded(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        body = bytes(20 << 20)
        found = await asyncio.gather(*(append(journal, body) for _ in range(5)), return_exceptions=True)
        assert [isinstance(each, Full) for each in found] == [False, False, False, True, True]


class FullDisk(Store):
    """A store whose disk can be full: then nothing is written."""

    full = False

    def write(self, requests: Sequence[Request], marks: Marks) -> None:
        if self.full:
            raise sqlite3.OperationalError("database or disk is full")
        super().write(requests, marks)


async def test_on_a_full_disk_senders_are_refused_until_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = settings(tmp_path / "j")
    directory = Directory(tmp_path / "j")
    directory.open_store("interval")[0].close()
    store = FullDisk(tmp_path / "j" / "journal.sqlite3", "interval")
    journal = Journal(limits, directory, store, store.check())
    journal.start()
    one, two = await append(journal, b"one", waits=True), await append(journal, b"two")
    store.full = True
    with pytest.raises(Full, match="disk is full"):
        await append(journal, b"three")
    journal.let_go(two)  # what is held goes on
    journal.forwarded(one)
    with pytest.raises(Full):
        journal.admit(1)
    assert journal.failures == 1
    store.full = False
    async with asyncio.timeout(20):
        while True:
            try:
                four = await append(journal, b"four")
                break
            except Full:
                await asyncio.sleep(0.05)
    found, contents, _ = opened(await killed(journal, tmp_path / "j"))
    assert (list(found), contents.forwarded) == ([one, four], {one})
    assert "senders are told to come back later" in caplog.text
    assert "can be written again" in caplog.text
    await journal.close()


# Endings


async def ended(journal: Journal, *numbers: int) -> Closing:
    closing = journal.releasing((TRACE,), "root_ended", numbers)
    journal.flush([closing])
    await closing.written
    return closing


async def test_a_trace_that_was_released_and_not_settled_ends_so_again(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        number = await append(journal, b"one")
        closing = await ended(journal, number)
        journal.judged(closing, None, [b"12345678"])  # its results are under way
        found, contents, _ = opened(await killed(journal, tmp_path / "j"))
    assert list(found) == [number]
    assert contents.endings == [Ending(1, (TRACE,), number, "root_ended")]


async def test_once_settled_its_requests_go_and_its_memory_stays(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        number = await append(journal, b"one")
        closing = await ended(journal, number)
        journal.judged(closing, 7, [b"12345678"])
        journal.sent(closing)
        found, contents, _ = opened(await killed(journal, tmp_path / "j"))
    assert found == {}
    assert contents.endings == [
        Ending(1, (TRACE,), number, "root_ended", settled=True, memory=7, results=(b"12345678",))
    ]


async def test_what_shares_an_ending_is_settled_together(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        number = await append(journal, b"one")
        closing = await ended(journal, number)
        closing.unjudged = closing.unsent = 2
        for left in (1, 0):
            journal.judged(closing, None)
            journal.sent(closing)
            assert journal.requests == left


async def test_parts_of_a_trace_are_forgotten_with_it(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        number = await append(journal, b"one")
        part = journal.releasing((TRACE,), "root_ended", (), b"thisroot")
        journal.flush([part])
        journal.judged(part, None)
        journal.sent(part)
        _, contents, _ = opened(await killed(journal, tmp_path / "j"))
        assert [(e.root, e.upto, e.settled) for e in contents.endings] == [(b"thisroot", number, False)]
        closing = await ended(journal, number)
        journal.judged(closing, None)
        journal.sent(closing)
        _, contents, _ = opened(await killed(journal, tmp_path / "j"))
        assert [(e.root, e.settled) for e in contents.endings] == [(b"", True)]


async def test_results_that_nobody_takes_do_not_fill_it(tmp_path: Path) -> None:
    async with running(tmp_path / "j", max_bytes=100_000) as journal:
        for i in range(10):
            number = await append(journal, bytes(20_000))
            closing = journal.releasing((TRACE[:-1] + bytes([i]),), "root_ended", (number,))
            journal.flush([closing])
            journal.judged(closing, None)  # and never sent
        assert journal.requests <= 2


async def test_settled_endings_go_once_no_request_needs_them(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "j")
    store, _ = directory.open_store("interval")
    endings = {i: Ending(i, (TRACE,), i, "root_ended", settled=i != 3) for i in range(1, 10)}
    store.write([], Marks(endings=endings))
    assert store.prune(7, 5) == 3
    assert [e.id for e in store.check().endings] == [3, 5, 6, 7, 8, 9]
    store.close()
    directory.close()


# The directory


def test_it_is_private(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir(mode=0o755)
    mask = os.umask(0)
    try:
        directory = Directory(tmp_path / "j")
        store, _ = directory.open_store("interval")
        directory.instance()
        directory.take_reserve()
        store.write([Request(1, "traces", 1, 1, b"one")], Marks())
        names = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "j").iterdir()}
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o700
    assert names == dict.fromkeys(("lock", "instance", "reserve", "journal.sqlite3", "journal.sqlite3-wal"), 0o600)
    store.close()
    directory.close()


async def test_a_second_collector_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path / "j"):
        with pytest.raises(JournalError, match="in use by another collector"):
            Journal.open(settings(tmp_path / "j"))
    async with running(tmp_path / "j"):
        pass


def test_where_it_cannot_be_it_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match=r"Not a directory|File exists"):
        Journal.open(settings(tmp_path / "file"))
    (tmp_path / "j" / "journal.sqlite3").mkdir(parents=True)
    with pytest.raises(JournalError, match=r"cannot be opened"):
        Journal.open(settings(tmp_path / "j"))


@pytest.mark.parametrize("name", ["lock", "journal.sqlite3", "journal.sqlite3-wal"])
def test_links_in_it_are_not_followed(tmp_path: Path, name: str) -> None:
    (tmp_path / "j").mkdir()
    (tmp_path / "other").write_text("other")
    (tmp_path / "j" / name).symlink_to(tmp_path / "other")
    with pytest.raises(JournalError, match=r"is a link|symbolic links"):
        Journal.open(settings(tmp_path / "j"))
    assert (tmp_path / "other").read_text() == "other"


async def test_a_link_to_it_is_followed(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "j")
    async with running(tmp_path / "link") as journal:
        await append(journal, b"one")
        with pytest.raises(JournalError, match="in use by another collector"):
            Journal.open(settings(tmp_path / "j"))


async def test_what_was_readable_by_others_is_so_no_longer(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        await append(journal, b"one")
    (tmp_path / "j").chmod(0o755)
    (tmp_path / "j" / "journal.sqlite3").chmod(0o644)
    async with running(tmp_path / "j") as journal:
        assert journal.requests == 1
        assert stat.S_IMODE((tmp_path / "j").stat().st_mode) == 0o700
        assert stat.S_IMODE((tmp_path / "j" / "journal.sqlite3").stat().st_mode) == 0o600


def test_on_a_disk_that_is_only_read_it_says_so(tmp_path: Path) -> None:
    with own_disk(tmp_path / "disk", "ro") as disk, pytest.raises(JournalError, match="Read-only file system"):
        Journal.open(settings(disk / "j"))


async def test_the_instance_is_the_same_after_a_restart(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        async with running(tmp_path / "j") as journal:
            found.append(journal.instance)
    (tmp_path / "j" / "instance").write_text("damaged")
    async with running(tmp_path / "j") as journal:
        found.append(journal.instance)
    assert found[0] == found[1] != found[2]


async def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        first = await append(journal, b"one")
    async with running(tmp_path / "j") as journal:
        assert list(journal.contents.requests) == [first]
        found = await journal.read(first)
        assert found is not None
        assert (found.signal, found.items, found.body) == ("traces", 3, b"one")
        assert await append(journal, b"two") > first


async def test_the_oldest_age_is_that_of_what_is_left_also_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        assert journal.oldest_age == 0
        one = await append(journal, b"one")
        await asyncio.sleep(0.2)
        await append(journal, b"two")
        assert journal.oldest_age >= 0.2
        journal.let_go(one)
        assert journal.oldest_age < 0.2
        before = journal.oldest_age
        await asyncio.sleep(0.1)
    async with running(tmp_path / "j") as journal:
        assert journal.oldest_age >= before + 0.1


async def test_a_clock_that_was_put_back_makes_nothing_younger_than_now(tmp_path: Path) -> None:
    directory = Directory(tmp_path / "j")
    store, _ = directory.open_store("interval")
    store.write([Request(1, "traces", 1, time.time_ns() + 3600 * 10**9, b"one")], Marks())
    store.close()
    directory.close()
    async with running(tmp_path / "j") as journal:
        assert 0 <= journal.oldest_age < 60


async def test_a_journal_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    async with running(tmp_path / "j") as journal:
        await append(journal, b"one")
    file = tmp_path / "j" / "journal.sqlite3"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version={_stamp(2)}")
    before = file.read_bytes()
    with pytest.raises(JournalError, match="it is of version 2, and this onpath knows version 1"):
        Journal.open(settings(tmp_path / "j"))
    assert file.read_bytes() == before
    assert not list((tmp_path / "j").glob("damaged-*"))


async def test_closing_is_safe_without_a_start_and_again(tmp_path: Path) -> None:
    journal = Journal.open(settings(tmp_path / "j"))
    await journal.close()
    await journal.close()
    with pytest.raises(Full):
        journal.admit(1)
