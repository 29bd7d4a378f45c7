"""Starts that go wrong: a journal that is another's, and SIGTERM or kill -9 while what it holds is brought back."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.collector import ANY_PORTS
from tests.support.durable import Lives, assert_nothing_lost, assert_said_once
from tests.support.load import Load
from tests.support.onpath import COMMAND
from tests.support.otlp_sink import OtlpSink
from tests.support.processes import Child
from tests.support.waiting import until


def test_others_want_the_same_journal(tmp_path: Path, sink: OtlpSink, tell: Callable[..., None]) -> None:
    """None of them starts, and the first one does not notice."""
    lives = Lives(tmp_path, sink.address, "--settle-delay", "300ms")
    with lives.start() as collector, Load(lives.address, threads=3, rate=60) as load:
        others = [Child([*COMMAND, "collector", *ANY_PORTS, "--journal", str(lives.journal)]) for _ in range(4)]
        assert [other.wait() for other in others] == [1] * len(others)
        load.stop()
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace", 60)
    for other in others:
        assert f"the journal {lives.journal} is in use by another collector" in other.output
        assert "Traceback" not in other.output
    assert load.failures == []
    assert_nothing_lost(lives, load.acknowledged, sink)
    assert_said_once(lives.results)
    tell(f"{len(others)} refused, {len(load.acknowledged)} spans acknowledged meanwhile;", collector.ledger)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["term", "kill"])
def test_stopped_again_and_again_while_it_is_brought_back(
    tmp_path: Path, sink: OtlpSink, number: signal.Signals, tell: Callable[..., None]
) -> None:
    lives = Lives(tmp_path, sink.address)
    with lives.start("--settle-delay", "10m") as collector, Load(lives.address, threads=4, traces=4) as load:
        until(lambda: len(load.traces) > 8_000, lambda: "something to bring back", 120)
        collector.kill()
    draw = random.Random()
    cut = 0
    for turn in range(8):
        child = Child(collector.command)
        child.wait_for_line("[0-9]+ requests that were not settled are brought back", 60)
        time.sleep(draw.uniform(0, 0.1 * turn))
        code = child.stop(number)
        if "are back from the journal" in child.output:
            break  # and judged, maybe all of it: there may be nothing for another start
        cut += 1
        assert code == (0 if number == signal.SIGTERM else -number)
        if number == signal.SIGTERM:
            told = json.loads(child.lines[-1])
            assert told["traces_started"] == told["traces_open"]
    assert cut
    with lives.start() as collector:
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace", 120)
    assert_nothing_lost(lives, load.acknowledged, sink)
    assert_said_once(lives.results)
    assert {result["release_reason"] for result in lives.results} <= {"recovered", "shutdown"}
    tell(f"{cut} starts cut off, {len(load.acknowledged)} spans of {len(load.traces)} traces;", collector.ledger)
