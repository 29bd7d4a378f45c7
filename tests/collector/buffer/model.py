"""The buffer's rules once more, as plainly as they can be written: dicts, no heap, no packing, no joining of bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from onpath_collector.buffer import BufferSettings
from tests.collector.buffer.pushing import Parent


@dataclass
class Opening:
    """One trace from its opening to its release."""

    at: float
    fresh: bool = True  # never released before
    partial: bool = False
    parents: dict[int, Parent] = field(default_factory=dict)  # of each span, as it came first
    chunks: list[bytes] = field(default_factory=list)
    logs: list[bytes] = field(default_factory=list)
    named: dict[tuple[str, int], float] = field(default_factory=dict)  # missing parents, and when they were named
    root_at: float | None = None
    last: float = 0.0
    full: str | None = None
    forced: tuple[float, str] | None = None
    late: int = 0

    @property
    def bytes(self) -> int:
        return sum(map(len, self.chunks)) + sum(map(len, self.logs))

    def note(self, now: float, spans: Mapping[int, Parent]) -> int:
        """Adds spans; how many were new."""
        new = {n: p for n, p in spans.items() if n not in self.parents}
        for number, parent in new.items():
            self.parents[number] = parent
            self.named = {key: at for key, at in self.named.items() if key[1] != number}
            if parent is None:
                self.root_at = now if self.root_at is None else self.root_at
            else:
                key = parent if isinstance(parent, tuple) else ("local", parent)
                if key[1] not in self.parents:
                    self.named.setdefault(key, now)
        if new:
            self.last = now
        return len(new)

    def due(self, settings: BufferSettings) -> tuple[float, str]:
        if self.forced is not None:
            return self.forced
        at, reason = self.last + settings.settle_delay, "root_ended"
        local = [t for (kind, _), t in self.named.items() if kind == "local"]
        remote = [t for (kind, _), t in self.named.items() if kind == "remote"]
        if self.root_at is not None:
            if local or remote:
                at = max(at, max(self.root_at, min(local + remote)) + settings.orphan_delay)
        elif remote:
            at = max(at, max([min(remote), *sorted(local)[:1]]) + settings.orphan_delay)
        else:
            at, reason = self.last + settings.idle_timeout, "idle"
        if self.at + settings.max_age < at:
            at, reason = self.at + settings.max_age, "max_age"
        return at, reason

    def reopened(self, now: float) -> Opening:
        return Opening(
            now,
            fresh=False,
            partial=self.partial,
            parents=dict(self.parents),
            chunks=list(self.chunks),
            logs=list(self.logs),
            named=dict.fromkeys(self.named, now),
            root_at=None if self.root_at is None else now,
            last=now,
            late=self.late,
        )


@dataclass
class Past:
    """A trace that was released."""

    opening: Opening
    at: float
    judged: bool = False

    @property
    def marked(self) -> bool:
        return self.opening.forced is not None and self.opening.forced[1] == "marked" and self.opening.full is None


class Model:
    """All traces by number. `push` and the rest do to it what the same calls do to the buffer."""

    def __init__(self, settings: BufferSettings) -> None:
        self.settings = settings
        self.open: dict[int, Opening] = {}
        self.past: dict[int, Past] = {}
        self.started = 0
        self.released: Counter[str] = Counter()
        self.first_released = 0
        self.spans: Counter[str] = Counter()  # new, duplicate, or dropped for a reason

    def push(self, now: float, number: int, spans: Mapping[int, Parent], data: bytes, complete: bool) -> None:
        opening = self.open.get(number) or self._opening(now, number, data)
        if isinstance(opening, str):
            self.spans[opening] += len(spans)
            return
        self.open[number] = opening
        if opening.full:
            self.spans[opening.full] += len(spans)
            return
        new = opening.note(now, spans)
        self.spans["new"] += new
        self.spans["duplicate"] += len(spans) - new
        if not opening.fresh:
            opening.late += new
        if new or data not in (*opening.chunks, *opening.logs):
            opening.chunks.append(data)
        self._limit(now, opening)
        if complete and new:
            self._force(now, opening, "marked")

    def _opening(self, now: float, number: int, data: bytes) -> Opening | str:
        past = self.past.get(number)
        if past is None:
            self.started += 1
            return Opening(now)
        if self._holds(now, past):
            return "duplicate" if data in (*past.opening.chunks, *past.opening.logs) else past.opening.reopened(now)
        return Opening(now, fresh=False, partial=True) if past.marked else "late"

    def _holds(self, now: float, past: Past) -> bool:
        return past.opening.full is None and now < past.at + self.settings.late_window

    def attach(self, now: float, number: int, data: bytes) -> None:
        """Of a trace that is open or was released."""
        if number not in self.open:
            past = self.past[number]
            if not self._holds(now, past) or data in past.opening.logs:
                return
            self.open[number] = past.opening.reopened(now)
        opening = self.open[number]
        if not opening.full and data not in opening.logs:
            opening.logs.append(data)
            self._limit(now, opening)

    def complete(self, now: float, number: int) -> None:
        self._force(now, self.open[number], "marked")

    def _force(self, now: float, opening: Opening, reason: str) -> None:
        opening.forced = opening.forced or (now, reason)

    def _limit(self, now: float, opening: Opening) -> None:
        if len(opening.parents) > self.settings.span_limit:
            opening.full = "span_limit"
        elif opening.bytes > self.settings.trace_bytes_limit:
            opening.full = "bytes_limit"
        if opening.full:
            self._force(now, opening, opening.full)

    def waiting(self, number: int) -> bool:
        """Whether the last release of an open trace is not judged."""
        past = self.past.get(number)
        return past is not None and not past.judged

    def due(self, now: float) -> dict[int, str]:
        """What a tick is to release, in any order, and why."""
        found = {n: opening.due(self.settings) for n, opening in self.open.items() if not self.waiting(n)}
        return {n: reason for n, (at, reason) in found.items() if at <= now}

    def release(self, now: float, number: int, reason: str) -> Past:
        opening = self.open.pop(number)
        past = self.past[number] = Past(opening, now)
        self.released[reason] += 1
        self.first_released += opening.fresh
        return past
