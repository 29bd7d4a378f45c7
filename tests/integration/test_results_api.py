"""The results API of a running collector: a trace is ended by hand, its report awaited, by `onpath wait` too."""

from __future__ import annotations

import json
import sqlite3
import urllib.request
from pathlib import Path

import grpc
import pytest

from onpath_collector.v1 import results_pb2
from onpath_collector.v1 import results_service_pb2 as pb
from onpath_collector.v1.results_service_pb2_grpc import ResultsServiceStub
from tests.integration.test_admin import POLICY, agent_run
from tests.support.collector import Collector
from tests.support.onpath import onpath
from tests.support.tls import Authority, secret


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return path


def test_a_trace_is_ended_by_hand_and_awaited(policy: Path, tmp_path: Path) -> None:
    with Collector(policy, tmp_path, "--settle-delay", "10m") as collector:
        admin = collector.ports["admin"]
        with grpc.insecure_channel(admin) as channel:
            calls = ResultsServiceStub(channel)
            good = agent_run(collector, "lookup_user")
            calls.Complete(pb.CompleteRequest(trace_id=good))
            report = calls.WaitForReport(pb.WaitForReportRequest(trace_id=good), timeout=30).report
            (result,) = report.results
            assert (result.verdict, result.release_reason) == (results_pb2.VERDICT_PASS, "marked")
            assert result.complete
            bad = agent_run(collector, "delete_user")
            address = f"http://{admin}/v1/traces/{bad}:complete"
            request = urllib.request.Request(address, b"{}", {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=10) as answer:
                assert json.loads(answer.read()) == {}
            passed = onpath("wait", good, "--admin", admin)
            assert (passed.returncode, "pass" in passed.stdout) == (0, True), passed.stderr
            failed = onpath("wait", bad, "--admin", admin, "--format", "json")
            assert (failed.returncode, json.loads(failed.stdout)["verdict"]) == (1, "fail"), failed.stderr
            listed = calls.ListReports(pb.ListReportsRequest()).reports
            assert [r.trace_id for r in listed] == [bad, good]


def test_waiting_in_vain(policy: Path, tmp_path: Path) -> None:
    with Collector(policy, tmp_path) as collector:
        admin = collector.ports["admin"]
        late = onpath("wait", "1" * 32, "--admin", admin, "--timeout", "0.1")
        assert (late.returncode, "no report of trace" in late.stderr) == (3, True)
        wrong = onpath("wait", "short", "--admin", admin)
        assert (wrong.returncode, "32 hex digits" in wrong.stderr) == (64, True)
    gone = onpath("wait", "1" * 32, "--admin", admin)
    assert (gone.returncode, "Connection refused" in gone.stderr) == (2, True)
    assert onpath("wait").returncode == 64


def test_waiting_at_a_guarded_port(policy: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue()
    token = secret(tmp_path / "token", "letmein\n")
    config = tmp_path / "onpath.yaml"
    store = tmp_path / "reports.db"
    config.write_text(
        f"admin: {{tls: {{cert: {cert}, key: {key}}}, bearer_token_files: [{token}]}}\n"
        f"results: {{store: {{path: {store}, reports: 5}}}}\n",
        encoding="utf-8",
    )
    with Collector(policy, tmp_path, "--config", str(config)) as collector:
        admin = collector.ports["admin"]
        good = agent_run(collector, "lookup_user")
        done = onpath("wait", good, "--admin", admin, "--config", str(config))
        assert done.returncode == 0, done.stderr
        done = onpath("wait", good, "--admin", admin, "--ca", str(authority.path), "--token-file", str(token))
        assert done.returncode == 0, done.stderr
        done = onpath("wait", good, "--admin", admin, "--ca", str(authority.path))
        assert (done.returncode, "a bearer token is needed" in done.stderr) == (2, True)
        stranger = Authority(tmp_path, "stranger")
        done = onpath("wait", good, "--admin", admin, "--ca", str(stranger.path), "--token-file", str(token))
        assert done.returncode == 2, "the token goes to nobody else"
    connection = sqlite3.connect(store)
    assert connection.execute("SELECT trace_id FROM reports").fetchall() == [(good,)]
    connection.close()


def test_a_store_that_cannot_be_had(policy: Path, tmp_path: Path) -> None:
    config = tmp_path / "onpath.yaml"
    config.write_text("results: {store: {path: /none/reports.db}}\n", encoding="utf-8")
    done = onpath("collector", "--config", str(config), "--policy", str(policy))
    assert (done.returncode, "report store /none/reports.db: No such file" in done.stderr) == (1, True), done.stderr
