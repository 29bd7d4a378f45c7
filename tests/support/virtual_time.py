"""Time that a test walks: `clock` and `sleep` to hand in where the service hands in the real ones."""

from __future__ import annotations

import asyncio
import heapq
from itertools import count


class VirtualTime:
    """`advance` goes forward and wakes who slept until then, one after the other, letting each act before the next."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []  # every sleep asked for, in order
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []
        self._number = count()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken = asyncio.Event()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._number), woken))
        await woken.wait()

    async def advance(self, seconds: float) -> None:
        end = self.now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self.now, _, woken = heapq.heappop(self._sleepers)
            woken.set()
            await settle()
        self.now = end

    async def next(self) -> None:
        """Goes forward to the next who sleeps, if there is one."""
        await settle()
        if self._sleepers:
            await self.advance(max(0.0, self._sleepers[0][0] - self.now))


async def settle() -> None:
    """Lets every task that can run do so, as far as it goes without waiting for the outside."""
    for _ in range(20):
        await asyncio.sleep(0)
