"""OnPathSpanProcessor as an application meets it: verdicts, where they go, and what a guest may never do."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, get_value
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import set_span_in_context

from onpath import OnPathSpanProcessor
from onpath.policy.problems import PolicyError
from onpath.report import Report
from onpath.testing import MemorySink
from tests.live.support import POLICY, Watched, agent, conserved, run, tool


def test_a_run_is_judged_when_its_last_span_ends() -> None:
    with Watched() as watched:
        watched.run("look_up", "check", "pay")
        watched.run("look_up", "override", "pay")
        [good, bad] = watched.sink.wait_for(2)  # without a flush
        assert [r.results[0].verdict for r in (good, bad)] == ["pass", "fail"]
        assert (good.complete, good.release_reason, good.revision) == (True, "root_ended", 1)
        conserved(watched)


def test_a_detached_span_keeps_its_trace_open() -> None:
    with Watched() as watched:
        with agent(watched.tracer):
            for name in ("look_up", "check"):
                with tool(watched.tracer, name):
                    pass
            detached = watched.tracer.start_span(
                "execute_tool pay", attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay"}
            )
        assert watched.flushed().reports == []
        detached.end()
        [report] = watched.sink.wait_for(1)
        assert report.results[0].verdict == "pass"


def test_later_spans_of_a_settled_trace_make_a_revision() -> None:
    with Watched() as watched:
        with agent(watched.tracer) as root, tool(watched.tracer, "look_up"):
            pass
        [first] = watched.sink.wait_for(1)
        with agent(watched.tracer, context=set_span_in_context(root)), tool(watched.tracer, "override"):
            pass
        _, second = watched.sink.wait_for(2)
        assert (first.revision, second.revision) == (1, 2)
        assert second.results[0].coverage.late == 2
        conserved(watched)


def test_traces_that_no_workflow_is_about_are_counted_and_not_reported() -> None:
    with Watched() as watched:
        watched.tracer.start_span("GET /health").end()
        run(watched.tracer, "look_up", name="another agent")
        watched.flushed()
        assert watched.sink.reports == []
        assert watched.processor.counts.judged == {"unmatched": 2}
        conserved(watched)


def test_a_trace_watched_from_the_middle_is_never_complete() -> None:
    sink = MemorySink()
    processor = OnPathSpanProcessor(POLICY, on_report=sink)
    provider = TracerProvider(shutdown_on_exit=False)
    tracer = provider.get_tracer("tests")
    with agent(tracer):
        with tool(tracer, "look_up"):
            pass
        provider.add_span_processor(processor)
        for name in ("check", "pay"):
            with tool(tracer, name):
                pass
    processor.shutdown()
    reports = sink.reports
    assert [(r.complete, str(r.results[0].verdict)) for r in reports][-1] == (False, "unknown")


# ------------------------------------------------------------------ where results go


class Everything:
    """An application with all three signals in memory."""

    def __init__(self, **options: Any) -> None:
        self.logs = InMemoryLogRecordExporter()
        self.reader = InMemoryMetricReader()
        self.exported = InMemorySpanExporter()
        self.loggers = LoggerProvider(shutdown_on_exit=False)
        self.loggers.add_log_record_processor(SimpleLogRecordProcessor(self.logs))
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.processor = OnPathSpanProcessor(
            POLICY, logger_provider=self.loggers, meter_provider=self.meters, **options
        )
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self.processor)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exported))
        self.tracer = self.provider.get_tracer("tests")

    def run(self, *tools: str) -> None:
        run(self.tracer, *tools)
        assert self.processor.force_flush()

    def points(self) -> dict[str, list[Any]]:
        data = self.reader.get_metrics_data()
        scopes = [s for r in data.resource_metrics for s in r.scope_metrics if s.scope.name == "onpath"] if data else []
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}

    def close(self) -> None:
        self.processor.shutdown()
        self.meters.shutdown()
        self.loggers.shutdown()


def test_events_metrics_and_exemplars_go_out_by_the_applications_providers() -> None:
    app = Everything()
    app.run("look_up", "override")
    spans = {s.name: s for s in app.exported.get_finished_spans()}
    root = spans["invoke_agent refund"].context
    records = [entry.log_record for entry in app.logs.get_finished_logs()]
    assert {r.event_name for r in records} == {"gen_ai.evaluation.result"}
    assert {(r.trace_id, r.span_id) for r in records} == {(root.trace_id, root.span_id)}
    assert [(r.attributes or {})["onpath.verdict"] for r in records] == ["fail"] * 3
    points = app.points()
    [verdict] = points["onpath.verdicts"]
    assert (dict(verdict.attributes), verdict.value) == ({"workflow": "refund", "verdict": "fail"}, 1)
    assert [(e.trace_id, e.span_id) for e in verdict.exemplars] == [(root.trace_id, root.span_id)]
    found = {(p.attributes["rule"], p.attributes["step"]) for p in points["onpath.findings"]}
    assert found == {
        ("missing_step", "check"),
        ("missing_step", "pay"),
        ("required_missing", "pay"),
        ("prohibited_called", "override"),
    }
    scores = {p.attributes["evaluation"]: (p.sum, p.explicit_bounds) for p in points["onpath.evaluation.score"]}
    assert scores["required_steps"] == (0.5, (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0))
    app.close()


def test_signals_can_be_switched_off() -> None:
    app = Everything(events=False, metrics=False)
    app.run("look_up")
    assert not app.logs.get_finished_logs()
    assert not app.points()
    app.close()


@pytest.mark.parametrize("mode", ["clamped", "realtime", "linked"])
def test_evaluation_spans_are_handed_to_the_other_processors_and_never_judged(mode: str) -> None:
    app = Everything(spans=mode)
    second = OnPathSpanProcessor(POLICY)
    app.provider.add_span_processor(second)
    app.run("look_up", "check", "pay")
    assert second.force_flush()
    made = [s for s in app.exported.get_finished_spans() if s.name == "onpath.evaluate refund"]
    assert len(made) == 1
    assert second.counts.spans_dropped == {"own": 1}
    assert second.counts.traces_started == app.processor.counts.traces_started == 1
    second.shutdown()
    app.close()


def test_evaluation_spans_are_off_by_default() -> None:
    app = Everything()
    app.run("look_up", "check", "pay")
    assert {s.name.split()[0] for s in app.exported.get_finished_spans()} == {"invoke_agent", "execute_tool"}
    app.close()


def test_named_takers_get_the_evaluation_spans() -> None:
    class Taker(SpanProcessor):
        def __init__(self) -> None:
            self.taken: list[ReadableSpan] = []

        def on_end(self, span: ReadableSpan) -> None:
            self.taken.append(span)

    taker = Taker()
    app = Everything(spans="clamped", spans_to=[taker])
    app.run("look_up", "check", "pay")
    assert [s.name for s in taker.taken] == ["onpath.evaluate refund"]
    app.close()


# ------------------------------------------------------------------ what a guest may never do


class Hostile:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")


def test_hooks_never_raise(caplog: pytest.LogCaptureFixture) -> None:
    with Watched() as watched:
        hostile: Any = Hostile()
        for _ in range(3):
            watched.processor.on_start(hostile)
            watched.processor.on_end(hostile)
            watched.processor.on_end(ReadableSpan("without a context"))
        watched.run("look_up", "check", "pay")
        assert watched.flushed().verdicts == ["pass"]
        faults = watched.processor.counts.faults
        assert (faults["on_end"], faults["span"]) == (3, 6)
    told = [r for r in caplog.records if r.name == "onpath"]
    assert len(told) == 2  # the first of each kind


@pytest.mark.parametrize("error", [RuntimeError("a fault of the application"), SystemExit(1), KeyboardInterrupt()])
def test_what_callbacks_raise_is_logged_and_counted(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise error

    with Watched(on_violation=fail) as watched:
        processor = OnPathSpanProcessor(POLICY, on_report=fail)
        watched.provider.add_span_processor(processor)
        for _ in range(3):
            watched.run("override")
        assert processor.force_flush()
        watched.flushed()
        assert processor.counts.faults == {"on_report": 3}
        assert watched.processor.counts.faults["on_violation"] >= 3
        assert len(watched.sink.reports) == 3
        processor.shutdown()
    assert sum("a fault in on_report" in r.getMessage() for r in caplog.records) == 1


def test_spans_that_callbacks_make_are_not_judged() -> None:
    reports: list[Report] = []
    provider = TracerProvider(shutdown_on_exit=False)

    def report(found: Report) -> None:
        reports.append(found)
        run(provider.get_tracer("tests"), "look_up")

    processor = OnPathSpanProcessor(POLICY, on_report=report)
    provider.add_span_processor(processor)
    run(provider.get_tracer("tests"), "look_up")
    assert processor.force_flush()
    assert len(reports) == 1
    processor.shutdown()
    assert processor.counts.traces_started == 1


def test_callbacks_run_where_instrumentation_is_suppressed_and_can_not_flush() -> None:
    seen: list[Any] = []
    provider = TracerProvider(shutdown_on_exit=False)

    def report(_: Report) -> None:

        seen.append(
            (get_value(_SUPPRESS_INSTRUMENTATION_KEY), processor.force_flush(), threading.current_thread().name)
        )

    processor = OnPathSpanProcessor(POLICY, on_report=report)
    provider.add_span_processor(processor)
    run(provider.get_tracer("tests"), "look_up")
    assert processor.force_flush()
    assert seen == [(True, False, "onpath")]
    processor.shutdown()


class Gate:
    """A callback that keeps the judging thread busy until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> None:
        self.entered.set()
        assert self.opened.wait(30)


def test_a_flush_honours_its_timeout() -> None:
    gate = Gate()
    processor = OnPathSpanProcessor(POLICY, on_report=gate)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    run(provider.get_tracer("tests"), "look_up")
    assert gate.entered.wait(30)
    assert processor.force_flush(50) is False
    gate.opened.set()
    assert processor.force_flush() is True
    processor.shutdown()


def test_the_end_of_a_process_waits_once() -> None:
    gate = Gate()
    processor = OnPathSpanProcessor(POLICY, on_report=gate, exit_timeout=0.05)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    run(provider.get_tracer("tests"), "look_up")
    assert gate.entered.wait(30)
    stations: Any = processor._stations
    stations._flush()  # as atexit does
    processor.shutdown(3_600_000)  # then the provider's own
    assert not gate.opened.is_set()
    gate.opened.set()


@pytest.mark.parametrize("limit", [{"queue_size": 10}, {"queue_bytes": 12_000}])
def test_a_full_queue_drops_and_counts_and_no_complete_verdict_comes_of_it(limit: dict[str, int]) -> None:
    gate = Gate()
    sink = MemorySink()

    def report(found: Report) -> None:
        sink(found)
        gate()

    processor = OnPathSpanProcessor(POLICY, on_report=report, **limit)  # type: ignore[arg-type]
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("tests")
    run(tracer, "look_up", "check", "pay")
    assert gate.entered.wait(30)
    for _ in range(10):
        run(tracer, "look_up", "check", "pay")
    gate.opened.set()
    assert processor.force_flush()
    counts = processor.counts
    assert counts.spans_dropped["queue"] > 0
    assert counts.traces_started == counts.judged.total()
    whole = [r for r in sink.reports if r.complete]
    assert all(len(r.results[0].evaluations[0].data["extracted"]) == 3 for r in whole)
    assert all(r.release_reason == "memory" for r in sink.reports if not r.complete)
    processor.shutdown()


def test_a_full_queue_makes_callers_wait_where_that_is_asked_for() -> None:
    gate = Gate()
    processor = OnPathSpanProcessor(POLICY, on_report=gate, queue_size=10, when_full="block")
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("tests")
    run(tracer, "look_up")
    assert gate.entered.wait(30)
    threads = [threading.Thread(target=run, args=(tracer, "look_up", "check", "pay")) for _ in range(5)]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert any(thread.is_alive() for thread in threads)
    gate.opened.set()
    for thread in threads:
        thread.join(30)
    assert processor.force_flush()
    assert processor.counts.spans_dropped == {}
    assert processor.counts.judged.total() == 6
    processor.shutdown()


def test_shutdown_flushes_and_is_idempotent_and_final() -> None:
    watched = Watched()
    watched.run("look_up", "check", "pay")
    root = watched.tracer.start_span(
        "invoke_agent refund", attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "refund"}
    )
    watched.processor.shutdown()
    assert sorted((r.release_reason, r.complete) for r in watched.sink.reports) == [
        ("root_ended", True), ("shutdown", False)
    ]  # fmt: skip
    watched.processor.shutdown()
    root.end()
    watched.run("override")
    assert watched.processor.force_flush(10)
    assert len(watched.sink.reports) == 2
    conserved(watched)


def test_a_shutdown_without_any_span_starts_nothing() -> None:
    before = threading.active_count()
    processor = OnPathSpanProcessor(POLICY)
    assert processor.force_flush(0)
    processor.shutdown()
    processor.shutdown()
    assert threading.active_count() == before


# ------------------------------------------------------------------ policies that are no good


@pytest.mark.parametrize(
    "text", [None, "workflows: [{name: a, nonsense: 1}]", "{{{"], ids=["missing", "wrong", "no YAML"]
)
def test_a_bad_policy_is_one_line_in_the_log_and_the_application_runs_on(
    text: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = tmp_path / "policy.yaml"
    if text is not None:
        policy.write_text(text)
    with Watched(str(policy)) as watched:
        assert not watched.processor.active
        watched.run("look_up")
        watched.flushed()
        assert watched.sink.reports == []
    [told] = [r for r in caplog.records if r.name == "onpath"]
    assert told.levelno == logging.ERROR
    assert str(policy) in told.getMessage()
    assert "\n" not in told.getMessage()
    with pytest.raises(PolicyError):
        OnPathSpanProcessor(str(policy), strict=True)


def test_neither_policy_nor_endpoint(caplog: pytest.LogCaptureFixture) -> None:
    assert not OnPathSpanProcessor().active
    assert "neither a policy nor an endpoint" in caplog.text


async def wait(_: Report) -> None:
    """No callback: nobody would await it."""


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"max_agee": 5}, TypeError, "did you mean max_age"),
        ({"max_age": "soon"}, ValueError, "max_age: 'soon' is not a duration"),
        ({"queue_size": 0}, ValueError, "queue_size"),
        ({"memory_limit": "64 pounds"}, ValueError, "memory_limit"),
        ({"spans": "on"}, ValueError, "expected off, clamped, realtime or linked"),
        ({"on_report": wait}, TypeError, "on_report is called on a thread of its own"),
        ({"on_violation": ["print"]}, TypeError, "on_violation is a function or its name, .*; got list"),
    ],
)
def test_wrong_options_are_the_programmers_to_mend(options: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        OnPathSpanProcessor(POLICY, **options)


def test_a_report_can_be_printed() -> None:
    with Watched() as watched:
        with agent(watched.tracer, "refund"), tool(watched.tracer, "override"):
            pass
        [report] = watched.flushed().reports
    assert str(report) == (f"refund: fail (agent refund, trace {report.trace_id}): expected step look_up is missing")
    nasty = replace(report, results=(replace(report.results[0], agent="a\x1b[2J\u202eb"),))
    assert "agent a\\u001b[2J\\u202eb," in str(nasty)
    assert str(replace(report, results=())) == f"trace {report.trace_id}: no workflow is about it"


def test_a_trace_that_is_recorded_and_not_sampled_is_judged_and_exports_nothing() -> None:
    class RecordOnly(Sampler):
        def should_sample(self, *given: Any, **named: Any) -> SamplingResult:
            return SamplingResult(Decision.RECORD_ONLY, named.get("attributes") or given[4])

        def get_description(self) -> str:
            return "record only"

    exported, sink = InMemorySpanExporter(), MemorySink()
    processor = OnPathSpanProcessor(POLICY, on_report=sink, spans="clamped")
    provider = TracerProvider(sampler=RecordOnly(), shutdown_on_exit=False)
    provider.add_span_processor(processor)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    run(provider.get_tracer("tests"), "look_up", "check", "pay")
    processor.shutdown()
    assert sink.verdicts == ["pass"]
    assert exported.get_finished_spans() == ()
