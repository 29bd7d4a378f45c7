"""A collector with a journal through crashes: killed, damaged, without room, asked to stop while it comes back."""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import suppress
from pathlib import Path

import grpc
import pytest

from tests.support.collector import ANY_PORTS
from tests.support.disks import own_disk
from tests.support.durable import Lives, assert_nothing_lost, assert_said_once
from tests.support.load import EXPORT, Load, request, traces
from tests.support.onpath import COMMAND
from tests.support.otlp_sink import OtlpSink
from tests.support.processes import Child
from tests.support.waiting import until

LONG = ("--settle-delay", "10m")


def sent(lives: Lives, count: int, *, padding: int = 0, seed: int = 1) -> set[tuple[bytes, bytes]]:
    """Sends so many traces, each in a request of its own; the keys of their spans."""
    draw = random.Random(seed)
    found = set()
    with grpc.insecure_channel(lives.address) as channel:
        for _ in range(count):
            spans = traces(draw, 1, padding)
            channel.unary_unary(EXPORT)(request(spans), timeout=20)
            found |= {(span.trace_id, span.span_id) for span in spans}
    return found


def test_killed_under_load_it_loses_nothing_that_was_acknowledged(tmp_path: Path, sink: OtlpSink) -> None:
    lives = Lives(tmp_path, sink.address, "--settle-delay", "500ms")
    with lives.start() as collector:
        load = Load(lives.address, threads=3, rate=60).__enter__()
        collector.wait_for(lambda result: True)
        time.sleep(random.Random().uniform(0, 0.5))
        collector.kill()
    with lives.start():
        time.sleep(0.5)
        load.stop()
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace")
    assert load.failures == []
    assert len(load.acknowledged) > 50
    assert not list(lives.journal.glob("damaged-*"))
    assert_nothing_lost(lives, load.acknowledged, sink)
    assert_said_once(lives.results)
    with lives.start() as collector:
        pass
    assert "back from the journal" not in collector.output  # nothing is left in it


def test_what_was_open_when_it_was_killed_is_recovered(tmp_path: Path, sink: OtlpSink) -> None:
    lives = Lives(tmp_path, sink.address)
    with lives.start(*LONG) as collector:
        acknowledged = sent(lives, 5)
        collector.kill()
    assert lives.results == []
    with lives.start() as collector:
        until(lambda: len(lives.judged) == 5, lambda: "five verdicts")
    assert {(r["release_reason"], r["complete"], r["revision"]) for r in lives.results} == {("recovered", False, 1)}
    assert "5 requests that were not settled are back from the journal" in collector.output
    assert_nothing_lost(lives, acknowledged, sink)
    assert collector.ledger["traces_started"] == collector.ledger["traces_judged"] == 5


def test_what_the_downstream_did_not_take_is_sent_at_the_next_start(tmp_path: Path, sink: OtlpSink) -> None:
    sink.answer = lambda signal, body: grpc.StatusCode.UNAVAILABLE
    lives = Lives(tmp_path, sink.address, "--config", config(tmp_path, "shutdown_timeout: 12s\n"))
    with lives.start() as collector:
        acknowledged = sent(lives, 3)
    assert collector.ledger["spans_queued"] == 12
    assert sink.requests("trace") == []
    sink.answer = lambda signal, body: b""
    with lives.start():
        until(lambda: len(sink.spans()) >= 12, lambda: "the spans downstream")
    assert_nothing_lost(lives, acknowledged, sink)
    assert_said_once(lives.results)
    assert {r["release_reason"] for r in lives.results} <= {"root_ended", "shutdown"}


def config(folder: Path, text: str) -> str:
    path = folder / "onpath.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_second_collector_on_the_same_journal_does_not_start(tmp_path: Path, sink: OtlpSink) -> None:
    lives = Lives(tmp_path, sink.address)
    with lives.start():
        second = Child([*COMMAND, "collector", *ANY_PORTS, "--journal", str(lives.journal)])
        assert second.wait() == 1
        assert f"the journal {lives.journal} is in use by another collector" in second.output
        assert "Traceback" not in second.output
        sent(lives, 1)


LONG_FORM = pytest.mark.faults


def damaged(data: bytes, damage: str) -> bytes:
    if damage == "flip":
        middle = len(data) // 2
        return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :] if data else data
    if damage == "tail":
        return data[:-1000] + os.urandom(min(len(data), 1000))
    return data[: len(data) * 3 // 4 + 100]


@pytest.mark.parametrize(
    "damage", ["flip", pytest.param("tail", marks=LONG_FORM), pytest.param("truncate", marks=LONG_FORM)]
)
def test_a_damaged_journal_is_set_aside_and_the_rest_brought_back(tmp_path: Path, sink: OtlpSink, damage: str) -> None:
    lives = Lives(tmp_path, sink.address)
    with lives.start(*LONG) as collector:
        acknowledged = sent(lives, 40, padding=300)
        collector.kill()
    for path in lives.journal.glob("journal.sqlite3*"):  # the log may be written back by now, or not
        path.write_bytes(damaged(path.read_bytes(), damage))
    with lives.start() as collector:
        aside = list(lives.journal.glob("damaged-*.sqlite3"))
        assert len(aside) == 1 or (damage == "tail" and not aside)  # as crashes leave logs
        assert all(str(path) in collector.output for path in aside)
        until(lambda: len(lives.judged) >= (20 if damage == "truncate" else 38), lambda: "verdicts on what is left")
        more = sent(lives, 1, seed=2)
        until(lambda: {t.hex() for t, _ in more} <= lives.judged, lambda: "a verdict on what came after")
    assert lives.judged <= {trace_id.hex() for trace_id, _ in acknowledged | more}
    assert not any(result["complete"] for result in lives.results[:-1])


def test_without_room_senders_are_refused_until_there_is_some(tmp_path: Path, sink: OtlpSink) -> None:
    with own_disk(tmp_path / "small", "size=4m") as small:
        fill_up(Lives(tmp_path, sink.address, journal=small / "journal"), small / "other", sink)


def fill_up(lives: Lives, other: Path, sink: OtlpSink) -> None:
    """Something else takes all the room of the file system, and gives it back."""
    with lives.start() as collector:
        held = sent(lives, 5)
        take_all_room(other)
        load = Load(lives.address, threads=2, padding=3000, rate=50).__enter__()
        collector.process.wait_for_line("the journal cannot be written .*: senders are told to come back later")
        until(lambda: load.refused > 5, lambda: "senders that were refused")
        held |= load.acknowledged
        until(lambda: {trace_id.hex() for trace_id, _ in held} <= lives.judged, lambda: "verdicts on what is held")
        other.unlink()
        collector.process.wait_for_line("the journal can be written again")
        before = len(load.traces)
        until(lambda: len(load.traces) > before + 10, lambda: "senders that are taken again")
        load.stop()
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace")
    assert load.failures == []
    assert_nothing_lost(lives, held | load.acknowledged, sink)
    assert collector.ledger["spans_queued"] == 0


def take_all_room(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(size))


def test_asked_to_stop_while_it_comes_back_it_leaves_everything_for_the_next(tmp_path: Path, sink: OtlpSink) -> None:
    lives = Lives(tmp_path, sink.address)
    with lives.start(*LONG) as collector, Load(lives.address, threads=4, traces=2, padding=300) as load:
        until(lambda: len(load.traces) > 1000, lambda: "something to bring back")
        collector.kill()
    child = Child(collector.command)
    child.wait_for_line("[0-9]+ requests that were not settled are brought back")
    assert child.stop() == 0
    assert "ready" not in child.output
    told = json.loads(child.lines[-1])
    assert told["traces_started"] == told["traces_open"]
    assert lives.results == []
    with lives.start() as collector:
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace", 60)
    assert_nothing_lost(lives, load.acknowledged, sink)
    assert {r["release_reason"] for r in lives.results} == {"recovered"}
