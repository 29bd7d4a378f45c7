"""Result metrics for OTLP: what is counted of results, as requests for the metrics signal.

Outcome.measured -> Sums -> collected every so often: data points of the OpenTelemetry SDK -> its encoder -> request

Sending is left to the forward queue rather than to the SDK's periodic exporter: so all three signals share one set of
endpoints, certificates, retries and counts, and no thread is added.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.metrics import Exemplar as SdkExemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from onpath.results import SCOPE_NAME, version
from onpath.results_metrics import DESCRIPTIONS, SCORE_BOUNDARIES, Instrument, Measured
from onpath_collector.exporters.sums import Exemplar, Scores, Series, Sums

_CUMULATIVE: Final = AggregationTemporality.CUMULATIVE


class ResultMetrics:
    """Cumulative since the start; exemplars are those since the last collection. Owned by one event loop."""

    def __init__(self, resource: Mapping[str, str], clock: Callable[[], int] = time.time_ns) -> None:
        """`clock` gives nanoseconds since the Unix epoch."""
        self._resource = Resource(dict(resource))
        self._clock = clock
        self._sums = Sums()

    def record(self, measured: Iterable[Measured]) -> None:
        self._sums.add(measured, self._clock())

    def collect(self) -> tuple[bytes, int]:
        """A serialised ExportMetricsServiceRequest and how many data points it has; nothing before the first result."""
        now_ns = self._clock()
        metrics = [_metric(name, series, now_ns) for name, series in self._sums.by_instrument()]
        if not metrics:
            return b"", 0
        scope = ScopeMetrics(InstrumentationScope(SCOPE_NAME, version()), metrics, "")
        request: Any = encode_metrics(MetricsData([ResourceMetrics(self._resource, [scope], "")]))
        return request.SerializeToString(), sum(len(metric.data.data_points) for metric in metrics)


def _metric(name: Instrument, found: Sequence[Series], now_ns: int) -> Metric:
    scores = [series for series in found if isinstance(series, Scores)]
    if scores:
        data: Histogram | Sum = Histogram([_score(series, now_ns) for series in scores], _CUMULATIVE)
    else:
        data = Sum([_count(series, now_ns) for series in found], _CUMULATIVE, is_monotonic=True)
    return Metric(name, DESCRIPTIONS[name], "", data)


def _count(series: Series, now_ns: int) -> NumberDataPoint:
    exemplars = _exemplars([series.exemplar])
    series.exemplar = None
    return NumberDataPoint(series.attributes, series.made_ns, now_ns, series.value, exemplars)


def _score(series: Scores, now_ns: int) -> HistogramDataPoint:
    exemplars = _exemplars(series.exemplars)
    series.exemplars = [None] * len(series.counts)
    return HistogramDataPoint(
        attributes=series.attributes,
        start_time_unix_nano=series.made_ns,
        time_unix_nano=now_ns,
        count=sum(series.counts),
        sum=series.value,
        bucket_counts=list(series.counts),
        explicit_bounds=SCORE_BOUNDARIES,
        min=series.least,
        max=series.greatest,
        exemplars=exemplars,
    )


def _exemplars(found: Iterable[Exemplar | None]) -> list[SdkExemplar]:
    return [
        SdkExemplar({}, last.value, last.at_ns, int(last.span_id, 16), int(last.trace_id, 16))
        for last in filter(None, found)
    ]
