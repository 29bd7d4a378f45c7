"""Late spans: what re-opens a trace, what is only counted, and what is remembered for how long."""

from __future__ import annotations

import random
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.buffer.packed import Block, Packed
from tests.collector.buffer.pushing import ROOT, Walk, chunk, evidence, trace

LONG = 10_000.0


def settled(**settings: object) -> Walk:
    """Trace 1, released at 2 s."""
    w = Walk(**settings)
    w.push(1, {1: ROOT, 2: 1}, data=b"first")
    assert w.reasons(3.0) == [(2.0, "root_ended")]
    return w


def test_a_late_span_opens_the_trace_again_with_all_its_spans() -> None:
    w = settled()
    w.push(1, {3: 1}, data=b"late")
    assert w.buffer.open_traces == 0
    assert w.buffer.open_runs == 1
    ((at, released),) = w.walk(LONG)
    assert (at, released.reason, released.chunks) == (5.0, "root_ended", (b"first", b"late"))
    assert (released.traces, released.revision, released.late, released.spans) == (0, 2, 1, 3)
    assert not released.partial
    assert w.buffer.counts.late_spans == 1
    assert w.buffer.counts.late_unjudged == 0
    assert w.buffer.counts.reopened == 1


def test_late_bytes_go_though_what_is_open_has_long_to_wait() -> None:
    w = settled(late_window=30.0, idle_timeout=500.0)
    w.push(2, {9: 1})  # no root
    assert w.buffer.late_bytes
    w.walk(40.0)
    assert (w.buffer.late_bytes, w.buffer.open_runs) == (0, 1)


def test_the_number_of_a_revision_counts_reports_that_differ() -> None:
    w = settled()
    w.push(1, {3: 1})
    ((_, second),) = w.walk(10.0, "judged")  # as before: no report went out
    w.push(1, {4: 1})
    ((_, third),) = w.walk(20.0, "differs")
    w.push(1, {5: 1})
    ((_, fourth),) = w.walk(30.0, "differs")
    assert [second.revision, third.revision, fourth.revision] == [2, 2, 3]


def test_settle_tells_the_outcome_before() -> None:
    w = Walk()
    outcomes = []
    for number, outcome in enumerate(["a", "b", None, "b", "c"], 1):
        w.push(1, {number: ROOT})
        (released,) = w.buffer.tick(w.now + 2.0)
        outcomes.append(w.buffer.settle(released, outcome))
        w.now += 10.0
    assert outcomes == [None, "a", "b", "b", "b"]


def test_a_late_duplicate_opens_nothing() -> None:
    w = settled()
    w.push(1, {1: ROOT, 2: 1}, data=b"first")
    assert w.reasons(LONG) == []
    assert w.buffer.counts.duplicates == 2
    assert w.buffer.counts.late_spans == 0


def test_a_late_root_completes_an_idle_trace() -> None:
    w = Walk()
    w.push(1, {3: 2})
    assert w.reasons(130.0) == [(120.0, "idle")]
    w.push(1, {2: ROOT})
    assert w.reasons(LONG) == [(132.0, "root_ended")]


def test_orphans_are_still_known_when_a_trace_opens_again() -> None:
    w = Walk()
    w.push(1, {1: ROOT, 3: 2})
    w.walk(20.0)
    w.push(1, {2: 1})
    assert w.reasons(30.0) == [(22.0, "root_ended")]
    w.push(1, {6: 5})
    assert w.reasons(LONG) == [(40.0, "root_ended")]


def test_a_stand_in_is_still_known_when_a_trace_opens_again() -> None:
    w = Walk()
    w.push(1, {2: ("remote", 1)})
    assert w.reasons(20.0) == [(10.0, "root_ended")]
    w.push(1, {1: 9})
    assert w.reasons(200.0) == [(140.0, "idle")]


def test_after_the_window_late_spans_are_counted() -> None:
    w = settled(late_window=100.0)
    w.now = 101.9
    assert w.buffer.late_bytes > 0
    w.walk(102.0)
    assert w.buffer.late_bytes == 0
    w.push(1, {3: 1, 4: 1})
    assert w.reasons(LONG) == []
    assert (w.buffer.counts.late_spans, w.buffer.counts.late_unjudged) == (2, 2)
    assert w.buffer.counts.dropped_spans == {"late": 2}


def test_the_window_is_over_on_time_without_a_tick() -> None:
    w = settled(late_window=100.0)
    w.now = 102.0
    w.push(1, {3: 1})
    assert w.buffer.open_runs == 0


@pytest.mark.parametrize("off", [{"late_window": 0.0}, {"late_bytes": 0}])
def test_no_window(off: dict[str, float]) -> None:
    w = settled(**off)
    w.push(1, {3: 1})
    assert w.buffer.late_bytes == 0
    assert w.buffer.counts.late_unjudged == 1


def test_the_oldest_lose_their_bytes_first() -> None:
    w = Walk(late_bytes=10_000)
    for number in range(1, 6):
        w.push(number, {1: ROOT, 1000 + number: 1}, data=random.Random(number).randbytes(3000))
        w.walk(w.now + 3.0)
        assert w.buffer.late_bytes <= 10_000
    assert w.buffer.late_dropped > 0
    for number in range(1, 6):
        w.push(number, {2: 1})
    assert w.buffer.counts.late_unjudged == w.buffer.late_dropped
    opened = [r.trace_id for _, r in w.walk(LONG)]
    assert opened == [trace(n) for n in range(w.buffer.counts.late_unjudged + 1, 6)]


def test_forgotten_ids() -> None:
    """A forgotten trace opens as one that was never seen: its parents are missing, so it can't be complete."""
    w = Walk(settled_memory=2)
    for number in (1, 2, 3):
        w.push(number, {1: ROOT})
        w.walk(w.now + 3.0)
    assert w.buffer.counts.forgotten == 1
    w.push(1, {2: 1})
    w.push(2, {2: 1})
    assert w.buffer.counts.traces_started == 4
    assert [(r.trace_id, r.reason, r.traces) for _, r in w.walk(LONG)] == [
        (trace(2), "root_ended", 0),
        (trace(1), "idle", 1),
    ]


def test_spans_after_a_mark_open_the_trace_again() -> None:
    w = Walk()
    w.push(1, {1: ROOT}, complete=True)
    w.walk(1.0)
    w.push(1, {2: 1})
    ((at, released),) = w.walk(LONG)
    assert (at, released.reason, released.partial) == (3.0, "root_ended", False)


def test_spans_after_a_mark_and_the_window_can_only_be_unknown() -> None:
    w = Walk(late_window=10.0)
    w.push(1, {1: ROOT}, complete=True)
    w.walk(50.0)
    w.push(1, {2: 1})
    ((at, released),) = w.walk(LONG)
    assert (at, released.partial, released.revision, released.traces, released.late) == (170.0, True, 2, 0, 1)
    assert w.buffer.counts.late_spans == 1
    assert w.buffer.counts.late_unjudged == 0


def test_a_trace_is_not_released_again_before_it_is_judged() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    (first,) = w.buffer.tick(2.0)
    w.now = 2.5
    w.push(1, {2: 1})
    assert w.buffer.tick(60.0) == []
    w.buffer.settle(first, "a")
    assert w.buffer.next_deadline() == 4.5
    (second,) = w.buffer.tick(60.0)
    assert (second.revision, second.due_at) == (2, 4.5)
    assert w.buffer.settle(second, "b") == "a"


def test_shutdown_does_not_wait_for_judgements() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    (first,) = w.buffer.tick(2.0)
    w.push(1, {2: 1})
    (second,) = w.buffer.drain(3.0)
    assert (second.reason, second.revision) == ("shutdown", 2)
    w.buffer.settle(first, "a")
    w.buffer.settle(second, "b")
    assert w.buffer.memory == w.buffer.late_bytes


def test_giving_up_a_judgement_leaves_the_revision() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    w.walk(3.0, outcome=None)
    w.push(1, {2: 1})
    ((_, released),) = w.walk(LONG)
    assert released.revision == 1


def test_late_log_records_open_a_trace_again() -> None:
    w = settled()
    w.buffer.attach(w.now, evidence(1, b"log"))
    ((at, released),) = w.walk(10.0)
    assert (at, released.chunks, released.evidence, released.late) == (5.0, (b"first",), (b"log",), 0)
    w.buffer.attach(w.now, evidence(1, b"log"))
    assert w.reasons(LONG) == []


def test_settled_bytes_are_compressed_as_the_room_fills() -> None:
    w = Walk(late_bytes=500_000)
    data = {n: b"%d" % n * 50_000 for n in range(1, 9)}
    for number, content in data.items():
        w.push(number, {1: ROOT}, data=content)
    w.walk(3.0)
    for _ in range(5):
        w.buffer.tick(w.now)
    assert w.buffer.late_bytes <= 125_000
    assert w.buffer.late_dropped == 0
    for number in data:
        w.push(number, {2: 1}, data=b"late")
    assert {r.trace_id: b"".join(r.chunks) for _, r in w.walk(LONG)} == {
        trace(n): content + b"late" for n, content in data.items()
    }


@pytest.mark.parametrize("budget", [1, 7, 64, 10_000])
@pytest.mark.parametrize("rounds", [0, 1, 2, 5, 1000])
def test_compressing_in_pieces_loses_nothing(budget: int, rounds: int) -> None:
    chunks = [b"abc" * 50, b"", b"x", bytes(range(256)) * 2]
    packed = Packed(list(chunks))
    for _ in range(rounds):
        packed.squeeze(budget)
    held = packed.size
    assert b"".join(packed.chunks()) == b"".join(chunks)
    if rounds == 1000:
        assert held == len(zlib.compress(b"".join(chunks), 1))


def test_memory_is_let_go() -> None:
    buffer = TraceBuffer(BufferSettings(late_window=5.0))
    for number in range(1, 100):
        buffer.push(0.0, chunk(number, {1: ROOT}, size=1000))
    for released in buffer.tick(2.0):
        buffer.settle(released, "x")
    for number in range(1, 50):
        buffer.push(3.0, chunk(number, {2: 1}))
    for released in buffer.tick(60.0):
        buffer.settle(released, "x")
    buffer.tick(65.0)
    assert buffer.memory == 0


def test_late_duplicates_are_told_with_the_next_revision() -> None:
    w = settled()
    w.push(1, {1: ROOT, 2: 1}, data=b"first")
    w.push(1, {3: 1})
    ((_, released),) = w.walk(LONG)
    assert released.duplicates == 2


def test_tags_come_back_with_the_first_release() -> None:
    w = Walk()
    assert w.buffer.push(0.0, chunk(1, {1: ROOT}, data=b"a"), tag=7)
    assert not w.buffer.push(0.0, chunk(1, {1: ROOT}, data=b"a"), tag=8)
    assert w.buffer.attach(0.0, evidence(1, b"log"), tag=9)
    assert not w.buffer.attach(0.0, evidence(1, b"log"), tag=10)
    ((_, first),) = w.walk(3.0)
    assert first.tags == (7, 9)
    assert w.buffer.push(3.0, chunk(1, {2: 1}), tag=11)
    ((_, second),) = w.walk(10.0)
    assert second.tags == (11,)


def test_how_late_spans_are() -> None:
    w = Walk()
    w.push(1, {1: ROOT, 2: 1})
    for number, at in enumerate((0.05, 1.5, 3.0), 3):
        w.walk(at)
        w.push(1, {number: 1})
    w.walk(1000.0)
    assert w.buffer.counts.lateness == [1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]


@settings(max_examples=50)
@given(st.lists(st.lists(st.binary(max_size=40), max_size=3), min_size=1, max_size=6))
def test_runs_compressed_together_come_out_as_they_were(runs: list[list[bytes]]) -> None:
    packed = [Packed(chunks) for chunks in runs]
    parts = [each.joined() for each in packed]
    block = Block(parts)
    start = 0
    for each, part in zip(packed, parts, strict=True):
        each.put_into(block, start, part)
        start += len(part)
    assert [b"".join(each.chunks()) for each in packed] == [b"".join(chunks) for chunks in runs]
    assert sum(each.size for each in packed) <= len(zlib.compress(b"".join(parts), 1))


def test_small_runs_are_compressed_together_and_open_again_by_themselves() -> None:
    w = Walk(late_bytes=500_000)
    data = {n: b"%d-" % n * 3_000 for n in range(1, 41)}
    for number, content in data.items():
        w.push(number, {1: ROOT}, data=content)
    w.walk(3.0)
    w.buffer.tick(w.now)
    assert w.buffer.late_bytes <= 125_000
    late = [3, 1, 40]
    for number in late:
        w.push(number, {2: 1}, data=b"late")
    assert {r.trace_id: b"".join(r.chunks) for _, r in w.walk(LONG)} == {trace(n): data[n] + b"late" for n in late}
