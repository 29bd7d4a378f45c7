"""A fork in the midst of it, really made: the child starts empty, judges its own runs, and so does the parent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.live.support import Watched

SCRIPT = """
import json, os, sys, threading
from tests.live.support import Watched, agent, run, tool

out = sys.argv[1]
watched = Watched()

def save(who):
    counts = watched.processor.counts
    with open(os.path.join(out, who), "w") as file:
        json.dump({"verdicts": watched.sink.verdicts, "started": counts.traces_started, "judged": counts.judged}, file)

def busy(stop):
    while not stop.is_set():
        run(watched.tracer, "look_up", "check", "pay", name="other")

stop = threading.Event()
others = [threading.Thread(target=busy, args=(stop,), daemon=True) for _ in range(2)]
for thread in others:
    thread.start()
watched.run("look_up", "check", "pay")
with agent(watched.tracer):
    with tool(watched.tracer, "look_up"):
        pass
    pid = os.fork()
    if pid == 0:
        watched.sink.reports.clear()
        {child}
        save("child")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    for name in ("check", "pay"):
        with tool(watched.tracer, name):
            pass
stop.set()
for thread in others:
    thread.join()
assert watched.processor.force_flush()
save("parent")
"""
OWN_RUN = 'from opentelemetry import context; context.attach(context.Context()); watched.run("override")'
NOTHING = "pass"


def forked(tmp_path: Path, child: str) -> dict[str, Any]:
    code = SCRIPT.replace("{child}", f"{child}; assert watched.processor.force_flush()")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system does not fork")
def test_parent_and_child_judge_their_own(tmp_path: Path) -> None:
    found = forked(tmp_path, OWN_RUN)
    assert found["child"] == {"verdicts": ["fail"], "started": 1, "judged": {"fail": 1}}
    assert found["parent"]["verdicts"] == ["pass", "pass"]
    assert found["parent"]["started"] == sum(found["parent"]["judged"].values())


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system does not fork")
def test_a_child_starts_empty(tmp_path: Path) -> None:
    assert forked(tmp_path, NOTHING)["child"] == {"verdicts": [], "started": 0, "judged": {}}


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system does not fork")
def test_a_run_that_goes_on_in_a_child_is_unknown_there(tmp_path: Path) -> None:
    """The child has seen only the end of it."""
    going_on = (
        'watched.tracer.start_span("execute_tool check", attributes={"gen_ai.operation.name": "execute_tool"}).end()'
    )
    found = forked(tmp_path, going_on)["child"]
    assert "pass" not in found["judged"]
    assert "fail" not in found["judged"]
    assert found["started"] == 1


def test_in_the_master_of_uwsgi_no_thread_is_there_to_be_forked_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker forked while another thread runs hangs in uWSGI (make forks); a flush does the work of the thread."""
    monkeypatch.setitem(sys.modules, "uwsgi", SimpleNamespace(masterpid=os.getpid))
    before = threading.active_count()
    with Watched() as watched:
        watched.run("override")
        assert threading.active_count() == before
        assert watched.sink.reports == []
        assert watched.flushed().verdicts == ["fail"]
        watched.run("look_up", "check", "pay")
    assert watched.sink.verdicts == ["fail", "pass"]
    assert threading.active_count() == before
