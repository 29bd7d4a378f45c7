"""What an exporter of results is: one method that takes an outcome and never waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from onpath_collector.judging import Outcome


class ResultExporter(Protocol):
    """Takes what was judged. `export` runs on the loop, doesn't block and doesn't raise; failures are its to count."""

    def export(self, outcome: Outcome) -> None: ...


@runtime_checkable
class SendingExporter(ResultExporter, Protocol):
    """One that is done with an outcome only later. Until then a journal keeps what it takes to judge it again."""

    def when_sent(self, then: Callable[[], None]) -> None:
        """Calls `then` once, when all that was exported so far has been sent, or given up for another reason than a
        stop; at once if there is nothing."""


class Recorded:
    """An exporter that keeps what it was given, for tests."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def export(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
