"""Prometheus from the system's packages: rules are valid, and every expression of dashboard and rules gives data."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.test_admin import POLICY, agent_run
from tests.support.collector import Collector
from tests.support.otlp_sink import OtlpSink
from tests.support.processes import Child
from tests.support.waiting import until

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yaml"
DASHBOARD = DEPLOY / "grafana" / "onpath.json"

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Prometheus: apt-get install prometheus"),
]


# What it asks for is not in the spans.
UNKNOWN = """
  - name: polite
    output: {contains!: please}
"""


def expressions() -> dict[str, str]:
    """Those of the dashboard, with its variables filled in, and those of the rules without what they compare to."""
    found = {}
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            filled = target["expr"].replace("$__rate_interval", "1m").replace("$__range", "1m")
            found[f"{panel['title']} {target['refId']}"] = filled.replace("$workflow", ".*")
    for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]:
        for rule in group["rules"]:
            bare = re.sub(r">= 10", "> 0", re.sub(r"\s(<|>|==) [0-9.]+\s*$", "", rule["expr"]))
            found[rule["alert"]] = re.sub(r"\[\d+[mh]\]", "[1m]", bare)
    return found


def test_rules_are_valid() -> None:
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_expression_gives_data(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY + UNKNOWN, encoding="utf-8")
    with OtlpSink() as sink, Collector(policy, tmp_path, "--forward", f"grpc://{sink.address}") as collector:
        agent_run(collector, "lookup_user")
        agent_run(collector, "delete_user")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        config = tmp_path / "prometheus.yml"
        scraped = {
            "job_name": "onpath",
            "scrape_interval": "1s",
            "static_configs": [{"targets": [collector.ports["admin"]]}],
        }
        config.write_text(json.dumps({"rule_files": [str(RULES)], "scrape_configs": [scraped]}), encoding="utf-8")
        prometheus = Child(
            [
                *("prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}"),
                *(f"--web.listen-address={address}", "--enable-feature=exemplar-storage"),
            ]
        )
        try:
            until(lambda: asked(address, "query", query="onpath_verdicts_total"), lambda: prometheus.output)
            for _ in range(3):
                agent_run(collector, "lookup_user")
                agent_run(collector, "delete_user")
                time.sleep(1.5)
            until(lambda: not empty(address), lambda: f"data for {empty(address)}", patience=60)
            unknown = asked(address, "query", query=expressions()["Unknown by reason A"])
            assert [(each["metric"]["workflow"], each["metric"]["reason"]) for each in unknown] == [
                ("polite", "not_captured")
            ]
            late = asked(address, "query", query=expressions()["From the end of a run to its verdict A"])
            assert 1 <= float(late[0]["value"][1]) <= 60, "settle_delay is 1 s"
            end = str(time.time() + 60)
            exemplars = until(
                lambda: asked(address, "query_exemplars", query="onpath_verdicts_total", start="0", end=end),
                lambda: "exemplars",
            )
            assert {len(e["labels"]["trace_id"]) for series in exemplars for e in series["exemplars"]} == {32}
        finally:
            prometheus.stop()


# Without a failure there is nothing to count: they are right to be empty, and must be understood all the same.
ONLY_IN_BAD_TIMES = {"OnpathMostlyUnknown", "OnpathRunsNotJudged", "OnpathSpansNotPassedOn", "OnpathRefusing"}


def empty(address: str) -> list[str]:
    """Names of expressions without data."""
    found = {name: asked(address, "query", query=expression) for name, expression in expressions().items()}
    return [name for name, data in found.items() if not data and name not in ONLY_IN_BAD_TIMES]


def asked(address: str, what: str, **parameters: str) -> Any:
    try:
        with urllib.request.urlopen(
            f"http://{address}/api/v1/{what}?{urllib.parse.urlencode(parameters)}", timeout=10
        ) as answer:
            data = json.loads(answer.read())["data"]
    except urllib.error.HTTPError as error:
        if error.code == 503:
            return None  # nearly up
        raise AssertionError(f"{parameters}: {error.read().decode()}") from None
    except urllib.error.URLError:
        return None  # not up yet
    found = data["result"] if isinstance(data, dict) else data
    return [each for each in found if "value" not in each or each["value"][1] != "NaN"]


def test_the_dashboard_is_current() -> None:
    uv = shutil.which("uv") or str(Path(__file__).parents[2] / ".venv" / "bin" / "uv")
    script = DEPLOY / "grafana" / "dashboard.py"
    had = subprocess.run(
        [uv, "run", "--quiet", "--script", str(script), "--check"], capture_output=True, text=True, check=False
    )
    if "error" in had.stderr.lower() and "Traceback" not in had.stderr:
        pytest.skip(f"grafana-foundation-sdk can't be had: {had.stderr.strip()[-200:]}")
    assert had.returncode == 0, f"run `uv run deploy/grafana/dashboard.py`\n{had.stderr}"
