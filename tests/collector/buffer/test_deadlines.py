"""When a trace is released and why: every row and sentence of the buffer's settings, on one clock."""

from __future__ import annotations

from tests.collector.buffer.pushing import ROOT, Walk, trace

LONG = 10_000.0


def test_a_trace_settles_after_its_root() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    assert w.reasons(LONG) == [(2.0, "root_ended")]


def test_children_before_their_root() -> None:
    w = Walk()
    w.push(1, {2: 1, 3: 2})
    assert w.reasons(5.0) == []
    w.push(1, {1: ROOT})
    assert w.reasons(LONG) == [(7.0, "root_ended")]


def test_new_spans_renew_the_settle_delay() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    for at in (1.5, 3.0, 4.5):
        assert w.reasons(at) == []
        w.push(1, {int(at * 10): 1})
    assert w.reasons(LONG) == [(6.5, "root_ended")]


def test_known_spans_renew_nothing() -> None:
    w = Walk()
    sent = w.push(1, {1: ROOT})
    w.walk(1.5)
    w.push(1, {1: ROOT}, data=sent.data)
    w.push(1, {1: ROOT})
    assert w.reasons(LONG) == [(2.0, "root_ended")]


def test_an_orphan_makes_the_root_wait_longer() -> None:
    w = Walk()
    w.push(1, {1: ROOT, 3: 2})
    assert w.reasons(LONG) == [(10.0, "root_ended")]


def test_the_wait_for_a_parent_starts_with_the_root() -> None:
    w = Walk()
    w.push(1, {3: 2})
    w.walk(50.0)
    w.push(1, {1: ROOT})
    assert w.reasons(LONG) == [(60.0, "root_ended")]


def test_the_wait_for_a_parent_ends_when_it_comes() -> None:
    w = Walk()
    w.push(1, {1: ROOT, 3: 2})
    w.walk(4.0)
    w.push(1, {2: 1})
    assert w.reasons(LONG) == [(6.0, "root_ended")]


def test_spans_do_not_renew_the_wait_for_a_parent_but_settle() -> None:
    w = Walk()
    w.push(1, {1: ROOT, 3: 2})
    w.walk(5.0)
    w.push(1, {4: 1})
    assert w.reasons(9.5) == []
    w.push(1, {5: 1})
    assert w.reasons(LONG) == [(11.5, "root_ended")]


def test_a_parent_named_after_the_root_is_waited_for_from_then() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    w.walk(1.0)
    w.push(1, {3: 2})
    assert w.reasons(LONG) == [(11.0, "root_ended")]


def test_without_a_root_a_trace_is_idle_since_its_last_span() -> None:
    w = Walk()
    w.push(1, {2: 1})
    w.walk(100.0)
    w.push(1, {3: 1})
    assert w.reasons(LONG) == [(220.0, "idle")]


def test_a_loop_of_spans_has_no_root() -> None:
    w = Walk()
    w.push(1, {1: 2, 2: 1})
    w.push(2, {1: 1})
    assert w.reasons(LONG) == [(120.0, "idle"), (120.0, "idle")]


def test_spans_keep_a_trace_alive_up_to_max_age() -> None:
    w = Walk()
    found: list[tuple[float, str]] = []
    for number in range(2, 1000):
        w.push(1, {number: 1})
        if found := w.reasons(w.now + 60.0):
            break
    assert found == [(1800.0, "max_age")]


def test_max_age_with_a_root() -> None:
    w = Walk(max_age=10.0)
    w.push(1, {1: ROOT})
    for number in range(2, 9):
        w.walk(w.now + 1.4)
        w.push(1, {number: 1})
    assert w.reasons(LONG) == [(10.0, "max_age")]


def test_a_remote_parent_stands_in_for_a_root() -> None:
    w = Walk()
    w.push(1, {2: ("remote", 1), 3: 2})
    assert w.reasons(LONG) == [(10.0, "root_ended")]


def test_a_stand_in_is_superseded_by_its_parent() -> None:
    """An MCP server's span must not end its agent's trace."""
    w = Walk()
    w.push(1, {5: ("remote", 4)})
    w.walk(3.0)
    w.push(1, {4: 1})  # the client's span; its agent is still running
    assert w.reasons(60.0) == []
    w.push(1, {1: ROOT})
    assert w.reasons(LONG) == [(62.0, "root_ended")]


def test_a_stand_in_is_superseded_by_a_root() -> None:
    """Then its absent parent is known to be open."""
    w = Walk()
    w.push(1, {5: ("remote", 4)})
    w.walk(3.0)
    w.push(1, {1: ROOT})
    assert w.reasons(LONG) == [(13.0, "root_ended")]


def test_a_superseded_stand_in_falls_back_to_idle() -> None:
    w = Walk()
    w.push(1, {5: ("remote", 4), 4: 1})
    assert w.reasons(LONG) == [(120.0, "idle")]


def test_the_next_stand_in_starts_its_own_wait() -> None:
    w = Walk()
    w.push(1, {5: ("remote", 4), 4: 1})
    w.walk(30.0)
    w.push(1, {7: ("remote", 6)})
    assert w.reasons(LONG) == [(40.0, "root_ended")]


def test_a_mark_ends_a_trace_at_once() -> None:
    w = Walk()
    w.push(1, {3: 2}, complete=True)
    assert w.reasons(LONG) == [(0.0, "marked")]


def test_complete_by_call() -> None:
    w = Walk()
    w.push(1, {3: 2})
    w.walk(1.0)
    assert w.buffer.complete(w.now, trace(1))
    assert not w.buffer.complete(w.now, trace(2))
    assert w.reasons(LONG) == [(1.0, "marked")]


def test_limit_of_spans() -> None:
    w = Walk(span_limit=5)
    w.push(1, {1: ROOT, 2: 1, 3: 1, 4: 1, 5: 1})
    assert w.buffer.next_deadline() == 2.0  # at the limit is not over it
    w.push(1, {6: 1, 7: 1})
    ((at, released),) = w.walk(LONG)
    assert (at, released.reason, released.spans) == (0.0, "span_limit", 7)


def test_limit_of_bytes() -> None:
    w = Walk(trace_bytes_limit=100)
    w.push(1, {1: ROOT}, size=100)
    assert w.buffer.next_deadline() == 2.0
    w.push(1, {2: 1}, size=1)
    ((at, released),) = w.walk(LONG)
    assert (at, released.reason) == (0.0, "bytes_limit")


def test_over_a_limit_nothing_more_is_taken() -> None:
    w = Walk(span_limit=5)
    w.push(1, dict.fromkeys(range(1, 7), 100))
    w.push(1, {10: 100, 11: 100})
    assert w.buffer.counts.dropped_spans == {"span_limit": 2}
    ((_, released),) = w.walk(1.0)
    assert released.spans == 6
    w.push(1, {12: 100})
    assert w.reasons(LONG) == []
    assert w.buffer.counts.late_unjudged == 1


def test_equal_span_ids_in_other_traces_are_other_spans() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    w.push(2, {1: ROOT})
    assert [r.trace_id for _, r in w.walk(LONG)] == [trace(1), trace(2)]
    assert w.buffer.counts.duplicates == 0


def test_duplicates_are_counted_and_equal_chunks_dropped() -> None:
    w = Walk()
    first = w.push(1, {1: ROOT, 2: 1})
    w.push(1, {1: ROOT, 2: 1}, data=first.data)
    again = w.push(1, {2: 1, 3: 1})  # partly known: kept whole, as its record of span 2 may differ
    other = w.push(1, {2: 1})  # known, but not these bytes
    ((_, released),) = w.walk(LONG)
    assert released.chunks == (first.data, again.data, other.data)
    assert released.duplicates == 2
    assert released.spans == 3
    assert w.buffer.counts.duplicates == 4
    assert w.buffer.counts.spans == 7


def test_a_span_twice_in_one_chunk() -> None:
    w = Walk()
    pushed = w.push(1, {1: ROOT})
    pushed.spans.append(pushed.spans[0])
    w.push(2, {}, data=b"none")
    w.buffer.push(w.now, pushed)
    assert w.buffer.counts.duplicates == 2


def test_drain_releases_everything_once() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    w.push(2, {3: 2})
    w.push(3, {3: 2}, complete=True)
    found = w.buffer.drain(1.0)
    assert [(r.trace_id, r.reason) for r in found] == [
        (trace(1), "shutdown"),
        (trace(2), "shutdown"),
        (trace(3), "marked"),
    ]
    assert w.buffer.drain(1.0) == []
    assert w.buffer.open_traces == w.buffer.open_runs == w.buffer.open_bytes == 0


def test_recovered_marks_what_was_open_at_the_crash() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    w.walk(1.0)
    w.push(2, {1: ROOT, 5: 4})
    w.push(3, {1: 0}, complete=True)
    w.buffer.recovered()
    w.push(4, {1: ROOT})
    found = [(r.trace_id, at, r.reason) for at, r in w.walk(LONG)]
    assert found == [
        (trace(3), 1.0, "marked"),
        (trace(1), 2.0, "recovered"),
        (trace(4), 3.0, "root_ended"),
        (trace(2), 11.0, "recovered"),
    ]


def test_released_says_how_late_it_is() -> None:
    w = Walk()
    w.push(1, {1: ROOT})
    (released,) = w.buffer.tick(7.0)
    assert (released.opened_at, released.due_at) == (0.0, 2.0)


def test_a_tick_lets_go_of_no_more_than_its_budget() -> None:
    w = Walk()
    for number in range(1, 11):
        w.push(number, {1: ROOT})
    assert [len(w.buffer.tick(5.0, 4)) for _ in range(4)] == [4, 4, 2, 0]


def test_a_tick_looks_at_no_more_entries_than_its_budget_allows() -> None:
    w = Walk()
    for number in range(1, 101):
        w.push(number, {1: ROOT})
    for number in range(1, 101):
        w.walk(1.0)
        w.push(number, {2: 1})
    w.push(101, {1: ROOT}, complete=True)
    assert [r.reason for r in w.buffer.tick(2.5, 5)] == ["marked"]
    assert w.buffer.next_deadline() == 2.0  # entries of renewed deadlines that were not looked at
    assert w.buffer.tick(2.5, 100) == []
    assert w.buffer.next_deadline() == 3.0


def test_a_clock_that_stands_still_or_jumps_back_harms_nothing() -> None:
    w = Walk()
    w.push(1, {2: 1})
    w.now = -3600.0
    w.push(1, {1: ROOT})
    assert w.reasons(LONG) == [(-3598.0, "root_ended")]
