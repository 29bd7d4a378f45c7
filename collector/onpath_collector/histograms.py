"""Histograms of what happens several times for each trace: seconds, counted in buckets.

A library's histogram takes several microseconds for each value, most of them for its locks; this one belongs to one
event loop. What a library knows of exposition is left to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString


class Seconds:
    """One histogram of a registry, with a series for each different `labels`."""

    def __init__(
        self, name: str, told: str, bounds: Sequence[float], registry: CollectorRegistry, labels: Sequence[str] = ()
    ) -> None:
        """`bounds` are the greatest values of all buckets but the last, which has no end."""
        self._name, self._told, self._labels = name, told, labels
        self._bounds = bounds
        self._series: dict[tuple[str, ...], tuple[list[int], list[float]]] = {}
        if not labels:
            self._begin(())
        registry.register(self)

    def observe(self, seconds: float, labels: tuple[str, ...] = ()) -> None:
        counts, total = self._series.get(labels) or self._begin(labels)
        counts[bisect_left(self._bounds, seconds)] += 1
        total[0] += seconds

    def _begin(self, labels: tuple[str, ...]) -> tuple[list[int], list[float]]:
        found = self._series[labels] = ([0] * (len(self._bounds) + 1), [0.0])
        return found

    def describe(self) -> Iterable[Metric]:
        return [self._family()]

    def collect(self) -> Iterator[Metric]:
        family = self._family()
        names = (*map(floatToGoString, self._bounds), "+Inf")
        for labels, (counts, total) in self._series.items():
            family.add_metric(labels, list(zip(names, accumulate(counts), strict=True)), total[0])
        yield family

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self._name, self._told, labels=self._labels)
