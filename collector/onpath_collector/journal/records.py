"""What the journal holds, as values and as rows: requests, which of them went downstream, and how traces ended.

Every row carries a checksum over all of it: a flipped bit, or a page in the wrong place, is never taken for data.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Signal: TypeAlias = Literal["traces", "metrics", "logs"]
Row: TypeAlias = tuple[Any, ...]

_SIGNALS: Final = ("traces", "metrics", "logs")
_ID: Final = 16  # bytes of a trace id


@dataclass(frozen=True, slots=True)
class Request:
    """An export request as received. `items` are its spans, data points or log records; `at` is when it came, in
    nanoseconds since the Unix epoch."""

    id: int
    signal: Signal
    items: int
    at: int
    body: bytes

    def row(self) -> Row:
        return (self.id, self.signal, self.items, self.at, self.body, self._checksum())

    def _checksum(self) -> int:
        return zlib.crc32(self.body, zlib.crc32(f"{self.id} {self.signal} {self.items} {self.at}".encode()))


@dataclass(frozen=True, slots=True)
class Ending:
    """Traces, released together for a reason. Their spans came in requests with ids up to `upto`.

    `root` is the span id of a declared root, whose sub-trace ended, else empty. `settled`: judged, and the results are
    out. Then `memory` is what the buffer remembers of them, and `results` are the ids of the evaluation spans.
    """

    id: int
    traces: tuple[bytes, ...]
    upto: int
    reason: str
    root: bytes = b""
    settled: bool = False
    memory: int | None = None
    results: tuple[bytes, ...] = ()

    def row(self) -> Row:
        fields = (
            self.id, b"".join(self.traces), self.upto, self.reason, self.root, int(self.settled), self.memory,
            b"".join(self.results),
        )  # fmt: skip
        return (*fields, _checksum(fields))


@dataclass(slots=True)
class Contents:
    """All that a journal holds; of requests, which are many and large, what is said of each. `lost` are unreadable."""

    requests: dict[int, tuple[int, int]] = field(default_factory=dict)  # when it came, bytes
    forwarded: set[int] = field(default_factory=set)
    endings: list[Ending] = field(default_factory=list)
    lost: int = 0
    damaged: bool = False  # it was, and is put right: any request may be missing


def forwarded_row(request_id: int) -> Row:
    return (request_id, _checksum((request_id,)))


def read_request(row: Row) -> Request | None:
    """None for what was never written so."""
    request_id, signal, items, at, body, checksum = row
    numbers = isinstance(request_id, int) and isinstance(items, int) and isinstance(at, int)
    if not (numbers and signal in _SIGNALS and isinstance(body, bytes)):
        return None
    request = Request(request_id, signal, items, at, body)
    return request if request._checksum() == checksum else None


def read_forwarded(row: Row) -> int | None:
    request_id, checksum = row
    return request_id if isinstance(request_id, int) and _checksum((request_id,)) == checksum else None


def read_ending(row: Row) -> Ending | None:
    *fields, checksum = row
    if _checksum(fields) != checksum:
        return None
    number, traces, upto, reason, root, settled, memory, results = fields
    return Ending(number, _split(traces, _ID), upto, reason, root, bool(settled), memory, _split(results, 8))


def _checksum(fields: Iterable[Any]) -> int:
    return zlib.crc32(repr(tuple(fields)).encode())


def _split(joined: bytes, length: int) -> tuple[bytes, ...]:
    return tuple(joined[i : i + length] for i in range(0, len(joined), length))
