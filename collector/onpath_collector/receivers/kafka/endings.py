"""What becomes of released traces, for whoever keeps their records: `settling.Keeper` for `Offsets`.

releasing -> judged -> sent: nothing of its trace is under way any more -> its records are let go
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from onpath_collector.journal import Closing
from onpath_collector.journal.records import Ending
from onpath_collector.receivers.kafka.offsets import Offsets


class Endings:
    """Owned by one event loop. Nothing is written: who reads the records again judges them again."""

    def __init__(self, offsets: Offsets) -> None:
        self._offsets = offsets
        self._next = 0
        self._under_way: Counter[bytes] = Counter()  # releases by trace, of a session by its first one
        self._records: dict[bytes, list[int]] = {}

    def releasing(self, traces: tuple[bytes, ...], reason: str, requests: Sequence[int], root: bytes = b"") -> Closing:
        self._next += 1
        self._under_way[traces[0]] += 1
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        return Closing(Ending(self._next, traces, 0, reason, root), requests, written)

    def flush(self, closings: Iterable[Closing]) -> None:
        for closing in closings:
            closing.written.set_result(None)

    def judged(self, closing: Closing, memory: int | None, results: Iterable[bytes] = ()) -> None:
        closing.unjudged -= 1

    def sent(self, closing: Closing) -> None:
        closing.unsent -= 1
        if closing.unsent or closing.unjudged or closing.finished:
            return
        closing.finished = True
        trace_id = closing.ending.traces[0]
        self._records.setdefault(trace_id, []).extend(closing.requests)
        self._under_way[trace_id] -= 1
        if not self._under_way[trace_id]:
            del self._under_way[trace_id]
            for number in self._records.pop(trace_id):
                self._offsets.let_go(number)

    def let_go(self, number: int) -> None:
        self._offsets.let_go(number)
