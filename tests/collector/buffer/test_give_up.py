"""Open traces that another collector is to judge: dropped as if they had never been, and accounted for."""

from __future__ import annotations

from onpath_collector.buffer import TraceBuffer
from tests.collector.buffer.pushing import ROOT, Walk, chunk, trace


def pushed(buffer: TraceBuffer, number: int, tag: int, parent: int | None = ROOT, *, span: int = 1) -> None:
    buffer.push(0.0, chunk(number, {span: parent}), tag)


def test_what_holds_a_tag_is_dropped_and_nothing_else() -> None:
    buffer = Walk().buffer
    pushed(buffer, 1, 10)
    pushed(buffer, 2, 11)
    pushed(buffer, 2, 12, parent=1, span=2)
    assert buffer.give_up({11}, "partition_revoked") == (1, {11, 12})
    assert buffer.is_open(trace(1))
    assert not buffer.is_open(trace(2))
    assert buffer.counts.dropped_spans["partition_revoked"] == 2
    assert (buffer.counts.traces_started, buffer.open_traces, buffer.counts.traces_released) == (2, 1, 1)


def test_all_that_it_weighed_is_free_again() -> None:
    buffer = Walk().buffer
    pushed(buffer, 1, 10)
    buffer.give_up({10}, "partition_lost")
    assert (buffer.memory, buffer.open_bytes, buffer.open_runs) == (0, 0, 0)
    assert buffer.next_deadline() is None


def test_a_trace_that_comes_back_is_judged_as_if_for_the_first_time() -> None:
    walk = Walk()
    pushed(walk.buffer, 1, 10)
    walk.buffer.give_up({10}, "partition_revoked")
    pushed(walk.buffer, 1, 20)
    ((_, released),) = walk.walk(to=100.0)
    assert (released.revision, released.traces, released.tags, released.partial) == (1, 1, (20,), False)


def test_late_spans_are_dropped_while_the_report_before_stands() -> None:
    walk = Walk()
    pushed(walk.buffer, 1, 10)
    walk.walk(to=50.0)
    walk.buffer.push(walk.now, chunk(1, {2: 1}), 11)
    assert walk.buffer.give_up({11}, "partition_revoked") == (0, {11})
    assert walk.walk(to=100.0) == []
    assert not walk.buffer.push(walk.now, chunk(1, {2: 1}), 12)
    assert walk.buffer.counts.late_unjudged == 1


def test_a_session_goes_with_all_its_traces() -> None:
    walk = Walk(group_by="session.id", session_idle=10.0)
    walk.buffer.push(0.0, chunk(1, {1: ROOT}, session="s"), 10)
    walk.buffer.push(0.0, chunk(2, {1: ROOT}, session="s"), 11)
    assert walk.buffer.give_up({11}, "partition_revoked") == (2, {10, 11})
    walk.buffer.push(0.0, chunk(3, {1: ROOT}, session="s"), 12)
    ((_, released),) = walk.walk(to=100.0)
    assert released.trace_ids == (trace(3),)
