"""The protocol of the results API by buf: names and comments are in order, and nothing that clients use has gone."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.peers

HERE = Path(__file__).resolve().parent / "buf"
FIRST = "proto/onpath/v1/results_service.proto"


def run(*command: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def buf() -> str:
    """Installed once, as the lock file says."""
    if shutil.which("npm") is None:
        pytest.skip("there is no npm here")
    folder = ROOT / ".cache" / "buf" / hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()[:16]
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(HERE, folder)
        done = run("npm", "ci", "--no-audit", "--no-fund", folder=folder)
        if done.returncode:
            pytest.skip(f"buf can't be had: {done.stderr[-300:]}")
        (folder / "complete").touch()
    return str(folder / "node_modules" / ".bin" / "buf")


def test_names_and_comments_are_in_order(buf: str) -> None:
    done = run(buf, "lint", "proto")
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_has_gone_since_the_first_version(buf: str) -> None:
    added = run("git", "log", "--format=%H", "--diff-filter=A", "--", FIRST).stdout.split()
    if not added:
        pytest.skip("the history does not go back to the first version")
    done = run(buf, "breaking", "proto", "--against", f".git#ref={added[-1]},subdir=proto")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_would_be_told(buf: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    changed = tmp_path / FIRST
    text = changed.read_text(encoding="utf-8")
    changed.write_text(text.replace("rpc GetReport(", "rpc get_report("), encoding="utf-8")
    assert run(buf, "lint", str(tmp_path / "proto")).returncode
    done = run(buf, "breaking", str(tmp_path / "proto"), "--against", "proto")
    assert "GetReport" in done.stdout + done.stderr
