"""The ids of the evaluation spans that this collector has sent, so that it knows them when they come back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from onpath_collector.judging import Outcome

_GENERATION: Final = 50_000  # ids; between one and two generations are known, at most 10 MiB


class OwnSpans:
    """A container of span ids, and an exporter that fills it. The oldest are forgotten."""

    def __init__(self) -> None:
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def __contains__(self, span_id: object) -> bool:
        return span_id in self._young or span_id in self._old

    def add(self, span_ids: Iterable[bytes]) -> None:
        self._young.update(span_ids)
        if len(self._young) >= _GENERATION:
            self._old, self._young = self._young, set()

    def export(self, outcome: Outcome) -> None:
        self.add(outcome.own_spans)
