"""Enabling without code: variables, the exporter, entry points. Real agents in each way are in tests/agents."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter

from onpath import enabling
from onpath.enabling import OnPathSpanExporter, pre_instrument, processor_from
from onpath.live.settings import Options, Settings, from_environment
from onpath.testing import MemorySink
from tests.conftest import ROOT
from tests.live.support import POLICY, Watched, agent, run, tool

POLICIES = ROOT / "deploy" / "policies"


@pytest.fixture
def exporter() -> Iterator[tuple[OnPathSpanExporter, MemorySink]]:
    sink = MemorySink()
    made = OnPathSpanExporter(POLICY, on_report=sink, settle_delay="50ms", events=False, metrics=False)
    yield made, sink
    made.shutdown()


def test_every_setting_can_be_given_by_code_by_variable_and_by_file() -> None:
    names = set(Settings.__dataclass_fields__)
    assert names == set(Options.__annotations__)
    values: dict[str, Any] = {name: "11m" if isinstance(_default(name), float) else "7" for name in names}
    values |= {"when_full": "block", "spans": "linked", "events": "no", "metrics": "off"}
    settings, problems = from_environment({f"ONPATH_{name.upper()}": value for name, value in values.items()})
    assert problems == []
    assert settings == Settings.of(values)
    assert all(getattr(settings, name) != _default(name) for name in names)


def _default(name: str) -> Any:
    return getattr(Settings(), name)


def test_what_is_wrong_is_told_by_the_name_that_it_was_given_by(caplog: pytest.LogCaptureFixture) -> None:
    settings, problems = from_environment({"ONPATH_MAX_AGE": "soon", "ONPATH_SPAN_LIMIT": "5", "ONPATH_OTHER": "x"})
    assert settings == Settings(span_limit=5)
    assert problems == ["ONPATH_MAX_AGE: 'soon' is not a duration such as 500ms, 2s, 10m or 1h"]
    processor_from({"ONPATH_POLICY": str(POLICIES / "refund.yaml"), "ONPATH_MAX_AGE": "soon"})
    assert "ONPATH_MAX_AGE: 'soon' is not a duration" in caplog.text
    assert "the default stands" in caplog.text


def test_several_policies_are_separated_as_in_path(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(f"version: 1\nworkflows: [{{name: {name}, match: {{}}, seq!: [...]}}]\n")
    processor = processor_from({"ONPATH_POLICY": f"{tmp_path / 'a.yaml'}:{tmp_path / 'b.yaml'}"})
    assert processor.active
    processor.shutdown()


def test_a_callback_may_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    with Watched(on_violation="builtins:print") as watched:
        watched.run("override")
        watched.flushed()
    assert "prohibited step override was taken" in capsys.readouterr().out


def test_a_callback_whose_name_leads_nowhere_is_a_fault_like_any_other(caplog: pytest.LogCaptureFixture) -> None:
    with Watched(on_violation="no.such:thing") as watched:
        watched.run("override")
        assert watched.flushed().verdicts == ["fail"]
    assert "a fault in on_violation" in caplog.text


def test_pre_instrument_does_nothing_unless_it_is_asked_to(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("ONPATH_POLICY", "ONPATH_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    pre_instrument()
    assert enabling._processor is None
    assert caplog.records == []


def test_the_entry_points_lead_to_it() -> None:
    [pre] = entry_points(group="opentelemetry_pre_instrument", name="onpath")
    [export] = entry_points(group="opentelemetry_traces_exporter", name="onpath")
    assert pre.load() is pre_instrument
    assert issubclass(export.load(), SpanExporter)
    assert not [p for p in entry_points(group="opentelemetry_configurator") if p.name == "onpath"]


# ------------------------------------------------------------------ the exporter


def test_an_exporter_judges_when_the_root_has_come_and_the_rest_had_time_to(
    exporter: tuple[OnPathSpanExporter, MemorySink],
) -> None:
    made, sink = exporter
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(made))
    run(provider.get_tracer("tests"), "look_up", "check", "pay")
    [report] = sink.wait_for(1)  # without a flush
    assert (str(report.results[0].verdict), report.complete, report.release_reason) == ("pass", True, "root_ended")


def test_an_exporter_behind_a_batch_flushes_with_its_provider(exporter: tuple[OnPathSpanExporter, MemorySink]) -> None:
    made, sink = exporter
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(made))
    run(provider.get_tracer("tests"), "look_up", "override")
    provider.shutdown()
    assert sink.verdicts == ["fail"]
    assert made.force_flush(10)


def test_an_exporter_shut_down_in_the_midst_of_a_run_calls_it_incomplete(
    exporter: tuple[OnPathSpanExporter, MemorySink],
) -> None:
    made, sink = exporter
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(made))
    tracer = provider.get_tracer("tests")
    with agent(tracer):
        with tool(tracer, "look_up"):
            pass
        provider.shutdown()
    # the agent's own span has not ended, so which agent it was is not known to an exporter
    assert sink.reports == []
    assert made._stations is not None
    counts = made._stations.here().counts
    assert (counts.judged, counts.released) == ({"unmatched": 1}, {"shutdown": 1})


def test_an_exporter_never_raises_for_what_it_is_given(caplog: pytest.LogCaptureFixture) -> None:
    made = OnPathSpanExporter("no such file.yaml", settle_delay="soon", nonsense=1)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(made))
    run(provider.get_tracer("tests"), "look_up")
    provider.shutdown()
    told = [r.getMessage() for r in caplog.records if r.name == "onpath"]
    assert len(told) == 3


# ------------------------------------------------------------------ content in events


def test_content_that_stands_in_events_is_judged_with_its_span() -> None:
    policy = {"version": 1, "workflows": [{"name": "chat", "match": {}, "seq!": ["llm"]}]}
    with Watched(policy) as watched:
        loggers = LoggerProvider(shutdown_on_exit=False)
        loggers.add_log_record_processor(watched.processor.log_evidence)
        logger = loggers.get_logger("tests")
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.system": "openai"}
        for content in ("please", None):
            with watched.tracer.start_as_current_span("chat m", attributes=attributes):
                if content is not None:
                    logger.emit(LogRecord(event_name="gen_ai.user.message", body={"role": "user", "content": content}))
                logger.emit(LogRecord(body="a line of text"))
        sink = watched.flushed()
        assert sink.verdicts == ["pass", "pass"]
        assert [r.coverage.content for r in sink.results] == ["partial", "none"]
        loggers.force_flush()
        loggers.shutdown()


# ------------------------------------------------------------------ what it brings in


@pytest.mark.parametrize(
    "code",
    ["import onpath", "from onpath import OnPathSpanProcessor", "import onpath.enabling", "import onpath.testing"],
)
def test_it_brings_in_nothing_heavy(code: str, tmp_path: Path) -> None:
    script = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    heavy = ("grpc", "google.protobuf", "pydantic", "yaml", "re2", "rich", "pytest")
    assert not {name for name in done.stdout.split() if name in heavy}
