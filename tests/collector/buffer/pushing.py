"""Chunks for the buffer's tests: spans by number, data that tells which chunk it is."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from onpath_collector.buffer import BufferSettings, Released, TraceBuffer
from onpath_collector.otlp import Chunk, Evidence

ROOT = None  # as a parent: none
_serial = count()

Parent = int | tuple[str, int] | None
"""A number, ("remote", number), or ROOT."""


def trace(number: int) -> bytes:
    return number.to_bytes(16, "big")


def span(number: int) -> bytes:
    return number.to_bytes(8, "big")


def chunk(
    trace_number: int, spans: Mapping[int, Parent], *, data: bytes | None = None, size: int = 0, **marks: Any
) -> Chunk:
    """The spans {number: parent}; every chunk's data differs unless given, `size` bytes if that is more than it has."""
    found = []
    for number, parent in spans.items():
        remote = isinstance(parent, tuple)
        parent_number = parent[1] if isinstance(parent, tuple) else parent
        found.append((span(number), b"" if parent_number is None else span(parent_number), remote, 1, 2))
    content = b"chunk %d;" % next(_serial) if data is None else data
    return Chunk(trace(trace_number), content.ljust(size, b"."), found, **marks)


def evidence(trace_number: int, data: bytes) -> Evidence:
    return Evidence(trace(trace_number), data, 1)


class Walk:
    """A buffer and a clock. `walk(to=...)` ticks at every deadline on the way, as its owner does."""

    def __init__(self, **settings: Any) -> None:
        self.buffer = TraceBuffer(BufferSettings(**settings))
        self.now = 0.0

    def push(self, trace_number: int, spans: Mapping[int, Parent], **options: Any) -> Chunk:
        pushed = chunk(trace_number, spans, **options)
        self.buffer.push(self.now, pushed)
        return pushed

    def walk(self, to: float, outcome: str | None = "judged") -> list[tuple[float, Released]]:
        """Goes to a time; what was released on the way, and when. Each is settled at once, with `outcome`."""
        found: list[tuple[float, Released]] = []
        while (deadline := self.buffer.next_deadline()) is not None and deadline <= to:
            self.now = max(self.now, deadline)
            for released in self.buffer.tick(self.now):
                found.append((self.now, released))
                self.buffer.settle(released, outcome)
        self.now = to
        return found

    def reasons(self, to: float) -> list[tuple[float, str]]:
        """The same as (time, reason)."""
        return [(at, released.reason) for at, released in self.walk(to)]
