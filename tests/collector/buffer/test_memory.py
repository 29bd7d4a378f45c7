"""The memory limit: what gives way in which order, and when senders are refused."""

from __future__ import annotations

from tests.collector.buffer.pushing import ROOT, Walk, evidence, trace

MIB = 1 << 20


def test_without_a_limit_everything_is_admitted() -> None:
    assert Walk().buffer.admits(0.0, 1 << 60)


def test_settled_traces_give_way_first() -> None:
    w = Walk(memory_limit=MIB)
    for number in (1, 2):
        w.push(number, {1: ROOT}, data=bytes([number]) * 400_000)
        w.walk(w.now + 3.0)
    w.push(3, {2: 1}, size=50_000)
    assert w.buffer.admits(w.now, 300_000)
    assert w.buffer.late_dropped == 1
    assert w.buffer.tick(w.now) == []
    w.push(1, {2: 1})
    assert w.buffer.counts.late_unjudged == 1
    w.push(2, {2: 1})
    assert w.buffer.counts.late_unjudged == 1


def test_heaviest_times_oldest_are_released_early() -> None:
    w = Walk(memory_limit=MIB)
    w.push(1, {2: 1}, size=10_000)  # old and light
    w.now = 10.0
    w.push(2, {2: 1}, size=300_000)  # old and heavy
    w.now = 100.0
    w.push(3, {2: 1}, size=400_000)  # young and heavy
    assert w.buffer.admits(w.now, 400_000)
    ((at, released),) = w.walk(100.0)
    assert (at, released.reason, released.trace_id) == (100.0, "memory", trace(2))
    assert w.buffer.open_runs == 2


def test_what_leaves_early_is_judged_and_counted_once() -> None:
    w = Walk(memory_limit=MIB)
    w.push(1, {2: 1}, size=900_000)
    assert w.buffer.admits(0.0, 200_000)
    assert w.buffer.admits(0.0, 200_000)  # it is on its way
    assert w.buffer.counts.released == {}
    assert [r.reason for _, r in w.walk(0.0)] == ["memory"]
    assert w.buffer.counts.released == {"memory": 1}


def test_senders_are_refused_when_judging_is_behind() -> None:
    w = Walk(memory_limit=MIB, late_bytes=0)
    waiting = []
    refused = False
    for number in range(1, 30):
        if not w.buffer.admits(w.now, 100_000):
            refused = True
            break
        w.push(number, {2: 1}, size=100_000)
        waiting += w.buffer.tick(w.now)
        assert w.buffer.memory <= MIB + MIB // 8
        w.now += 0.1
    assert refused
    for released in waiting:
        w.buffer.settle(released, "judged")
    assert w.buffer.admits(w.now, 100_000)


def test_other_buffers_count() -> None:
    w = Walk(memory_limit=MIB)
    w.buffer.elsewhere = MIB + MIB // 8
    assert not w.buffer.admits(0.0, 1)
    w.buffer.elsewhere = 0
    assert w.buffer.admits(0.0, 1)


def test_all_that_is_held_counts() -> None:
    w = Walk()
    assert w.buffer.memory == 0
    w.buffer.attach(0.0, evidence(1, b"e" * 1000))
    assert w.buffer.memory >= 1000
    w.push(1, {1: ROOT}, size=1000)
    assert w.buffer.open_bytes == 2000
    assert w.buffer.memory >= 2000
    (released,) = w.buffer.tick(2.0)
    assert w.buffer.open_bytes == 0
    assert w.buffer.memory >= 4000  # to be judged, and kept for late spans
    w.buffer.settle(released, "judged")
    assert w.buffer.memory == w.buffer.late_bytes
    w.walk(1000.0)
    assert w.buffer.memory == 0


def test_of_very_many_traces_the_oldest_are_weighed() -> None:
    w = Walk(memory_limit=120 * MIB)
    for number in range(1, 40_001):
        w.push(number, {2: 1})
    w.push(40_001, {2: 1}, size=10 * MIB)
    assert w.buffer.memory < 120 * MIB
    assert w.buffer.admits(1.0, 120 * MIB - w.buffer.memory + 1)
    left = {released.trace_id for released in w.buffer.tick(1.0, 10**6)}
    assert left
    assert max(left) <= trace(30_000)
