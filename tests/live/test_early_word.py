"""Early word: `on_violation` comes while the agent runs, each finding once, and only what nothing to come can mend."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Tracer

from onpath import OnPathSpanProcessor
from onpath.report import Finding
from onpath.testing import MemorySink
from tests.live.support import POLICY, agent, tool


class Words:
    """Collects what `on_violation` is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str | None, str]] = []
        self._came = threading.Condition()

    def __call__(self, finding: Finding, span: Any) -> None:
        with self._came:
            self.told.append((finding.rule, finding.step, span.name))
            self._came.notify_all()

    def wait_for(self, number: int) -> list[tuple[str, str | None, str]]:
        with self._came:
            assert self._came.wait_for(lambda: len(self.told) >= number, 10), self.told
            return list(self.told)


class Running:
    def __init__(self, policy: Any = POLICY) -> None:
        self.words = Words()
        self.sink = MemorySink()
        self.processor = OnPathSpanProcessor(policy, on_report=self.sink, on_violation=self.words)
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self.processor)
        self.tracer = self.provider.get_tracer("tests")

    def quiet(self) -> None:
        """Nothing more has been told of what came up to now."""
        before = len(self.words.told)
        assert self.processor.force_flush()
        assert len(self.words.told) == before, self.words.told

    def close(self) -> None:
        self.processor.shutdown()


def flow(*items: Any) -> Any:
    return {"version": 1, "workflows": [{"name": "refund", "match": {"agent": "refund"}, "seq!": list(items)}]}


def test_a_prohibited_tool_is_told_while_it_is_still_running() -> None:
    running = Running()
    with agent(running.tracer), tool(running.tracer, "override"):
        assert running.words.wait_for(1) == [("prohibited_called", "override", "execute_tool override")]
        assert running.sink.reports == []
    running.close()
    assert sum(rule == "prohibited_called" for rule, *_ in running.words.told) == 1


def test_an_agent_stops_itself() -> None:
    stop = threading.Event()
    sink = MemorySink()
    processor = OnPathSpanProcessor(POLICY, on_report=sink, on_violation=lambda finding, span: stop.set())
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("tests")
    done = []
    with agent(tracer):
        for name in ("look_up", "override", *["pay"] * 1000):
            if stop.is_set():
                break
            with tool(tracer, name):
                done.append(name)
                stop.wait(0.05)
    processor.shutdown()
    assert stop.is_set()
    assert done[:2] == ["look_up", "override"]
    assert len(done) < 1000
    assert sink.verdicts == ["fail"]


def test_an_order_broken_for_good() -> None:
    running = Running(flow("look_up", "check", "pay"))
    with agent(running.tracer):
        with tool(running.tracer, "look_up"):
            pass
        running.quiet()
        assert running.words.told == []
        with tool(running.tracer, "pay"):
            [(rule, _, span)] = running.words.wait_for(1)
        assert (rule, span) == ("unexpected_step", "execute_tool pay")
        with tool(running.tracer, "check"):
            pass
        running.quiet()
    running.close()
    assert len(running.words.told) == 1


def test_what_may_still_come_is_told_only_at_the_end() -> None:
    running = Running()
    with agent(running.tracer):
        with tool(running.tracer, "look_up"):
            pass
        running.quiet()
        assert running.words.told == []
    told = running.words.wait_for(1)
    running.close()
    assert ("required_missing", "pay", "invoke_agent refund") in told


def test_each_finding_is_told_once_however_often_it_is_seen() -> None:
    running = Running()
    with agent(running.tracer):
        for _ in range(5):
            with tool(running.tracer, "override"):
                pass
            assert running.processor.force_flush()
        for name in ("look_up", "check", "pay"):
            with tool(running.tracer, name):
                pass
    running.close()
    assert [rule for rule, *_ in running.words.told].count("prohibited_called") == 1


def test_every_trace_is_told_for_itself() -> None:
    running = Running()
    for _ in range(3):
        with agent(running.tracer), tool(running.tracer, "override"):
            pass
    running.close()
    assert [rule for rule, *_ in running.words.told].count("prohibited_called") == 3


def late_role(tracer: Tracer, kind: str, name: str) -> Any:
    """A span whose instrumentation says only at its end what it is, as some do."""
    span = tracer.start_span(name)
    return span, {"openinference.span.kind": kind, f"{'agent' if kind == 'AGENT' else 'tool'}.name": name}


def test_a_call_inside_what_may_yet_be_another_agent_is_no_ones_yet() -> None:
    """The tool is another agent's business, which shows only when that agent's span ends."""
    from opentelemetry.trace import use_span

    running = Running()
    with agent(running.tracer):
        helper, attributes = late_role(running.tracer, "AGENT", "helper")
        with use_span(helper), tool(running.tracer, "override"):
            pass
        running.quiet()
        assert running.words.told == []
        helper.set_attributes(attributes)
        helper.end()
        running.quiet()
        for name in ("look_up", "check", "pay"):
            with tool(running.tracer, name):
                pass
    running.close()
    assert running.words.told == []
    assert running.sink.verdicts == ["pass"]


def test_other_open_spans_do_not_hold_the_word_back() -> None:
    running = Running()
    web = running.provider.get_tracer("web")
    with web.start_as_current_span("POST /chat"), web.start_as_current_span("handler"), agent(running.tracer):
        with tool(running.tracer, "override"):
            pass
        assert running.words.wait_for(1)[0][0] == "prohibited_called"
    running.close()


@pytest.mark.parametrize(
    "steps", [("look_up", "check", "pay"), ("check", "look_up", "pay"), ("pay", "look_up", "check")]
)
def test_no_early_word_on_a_run_that_passes(steps: tuple[str, ...]) -> None:
    running = Running()
    with agent(running.tracer):
        for name in steps:
            with tool(running.tracer, name):
                assert running.processor.force_flush()
    running.close()
    assert running.sink.verdicts == ["pass"]
    assert running.words.told == []
