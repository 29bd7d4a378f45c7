"""Measurements of judged traces, added up: what /metrics and the metrics over OTLP are written from when asked for.

A trace has ten measurements or so, and an instrument of a metrics library takes several microseconds for each. Traces
that end alike have the same ones: these are counted as a whole, and taken apart when someone asks. What a library knows
of exposition and encoding is left to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeAlias

from onpath.results_metrics import ATTRIBUTES, SCORE, SCORE_BOUNDARIES, Instrument, Measure, Measured

_KINDS: Final = 1000  # of results that are counted as a whole; then they are taken apart ...
_LARGEST: Final = 64  # ... and at once where they have more measurements: no two of them are alike


class Exemplar(NamedTuple):
    """The last measurement: its value, the ids of the judged span, and when it came (ns since the Unix epoch)."""

    value: float
    trace_id: str
    span_id: str
    at_ns: int


class _Alike:
    """Results with the same measurements: how many, the last one, and when the first and the last came."""

    __slots__ = ("count", "first_ns", "last", "last_ns")

    def __init__(self, one: Measured, now_ns: int) -> None:
        self.count = 1
        self.last = one
        self.first_ns = self.last_ns = now_ns


class Series:
    """One instrument with one set of attributes. `made_ns` is when its first measurement came."""

    __slots__ = ("attributes", "exemplar", "instrument", "made_ns", "value")

    def __init__(self, measure: Measure, now_ns: int) -> None:
        self.instrument, _, values = measure
        self.attributes: Mapping[str, str] = dict(zip(ATTRIBUTES[self.instrument], values, strict=True))
        self.made_ns = now_ns
        self.value: float = 0
        self.exemplar: Exemplar | None = None

    def add(self, value: float, alike: _Alike) -> None:
        self.made_ns = min(self.made_ns, alike.first_ns)
        self.value += value * alike.count
        self.exemplar = _later(self.exemplar, value, alike)


class Scores(Series):
    """A histogram: `value` is the sum, `counts` and `exemplars` have one entry a bucket, the last without an end."""

    __slots__ = ("counts", "exemplars", "greatest", "least")

    def __init__(self, measure: Measure, now_ns: int) -> None:
        super().__init__(measure, now_ns)
        self.counts = [0] * (len(SCORE_BOUNDARIES) + 1)
        self.exemplars: list[Exemplar | None] = [None] * len(self.counts)
        self.least = self.greatest = measure[1]

    def add(self, value: float, alike: _Alike) -> None:
        bucket = bisect_left(SCORE_BOUNDARIES, value)
        self.made_ns = min(self.made_ns, alike.first_ns)
        self.value += value * alike.count
        self.counts[bucket] += alike.count
        self.exemplars[bucket] = _later(self.exemplars[bucket], value, alike)
        self.least = min(self.least, value)
        self.greatest = max(self.greatest, value)


def _later(before: Exemplar | None, value: float, alike: _Alike) -> Exemplar:
    if before is not None and before.at_ns > alike.last_ns:
        return before
    return Exemplar(value, alike.last.trace_id, alike.last.span_id, alike.last_ns)


_Key: TypeAlias = tuple[Instrument, tuple[str, ...]]


class Sums:
    """All series of one reader, in the order in which they began."""

    def __init__(self) -> None:
        self._alike: dict[tuple[Measure, ...], _Alike] = {}
        self._series: dict[_Key, Series] = {}

    def add(self, measured: Iterable[Measured], now_ns: int) -> None:
        for one in measured:
            alike = self._alike.get(one.measures)
            if alike is not None:
                alike.count += 1
                alike.last = one
                alike.last_ns = now_ns
                continue
            if len(self._alike) == _KINDS or len(one.measures) > _LARGEST:
                self._take_apart()
            self._alike[one.measures] = _Alike(one, now_ns)
            if len(one.measures) > _LARGEST:
                self._take_apart()

    def by_instrument(self) -> Iterator[tuple[Instrument, list[Series]]]:
        self._take_apart()
        found: dict[Instrument, list[Series]] = {}
        for series in self._series.values():
            found.setdefault(series.instrument, []).append(series)
        yield from found.items()

    def _take_apart(self) -> None:
        for measures, alike in self._alike.items():
            for measure in measures:
                instrument, value, values = measure
                found = self._series.get((instrument, values))
                if found is None:
                    made = (Scores if instrument == SCORE else Series)(measure, alike.first_ns)
                    found = self._series[instrument, values] = made
                found.add(value, alike)
        self._alike.clear()
