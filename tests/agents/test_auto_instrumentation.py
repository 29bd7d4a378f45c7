"""An application under `opentelemetry-instrument` points traces, metrics and logs at one endpoint: it sees no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.conftest import POLICY
from tests.agents.support.programs import Run, run
from tests.agents.support.venvs import Unavailable
from tests.support.collector import Collector
from tests.support.otlp_sink import OtlpSink

pytestmark = pytest.mark.agents


def application(endpoint: str, openai: str, label: str) -> Run:
    try:
        return run("distro", "good", endpoint, openai, label=label)
    except Unavailable as reason:
        pytest.skip(str(reason))


def test_no_error_where_metrics_and_logs_have_nowhere_to_go(openai: str, tmp_path: Path) -> None:
    with Collector(POLICY, tmp_path) as collector:
        app = application(collector.endpoint, openai, "-alone")
        [result] = collector.wait_for(lambda result: result["service"] == app.service)
    assert (app.code, app.stderr) == (0, ""), str(app)
    assert result["verdict"] == "pass"


def test_the_application_would_tell_of_an_error(openai: str) -> None:
    """The control: behind an endpoint that knows traces alone, the same application does complain."""
    with OtlpSink(signals=["trace"]) as traces_only:
        app = application(f"http://{traces_only.address}", openai, "-control")
    assert "metrics" in app.stderr, str(app)
    assert "logs" in app.stderr, str(app)
