"""OnPathSpanProcessor: judges agent runs inside the process that they happen in.

    provider.add_span_processor(OnPathSpanProcessor("policy.yaml", on_report=print))

Data flow: on_start, on_end -> the inbox of this process's `Station` -> judging thread -> reports by callback, events
and metrics by the application's own providers. The hooks weigh a span and put it into a queue: they never raise, block
or do I/O, whatever a policy holds. processor/README.md says what costs what.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from onpath.live.counts import Counts
from onpath.live.judge import OnViolation
from onpath.live.lasting import Stations
from onpath.live.log_evidence import LogEvidence
from onpath.live.outlets import OnReport
from onpath.live.policies import PolicyLike
from onpath.live.records import is_evidence, weigh
from onpath.live.settings import Options, Settings
from onpath.live.thread import END, LOG, START, Station
from onpath.live.work import check_callback, work_of

if TYPE_CHECKING:
    from typing import Unpack

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider


class OnPathSpanProcessor(SpanProcessor):
    """A SpanProcessor that checks each trace of this process against a policy, as soon as its last open span ends."""

    def __init__(
        self,
        policy: PolicyLike | None = None,
        *,
        on_report: OnReport | str | None = None,
        on_violation: OnViolation | str | None = None,
        endpoint: str | None = None,
        logger_provider: LoggerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        spans_to: Sequence[SpanProcessor] | None = None,
        strict: bool = False,
        settings: Settings | None = None,
        **options: Unpack[Options],
    ) -> None:
        """`policy`: a file, a folder, several of them, plain values, or a loaded Policy.

        `on_report(report)` gets each report with a result, `on_violation(finding, span)` each thing wrong as soon as
        nothing to come can mend it, while the agent still runs; both on the judging thread, both also as text
        "package.module:function". With `endpoint`, traces go on to a collector, which judges them instead. Providers
        are the global ones unless given. `spans_to` get evaluation spans, if `spans` is not off; unless given, the
        other processors of the provider.

        A policy that can't be loaded is told by one line in the log and nothing is judged; with `strict`, PolicyError
        is raised. Raises TypeError and ValueError for wrong options.
        """
        self._settings = settings or Settings.of(options)
        for name, callback in (("on_report", on_report), ("on_violation", on_violation)):
            check_callback(name, callback)
        self._spans_to = spans_to
        self._siblings: Any = None
        make_work = work_of(
            policy,
            self._settings,
            strict=strict,
            starts=True,
            endpoint=endpoint,
            on_report=on_report,
            on_violation=on_violation,
            logger_provider=logger_provider,
            meter_provider=meter_provider,
            spans_to=self._takers,
        )
        self._stations = make_work and Stations(
            lambda at_start: Station(self._settings, make_work, starts=True, at_start=at_start),
            self._settings.exit_timeout,
        )

    @property
    def active(self) -> bool:
        """Whether there is a policy, or a collector to hand on to."""
        return self._stations is not None

    @property
    def log_evidence(self) -> LogEvidence:
        """For the LoggerProvider of an application whose instrumentation puts message content into events."""
        return LogEvidence(self._take_log)

    @property
    def counts(self) -> Counts:
        """What was judged, dropped and counted in this process."""
        return Counts() if self._stations is None else self._stations.here().counts

    # ---------------------------------------------------------------- hooks, in the application's threads

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        if self._stations is None:
            return
        try:
            if self._siblings is None and self._settings.spans != "off":
                self._siblings = getattr(span, "_span_processor", None)
            self._stations.here().put(START, span, 0)
        except Exception:  # noqa: BLE001 - the SDK doesn't catch what a processor raises
            self._fault("on_start")

    def on_end(self, span: ReadableSpan) -> None:
        if self._stations is None:
            return
        try:
            self._stations.here().put(END, span, weigh(span, roughly=True))
        except Exception:  # noqa: BLE001 - the SDK doesn't catch what a processor raises
            self._fault("on_end")

    def _take_log(self, log_record: Any) -> None:
        if self._stations is None:
            return
        try:
            if is_evidence(log_record.log_record):
                self._stations.here().put(LOG, log_record, 0)
        except Exception:  # noqa: BLE001 - neither may logging fail
            self._fault("on_emit")

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Judges every trace that is over. False if that took longer, or if it is asked for by a callback."""
        return self._stations is None or self._stations.here().ask(timeout_millis / 1000)

    def shutdown(self, timeout_millis: int = 30_000) -> None:
        """Judges what is over, and what is open as incomplete; later calls do nothing."""
        if self._stations is not None:
            self._stations.here().ask(timeout_millis / 1000, last=True)

    # ---------------------------------------------------------------- inside

    def _fault(self, what: str) -> None:
        if self._stations is not None:
            self._stations.here().guard.fault(what)

    def _takers(self) -> Iterable[SpanProcessor]:
        """The other processors of the provider; the SDK has no public way to them."""
        if self._spans_to is not None:
            return self._spans_to
        found = getattr(self._siblings, "_span_processors", ())
        return [processor for processor in found if processor is not self]
