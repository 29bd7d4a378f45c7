"""Compose: its agent, onpath by its configuration and Prometheus by its own run together as processes (-m peers)."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support.venvs import Unavailable, python_of
from tests.conftest import ROOT
from tests.deploy.support import composed
from tests.peers.test_prometheus import asked
from tests.support.collector import Collector
from tests.support.durable import free_address
from tests.support.otlp_sink import OtlpSink
from tests.support.processes import Child
from tests.support.waiting import until

pytestmark = pytest.mark.peers

AGENT = composed.FOLDER / "agent"
RUNS = 5


def agent(collector: Collector) -> list[str]:
    """What its runs were."""
    try:
        python = python_of("requirements", folder=AGENT)
    except Unavailable as reason:
        pytest.skip(str(reason))
    environment = {**composed.SERVICES["agent"]["environment"], "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint}
    command = [str(python), str(AGENT / "agent.py"), "--runs", str(RUNS), "--pause", "0"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_run_gets_its_verdict_and_prometheus_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = composed.FOLDER / composed.mounts("onpath")["/etc/onpath/policies"]
    for name, value in composed.environment(tmp_path, policy).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ONPATH_RESULTS__SINKS", "[]")  # Phoenix has tests of its own
    with (
        OtlpSink() as phoenix,
        Collector(
            *(policy, tmp_path, "--config", str(composed.FOLDER / "onpath.yaml")),
            *("--forward", f"grpc://{phoenix.address}", "--journal", str(tmp_path / "journal"), "--log-format", "json"),
        ) as collector,
    ):
        made = agent(collector)
        until(lambda: len(collector.results) == RUNS, lambda: f"{RUNS} verdicts:\n{collector.output}")
        deserved = Counter("pass" if run == "good" else "fail" for run in made)
        assert Counter(result["verdict"] for result in collector.results) == deserved
        assert set(made) == {"good", "skipped", "prohibited"}
        assert {result["workflow"] for result in collector.results} == {"refund"}
        if shutil.which("prometheus") is None:
            return
        verdicts = counted(collector.ports["admin"], tmp_path)
    assert verdicts == {label: str(count) for label, count in deserved.items()}


def counted(admin: str, folder: Path) -> dict[str, Any]:
    """Verdicts, as Prometheus has them by the configuration in deploy/compose."""
    config = (composed.FOLDER / "prometheus.yml").read_text(encoding="utf-8").replace("onpath:13133", admin)
    (folder / "prometheus.yml").write_text(config, encoding="utf-8")
    (folder / "secrets").mkdir()
    shutil.copy(folder / "token", folder / "secrets" / "token")
    shutil.copy(ROOT / "deploy" / "prometheus" / "alerts.yaml", folder)
    address = free_address()
    options = [o for o in composed.SERVICES["prometheus"]["command"] if o.startswith("--enable-feature")]
    prometheus = Child(
        [
            *("prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'metrics'}"),
            *(f"--web.listen-address={address}", *options),
        ]
    )
    try:
        query = "sum by (verdict) (onpath_verdicts_total)"
        found = until(lambda: asked(address, "query", query=query), lambda: prometheus.output, patience=60)
        return {each["metric"]["verdict"]: each["value"][1] for each in found}
    finally:
        prometheus.stop()
