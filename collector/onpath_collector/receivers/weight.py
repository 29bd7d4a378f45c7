"""What a request would weigh once it is parsed, which may be thirty times its bytes, and how long that would take."""

from __future__ import annotations

import asyncio
from typing import Final

from onpath_collector.otlp import more_parts
from onpath_collector.receivers.base import Signal, TooLarge
from onpath_collector.receivers.room import turn

_SHARE: Final = 256  # bytes of `max_in_flight` for each message that a request may hold: four times what one takes


class Scales:
    """Of one receiver. Small requests pass unseen; of large ones, one at a time is looked through beside the loop."""

    def __init__(self, max_in_flight: int) -> None:
        self._most = max_in_flight // _SHARE
        self._one = asyncio.Lock()

    async def weigh(self, signal: Signal, request: bytes) -> None:
        """Raises TooLarge and Refused."""
        if len(request) <= self._most:  # half as many messages at most
            return
        async with turn(self._one):
            if await asyncio.to_thread(more_parts, signal, request, self._most):
                raise TooLarge(f"more than {self._most} values in one request; send smaller ones")
