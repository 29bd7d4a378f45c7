"""Results on /metrics: the points of judged traces as counters and a histogram, with exemplars of the judged spans."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from onpath.results_metrics import SCORE_BOUNDARIES, Point
from onpath_collector.judging import Outcome

_LABELS: Final = {
    "onpath.verdicts": ("Verdicts of workflows on scopes", ("workflow", "verdict")),
    "onpath.evaluations": ("Checks made, by label", ("workflow", "evaluation", "label")),
    "onpath.findings": ("Things found wrong, by rule", ("workflow", "rule", "step")),
    "onpath.revised": ("Verdicts that late spans changed", ("workflow", "from", "to")),
}


class PrometheusResults:
    """Names are those of the OTLP metrics with underscores, as Prometheus reads them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counters = {
            name: Counter(name.replace(".", "_"), told, labels, registry=registry)
            for name, (told, labels) in _LABELS.items()
        }
        self._score = Histogram(
            "onpath_evaluation_score",
            "Scores of checks, from 0 to 1",
            ["workflow", "evaluation"],
            buckets=SCORE_BOUNDARIES,
            registry=registry,
        )

    def export(self, outcome: Outcome) -> None:
        for point in outcome.points:
            self._count(point)

    def _count(self, point: Point) -> None:
        exemplar = {"trace_id": point.trace_id, "span_id": point.span_id}
        if point.instrument == "onpath.evaluation.score":
            self._score.labels(**point.attributes).observe(point.value, exemplar)
        else:
            self._counters[point.instrument].labels(**point.attributes).inc(point.value, exemplar)
