"""What an exporter of results is: one method that takes an outcome and never waits."""

from __future__ import annotations

from typing import Protocol

from onpath_collector.judging import Outcome


class ResultExporter(Protocol):
    """Takes what was judged. `export` runs on the loop, doesn't block and doesn't raise; failures are its to count."""

    def export(self, outcome: Outcome) -> None: ...


class Recorded:
    """An exporter that keeps what it was given, for tests."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def export(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
