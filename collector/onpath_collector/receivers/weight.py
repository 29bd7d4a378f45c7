"""What a request would weigh once it is parsed, for those that could weigh too much: up to thirty times their bytes."""

from __future__ import annotations

import asyncio
from typing import Final

from onpath_collector.otlp import PART_MEMORY, more_parts
from onpath_collector.receivers.base import Signal, TooLarge

_WORST: Final = 32  # bytes in memory of each on the wire, where a request is made of empty messages


class Scales:
    """Of one receiver. Small requests pass unseen; of large ones, one at a time is looked through beside the loop."""

    def __init__(self, max_in_flight: int) -> None:
        self._unseen = 2 * max_in_flight // _WORST
        self._most = max_in_flight // 2 // PART_MEMORY
        self._one = asyncio.Lock()

    async def weigh(self, signal: Signal, request: bytes) -> None:
        """Raises TooLarge."""
        if len(request) <= self._unseen:
            return
        async with self._one:
            if await asyncio.to_thread(more_parts, signal, request, self._most):
                raise TooLarge(f"more than {self._most} values in one request; send smaller ones")
