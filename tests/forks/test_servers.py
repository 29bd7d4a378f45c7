"""The fork matrix: each server really forks after onpath was set up, and every run is judged where it ran, once.

Each is tried with nothing before the fork, and with a run before it, so that the judging thread was there and is not.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support.venvs import Unavailable, python_of
from tests.support.waiting import until

pytestmark = pytest.mark.forks

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
PATIENCE = 120

Told = list[dict[str, Any]]
before = pytest.mark.parametrize("before", ["", "1"], ids=["empty", "thread-running"])


def python(environment: str) -> Path:
    try:
        return python_of(environment, with_onpath=True, folder=HERE / "requirements")
    except Unavailable as reason:
        pytest.skip(str(reason))


def variables(folder: Path, before: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    own = {"FORKS_REPORTS": str(folder / "reports.jsonl"), "FORKS_FOLDER": str(folder), "FORKS_BEFORE": before}
    return {**kept, **own, "PYTHONPATH": str(PROGRAMS), "C_FORCE_ROOT": "1"}


@contextmanager
def server(command: Sequence[str], env: dict[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(port: int, path: str) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found
    except OSError:
        return None


def asked(port: int, folder: Path) -> Told:
    """Requests until two processes have answered at least once; what each answered."""
    until(lambda: get(port, "/good"), lambda: (folder / "server.log").read_text(), PATIENCE)
    told: Told = []
    while len(told) < 20 or (len({t["pid"] for t in told}) < 2 and len(told) < 200):
        answer = get(port, "/bad" if len(told) % 2 else "/good")
        assert answer is not None
        told.append(answer)
    return told


def reports(folder: Path) -> Told:
    path = folder / "reports.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def each_judged_where_it_ran(told: Told, folder: Path) -> None:
    """Every run told of has one report, from the process that ran it, complete and with the verdict it deserves."""
    ran = {t["trace"]: t for t in told}
    found = until(
        lambda: [r for r in reports(folder) if r["trace"] in ran] if len(_of(ran, folder)) == len(ran) else None,
        lambda: f"{len(ran)} reports; there are {reports(folder)}\n{_log(folder)}",
    )
    assert Counter(r["trace"] for r in found) == Counter(ran.keys())
    for report in found:
        assert report == {**ran[report["trace"]], "complete": True}
    assert len({t["pid"] for t in told}) > 1


def _of(ran: dict[str, Any], folder: Path) -> set[str]:
    return {r["trace"] for r in reports(folder)} & ran.keys()


def _log(folder: Path) -> str:
    log = folder / "server.log"
    return log.read_text() if log.exists() else ""


@before
def test_gunicorn_with_preload(before: str, tmp_path: Path) -> None:
    port = free_port()
    gunicorn = python("servers").parent / "gunicorn"
    command = [str(gunicorn), "--preload", "-w", "2", "-b", f"127.0.0.1:{port}", "--chdir", str(PROGRAMS), "web"]
    with server(command, variables(tmp_path, before), tmp_path) as process:
        told = asked(port, tmp_path)
        each_judged_where_it_ran(told, tmp_path)
    assert process.returncode == 0
    assert process.pid not in {t["pid"] for t in told}
    assert len([r for r in reports(tmp_path) if r["pid"] == process.pid]) == (1 if before else 0)


@before
@pytest.mark.parametrize("hooks", [(), ("--py-call-osafterfork",)], ids=["no-hooks", "hooks"])
def test_uwsgi(before: str, hooks: Sequence[str], tmp_path: Path) -> None:
    port = free_port()
    uwsgi = python("uwsgi").parent / "uwsgi"
    venv = uwsgi.parent.parent
    command = [
        str(uwsgi), "--http-socket", f"127.0.0.1:{port}", "--master", "--processes", "2", "--enable-threads",
        "--need-app", "--die-on-term", "--virtualenv", str(venv), "--pythonpath", str(PROGRAMS),
        "--module", "web:application", *hooks,
    ]  # fmt: skip
    with server(command, variables(tmp_path, before), tmp_path):
        each_judged_where_it_ran(asked(port, tmp_path), tmp_path)


@before
@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_multiprocessing(way: str, before: str, tmp_path: Path) -> None:
    command = [str(python("servers")), "-W", "ignore", str(PROGRAMS / "processes.py"), way]
    env = variables(tmp_path, before)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    each_judged_where_it_ran(json.loads(done.stdout), tmp_path)


@before
def test_celery_prefork(before: str, tmp_path: Path) -> None:
    program = [str(python("servers")), str(PROGRAMS / "tasks.py")]
    env = variables(tmp_path, before)
    with server([*program, "worker"], env, tmp_path):
        until(lambda: (tmp_path / "control").exists(), lambda: _log(tmp_path), PATIENCE)
        send = [*program, "send"]
        sender = {**env, "FORKS_BEFORE": ""}
        done = subprocess.run(send, env=sender, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr + _log(tmp_path)
        each_judged_where_it_ran(json.loads(done.stdout), tmp_path)
