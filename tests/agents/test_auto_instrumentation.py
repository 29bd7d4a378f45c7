"""An application under `opentelemetry-instrument` points traces, metrics and logs at one endpoint: it sees no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.conftest import POLICY
from tests.agents.support.programs import Run, run
from tests.agents.support.venvs import Unavailable
from tests.support.collector import Collector
from tests.support.otlp_sink import SIGNALS, OtlpSink
from tests.support.waiting import until

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


def test_metrics_and_logs_go_on_too(openai: str, collector: Collector, downstream: OtlpSink) -> None:
    app = application(collector.endpoint, openai, "-all")
    assert (app.code, app.stderr) == (0, ""), str(app)
    marks = {"metrics": b"gen_ai.client.operation.duration", "logs": b"calling lookup_customer"}
    for signal, mark in marks.items():
        until(lambda s=signal, m=mark: arrived(downstream, s, app.service, m), lambda s=signal: f"{s} of {app.service}")


def arrived(downstream: OtlpSink, signal: str, service: str, mark: bytes) -> bool:
    return any(service.encode() in request and mark in request for request in downstream.requests(signal))


@pytest.mark.parametrize("missing", ["metrics", "logs"])
def test_the_application_would_tell_of_an_error(openai: str, missing: str) -> None:
    """The control: where one of the services is missing, the same application does complain."""
    with OtlpSink(signals={*SIGNALS} - {missing}) as lacking:
        app = application(f"http://{lacking.address}", openai, f"-without-{missing}")
    assert f"Failed to export {missing}" in app.stderr, str(app)
