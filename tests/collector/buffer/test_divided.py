"""Several collectors share the traces: after a change of who gets which, what may be cut is partial, and stays so."""

from __future__ import annotations

from typing import Any

from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.otlp import Chunk
from tests.collector.buffer.pushing import ROOT, Walk, chunk, span, trace

LONG = 10_000.0


def began(number: int, start: int, data: bytes, **marks: Any) -> Chunk:
    """A root that started then."""
    return Chunk(trace(number), data, [(span(number), b"", False, start, start + 1)], **marks)


def test_what_is_open_at_a_change_is_partial() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    w.buffer.divide(w.now, 0, lag=0)
    w.push(2, {2: ROOT})
    assert {r.trace_id: r.partial for _, r in w.walk(LONG)} == {trace(1): True, trace(2): False}


def test_what_began_before_it_is_partial_and_what_began_after_it_is_not() -> None:
    w = Walk()
    w.buffer.divide(w.now, 1_000, lag=0)
    w.buffer.push(w.now, began(1, 999, b"before"))
    w.buffer.push(w.now, began(2, 1_000, b"after"))
    assert {r.trace_id: r.partial for _, r in w.walk(LONG)} == {trace(1): True, trace(2): False}


def test_an_earlier_change_takes_nothing_back() -> None:
    w = Walk()
    w.buffer.divide(w.now, 1_000, lag=0)
    w.buffer.divide(w.now, 500, lag=0)
    w.buffer.push(w.now, began(1, 999, b"before"))
    assert [r.partial for _, r in w.walk(LONG)] == [True]


def test_late_spans_do_not_make_it_whole() -> None:
    w = Walk()
    w.buffer.divide(w.now, 1_000, lag=0)
    w.buffer.push(w.now, began(1, 999, b"before"))
    w.walk(5.0)
    w.buffer.push(w.now, Chunk(trace(1), b"late", [(span(7), span(1), False, 2_000, 2_001)]))
    ((_, again),) = w.walk(LONG)
    assert (again.chunks, again.partial) == ((b"before", b"late"), True)


def test_a_session_is_partial_while_an_earlier_part_of_it_may_be_elsewhere() -> None:
    w = Walk(group_by="session.id", session_idle=60.0)
    w.buffer.divide(w.now, 1_000, lag=10.0)
    w.buffer.push(69.0, began(1, 2_000, b"1", session="early"))
    w.buffer.push(70.0, began(2, 2_000, b"2", session="later"))
    assert {r.session: r.partial for _, r in w.walk(LONG)} == {"early": True, "later": False}


def test_so_is_a_trace_that_turns_out_to_be_of_such_a_session() -> None:
    w = Walk(group_by="session.id", session_idle=60.0)
    w.buffer.divide(w.now, 1_000, lag=10.0)
    w.buffer.push(w.now, began(1, 2_000, b"1"))
    w.buffer.push(w.now, Chunk(trace(1), b"2", [(span(3), span(1), False, 2_000, 2_001)], session="s"))
    assert [r.partial for _, r in w.walk(LONG)] == [True]


def test_a_declared_root_of_a_cut_trace_is_partial_too() -> None:
    buffer = TraceBuffer(BufferSettings(root_attributes={"kind": "agent"}))
    buffer.push(0.0, chunk(1, {1: ROOT, 2: 1, 3: 2}, roots=[span(2)]))
    buffer.divide(0.0, 0, lag=0)
    assert {(r.root, r.partial) for r in buffer.drain(1.0)} == {(span(2), True), (None, True)}


def test_what_came_twice_changes_nothing() -> None:
    w = Walk()
    w.buffer.push(w.now, began(1, 999, b"once"))
    w.walk(5.0)
    w.buffer.divide(w.now, 1_000, lag=0)
    w.buffer.push(w.now, began(1, 999, b"the same span in other bytes"))
    assert [r.partial for _, r in w.walk(LONG)] == [False]
