"""Sessions: several traces as one run."""

from __future__ import annotations

from onpath_collector.buffer import Released
from tests.collector.buffer.pushing import ROOT, Walk, evidence, trace

LONG = 10_000.0


def ids(released: Released) -> set[bytes]:
    return set(released.trace_ids)


def session_walk(**settings: object) -> Walk:
    return Walk(group_by="session.id", **settings)


def test_traces_of_a_session_are_released_together() -> None:
    w = session_walk()
    w.push(1, {1: ROOT}, session="s", data=b"one")
    w.walk(100.0)
    w.push(2, {1: ROOT}, session="s", data=b"two")
    w.push(4, {1: ROOT})
    w.walk(101.0)
    w.push(3, {1: ROOT}, session="other")
    found = w.walk(LONG)
    assert [(at, r.reason, r.session, ids(r)) for at, r in found] == [
        (102.0, "root_ended", None, {trace(4)}),
        (700.0, "root_ended", "s", {trace(1), trace(2)}),
        (701.0, "root_ended", "other", {trace(3)}),
    ]
    assert found[1][1].chunks == (b"one", b"two")
    assert [r.traces for _, r in found] == [1, 2, 1]
    assert w.buffer.counts.traces_started == w.buffer.counts.traces_released == 4


def test_the_session_may_be_named_by_a_later_span() -> None:
    w = session_walk()
    w.push(1, {1: ROOT}, session="s")
    w.push(2, {2: 1}, data=b"a")
    w.walk(1.0)
    w.push(2, {1: ROOT}, session="s", data=b"b")
    ((at, released),) = w.walk(LONG)
    assert (at, ids(released)) == (601.0, {trace(1), trace(2)})
    assert set(released.chunks) >= {b"a", b"b"}
    assert w.buffer.open_runs == 0


def test_the_first_trace_may_name_its_session_late() -> None:
    w = session_walk()
    w.push(1, {2: 1})
    w.push(1, {1: ROOT}, session="s")
    w.push(2, {1: ROOT}, session="s")
    assert [(at, ids(r)) for at, r in w.walk(LONG)] == [(600.0, {trace(1), trace(2)})]


def test_equal_span_ids_in_two_traces_of_a_session() -> None:
    w = session_walk()
    w.push(1, {1: ROOT, 2: 1}, session="s")
    w.push(2, {1: ROOT, 2: 1}, session="s")
    assert w.buffer.counts.duplicates == 0
    ((_, released),) = w.walk(LONG)
    assert released.spans == 4


def test_a_trace_without_a_root_makes_its_session_idle() -> None:
    w = session_walk(session_idle=60.0)
    w.push(1, {1: ROOT}, session="s")
    w.push(2, {2: 1}, session="s")
    assert w.reasons(LONG) == [(120.0, "idle")]
    w.push(3, {1: ROOT}, session="t")
    assert w.reasons(2 * LONG) == [(LONG + 60.0, "root_ended")]


def test_a_new_trace_opens_its_session_again() -> None:
    w = session_walk()
    w.push(1, {1: ROOT}, session="s", data=b"one")
    w.walk(700.0)
    w.push(2, {1: ROOT}, session="s", data=b"two")
    ((_, released),) = w.walk(1400.0)
    assert (released.chunks, released.revision, released.traces, released.late) == ((b"one", b"two"), 2, 1, 0)
    w.push(1, {2: 1})
    ((_, released),) = w.walk(2100.0)
    assert (ids(released), released.revision, released.traces, released.late) == ({trace(1), trace(2)}, 2, 0, 1)


def test_a_settled_trace_may_name_its_session_late() -> None:
    w = session_walk()
    w.push(1, {2: 1}, data=b"alone")
    w.walk(130.0)
    w.push(2, {1: ROOT}, session="s")
    w.push(1, {1: ROOT}, session="s")
    ((_, released),) = w.walk(LONG)
    assert ids(released) == {trace(1), trace(2)}
    assert b"alone" in released.chunks
    assert released.traces == 1


def test_a_session_long_gone_begins_anew() -> None:
    w = session_walk()
    w.push(1, {1: ROOT}, session="s")
    w.walk(5000.0)
    w.push(2, {1: ROOT}, session="s")
    ((_, released),) = w.walk(LONG)
    assert (ids(released), released.revision) == ({trace(2)}, 1)


def test_a_mark_ends_the_session() -> None:
    w = session_walk()
    w.push(1, {1: ROOT}, session="s")
    w.push(2, {1: ROOT}, session="s", complete=True)
    assert w.reasons(LONG) == [(0.0, "marked")]


def test_limits_hold_for_the_session() -> None:
    w = session_walk(span_limit=3)
    for number in range(1, 6):
        w.push(number, {1: ROOT}, session="s")
    assert w.reasons(LONG) == [(0.0, "span_limit")]
    assert w.buffer.counts.dropped_spans == {"span_limit": 1}


def test_max_age_of_a_session() -> None:
    w = session_walk()
    released = []
    for number in range(1, 5):
        w.push(number, {1: ROOT}, session="s")
        released += w.reasons(w.now + 500.0)
    assert released == [(1800.0, "max_age")]


def test_log_records_of_a_session() -> None:
    w = session_walk()
    w.buffer.attach(0.0, evidence(2, b"early"))
    w.push(1, {1: ROOT}, session="s")
    w.push(2, {1: ROOT}, session="s")
    w.buffer.attach(0.0, evidence(1, b"log"))
    ((_, released),) = w.walk(LONG)
    assert set(released.evidence) == {b"early", b"log"}


def test_many_traces_in_one_session() -> None:
    w = session_walk()
    for number in range(1, 3000):
        w.push(number, {1: ROOT}, session="s")
    ((_, released),) = w.walk(LONG)
    assert released.traces == 2999


def test_a_forgotten_trace_of_a_session_is_not_brought_back_beside_its_new_self() -> None:
    """Found by random histories: the trace stood in two runs, and releasing one of them broke the other."""
    w = session_walk(settled_memory=1)
    w.push(1, {1: ROOT}, session="s")
    w.push(2, {1: ROOT}, session="s")
    w.walk(700.0)
    w.push(1, {2: ROOT})
    w.push(2, {2: ROOT})
    w.push(3, {1: ROOT}, session="s")
    w.push(2, {3: ROOT}, session="s")
    w.walk(LONG)
    assert w.buffer.open_runs == w.buffer.open_traces == 0
    assert w.buffer.counts.traces_started == w.buffer.counts.traces_released
