"""Where reports go from inside the agent's process: a callback, and the process's own providers.

Report -> `on_report`; -> events by the logger provider; -> metrics by the meter provider; -> evaluation spans, as
finished spans to the other span processors' `on_end`, since a tracer can't set a computed span id.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from opentelemetry._logs import Logger, LoggerProvider, get_logger_provider
from opentelemetry.metrics import MeterProvider, get_meter_provider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from onpath import results, results_records
from onpath.live.book import Run
from onpath.live.judge import Place
from onpath.live.settings import Settings
from onpath.report import Report, Verdict
from onpath.results_metrics import Instruments, points

OnReport = Callable[[Report], object]

_log: Final = logging.getLogger("onpath")
_REMEMBERED: Final = 10_000

_own: dict[int, None] = {}  # ids of evaluation spans made in this process, the oldest first


def is_own(span_id: int) -> bool:
    """Whether a span is a result that this process made."""
    return span_id in _own


class Outlets:
    """`steps` are the policy's `step_names`. `guard` runs what others wrote: what that raises is logged and counted."""

    def __init__(
        self,
        settings: Settings,
        steps: frozenset[str],
        *,
        guard: Callable[..., None],
        on_report: OnReport | None = None,
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        spans_to: Callable[[], Iterable[SpanProcessor]] | None = None,
    ) -> None:
        self._settings = settings
        self._guard = guard
        self._on_report = on_report
        self._logger_provider = logger_provider
        self._meter_provider = meter_provider
        self._spans_to = spans_to
        self._steps = steps
        self._logger: Logger | None = None
        self._instruments: Instruments | None = None
        self._told = False

    def report(self, report: Report, run: Run, before: Mapping[Place, Verdict]) -> None:
        if self._settings.metrics:
            self._guard("metrics", self._measure, report, before)
        if self._settings.events:
            self._guard("events", self._emit, report)
        if self._settings.spans != "off":
            self._guard("spans", self._hand_spans, report, run)
        if self._on_report is not None:
            self._guard("on_report", self._on_report, report)

    def _measure(self, report: Report, before: Mapping[Place, Verdict]) -> None:
        if self._instruments is None:
            provider = self._meter_provider or get_meter_provider()
            self._instruments = Instruments(provider.get_meter(results.SCOPE_NAME, results.version()))
        self._instruments.record(points(report, self._steps, before))

    def _emit(self, report: Report) -> None:
        if self._logger is None:
            provider = self._logger_provider or get_logger_provider()
            self._logger = provider.get_logger(results.SCOPE_NAME, results.version())
        for made in results_records.events(report, Resource.get_empty(), time.time_ns()):
            self._logger.emit(made.log_record)

    def _hand_spans(self, report: Report, run: Run) -> None:
        if not _is_sampled(run):
            return
        takers = list(self._spans_to()) if self._spans_to is not None else []
        if not takers and not self._told:
            self._told = True
            _log.warning("onpath: there is no span processor to hand evaluation spans to; name some in `spans_to`")
        for span in results_records.evaluation_spans(report, _resource(run), self._settings.spans, time.time_ns()):
            _remember(span)
            for taker in takers:
                self._guard("spans", taker.on_end, span)


def _remember(span: ReadableSpan) -> None:
    if span.context is not None:
        _own[span.context.span_id] = None
        while len(_own) > _REMEMBERED:
            _own.pop(next(iter(_own)), None)


def _is_sampled(run: Run) -> bool:
    """Whether its spans are exported: those of a trace that is only recorded would leave its evaluation alone."""
    return any(entry.sdk.context.trace_flags.sampled for entry in run.entries.values())


def _resource(run: Run) -> Resource:
    """That of the process: all its spans have the same."""
    found: Any = next((entry.sdk.resource for entry in run.entries.values()), None)
    return found if isinstance(found, Resource) else Resource.get_empty()
