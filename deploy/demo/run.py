"""`make run`: the collector on its defaults, four recorded agent runs sent to it, and what it says of them.

    runs/*.jsonl -> spans, moved to now -> OpenTelemetry SDK gRPC exporter -> onpath collector -> verdicts, reports

The collector stays up afterwards, until Ctrl-C; `--once` leaves with 0 when the four verdicts are as told, else with 1.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
from rich.console import Console
from rich.markup import escape

from onpath.cli.report_view import alignment_table
from onpath.model import Span
from onpath.recordings import read_files

HERE = Path(__file__).resolve().parent
POLICY = HERE.parent / "policies" / "refund.yaml"
RUNS = [  # recording, the service it is sent as, what it shows, the verdict it deserves
    ("good", "refund-agent", "a refund done by the book (pydantic-ai)", "pass"),
    ("skipped", "refund-agent", "a refund that skips the balance check (Vercel AI SDK)", "fail"),
    ("prohibited", "refund-agent", "a refund that deletes records (OpenAI client under OpenLLMetry)", "fail"),
    ("parallel", "briefing-agent", "a briefing that asks three tools at once (Vercel AI SDK, GenAI spans)", "pass"),
]
WAIT = 30.0  # seconds for one verdict; it comes settle_delay (2 s) after the run's last span

screen = Console(highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Show the collector judging four recorded agent runs.")
    parser.add_argument("--once", action="store_true", help="leave after the demonstration")
    parser.add_argument("--grpc", default="127.0.0.1:4317", metavar="HOST:PORT", help="where the collector listens")
    parser.add_argument("--http", default="127.0.0.1:4318", metavar="HOST:PORT", help="and for OTLP over HTTP")
    parser.add_argument("--admin", default="127.0.0.1:13133", metavar="HOST:PORT", help="and where it is watched")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):  # leaving by way of what stops the collector
        signal.signal(number, lambda received, _: sys.exit(128 + received))
    ports = ("--grpc", args.grpc, "--http", args.http, "--admin", args.admin)
    with tempfile.TemporaryDirectory(prefix="onpath-demo-") as folder:
        reports = Path(folder) / "reports.jsonl"
        with _Collector(*ports, "--report-file", str(reports)) as collector:
            if collector.address is None:
                return collector.process.wait()
            right = _demonstrate(collector.address, reports)
            if args.once:
                return 0 if right else 1
            _stay(collector)
            return 0


class _Collector:
    """The collector as a child; what it says goes on to standard error. `address` None: it did not start."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "onpath.cli", "collector", "--policy", str(POLICY), *options]
        # Of a session of its own: Ctrl-C is for the demonstration, which stops the collector cleanly.
        self.process = subprocess.Popen(
            [*command, "--log-format", "console"], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.address: str | None = None
        self._known = threading.Event()
        self._reader = threading.Thread(target=self._pass_on)
        self._reader.start()

    def _pass_on(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            sys.stderr.write(line)
            _, found, rest = line.partition("OTLP/gRPC on ")
            if found:
                self.address = rest.split()[0].rstrip(",")
                self._known.set()
        self._known.set()

    def __enter__(self) -> _Collector:
        self._known.wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self._reader.join()


def _demonstrate(address: str, reports: Path) -> bool:
    exporter = OTLPSpanExporter(endpoint=f"http://{address}", insecure=True)
    trace_ids = []
    for name, service, _, _ in RUNS:
        spans = _moved_to_now(read_files([HERE / "runs" / f"{name}.jsonl"]).spans)
        exporter.export([_readable(s, service) for s in spans])
        trace_ids.append(spans[0].trace_id)
    exporter.shutdown()
    screen.print(f"\nSent {len(RUNS)} recorded agent runs; each is judged when its trace has been quiet for 2 s.\n")
    right = True
    for number, (trace_id, (_, _, told, deserved)) in enumerate(zip(trace_ids, RUNS, strict=True), 1):
        results = _reports_of(trace_id, reports)
        screen.print(f"[bold]{number}. {escape(told)}[/bold]")
        for result in results:
            _show(result)
        right &= bool(results) and all(r["verdict"] == deserved for r in results)
        screen.print()
    return right


def _show(result: dict[str, Any]) -> None:
    style = {"pass": "green", "fail": "bold red"}.get(result["verdict"], "yellow")
    screen.print(f"   [{style}]{result['verdict'].upper()}[/{style}]  workflow {escape(result['workflow'])}")
    for evaluation in result["evaluations"]:
        score = "" if evaluation["score"] is None else f" {evaluation['score']:.2f}"
        screen.print(f"     {evaluation['label']:<8}{escape(evaluation['name'])}{score}")
        for finding in evaluation["findings"]:
            screen.print(f"             {escape(finding['message'])}", style="red")
    aligned = next((e for e in result["evaluations"] if e["alignment"]), None)
    if aligned and result["verdict"] == "fail":
        screen.print(alignment_table(aligned["alignment"]))


def _reports_of(trace_id: str, reports: Path) -> list[dict[str, Any]]:
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        lines = reports.read_text().splitlines() if reports.exists() else []
        found = [r for r in map(json.loads, lines) if r["trace_id"] == trace_id]
        if found:
            return found
        time.sleep(0.1)
    screen.print(f"   no verdict within {WAIT:.0f} s", style="bold red")
    return []


def _stay(collector: _Collector) -> None:
    screen.print("[bold]The collector is still listening.[/bold] Point an agent at it:")
    exporter = f"OTEL_EXPORTER_OTLP_ENDPOINT=http://{collector.address} OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
    screen.print(f"   {exporter} python agent.py")
    screen.print(f"The policy is {POLICY.relative_to(HERE.parent.parent)}. Ctrl-C stops.\n", style="dim")
    try:
        collector.process.wait()
    except KeyboardInterrupt:
        screen.print("stopping", style="dim")


def _moved_to_now(spans: list[Span]) -> list[Span]:
    """The same run, ended just now."""
    shift = time.time_ns() - max(s.end_ns or s.start_ns for s in spans)
    return [_moved(s, shift) for s in spans]


def _moved(span: Span, shift: int) -> Span:
    fields = {name: getattr(span, name) for name in Span.__slots__}
    fields["start_ns"] += shift
    fields["end_ns"] = None if span.end_ns is None else span.end_ns + shift
    return Span(**fields)


def _readable(span: Span, service: str) -> ReadableSpan:
    trace_id = int(span.trace_id, 16)
    sampled = TraceFlags(TraceFlags.SAMPLED)
    parent = SpanContext(trace_id, int(span.parent_span_id, 16), False, sampled) if span.parent_span_id else None
    return ReadableSpan(
        name=span.name,
        context=SpanContext(trace_id, int(span.span_id, 16), False, sampled),
        parent=parent,
        resource=Resource({**span.resource.attributes, "service.name": service}),
        attributes=dict(span.attributes),
        events=[Event(e.name, dict(e.attributes), e.time_ns) for e in span.events],
        kind=SpanKind(max(span.kind - 1, 0)),  # the SDK's enumeration has no UNSPECIFIED
        status=Status(StatusCode(span.status_code), span.status_message or None),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope(span.scope_name, span.scope_version),
    )


if __name__ == "__main__":
    sys.exit(main())
