"""The registry of the collector's own metrics, what is timed as it happens, and the page that shows all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, ProcessCollector
from prometheus_client.exposition import choose_encoder

from onpath_collector.histograms import Seconds

OPENMETRICS: Final = "application/openmetrics-text"
_LAG: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
_DELAY: Final = (0.5, 1.0, 2.0, 2.5, 3.0, 4.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
_EVALUATION: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 5.0)


class Telemetry:
    """Of one collector. Others register what they count with `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="onpath", registry=self.registry)
        self._lag = Seconds(
            "onpath_buffer_deadline_lag_seconds",
            "How long after its deadline a trace was released",
            _LAG,
            self.registry,
        )
        self._evaluation = Seconds(
            "onpath_evaluation_duration_seconds",
            "How long a check took on one trace",
            _EVALUATION,
            self.registry,
            ("workflow", "validator"),
        )
        self._delay = Seconds(
            "onpath_verdict_delay_seconds",
            "From the end of a trace's root to its first verdict, by the clocks of both",
            _DELAY,
            self.registry,
        )
        self._unknown = Counter(
            "onpath_evaluations_unknown",
            "Checks that could not be decided, by why",
            ["workflow", "reason"],
            registry=self.registry,
        )

    def released(self, lag: float) -> None:
        self._lag.observe(lag)

    def judged(self, seconds: Mapping[tuple[str, str], float]) -> None:
        for place, took in seconds.items():
            self._evaluation.observe(took, place)

    def told(self, delay: float | None, unknown: Mapping[tuple[str, str], int]) -> None:
        if delay is not None:
            self._delay.observe(delay)
        for place, checks in unknown.items():
            self._unknown.labels(*place).inc(checks)

    def page(self, accept: str) -> tuple[bytes, str]:
        """All metrics as they are now, and the content type: OpenMetrics, unless only the older text is asked for."""
        older = "text/plain" in accept and OPENMETRICS not in accept
        encode, content_type = choose_encoder("" if older else accept if OPENMETRICS in accept else OPENMETRICS)
        return encode(self.registry), content_type
