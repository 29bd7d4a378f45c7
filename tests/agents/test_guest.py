"""onpath as a guest of a real agent framework, enabled in each way there is; and what it says when it can't be."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.agents.conftest import POLICY
from tests.agents.support.programs import PATIENCE, PROGRAMS
from tests.agents.support.venvs import Unavailable, python_of

pytestmark = pytest.mark.agents

WAYS = ("environment", "exporter", "both", "configuration file", "code")
CONFIGURATION = """
file_format: "1.0"
resource: {attributes: [{name: service.name, value: refund-guest}]}
tracer_provider:
  processors:
    - batch: {exporter: {onpath: {policy: "POLICY", settle_delay: 500ms}}}
logger_provider:
  processors:
    - simple: {exporter: {console: {}}}
"""


@dataclass(frozen=True)
class Ran:
    code: int
    stdout: str
    stderr: str

    @property
    def verdicts(self) -> list[str]:
        return re.findall(r"^verdict (.*) pid=", self.stderr, re.MULTILINE)

    @property
    def told(self) -> list[str]:
        """The lines of the log that onpath wrote."""
        return [line for line in self.stderr.splitlines() if "onpath:" in line]

    @property
    def events(self) -> int:
        return self.stdout.count("gen_ai.evaluation.result")


@cache
def python() -> Path | str:
    try:
        return python_of("guest", with_onpath=True)
    except Unavailable as reason:
        return str(reason)


def run(way: str, policy: Path, folder: Path, scenario: str = "skipped", **more: str) -> Ran:
    found = python()
    if isinstance(found, str):
        pytest.skip(found)
    command = [str(found), str(PROGRAMS / "refund_guest.py"), scenario]
    if way in ("environment", "both", "configuration file"):
        command.insert(0, str(found.parent / "opentelemetry-instrument"))
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    env = {**kept, "ONPATH_ON_REPORT": "verdicts:show", **settings(way, policy, folder), **more}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def settings(way: str, policy: Path, folder: Path) -> Mapping[str, str]:
    common = {"OTEL_SERVICE_NAME": "refund-guest", "OTEL_LOGS_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}
    if way == "code":
        return {"GUEST": "code", "GUEST_POLICY": str(policy), "OTEL_SERVICE_NAME": "refund-guest"}
    if way == "configuration file":
        file = folder / "otel.yaml"
        file.write_text(CONFIGURATION.replace("POLICY", str(policy)))
        return {"OTEL_CONFIG_FILE": str(file)}
    exporter = "onpath" if way in ("exporter", "both") else "none"
    guest = {"GUEST": "configured"} if way == "exporter" else {}
    return {**common, **guest, "ONPATH_POLICY": str(policy), "OTEL_TRACES_EXPORTER": exporter}


@pytest.mark.parametrize("way", WAYS)
def test_a_short_program_gets_its_verdict_before_it_ends(way: str, tmp_path: Path) -> None:
    ran = run(way, POLICY, tmp_path)
    assert ran.code == 0, ran
    assert ran.verdicts == ["refund fail root_ended complete=True"], ran
    assert ran.told == []
    if way not in ("code", "exporter"):  # these two have no logger provider that outlives the tracer provider
        assert ran.events == 3, ran


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "content", [None, "version: 1\nworkflows: [{name: refund, adherance: {}}]\n"], ids=["missing", "bad"]
)
def test_without_a_policy_one_line_says_so_and_the_agent_runs_on(way: str, content: str | None, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    if content is not None:
        policy.write_text(content)
    ran = run(way, policy, tmp_path, "good")
    assert ran.code == 0, ran
    assert ran.verdicts == []
    [line] = ran.told
    assert "no trace is judged, the policy was not loaded" in line
    assert str(policy) in line
    assert "Traceback" not in ran.stderr


def test_installed_and_not_enabled_it_changes_nothing(tmp_path: Path) -> None:
    found = python()
    if isinstance(found, str):
        pytest.skip(found)
    ran = run("environment", POLICY, tmp_path, ONPATH_POLICY="")
    assert (ran.code, ran.verdicts, ran.told, ran.events) == (0, [], [], 0), ran


def test_a_wrong_setting_is_told_and_its_default_stands(tmp_path: Path) -> None:
    ran = run("environment", POLICY, tmp_path, ONPATH_MAX_AGE="soon")
    assert ran.verdicts == ["refund fail root_ended complete=True"], ran
    [line] = ran.told
    assert "ONPATH_MAX_AGE: 'soon' is not a duration" in line
