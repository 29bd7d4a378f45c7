"""The pytest plugin as its users meet it: the sample project beside this file, run by pytest in its own process."""

from __future__ import annotations

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parent / "sample"


def pytest_run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def messages(folder: Path, *options: str) -> dict[str, str]:
    """What each test of the sample says of its failure, empty for one that passes."""
    done = pytest_run(folder, "--junitxml", "report.xml", *options)
    assert done.returncode == 1, done.stdout + done.stderr
    cases = ElementTree.parse(folder / "report.xml").getroot().iter("testcase")
    return {case.get("name", ""): "".join(found.text or "" for found in case) for case in cases}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path_factory.mktemp("plugin") / "sample"))


@pytest.fixture(scope="module")
def said(sample: Path) -> dict[str, str]:
    return messages(sample, "test_refund.py")


def all_as_named(said: dict[str, str]) -> bool:
    wrong = [name for name, message in said.items() if bool(message) != ("_fails" in name)]
    assert not wrong, {name: said[name] for name in wrong}
    return len(said) >= 20


def test_each_test_of_the_sample_ends_as_its_name_says(said: dict[str, str]) -> None:
    assert all_as_named(said)


def test_and_so_it_does_on_several_workers(sample: Path) -> None:
    assert all_as_named(messages(sample, "test_refund.py", "test_own_provider.py", "-n", "2"))


def test_a_run_off_path_fails_with_the_alignment(said: dict[str, str]) -> None:
    told = [line.removeprefix("E").strip() for line in said["test_off_path_fails"].splitlines() if line[:1] == "E"]
    assert [" ".join(line.split()) for line in told[:9]] == [
        "AssertionError: onpath: workflow refund is fail (agent refund, 2 steps)",
        "workflow_adherence: fail 0.35",
        "expected step check is missing",
        "expected step pay is missing",
        "expected seen",
        "look_up look_up",
        "- check is missing",
        "- pay is missing",
        "+ override is not expected here",
    ]
    assert "onpath: workflow order is fail (agent refund, 2 steps)" in told
    assert "assert False" in told


def test_the_marker_fails_with_the_alignment_and_nothing_else(said: dict[str, str]) -> None:
    assert said["test_marked_fails"].startswith("onpath: workflow refund is fail (agent refund, 2 steps)\n")
    assert "Traceback" not in said["test_marked_fails"]
    assert "onpath: workflow refund is fail" in said["test_async_and_marked_fails"]


def test_other_failures_are_left_alone(said: dict[str, str]) -> None:
    assert "onpath: workflow" not in said["test_for_another_reason_fails"]
    assert "ValueError: by itself" in said["test_marked_and_wrong_by_itself_fails"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("test_without_spans_fails", "no span was recorded; is the agent instrumented"),
        ("test_without_an_agent_fails", "no workflow is about what was recorded, 1 spans in 1 traces (agent 2x)"),
        ("test_still_open_fails", "Incomplete trace."),
        ("test_of_a_workflow_that_is_not_there_fails", "the policy has no workflow 'refunds'; it has refund, order"),
        ("test_marked_with_a_bad_policy_fails", "no such file.yaml: can't be read"),
    ],
)
def test_what_could_not_be_judged_says_why(said: dict[str, str], name: str, reason: str) -> None:
    assert reason in said[name]


def test_the_marker_and_the_fixture_are_described(sample: Path) -> None:
    assert "@pytest.mark.onpath(policy=None, workflow=None):" in pytest_run(sample, "--markers").stdout


def test_tests_without_it_load_nothing_of_it(tmp_path: Path) -> None:
    (tmp_path / "test_nothing.py").write_text(
        "import sys\n"
        "def test_nothing():\n"
        "    loaded = {name for name in sys.modules if name.split('.')[0] in ('onpath', 'opentelemetry', 'pydantic')}\n"
        "    assert loaded == {'onpath', 'onpath.pytest_plugin'}\n"
    )
    done = pytest_run(tmp_path, "-p", "no:inline_snapshot")
    assert done.returncode == 0, done.stdout
