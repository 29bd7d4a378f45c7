"""A journal alone on a disk that is too small for what it is sent, or that something else has filled."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onpath_collector.journal import Full, Journal, JournalSettings
from onpath_collector.journal.room import LEAST, Room, room_for
from tests.collector.journal.filled import crash, opened
from tests.support.disks import own_disk

SIZE = 3 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with own_disk(tmp_path / "small", f"size={SIZE}") as folder:
        yield folder


class Sender:
    """Appends to a journal and lets go; `there` is what the journal has to hold."""

    def __init__(self, journal: Journal, seed: int) -> None:
        self.journal = journal
        self.draw = random.Random(seed)
        self.there: dict[int, bytes] = {}
        self.refused = 0

    async def append(self, size: int) -> None:
        body = self.draw.randbytes(size)
        try:
            number = await self.journal.append("traces", 1, body, self._take)
        except Full:
            self.refused += 1
        else:
            self.there[number] = body

    def _take(self, number: int) -> int:
        self.journal.hold(number, 1, waits=False)
        return number

    def let_go(self, part: float) -> None:
        for number in self.draw.sample(sorted(self.there), int(len(self.there) * part)):
            self.journal.let_go(number)
            del self.there[number]

    async def until_taken(self, size: int) -> None:
        async with asyncio.timeout(30):
            before = len(self.there)
            while len(self.there) == before:
                await self.append(size)
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("seed", range(2))
async def test_it_fills_its_disk_again_and_again(small_disk: Path, tmp_path: Path, seed: int) -> None:
    """What is let go makes room; a crash in between loses nothing."""
    journal = Journal.open(JournalSettings(directory=small_disk / "j"))
    journal.start()
    sender = Sender(journal, seed)
    for part in (0.5, 0.9, 0.5, 1.0):
        refused = sender.refused
        while sender.refused < refused + 30:
            sizes = [sender.draw.choice((50, 700, 5_000, 60_000)) for _ in range(20)]
            await asyncio.gather(*(sender.append(size) for size in sizes))
        crash(small_disk / "j", tmp_path / f"left {part}")
        left, _, aside = opened(tmp_path / f"left {part}")
        assert aside == 0
        assert {number: left[number].body for number in sender.there} == sender.there
        sender.let_go(part)
        await sender.until_taken(50)
    sender.let_go(1.0)
    await sender.until_taken(300_000)
    await journal.close()


async def test_one_that_is_too_large_is_refused_alone(small_disk: Path) -> None:
    journal = Journal.open(JournalSettings(directory=small_disk / "j"))
    journal.start()
    sender = Sender(journal, 1)
    for _ in range(3):
        await asyncio.gather(sender.append(300), sender.append(SIZE), sender.append(300))
    assert (sender.refused, len(sender.there), journal.failures) == (3, 6, 0)
    await journal.close()


async def test_something_else_takes_all_the_room_and_gives_it_back(small_disk: Path) -> None:
    journal = Journal.open(JournalSettings(directory=small_disk / "j"))
    journal.start()
    sender = Sender(journal, 1)
    for _ in range(20):
        await sender.append(20_000)
    with (small_disk / "other").open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))
    await sender.append(20_000)
    assert sender.refused == 1
    sender.let_go(1.0)
    await asyncio.sleep(0.3)
    (small_disk / "other").unlink()
    await sender.until_taken(20_000)
    assert journal.failures == 1
    await journal.close()
    assert len(opened(small_disk / "j")[0]) == 1


PAGES = st.integers(0, 500).map(lambda n: n * 4096)


@given(PAGES, PAGES, PAGES, PAGES, st.integers(0, 1 << 20))
def test_what_fits_leaves_what_is_to_be_left(free: int, file: int, pages: int, unused: int, size: int) -> None:
    room = Room(free, file, pages, min(unused, pages))
    if room.fits(size):
        grown = max(0, pages + max(0, size - room.unused) - file)
        assert free - size - grown >= LEAST
        assert room.growth <= free
        assert room.fits(size // 2)


def test_room_is_reckoned_in_pages_where_it_is_taken_so() -> None:
    assert [room_for(size) for size in (100, 2500, 4032, 4033, 8200)] == [164, 4096, 4096, 8192, 12288]
