"""Handing on: traces go to a collector whole, when they are over, and the mark on the root says that they are complete.

Run -> the SDK's spans that have ended -> one copy with the mark -> an OTLP exporter, made on the judging thread so that
its channel belongs to this process. The exporter is whichever of OpenTelemetry's is installed: onpath brings in none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from onpath.live.book import Entry, Reason, Run
from onpath.live.counts import Counts

COMPLETE: Final = "onpath.trace.complete"  # collector.md section 2
_BATCH: Final = 512  # spans of one request
_EXPORTERS: Final = {
    "grpc": ("otlp_proto_grpc", "opentelemetry-exporter-otlp-proto-grpc"),
    "http": ("otlp_proto_http", "opentelemetry-exporter-otlp-proto-http"),
}


class EndpointError(ValueError):
    """No way to send there; says why in one line."""


def check(endpoint: str) -> None:
    """Raises EndpointError where `exporter_for` would, without loading anything."""
    _point(endpoint)


def exporter_for(endpoint: str) -> SpanExporter:
    """For grpc://, grpcs://, http:// or https://. Raises EndpointError."""
    url, point = _point(endpoint)
    make = point.load()
    exporter: SpanExporter
    if url.scheme.startswith("grpc"):
        exporter = make(endpoint=url.netloc, insecure=url.scheme == "grpc")
    else:
        exporter = make(endpoint=endpoint if url.path.strip("/") else endpoint.rstrip("/") + "/v1/traces")
    return exporter


def _point(endpoint: str) -> tuple[SplitResult, EntryPoint]:
    url = urlsplit(endpoint)
    protocol = url.scheme.removesuffix("s")
    if protocol not in _EXPORTERS or not url.hostname:
        raise EndpointError(f"{endpoint!r} is no endpoint such as grpc://HOST:4317 or http://HOST:4318")
    name, distribution = _EXPORTERS[protocol]
    found = list(entry_points(group="opentelemetry_traces_exporter", name=name))
    if not found:
        raise EndpointError(f"handing on to {endpoint} needs `pip install {distribution}`")
    return url, found[0]


class HandOn:
    """Does for each run that is let go what a `Judge` does: it has the collector judge it."""

    looks_early: Final = False

    def __init__(self, make: Callable[[], SpanExporter], counts: Counts) -> None:
        self._make = make
        self._counts = counts
        self._exporter: SpanExporter | None = None

    def release(self, run: Run, reason: Reason) -> None:
        if self._exporter is None:
            self._exporter = self._make()
        entries = [entry for entry in run.entries.values() if entry.ended and not entry.sent]
        spans = [entry.sdk for entry in entries]
        marked = _to_mark(entries) if _is_complete(run, reason) else None
        if marked is not None:
            last = spans.pop(marked)
            spans.append(_with_mark(last))  # at the end of the last request: what follows a mark is late
        sent = self._send(spans)
        for entry in entries:
            entry.sent = True  # what could not be sent is dropped: the exporter has tried again as often as it wants
        if not sent:
            self._counts.spans_dropped["handing_on"] += len(spans)
        if run.released == 1:
            self._counts.handed_on += sent
            self._counts.dropped["handing_on_failed"] += not sent

    def look(self, run: Run) -> float | None:
        return None

    def _send(self, spans: Sequence[ReadableSpan]) -> bool:
        assert self._exporter is not None
        sent = True
        for at in range(0, len(spans), _BATCH):
            sent = self._exporter.export(spans[at : at + _BATCH]) is SpanExportResult.SUCCESS and sent
        return sent

    def close(self) -> None:
        if self._exporter is not None:
            self._exporter.shutdown()


def _is_complete(run: Run, reason: Reason) -> bool:
    """The trace began here, nothing is open, nothing was lost, and each parent named was seen.

    A trace that began in another process is not over when this one's part of it is.
    """
    if reason not in ("root_ended", "marked") or run.gone or run.open:
        return False
    entries = run.entries.values()
    begun = any(entry.sdk.parent is None for entry in entries)
    return begun and all(entry.parent_id is None or entry.parent_id in run.entries for entry in entries)


def _to_mark(entries: Sequence[Entry]) -> int | None:
    """The place of the local root, or of the last span where that has gone before."""
    roots = [i for i, entry in enumerate(entries) if entry.parent_id is None]
    return roots[-1] if roots else len(entries) - 1 if entries else None


def _with_mark(span: Any) -> ReadableSpan:
    """A copy: what has ended can't be changed, and other processors hold the same object."""
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes={**(span.attributes or {}), COMPLETE: True},
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
