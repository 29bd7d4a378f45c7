"""Tells who keeps requests what becomes of released traces: after a crash they end as they did, or not again.

released -> enter (the ending is written) -> judged, once that is written -> exported -> sent everywhere -> settled
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from onpath_collector.buffer import Released, TraceBuffer
from onpath_collector.exporters.base import ResultExporter, SendingExporter
from onpath_collector.journal import Closing
from onpath_collector.judging import Outcome


class Keeper(Protocol):
    """Keeps requests until their traces are settled, by their numbers; a journal, which tells more of this."""

    def releasing(
        self, traces: tuple[bytes, ...], reason: str, requests: Sequence[int], root: bytes = ...
    ) -> Closing: ...

    def flush(self, closings: Iterable[Closing]) -> None: ...

    def judged(self, closing: Closing, memory: int | None, results: Iterable[bytes] = ...) -> None: ...

    def sent(self, closing: Closing) -> None: ...

    def let_go(self, number: int) -> None: ...


class Settling:
    """Between Release and a keeper."""

    def __init__(self, journal: Keeper, buffer: TraceBuffer) -> None:
        self._journal = journal
        self._buffer = buffer
        self._senders: list[SendingExporter] = []

    def start(self, exporters: Sequence[ResultExporter]) -> None:
        self._senders = [each for each in exporters if isinstance(each, SendingExporter)]

    def enter(self, found: Sequence[Released]) -> list[Closing]:
        """The closing of each. Of a trace that is let go in parts, all that go with the last part share one."""
        closings: list[Closing] = []
        last: dict[bytes, Closing] = {}
        for released in reversed(found):
            closing = last.get(released.trace_id)
            if released.root is not None and not released.tags and closing is not None:
                closing.unjudged += 1
                closing.unsent += 1
            else:
                part = released.root if released.root is not None and not released.tags else b""
                closing = self._journal.releasing(released.trace_ids, released.reason, released.tags, part)
                if not part:
                    last[released.trace_id] = closing
            closings.append(closing)
        for number in self._buffer.take_gone():
            self._journal.let_go(number)
        if closings:
            self._journal.flush(set(closings))
        return closings[::-1]

    def leave(self, released: Released, closing: Closing, outcome: Outcome | None) -> None:
        """It is judged; `outcome` was exported, if there is something to tell."""
        results = () if outcome is None else outcome.own_spans
        self._journal.judged(closing, self._buffer.memory_of(released.trace_id), results)
        if outcome is None:
            self._journal.sent(closing)
        else:
            _after_all(self._senders, lambda: self._journal.sent(closing))


def _after_all(senders: Sequence[SendingExporter], then: Callable[[], None]) -> None:
    left = len(senders)

    def one() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            then()

    for sender in senders:
        sender.when_sent(one)
    if not senders:
        then()
