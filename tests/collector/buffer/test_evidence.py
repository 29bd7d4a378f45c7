"""Log records that name spans: attached to their trace, whichever comes first."""

from __future__ import annotations

from tests.collector.buffer.pushing import ROOT, Walk, evidence, trace


def test_log_records_before_and_after_the_first_span() -> None:
    w = Walk()
    w.buffer.attach(0.0, evidence(1, b"before"))
    w.now = 10.0
    w.push(1, {1: ROOT}, data=b"spans")
    w.buffer.attach(11.0, evidence(1, b"after"))
    w.buffer.attach(11.0, evidence(1, b"after"))
    ((at, released),) = w.walk(1000.0)
    assert at == 12.0  # log records renew nothing
    assert (released.chunks, released.evidence) == ((b"spans",), (b"before", b"after"))
    assert released.size == len(b"spansbeforeafter")


def test_log_records_open_no_trace() -> None:
    w = Walk()
    w.buffer.attach(0.0, evidence(1, b"log"))
    assert (w.buffer.open_runs, w.buffer.next_deadline()) == (0, None)


def test_waiting_log_records_leave_after_a_while() -> None:
    w = Walk()
    w.buffer.attach(0.0, evidence(1, b"old"))
    w.buffer.attach(0.0, evidence(1, b"old too"))
    w.buffer.attach(120.0, evidence(2, b"new"))
    w.now = 120.0
    assert w.buffer.counts.dropped_evidence == {"no_span": 2}
    w.push(1, {1: ROOT})
    w.push(2, {1: ROOT})
    assert {r.trace_id: r.evidence for _, r in w.walk(1000.0)} == {trace(1): (), trace(2): (b"new",)}


def test_waiting_log_records_are_bounded() -> None:
    w = Walk(evidence_bytes=10_000)
    w.buffer.attach(0.0, evidence(1, b"x" * 10_000))
    for number in range(2, 12):
        w.buffer.attach(0.0, evidence(number, b"x" * 1500))
        assert w.buffer.memory <= 10_000
    assert w.buffer.counts.dropped_evidence == {"no_span": 6}


def test_log_records_count_towards_the_limit_of_bytes() -> None:
    w = Walk(trace_bytes_limit=100)
    w.push(1, {1: ROOT}, size=60)
    w.buffer.attach(0.0, evidence(1, b"x" * 41))
    w.buffer.attach(0.0, evidence(1, b"y" * 41))
    assert w.buffer.counts.dropped_evidence == {"bytes_limit": 1}
    assert w.reasons(10.0) == [(0.0, "bytes_limit")]
    w.buffer.attach(10.0, evidence(1, b"z"))
    assert w.buffer.counts.dropped_evidence == {"bytes_limit": 1, "late": 1}
