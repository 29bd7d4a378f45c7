"""Enabling without code: the entry points by which OpenTelemetry finds onpath, and the `ONPATH_*` variables.

`pre_instrument` adds the processor under `opentelemetry-instrument` when ONPATH_POLICY (or ONPATH_ENDPOINT) is set.
`OnPathSpanExporter` is for those who can only choose exporters, by OTEL_TRACES_EXPORTER or a configuration file. There
is no configurator: being installed must change nothing.
"""

from __future__ import annotations

import atexit
import logging
import os
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry import trace
from opentelemetry._logs import get_logger_provider
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from onpath.live.lasting import Stations
from onpath.live.policies import PolicyLike, paths
from onpath.live.records import weigh
from onpath.live.settings import Settings, from_environment
from onpath.live.thread import END, Station
from onpath.live.work import work_of
from onpath.span_processor import OnPathSpanProcessor

_log: Final = logging.getLogger("onpath")
_FLUSH: Final = 5_000  # milliseconds

_processor: OnPathSpanProcessor | None = None  # added by `pre_instrument`
_exporters: Final[weakref.WeakSet[OnPathSpanExporter]] = weakref.WeakSet()


def pre_instrument() -> None:
    """Called by `opentelemetry-instrument` when the SDK is set up and the application has not begun. Never raises."""
    try:
        _enable(os.environ)
    except Exception:  # noqa: BLE001 - the other instrumentations come after this
        _log.exception("onpath: could not be enabled")


def _enable(environment: Mapping[str, str]) -> None:
    global _processor
    if _exporters:
        atexit.register(_flush_exporters)  # before the logger provider, whose handler stands already, shuts down
    if _processor is not None or not (environment.get("ONPATH_POLICY") or environment.get("ONPATH_ENDPOINT")):
        return
    provider: Any = trace.get_tracer_provider()
    if not hasattr(provider, "add_span_processor"):
        _log.warning("onpath: ONPATH_POLICY is set, but there is no tracer provider of the SDK to watch")
        return
    processor = processor_from(environment)
    if not processor.active:
        return
    provider.add_span_processor(processor)
    logs: Any = get_logger_provider()
    if hasattr(logs, "add_log_record_processor"):
        logs.add_log_record_processor(processor.log_evidence)
    _processor = processor


def _flush_exporters() -> None:
    provider: Any = trace.get_tracer_provider()
    if hasattr(provider, "force_flush"):
        provider.force_flush(_FLUSH)
    for exporter in list(_exporters):
        exporter.force_flush(_FLUSH)


def processor_from(environment: Mapping[str, str]) -> OnPathSpanProcessor:
    """The processor that the variables describe. A wrong one is told in the log, and its default stands."""
    settings, problems = from_environment(environment)
    for problem in problems:
        _log.warning("onpath: %s; the default stands", problem)
    return OnPathSpanProcessor(
        paths(environment.get("ONPATH_POLICY", "")) or None,
        endpoint=environment.get("ONPATH_ENDPOINT") or None,
        on_report=environment.get("ONPATH_ON_REPORT") or None,
        on_violation=environment.get("ONPATH_ON_VIOLATION") or None,
        settings=settings,
    )


class OnPathSpanExporter(SpanExporter):
    """Judges the spans it is given to export. Unlike the processor it sees no starts, so it waits `settle_delay`.

    What is not given is read from `ONPATH_*`. Where the processor has been added as well, that one judges.
    """

    def __init__(
        self,
        policy: PolicyLike | None = None,
        *,
        endpoint: str | None = None,
        on_report: Any = None,
        on_violation: Any = None,
        **options: Any,
    ) -> None:
        """Never raises: what is wrong is told in the log, since the SDK would give up all telemetry for it."""
        environment = os.environ
        base, problems = from_environment(environment)
        settings, wrong = Settings.lenient(options, base)
        for problem in (*problems, *wrong):
            _log.warning("onpath: %s; the default stands", problem)
        if policy is None and endpoint is None:
            policy = paths(environment.get("ONPATH_POLICY", "")) or None
            endpoint = environment.get("ONPATH_ENDPOINT") or None
        make_work = work_of(
            policy,
            settings,
            starts=False,
            endpoint=endpoint,
            on_report=on_report or environment.get("ONPATH_ON_REPORT"),
            on_violation=on_violation or environment.get("ONPATH_ON_VIOLATION"),
        )
        self._stations = make_work and Stations(
            lambda at_start: Station(settings, make_work, starts=False, at_start=at_start), settings.exit_timeout
        )
        _exporters.add(self)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._stations is not None and _processor is None:
            station = self._stations.here()
            for span in spans:
                station.put(END, span, weigh(span, roughly=True))
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._stations is None or self._stations.here().ask(timeout_millis / 1000)

    def shutdown(self) -> None:
        if self._stations is not None:
            self._stations.here().ask(_FLUSH / 1000, last=True)
