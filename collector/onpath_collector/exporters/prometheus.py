"""Results on /metrics: the points of judged traces as counters and a histogram, with exemplars of the judged spans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Exemplar as PrometheusExemplar
from prometheus_client.utils import floatToGoString

from onpath.results_metrics import ATTRIBUTES, DESCRIPTIONS, SCORE, SCORE_BOUNDARIES, Instrument
from onpath_collector.exporters.sums import Exemplar, Scores, Series, Sums
from onpath_collector.judging import Outcome

_BOUNDS: Final = (*map(floatToGoString, SCORE_BOUNDARIES), "+Inf")


class PrometheusResults:
    """Names are those of the OTLP metrics with underscores, as Prometheus reads them."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives nanoseconds since the Unix epoch."""
        self._sums = Sums()
        self._clock = clock
        registry.register(self)

    def export(self, outcome: Outcome) -> None:
        if outcome.measured:
            self._sums.add(outcome.measured, self._clock())

    def describe(self) -> Iterable[Metric]:
        return [_family(instrument) for instrument in ATTRIBUTES]

    def collect(self) -> Iterator[Metric]:
        found = dict(self._sums.by_instrument())
        for instrument in ATTRIBUTES:
            family = _family(instrument)
            for series in found.get(instrument, ()):
                _add(family, series)
            yield family


def _family(instrument: Instrument) -> Any:
    kind = HistogramMetricFamily if instrument == SCORE else CounterMetricFamily
    return kind(instrument.replace(".", "_"), DESCRIPTIONS[instrument], labels=ATTRIBUTES[instrument])


def _add(family: Any, series: Series) -> None:
    labels = [series.attributes[name] for name in ATTRIBUTES[series.instrument]]
    made = series.made_ns / 1e9
    if not isinstance(series, Scores):
        family.add_metric(labels, series.value, made, exemplar=_exemplar(series.exemplar))
        return
    buckets = zip(_BOUNDS, accumulate(series.counts), map(_exemplar, series.exemplars), strict=True)
    family.add_metric(labels, list(buckets), series.value)
    family.add_sample(f"{family.name}_created", dict(series.attributes), made)


def _exemplar(last: Exemplar | None) -> PrometheusExemplar | None:
    if last is None:
        return None
    ids = {"trace_id": last.trace_id, "span_id": last.span_id}
    return PrometheusExemplar(ids, float(last.value), last.at_ns / 1e9)
