"""A running collector sends scores to a backend of its own and says at the start what a sink lacks."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_admin import POLICY, agent_run
from tests.support.collector import Collector
from tests.support.onpath import COMMAND
from tests.support.otlp_sink import OtlpSink
from tests.support.waiting import until


class _Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked = 0
        self.taken: list[dict[str, Any]] = []


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked += 1
        if self.server.asked > 1:
            self.server.taken.append(document)
        self.send_response(404 if self.server.asked == 1 else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def backend() -> Iterator[_Server]:
    """Has no trace at first, then takes what it is sent."""
    server = _Server()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def written(folder: Path, text: str) -> Path:
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    path = folder / "onpath.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def metrics(collector: Collector) -> str:
    with urllib.request.urlopen(f"http://{collector.ports['admin']}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def test_a_score_gets_to_its_backend_and_metrics_to_theirs(tmp_path: Path, backend: _Server) -> None:
    with OtlpSink() as telemetry, OtlpSink() as counted:
        url = f"http://127.0.0.1:{backend.server_port}"
        config = written(
            tmp_path,
            f"forward: {{endpoint: 'grpc://{telemetry.address}'}}\n"
            f"results:\n"
            f"  presets: [logfire, braintrust]\n"
            f"  metrics: {{endpoint: 'grpc://{counted.address}', interval: 500ms}}\n"
            f"  sinks: [{{type: phoenix, url: '{url}'}}]\n",
        )
        with Collector(tmp_path / "policy.yaml", tmp_path, "--config", str(config)) as collector:
            trace_id = agent_run(collector, "delete_user")
            taken = until(lambda: backend.taken, lambda: collector.output)
            until(lambda: counted.requests("metrics"), lambda: "metrics")
            until(
                lambda: 'onpath_sink_sent_scores_total{sink="phoenix"} 2.0' in metrics(collector),
                lambda: "2 scores sent",
            )
            text = metrics(collector)
    scored = {each["name"]: each["result"]["label"] for each in taken[0]["data"]}
    assert scored == {"workflow_adherence": "fail", "required_steps": "fail"}
    assert {each["trace_id"] for each in taken[0]["data"]} == {trace_id}
    assert 'onpath_sink_retries_total{sink="phoenix"} 1.0' in text
    assert telemetry.requests("metrics") == []
    (span,) = [span for span in telemetry.spans() if span.name == "onpath.evaluate refund"]
    assert {"logfire.feedback.name", "braintrust.scores"} <= {a.key for a in span.attributes}


def test_what_sinks_lack_is_told_at_the_start(tmp_path: Path) -> None:
    config = written(tmp_path, "results: {sinks: [{type: langfuse}, {type: datadog}, {type: phoenix}]}\n")
    names = ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY", "DD_API_KEY", "PHOENIX_COLLECTOR_ENDPOINT")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    command = [*COMMAND, "collector", "--config", str(config), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2, done.stderr
    for told in (
        "results.sinks[0] (langfuse): it needs LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY in the environment",
        "results.sinks[1] (datadog): it needs DD_API_KEY in the environment",
        "results.sinks[2] (phoenix): it needs a url or PHOENIX_COLLECTOR_ENDPOINT in the environment",
    ):
        assert told in done.stderr
