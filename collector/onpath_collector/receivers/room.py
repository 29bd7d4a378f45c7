"""Room for requests on their way in: what all of them together may take of memory, and how long each may dawdle.

    share -> take what the request may need (waits for room) -> handed on -> given back

A share is taken at once, never added to: requests that hold some and wait for more would wait for each other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from onpath_collector.receivers.base import Refused

PATIENCE: Final = 1.0  # seconds that a request waits for room before the slowest sender is cut off


class Room:
    """Owned by one event loop. `size` in bytes, `patience` in seconds."""

    def __init__(self, size: int, patience: float = PATIENCE) -> None:
        self._size = self._free = size
        self._patience = patience
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._reading: dict[asyncio.Timeout, float] = {}  # since when, the longest first

    @contextmanager
    def share(self) -> Iterator[Share]:
        """Given back at the end."""
        share = Share(self)
        try:
            yield share
        finally:
            self.give(share.size)

    @asynccontextmanager
    async def reading(self, seconds: float) -> AsyncIterator[None]:
        """Around waiting for a sender's bytes. Refuses it when time is up, or when others need its room."""
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                self._reading[limit] = asyncio.get_running_loop().time()
                yield
        except TimeoutError:
            raise Refused("slow_sender") from None
        finally:
            self._reading.pop(limit, None)

    async def take(self, size: int) -> int:
        """How much was taken: no share is larger than the room. Raises Refused when there is none for long."""
        size = min(size, self._size)
        if size <= self._free:  # past those that wait for more: a small request is gone before it is in their way
            self._free -= size
            return size
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            for _ in range(2):
                if (await asyncio.wait({turn}, timeout=self._patience))[0]:
                    return size
                self._cut_off_slowest()
        except asyncio.CancelledError:
            self._leave(size, turn)
            raise
        self._leave(size, turn)
        raise Refused("in_flight")

    def _leave(self, size: int, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self.give(size)
        else:
            self._waiting.remove((size, turn))
            self.give(0)

    def give(self, size: int) -> None:
        """Takes so much back, and lets in who waits for it."""
        self._free += size
        while self._waiting and self._waiting[0][0] <= self._free:
            wanted, turn = self._waiting.popleft()
            self._free -= wanted
            turn.set_result(None)

    def _cut_off_slowest(self) -> None:
        """A sender that stalls must not keep its room while others wait."""
        now = asyncio.get_running_loop().time()
        slowest = next(iter(self._reading), None)
        if slowest is not None and now - self._reading[slowest] >= self._patience:
            del self._reading[slowest]
            slowest.reschedule(now)


@asynccontextmanager
async def turn(of: asyncio.Lock) -> AsyncIterator[None]:
    """Around what is done for one request at a time. Refuses the request when its turn does not come for long."""
    try:
        async with asyncio.timeout(2 * PATIENCE):
            await of.acquire()
    except TimeoutError:
        raise Refused("in_flight") from None
    try:
        yield
    finally:
        of.release()


class Share:
    """What one request takes of a room, in bytes."""

    def __init__(self, room: Room) -> None:
        self.size = 0
        self._room = room

    async def take(self, size: int) -> None:
        """Once. Raises Refused when there is no room for long."""
        assert not self.size
        self.size = await self._room.take(size)

    def keep(self, size: int) -> None:
        """Gives back what is more than `size`."""
        if size < self.size:
            self._room.give(self.size - size)
            self.size = size
