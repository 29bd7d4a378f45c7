"""A disk without room, and journals damaged in every way, through the real collector."""

from __future__ import annotations

import random
import re
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.collector.journal.test_damage import (
    Damage,
    append_garbage,
    damaged,
    flip,
    overwrite_page,
    overwrite_start,
    overwrite_tail,
    truncate,
)
from tests.support.disks import own_disk
from tests.support.durable import Lives, assert_nothing_lost
from tests.support.load import Load
from tests.support.otlp_sink import OtlpSink
from tests.support.waiting import until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with own_disk(tmp_path / "small", "size=6m") as folder:
        yield folder


def test_a_journal_that_fills_its_disk_goes_on_by_itself(
    tmp_path: Path, sink: OtlpSink, small_disk: Path, tell: Callable[..., None]
) -> None:
    """What it holds is judged and leaves; the room that it leaves is taken again."""
    lives = Lives(tmp_path, sink.address, "--settle-delay", "3s", journal=small_disk / "journal")
    with lives.start() as collector, Load(lives.address, threads=4, padding=2000, rate=100) as load:
        time.sleep(30)
        load.stop()
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace", 60)
    full = collector.output.count("the journal cannot be written")
    well = collector.output.count("the journal can be written again")
    assert full
    assert well == full, collector.output
    assert load.failures == []
    assert_nothing_lost(lives, load.acknowledged, sink)
    tell(f"full {full} times, {load.refused} calls refused, {len(load.acknowledged)} spans;", collector.ledger)


def test_a_full_disk_at_the_crash_and_at_the_start(
    tmp_path: Path, sink: OtlpSink, small_disk: Path, tell: Callable[..., None]
) -> None:
    lives = Lives(tmp_path, sink.address, journal=small_disk / "journal")
    with lives.start("--settle-delay", "10m") as collector:
        load = Load(lives.address, threads=4, padding=2000, rate=100).__enter__()
        collector.process.wait_for_line("the journal cannot be written")
        collector.kill()
    held = load.traces
    with lives.start() as collector:
        until(lambda: held <= lives.judged, lambda: "a verdict on every trace that it held", 60)
        until(lambda: load.traces > held, lambda: "senders that are taken again")
        load.stop()
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on the rest", 60)
    assert_nothing_lost(lives, load.acknowledged, sink)
    tell(f"{load.refused} calls refused, {len(load.acknowledged)} spans;", collector.ledger)


@pytest.mark.parametrize(
    "damage",
    [flip, truncate, overwrite_tail, append_garbage, overwrite_start, overwrite_page],
    ids=lambda d: d.__name__,
)
@pytest.mark.parametrize("name", ["journal.sqlite3", "journal.sqlite3-wal"])
def test_damage(tmp_path: Path, sink: OtlpSink, damage: Damage, name: str, tell: Callable[..., None]) -> None:
    lives = Lives(tmp_path, sink.address)
    with lives.start("--settle-delay", "10m") as collector:
        load = Load(lives.address, threads=2, traces=2, padding=500, rate=300).__enter__()
        until(lambda: len(load.traces) > 400, lambda: "something to damage")
        collector.kill()
        load.stop()
    kept = tmp_path / "kept"
    lives.journal.rename(kept)
    for seed in range(3):
        shutil.rmtree(lives.journal, ignore_errors=True)
        shutil.copytree(kept, lives.journal)
        lives.reports.unlink(missing_ok=True)
        damaged(lives.journal, name, damage, random.Random().randrange(1 << 30))
        with lives.start() as collector:
            back = re.search("([0-9]+) requests that were not settled are back", collector.output)  # said before ready
            left = int(back[1]) if back else 0  # cut at its start, a file holds nothing
            until(partial(judged, lives, left), lambda: "verdicts on what is left", 60)
        aside = len(list(lives.journal.glob("damaged-*.sqlite3")))
        assert not any(result["complete"] for result in lives.results if aside)
        assert len(lives.judged - load.traces) <= 2 * 2  # under way at the kill: taken, and the answer not heard
        tell(f"seed {seed}: {len(lives.judged)} of {len(load.traces)} traces judged, {aside} set aside;")
        tell(collector.ledger)


def judged(lives: Lives, traces: int) -> bool:
    return len(lives.judged) >= traces
