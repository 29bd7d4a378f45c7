"""Log records whose trace has no span yet: they wait for one, within bounds of time and bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

_WEIGHT: Final = 200  # bytes that one waiting trace costs besides its data, about


class Waiting:
    """What waits for one trace."""

    __slots__ = ("at", "chunks", "size", "tags")

    def __init__(self, now: float) -> None:
        self.at = now
        self.chunks: list[bytes] = []
        self.tags: list[int] = []
        self.size = _WEIGHT


class WaitingRoom:
    """By trace, in order of the first arrival; the oldest leave when the time or the room is over."""

    def __init__(self, timeout: float, limit: int) -> None:
        self._timeout = timeout
        self._limit = limit
        self._waiting: OrderedDict[bytes, Waiting] = OrderedDict()
        self.size = 0
        self.gone: list[int] = []  # tags of what has left without a span; the owner empties it

    def add(self, now: float, trace_id: bytes, data: bytes, tag: int | None = None) -> int:
        """Takes evidence in; how many chunks had to leave for it or can't be taken themselves."""
        if len(data) + _WEIGHT > self._limit:
            if tag is not None:
                self.gone.append(tag)
            return 1
        entry = self._entry(now, trace_id, len(data))
        entry.chunks.append(data)
        if tag is not None:
            entry.tags.append(tag)
        return self.leave(now)

    def _entry(self, now: float, trace_id: bytes, size: int) -> Waiting:
        entry = self._waiting.get(trace_id)
        if entry is None:
            entry = self._waiting[trace_id] = Waiting(now)
            self.size += _WEIGHT
        entry.size += size
        self.size += size
        return entry

    def leave(self, now: float) -> int:
        """Lets go of what is over the limits; how many chunks."""
        gone = 0
        while self._waiting:
            trace_id, oldest = next(iter(self._waiting.items()))
            if self.size <= self._limit and oldest.at + self._timeout > now:
                break
            del self._waiting[trace_id]
            self.size -= oldest.size
            self.gone += oldest.tags
            gone += len(oldest.chunks)
        return gone

    def empty(self) -> int:
        """Lets go of everything; how many chunks."""
        gone = sum(len(entry.chunks) for entry in self._waiting.values())
        for entry in self._waiting.values():
            self.gone += entry.tags
        self._waiting.clear()
        self.size = 0
        return gone

    def take(self, trace_id: bytes) -> Waiting | None:
        """What waited for a trace whose first span is here."""
        entry = self._waiting.pop(trace_id, None)
        if entry is not None:
            self.size -= entry.size
        return entry
