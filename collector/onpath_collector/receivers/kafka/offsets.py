"""Which records of each partition are settled, and where whoever has the partition next is to begin. Does no I/O.

    begin(record, its traces) -> hold: once a trace that keeps spans of it, once until the downstream has it
                              -> let_go, as often -> settled

A commit is a `Mark`. All records before `settled`, the low watermark, are settled. Reading begins at `start`, which is
earlier where a settled trace has records on both sides of the watermark: whoever reads from there on sees all ids of
such traces before `settled`, and lets their records behind it be. Judged from these alone they would fail. It is also
where the watermark was `look_back` seconds ago, so that what comes late to traces settled since then is known as late.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

_FORMAT: Final = "onpath/1"  # of a commit's metadata
_MANY: Final = 50_000  # records or traces remembered before it is looked which of them can go


class Place(NamedTuple):
    """A partition."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Offsets: where to begin, before which all is settled, up to where who committed it had read (excluded)."""

    start: int
    settled: int
    read: int

    @property
    def metadata(self) -> str:
        """What is committed beside `start`."""
        return f"{_FORMAT} settled={self.settled} read={self.read}"

    @classmethod
    def of(cls, start: int, metadata: str | None) -> Self:
        """What was committed; by another hand, `start` alone counts."""
        words = (metadata or "").split()
        if words[:1] == [_FORMAT]:
            found = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            if found.get("settled", "").isdecimal() and found.get("read", "").isdecimal():
                return cls(start, max(start, int(found["settled"])), max(start, int(found["read"])))
        return cls(start, start, start)


class Partition:
    """One partition for as long as it is assigned."""

    def __init__(self, mark: Mark | None, look_back: float = 0.0, position: int | None = None) -> None:
        self.mark = mark  # the newest that is known to be committed, or on its way
        self.position = position  # of the next record
        self._begun = mark
        self._look_back = look_back
        self._watermarks: deque[tuple[float, int]] = (
            deque()
        )  # since when it was where, the oldest as far back as need be
        self._held: dict[int, int] = {}  # offset -> how often
        self._offsets: deque[int] = deque()  # of records that are or were held, in order
        self._last: dict[bytes, int] = {}  # trace -> its last record
        self._first: deque[tuple[int, bytes]] = deque()  # its first one, in order
        self._limit = _MANY

    @property
    def watermark(self) -> int | None:
        """Every record before is settled."""
        while self._offsets and self._offsets[0] not in self._held:
            self._offsets.popleft()
        return self._offsets[0] if self._offsets else self.position

    @property
    def held(self) -> int:
        """Records that are not settled."""
        return len(self._held)

    @property
    def _reads_again(self) -> bool:
        """What whoever had the partition before has read: traces that are settled may have more records there."""
        return self._begun is not None and (self.position or 0) < self._begun.read

    def is_settled(self, offset: int) -> bool:
        """Whether the record was settled before the partition was assigned. Asked in order of offsets."""
        if self._begun is not None and self.position is None and offset < self._begun.start:
            self._begun = None  # the topic was made anew
        return self._begun is not None and offset < self._begun.settled

    def note(self, offset: int, traces: Iterable[bytes]) -> None:
        """A record has been read."""
        if self.position is None:
            self._watermarks.append((0.0, offset))
        self.position = offset + 1
        for trace_id in traces:
            if trace_id not in self._last:
                self._first.append((offset, trace_id))
            self._last[trace_id] = offset
        if len(self._first) + len(self._offsets) > self._limit and not self._reads_again:
            self._forget()

    def _forget(self) -> None:
        """What lies between records that are held will never have the watermark in it: one trace that is open for long
        must not have all be remembered that comes meanwhile."""
        held = sorted(self._held)

        def matters(first: int, trace_id: bytes) -> bool:
            after = bisect_left(held, first)
            return after < len(held) and held[after] <= self._last[trace_id]

        kept = deque(each for each in self._first if matters(*each))
        self._last = {trace_id: self._last[trace_id] for _, trace_id in kept}
        self._first, self._offsets = kept, deque(held)
        self._limit = max(_MANY, 2 * (len(kept) + len(held)))

    def hold(self, offset: int, by: int) -> None:
        if offset not in self._held:
            self._offsets.append(offset)
        self._held[offset] = self._held.get(offset, 0) + by
        if not self._held[offset]:
            del self._held[offset]

    def holds(self, offset: int) -> bool:
        return offset in self._held

    def next_mark(self, now: float) -> Mark | None:
        """What can be committed now; None before all is read again that the one before had read."""
        settled = self.watermark
        if settled is None or self.position is None or self._reads_again:
            return None
        while self._first and self._last[self._first[0][1]] < settled:
            del self._last[self._first.popleft()[1]]
        start = min(settled, self._first[0][0]) if self._first else settled
        return Mark(min(start, self._watermark_before(now, settled)), settled, self.position)

    def _watermark_before(self, now: float, settled: int) -> int:
        """Where it was `look_back` seconds ago, as far as is known."""
        known = self._watermarks
        if not known or known[-1][1] != settled:
            known.append((now, settled))
        while len(known) > 1 and known[1][0] <= now - self._look_back:
            known.popleft()
        return known[0][1]


class Offsets:
    """Of all assigned partitions. Records go by numbers, which are never used again. `look_back` in seconds."""

    def __init__(self, look_back: float = 0.0) -> None:
        self._look_back = look_back
        self.partitions: dict[Place, Partition] = {}
        self._records: dict[int, tuple[Place, int]] = {}
        self._next = 0

    def assign(self, place: Place, mark: Mark | None, position: int | None = None) -> None:
        """`position` is where reading begins, where nothing was committed and it is known."""
        self.partitions[place] = Partition(mark, self._look_back, position)

    def remove(self, place: Place) -> None:
        """Its records are held by nobody any more."""
        if self.partitions.pop(place, None) is not None:
            self._records = {n: record for n, record in self._records.items() if record[0] != place}

    def numbers(self, places: Iterable[Place]) -> set[int]:
        """Of records that are not settled."""
        wanted = set(places)
        return {number for number, (place, _) in self._records.items() if place in wanted}

    def begin(self, place: Place, offset: int, traces: Sequence[bytes]) -> int:
        """The number of a record that has been read. It is held once, until `let_go`."""
        self._next += 1
        partition = self.partitions[place]
        partition.hold(offset, 1)
        partition.note(offset, traces)
        self._records[self._next] = (place, offset)
        return self._next

    def hold(self, number: int, by: int = 1) -> None:
        place, offset = self._records[number]
        self.partitions[place].hold(offset, by)

    def let_go(self, number: int) -> None:
        """Of a record whose partition has gone there is nothing to do."""
        record = self._records.get(number)
        if record is None:
            return
        place, offset = record
        partition = self.partitions[place]
        partition.hold(offset, -1)
        if not partition.holds(offset):
            del self._records[number]

    def due(self, places: Iterable[Place], now: float) -> list[tuple[Place, Mark]]:
        """What can be committed and has not been, by partition."""
        found = []
        for place in places:
            partition = self.partitions[place]
            mark = partition.next_mark(now)
            if mark is not None and mark != partition.mark:
                found.append((place, mark))
        return found


@dataclass(frozen=True, slots=True)
class Record:
    """One record while it is taken: a `receivers.base.Source`."""

    offsets: Offsets
    place: Place
    offset: int
    passes_on: bool = True

    def begin(self, traces: Sequence[bytes]) -> int:
        return self.offsets.begin(self.place, self.offset, traces)

    def hold(self, number: int, by: int) -> None:
        self.offsets.hold(number, by)

    def let_go(self, number: int) -> None:
        self.offsets.let_go(number)
