"""The registry of the collector's own metrics, what is timed as it happens, and the page that shows all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

OPENMETRICS: Final = "application/openmetrics-text"
_LAG: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)  # seconds
_EVALUATION: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 5.0)


class Telemetry:
    """Of one collector. Others register what they count with `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(namespace="onpath", registry=self.registry)
        self._lag = Histogram(
            "onpath_buffer_deadline_lag_seconds",
            "How long after its deadline a trace was released",
            buckets=_LAG,
            registry=self.registry,
        )
        self._evaluation = Histogram(
            "onpath_evaluation_duration_seconds",
            "How long a check took on one trace",
            ["workflow", "validator"],
            buckets=_EVALUATION,
            registry=self.registry,
        )

        self._by_place: dict[tuple[str, str], Histogram] = {}  # finding one by its labels takes longer than counting

    def released(self, lag: float) -> None:
        self._lag.observe(lag)

    def judged(self, seconds: Mapping[tuple[str, str], float]) -> None:
        for place, took in seconds.items():
            found = self._by_place.get(place)
            if found is None:
                found = self._by_place[place] = self._evaluation.labels(*place)
            found.observe(took)

    def page(self, accept: str) -> tuple[bytes, str]:
        """All metrics as they are now, and the content type: OpenMetrics, unless only the older text is asked for."""
        older = "text/plain" in accept and OPENMETRICS not in accept
        encode, content_type = choose_encoder("" if older else accept if OPENMETRICS in accept else OPENMETRICS)
        return encode(self.registry), content_type
