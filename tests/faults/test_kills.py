"""Killed at random moments under load, with late spans on the way: nothing is lost, and nothing said otherwise."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.durable import Lives, assert_nothing_lost, assert_said_once
from tests.support.load import Load
from tests.support.otlp_sink import OtlpSink
from tests.support.waiting import until

KILLS = 20
SOON = ("--settle-delay", "300ms")


@pytest.mark.parametrize(("fsync", "kills"), [("interval", KILLS), ("always", 5), ("never", 5)])
def test_kills_at_random_moments_under_load(
    tmp_path: Path, sink: OtlpSink, tell: Callable[..., None], fsync: str, kills: int
) -> None:
    config = tmp_path / "onpath.yaml"
    config.write_text(f"durability: {{fsync: {fsync}}}\nbuffer: {{orphan_delay: 1s}}\n", encoding="utf-8")
    lives = Lives(tmp_path, sink.address, *SOON, "--config", str(config))
    draw = random.Random()
    load = Load(lives.address, threads=4, rate=60, late=0.6)
    brought_back = 0
    for life in range(kills):
        with lives.start() as collector:
            if life == 0:
                load.__enter__()
            time.sleep(draw.uniform(0.1, 2.5))
            collector.kill()
        brought_back += "back from the journal" in collector.output
        assert_said_once(lives.results)
    with lives.start() as collector:
        load.stop()
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace", 120)
    with lives.start() as last:
        pass
    assert "back from the journal" not in last.output
    assert not list(lives.journal.glob("damaged-*"))
    assert load.failures == []
    assert_nothing_lost(lives, load.acknowledged, sink)
    assert_said_once(lives.results)
    again = len(lives.results) - len({(r["trace_id"], r["revision"]) for r in lives.results})
    tell(f"{len(load.acknowledged)} spans of {len(load.traces)} traces acknowledged, {load.refused} calls refused,")
    tell(f"{brought_back} starts with something to bring back, {again} results said again;", collector.ledger)
