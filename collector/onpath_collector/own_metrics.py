"""What the parts of the collector count, as metrics: read from their counters when someone asks, never kept twice.

So a page always adds up: traces started = judged + dropped + open, spans received = forwarded + dropped + queued. Names
follow the OpenTelemetry Collector's where the meaning is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from onpath.results import version
from onpath_collector.buffer import LATENESS, TraceBuffer
from onpath_collector.counts import Ledger
from onpath_collector.downstream import Signal
from onpath_collector.exporters.otlp import OtlpResults
from onpath_collector.forward import Forwarder
from onpath_collector.intake import Intake
from onpath_collector.receivers.base import ReceiverCounts
from onpath_collector.release import Release

if TYPE_CHECKING:
    from onpath_collector.exporters.sinks import SinkExporter
    from onpath_collector.journal import Journal

F = TypeVar("F", bound=Metric)

_ITEMS: Final[dict[Signal, str]] = {"traces": "spans", "metrics": "metric_points", "logs": "log_records"}


class Receiver(Protocol):
    @property
    def transport(self) -> str: ...
    @property
    def counts(self) -> Mapping[Signal, ReceiverCounts]: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """All that counts."""

    receivers: Sequence[Receiver]
    intake: Intake
    buffer: TraceBuffer
    release: Release
    forwarders: Mapping[Signal, Forwarder]
    results: OtlpResults | None
    evaluate_queue: int
    sinks: Sequence[SinkExporter] = ()
    journal: Journal | None = None

    def ledger(self) -> Ledger:
        return Ledger(**self.release.sums(), **self.intake.sums())

    @property
    def exporters(self) -> dict[tuple[str, Signal], Forwarder]:
        """The queues to a downstream, by what they carry and its signal."""
        of_results = {} if self.results is None else self.results.forwarders
        named = {("forward", signal): forwarder for signal, forwarder in self.forwarders.items()}
        return named | {("results", signal): forwarder for signal, forwarder in of_results.items()}


class OwnMetrics:
    """A prometheus_client collector."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def describe(self) -> Iterable[Metric]:
        """Nothing: registering must not read what is not there yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        parts = self._parts
        yield _gauge("build_info", "This collector", 1, version=version())
        yield from _ledger(parts.ledger())
        for signal, items in _ITEMS.items():
            yield from _received(signal, items, parts.receivers)
        yield from _requests(parts.receivers)
        yield _gauge("spans_held", "Spans on their way that wait for a verdict (forward.hold)", parts.intake.held)
        yield _by("spans_invalid", "Spans with a wrong id, by which", parts.intake.rejected, "reason")
        yield _counter("spans_own", "Spans of this collector's results that came back", parts.intake.own)
        yield _counter(
            "spans_impersonated", "Spans of a scope named like ours, and not ours", parts.intake.impersonated
        )
        yield from _buffer(parts.buffer)
        if parts.journal is not None:
            yield from _journal(parts.journal)
        yield from _evaluations(parts)
        for signal, items in _ITEMS.items():
            yield from _sent(signal, items, parts.exporters)
        yield from _queues(parts.exporters)
        if parts.results is not None:
            yield _dropped_results(parts.results)
        yield from _sinks(parts.sinks)


def _ledger(ledger: Ledger) -> Iterator[Metric]:
    yield _counter("traces_started", "Traces whose first span has come", ledger.traces_started)
    yield _by("traces_dropped", "Traces that were never judged, by reason", ledger.traces_dropped, "reason")
    yield _gauge("traces_open", "Traces that are not judged yet", ledger.traces_open)
    yield _counter("spans_received", "Spans in requests that were accepted", ledger.spans_received)
    yield _counter("spans_forwarded", "Spans that the downstream has accepted", ledger.spans_forwarded)
    yield _by("spans_dropped", "Spans that did not get to the downstream, by reason", ledger.spans_dropped, "reason")
    yield _gauge("spans_queued", "Spans on their way to the downstream", ledger.spans_queued)


def _received(signal: Signal, items: str, receivers: Iterable[Receiver]) -> Iterator[Metric]:
    accepted = _family(CounterMetricFamily, f"receiver_accepted_{items}", "Accepted", ["transport"])
    rejected = _family(
        CounterMetricFamily, f"receiver_rejected_{items}", "Invalid, in accepted requests", ["transport"]
    )
    told = "In requests that are to come back, by reason"
    refused = _family(CounterMetricFamily, f"receiver_refused_{items}", told, ["transport", "reason"])
    for receiver in receivers:
        counts = receiver.counts[signal]
        accepted.add_metric([receiver.transport], counts.items)
        rejected.add_metric([receiver.transport], counts.rejected)
        _add(refused, counts.refused_items, receiver.transport)
    yield from (accepted, rejected, refused)


def _requests(receivers: Iterable[Receiver]) -> Iterator[Metric]:
    labels = ["transport", "signal"]
    accepted = _family(CounterMetricFamily, "receiver_accepted_requests", "Accepted", labels)
    refused = _family(CounterMetricFamily, "receiver_refused_requests", "To come back, by reason", [*labels, "reason"])
    failed = _family(
        CounterMetricFamily, "receiver_failed_requests", "Never to come back, by reason", [*labels, "reason"]
    )
    for receiver in receivers:
        for signal, counts in receiver.counts.items():
            accepted.add_metric([receiver.transport, signal], counts.requests)
            _add(refused, counts.refused, receiver.transport, signal)
            _add(failed, counts.failed, receiver.transport, signal)
    yield from (accepted, refused, failed)


def _buffer(buffer: TraceBuffer) -> Iterator[Metric]:
    counts = buffer.counts
    yield _gauge("buffer_traces", "Traces that are open in the buffer", buffer.open_traces)
    yield _gauge("buffer_bytes", "Bytes of open traces", buffer.open_bytes)
    yield _gauge("buffer_late_bytes", "Bytes of settled traces, kept for late spans", buffer.late_bytes)
    yield _gauge("buffer_memory_bytes", "All that counts against the memory limit, about", buffer.memory)
    yield _gauge("buffer_memory_limit_bytes", "The memory limit", buffer.settings.memory_limit or math.inf)
    yield _by("buffer_releases", "Traces let go, revisions too, by reason", counts.released, "reason")
    yield _counter("buffer_spans", "Spans put into the buffer", counts.spans)
    yield _counter("buffer_duplicate_spans", "Spans that had come before", counts.duplicates)
    yield _counter("buffer_late_spans", "Spans of traces that were judged already", counts.late_spans)
    yield _counter("buffer_late_unjudged_spans", "Late spans that no report can take in", counts.late_unjudged)
    yield _by("buffer_dropped_spans", "Spans that are not judged, by reason", counts.dropped_spans, "reason")
    yield _counter("buffer_reopened_traces", "Traces opened again by late spans", counts.reopened)
    yield _counter("buffer_forgotten_traces", "Settled traces pushed out of memory", counts.forgotten)
    lateness = _family(HistogramMetricFamily, "buffer_lateness_seconds", "How long after their root spans came", [])
    bounds = [*map(str, LATENESS), "+Inf"]
    lateness.add_metric([], list(zip(bounds, accumulate(counts.lateness), strict=True)), None)
    yield lateness


def _journal(journal: Journal) -> Iterator[Metric]:
    yield _gauge("journal_bytes", "Bytes that the journal holds, about", journal.size)
    yield _gauge("journal_requests", "Requests that are not settled and forwarded", journal.requests)
    told = "Seconds since the oldest request came that is not judged or not forwarded"
    yield _gauge("journal_oldest_age_seconds", told, journal.oldest_age)
    yield _counter("journal_failures", "Attempts to write that failed", journal.failures)
    yield _counter("journal_damaged", "Journals set aside at the start, for damage", journal.damaged)


def _evaluations(parts: Parts) -> Iterator[Metric]:
    counts = parts.release.counts
    yield _by("traces_judged", "Traces judged, by the worst verdict", counts.judged, "outcome")
    yield _counter("evaluation_unchanged", "Traces judged again with nothing new to report", counts.unchanged)
    yield _gauge("evaluation_queue_size", "Releases that wait to be judged", parts.release.waiting)
    yield _gauge("evaluation_queue_capacity", "How many may wait", parts.evaluate_queue)


def _sent(signal: Signal, items: str, exporters: Mapping[tuple[str, Signal], Forwarder]) -> Iterator[Metric]:
    sent = _family(CounterMetricFamily, f"exporter_sent_{items}", "Accepted by the downstream", ["exporter"])
    told = "Not accepted by the downstream, by reason"
    failed = _family(CounterMetricFamily, f"exporter_send_failed_{items}", told, ["exporter", "reason"])
    for (name, of), forwarder in exporters.items():
        if of == signal:
            sent.add_metric([name], forwarder.counts.sent_items)
            _add(failed, forwarder.counts.failed_items, name)
    yield from (sent, failed)


def _queues(exporters: Mapping[tuple[str, Signal], Forwarder]) -> Iterator[Metric]:
    labels = ["exporter", "signal"]
    size = _family(GaugeMetricFamily, "exporter_queue_size", "Requests on their way", labels)
    capacity = _family(GaugeMetricFamily, "exporter_queue_capacity", "Requests that have room", labels)
    held = _family(GaugeMetricFamily, "exporter_queue_bytes", "Bytes on their way", labels)
    retries = _family(CounterMetricFamily, "exporter_retries", "Requests sent again", labels)
    for place, forwarder in exporters.items():
        size.add_metric(place, forwarder.counts.queued_requests)
        capacity.add_metric(place, forwarder.capacity)
        held.add_metric(place, forwarder.counts.queued_bytes)
        retries.add_metric(place, forwarder.counts.retries)
    yield from (size, capacity, held, retries)


def _dropped_results(results: OtlpResults) -> Metric:
    told = "Results that did not get into the queue, by reason"
    family = _family(CounterMetricFamily, "results_dropped", told, ["signal", "reason"])
    for signal, dropped in results.dropped.items():
        _add(family, dropped, signal)
    return family


def _sinks(sinks: Sequence[SinkExporter]) -> Iterator[Metric]:
    sent = _family(CounterMetricFamily, "sink_sent_scores", "Accepted by the backend", ["sink"])
    dropped = _family(CounterMetricFamily, "sink_dropped_scores", "Given up, by reason", ["sink", "reason"])
    told = "Scores that the backend has no place for, by reason"
    skipped = _family(CounterMetricFamily, "sink_skipped_scores", told, ["sink", "reason"])
    retries = _family(CounterMetricFamily, "sink_retries", "Results sent again", ["sink"])
    size = _family(GaugeMetricFamily, "sink_queue_size", "Results on their way", ["sink"])
    capacity = _family(GaugeMetricFamily, "sink_queue_capacity", "Results that have room", ["sink"])
    for sink in sinks:
        counts, label = sink.counts, [sink.label]
        sent.add_metric(label, counts.sent)
        _add(dropped, counts.dropped, sink.label)
        _add(skipped, counts.skipped, sink.label)
        retries.add_metric(label, counts.retries)
        size.add_metric(label, counts.results)
        capacity.add_metric(label, sink.settings.results)
    yield from (sent, dropped, skipped, retries, size, capacity)


def _counter(name: str, told: str, value: float) -> Metric:
    return CounterMetricFamily(f"onpath_{name}", told, value=value)


def _gauge(name: str, told: str, value: float, **labels: str) -> Metric:
    family = _family(GaugeMetricFamily, name, told, list(labels))
    family.add_metric(list(labels.values()), value)
    return family


def _by(name: str, told: str, counts: Mapping[str, int], label: str) -> Metric:
    family = _family(CounterMetricFamily, name, told, [label])
    _add(family, counts)
    return family


def _add(family: CounterMetricFamily, counts: Mapping[str, int], *labels: str) -> None:
    for value, count in counts.items():
        family.add_metric([*labels, value], count)


def _family(kind: Callable[..., F], name: str, told: str, labels: list[str]) -> F:
    return kind(f"onpath_{name}", told, labels=labels)
