"""Room for requests on their way in: shared, waited for, given back whatever happens."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from onpath_collector.receivers.base import Refused
from onpath_collector.receivers.room import Room, turn


async def held(room: Room, size: int, until: asyncio.Event) -> None:
    with room.share() as share:
        await share.take(size)
        await until.wait()


async def takes(room: Room, size: int) -> bool:
    """Whether there is so much room at once."""
    with room.share() as share, suppress(TimeoutError):
        async with asyncio.timeout(0.02):
            await share.take(size)
            return True
    return False


async def test_what_is_taken_is_given_back() -> None:
    room, done = Room(10, 5), asyncio.Event()
    holding = asyncio.create_task(held(room, 6, done))
    await asyncio.sleep(0)
    assert not await takes(room, 5)
    assert await takes(room, 4)
    done.set()
    await holding
    assert await takes(room, 10)


async def test_nobody_asks_for_more_than_there_is() -> None:
    assert await takes(Room(10, 5), 1000)


async def test_who_waits_is_let_in_in_turn_and_small_ones_pass() -> None:
    room, done = Room(10, 5), asyncio.Event()
    holding = asyncio.create_task(held(room, 8, done))
    await asyncio.sleep(0)
    order: list[int] = []

    async def wait(size: int) -> None:
        with room.share() as share:
            await share.take(size)
            order.append(size)

    waiting = [asyncio.create_task(wait(size)) for size in (9, 5, 1)]
    await asyncio.sleep(0.01)
    assert order == [1]
    done.set()
    await asyncio.gather(holding, *waiting)
    assert order == [1, 9, 5]


async def test_who_waits_for_long_is_told_to_come_again() -> None:
    room, done = Room(10, 0.02), asyncio.Event()
    holding = asyncio.create_task(held(room, 8, done))
    await asyncio.sleep(0)
    with room.share() as share, pytest.raises(Refused, match="in_flight"):
        await share.take(5)
    done.set()
    await holding
    assert await takes(room, 10)


async def test_the_slowest_sender_makes_room() -> None:
    room = Room(10, 0.05)

    async def stall() -> None:
        with room.share() as share:
            await share.take(10)
            async with room.reading(60):
                await asyncio.sleep(60)

    stalling = asyncio.create_task(stall())
    await asyncio.sleep(0)
    with room.share() as share:
        await share.take(5)
    with pytest.raises(Refused, match="slow_sender"):
        await stalling


async def test_who_gives_up_waiting_leaves_nothing_taken() -> None:
    room, done = Room(10, 5), asyncio.Event()
    holding = asyncio.create_task(held(room, 8, done))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(held(room, 5, done))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await takes(room, 2)
    done.set()
    await holding
    assert await takes(room, 10)


async def test_what_a_request_does_not_need_is_given_back_early() -> None:
    room = Room(10, 5)
    with room.share() as share:
        await share.take(10)
        share.keep(3)
        assert await takes(room, 7)
        share.keep(5)
        assert share.size == 3
    assert await takes(room, 10)


async def test_one_at_a_time() -> None:
    lock = asyncio.Lock()
    inside = 0

    async def work() -> int:
        nonlocal inside
        async with turn(lock):
            inside += 1
            await asyncio.sleep(0)
            seen, inside = inside, inside - 1
        return seen

    assert await asyncio.gather(*(work() for _ in range(5))) == [1] * 5
    assert not lock.locked()
