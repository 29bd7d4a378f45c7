"""Points of judged traces, added up: what /metrics and the metrics over OTLP are written from when someone asks.

A trace has ten points or so, and an instrument of a metrics library takes several microseconds for each. Here a point
costs a look-up; what a library knows of exposition and encoding is left to it, at each collection.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from onpath.results_metrics import SCORE, SCORE_BOUNDARIES, Instrument, Point

Exemplar: TypeAlias = tuple[Point, int]  # the last point, and when it came: nanoseconds since the Unix epoch


class Series:
    """The points of one instrument with the same attributes. `made_ns` is when the first one came."""

    __slots__ = ("attributes", "exemplar", "instrument", "made_ns", "value")

    def __init__(self, point: Point, now_ns: int) -> None:
        self.instrument = point.instrument
        self.attributes: Mapping[str, str] = point.attributes
        self.made_ns = now_ns
        self.value: float = 0
        self.exemplar: Exemplar | None = None

    def add(self, point: Point, now_ns: int) -> None:
        self.value += point.value
        self.exemplar = (point, now_ns)


class Scores(Series):
    """A histogram: `value` is the sum, `counts` and `exemplars` have one entry a bucket, the last without an end."""

    __slots__ = ("counts", "exemplars", "greatest", "least")

    def __init__(self, point: Point, now_ns: int) -> None:
        super().__init__(point, now_ns)
        self.counts = [0] * (len(SCORE_BOUNDARIES) + 1)
        self.exemplars: list[Exemplar | None] = [None] * len(self.counts)
        self.least = self.greatest = point.value

    def add(self, point: Point, now_ns: int) -> None:
        value = point.value
        bucket = bisect_left(SCORE_BOUNDARIES, value)
        self.value += value
        self.counts[bucket] += 1
        self.exemplars[bucket] = (point, now_ns)
        if value < self.least:
            self.least = value
        elif value > self.greatest:
            self.greatest = value


class Sums:
    """All series of one reader, in the order in which they began."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, ...], Series] = {}

    def add(self, points: Iterable[Point], now_ns: int) -> None:
        series = self._series
        for point in points:
            key = (point.instrument, *point.attributes.values())  # the names of these hang on the instrument
            found = series.get(key)
            if found is None:
                found = series[key] = (Scores if point.instrument == SCORE else Series)(point, now_ns)
            found.add(point, now_ns)

    def by_instrument(self) -> Iterator[tuple[Instrument, list[Series]]]:
        found: dict[Instrument, list[Series]] = {}
        for series in self._series.values():
            found.setdefault(series.instrument, []).append(series)
        yield from found.items()
