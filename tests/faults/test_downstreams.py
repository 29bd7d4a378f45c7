"""Downstreams that are away, hang, reset, refuse, take a part: ten seconds of load each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from grpc import StatusCode

from tests.integration.test_faults import PARTIAL
from tests.support.durable import Lives, assert_nothing_lost
from tests.support.load import Load, keys
from tests.support.otlp_sink import Answer, OtlpSink
from tests.support.proxy import Proxy
from tests.support.waiting import until

SECONDS = 10
RETRY = "forward: {timeout: 500ms, retry: {initial: 50ms, max: 200ms, elapsed: 60s}}\nshutdown_timeout: 15s\n"


def run(
    folder: Path, address: str, tell: Callable[..., None], rate: float = 80, sink: OtlpSink | None = None
) -> tuple[Lives, Load, dict[str, object]]:
    """With `sink` it is stopped once that has everything."""
    config = folder / "onpath.yaml"
    config.write_text(RETRY, encoding="utf-8")
    lives = Lives(folder, address, "--config", str(config), "--settle-delay", "300ms")
    with lives.start() as collector, Load(lives.address, threads=4, rate=rate) as load:
        time.sleep(SECONDS)
        load.stop()
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace", 60)
        if sink is not None:
            until(lambda: load.acknowledged <= keys(sink.spans()), lambda: "all spans downstream", 120)
    assert load.failures == []
    tell(f"{len(load.acknowledged)} spans, {load.refused} calls refused;", collector.ledger)
    return lives, load, collector.ledger


@pytest.mark.parametrize("hint", ["away", "hanging"])
def test_seven_of_ten_calls_fail(tmp_path: Path, sink: OtlpSink, hint: str, tell: Callable[..., None]) -> None:
    draw = random.Random()
    failing: Answer = StatusCode.UNAVAILABLE if hint == "away" else None
    sink.answer = lambda signal, body: failing if draw.random() < 0.7 else b""
    lives, load, ledger = run(
        tmp_path, sink.address, tell, 80 if hint == "away" else 10, sink
    )  # calls that hang hold up
    assert_nothing_lost(lives, load.acknowledged, sink)
    assert (ledger["spans_dropped"], ledger["spans_queued"]) == ({}, 0)


def test_connections_are_reset(tmp_path: Path, sink: OtlpSink, tell: Callable[..., None]) -> None:
    draw = random.Random()
    with Proxy(sink.address, resets=lambda chunk: draw.random() < 0.02) as proxy:
        lives, load, ledger = run(tmp_path, proxy.address, tell)
        assert proxy.broken > 3
    assert_nothing_lost(lives, load.acknowledged, sink)
    assert (ledger["spans_dropped"], ledger["spans_queued"]) == ({}, 0)


def test_one_of_ten_is_refused_for_good(tmp_path: Path, sink: OtlpSink, tell: Callable[..., None]) -> None:
    draw = random.Random()
    sink.answer = lambda signal, body: StatusCode.INVALID_ARGUMENT if draw.random() < 0.1 else b""
    _, load, ledger = run(tmp_path, sink.address, tell)
    dropped = ledger["spans_dropped"]
    assert isinstance(dropped, dict)
    assert sum(dropped.values()) + len(sink.spans()) >= len(load.acknowledged)
    assert set(dropped) == {"invalid_argument"}


def test_all_are_taken_in_part(tmp_path: Path, sink: OtlpSink, tell: Callable[..., None]) -> None:
    sink.answer = lambda signal, body: PARTIAL if signal == "trace" else b""
    _, load, ledger = run(tmp_path, sink.address, tell)
    dropped = ledger["spans_dropped"]
    assert isinstance(dropped, dict)
    assert dropped["partial_success"] == len(load.acknowledged) / 20  # requests of five traces


def test_it_is_dead_all_the_time(tmp_path: Path, sink: OtlpSink, tell: Callable[..., None]) -> None:
    """Senders are refused once the queue is full; all of it is there at the next start."""
    sink.answer = lambda signal, body: StatusCode.UNAVAILABLE
    config = tmp_path / "onpath.yaml"
    text = "forward: {queue: {requests: 200}, retry: {initial: 100ms, max: 1s, elapsed: 0}}\nshutdown_timeout: 4s\n"
    config.write_text(text, encoding="utf-8")
    lives = Lives(tmp_path, sink.address, "--config", str(config), "--settle-delay", "300ms")
    with lives.start() as collector:
        load = Load(lives.address, threads=4, rate=80).__enter__()
        until(lambda: load.refused > 20, lambda: "senders that are refused")
    tell(collector.ledger)
    assert collector.ledger["spans_queued"] == 200 * 20
    sink.answer = lambda signal, body: b""
    with lives.start() as collector:
        load.stop()
        until(lambda: load.traces <= lives.judged, lambda: "a verdict on every trace", 60)
    tell(collector.ledger)
    assert_nothing_lost(lives, load.acknowledged, sink)
