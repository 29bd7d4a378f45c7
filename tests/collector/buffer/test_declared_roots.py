"""Declared roots: spans that end a sub-trace of their own."""

from __future__ import annotations

from onpath_collector.buffer import Released
from tests.collector.buffer.pushing import ROOT, Walk, span, trace

LONG = 100_000.0


def declared(**settings: object) -> Walk:
    return Walk(root_attributes={"kind": "agent"}, **settings)


def told(released: Released) -> tuple[int | None, str, int, set[bytes], int]:
    root = None if released.root is None else int.from_bytes(released.root)
    return root, released.reason, released.spans, set(released.chunks), released.traces


def test_a_declared_root_ends_a_trace_whose_root_never_comes() -> None:
    w = declared()
    w.push(1, {3: 2}, data=b"a")
    w.push(1, {2: 1}, roots=(span(2),), data=b"b")
    ((at, released),) = w.walk(LONG)
    assert at == 2.0
    assert told(released) == (2, "root_ended", 2, {b"a", b"b"}, 1)
    assert w.buffer.counts.traces_started == w.buffer.counts.traces_released == 1
    assert w.buffer.open_runs == 0


def test_runs_within_one_trace_are_released_one_by_one() -> None:
    w = declared()
    w.push(1, {3: 2, 2: 1}, roots=(span(2),), data=b"a")
    w.push(1, {9: 1}, data=b"other")  # below no declared root: the trace stays
    w.walk(1.0)
    w.push(1, {5: 4}, data=b"b")
    assert [(at, *told(r)) for at, r in w.walk(11.0)] == [(11.0, 2, "root_ended", 2, {b"a"}, 1)]
    w.push(1, {4: 1}, roots=(span(4),), data=b"c")
    assert [(at, *told(r)) for at, r in w.walk(20.0)] == [(13.0, 4, "root_ended", 2, {b"b", b"c"}, 1)]
    w.push(1, {1: ROOT}, data=b"d")
    ((at, rest),) = w.walk(LONG)
    assert (at, rest.root, set(rest.without), rest.spans) == (22.0, None, {span(2), span(4)}, 6)
    assert w.buffer.counts.traces_started == w.buffer.counts.traces_released == 3


def test_a_sub_trace_settles_by_its_own_spans() -> None:
    w = declared()
    w.push(1, {2: 1, 7: 1}, roots=(span(2),))
    w.walk(1.0)
    w.push(1, {8: 1})
    assert [(at, r.root) for at, r in w.walk(2.0)] == [(2.0, span(2))]


def test_new_spans_renew_the_settle_delay_of_their_sub_trace() -> None:
    w = declared()
    w.push(1, {2: 1, 7: 1}, roots=(span(2),))
    w.walk(1.5)
    w.push(1, {4: 2})
    assert [(at, r.root, r.spans) for at, r in w.walk(10.0)] == [(3.5, span(2), 2)]


def test_an_inner_declared_root_belongs_to_the_outer() -> None:
    w = declared()
    w.push(1, {4: 3, 3: 2}, roots=(span(3),))
    w.walk(1.0)
    w.push(1, {2: 1}, roots=(span(2),))
    assert [(at, r.root, r.spans, r.traces) for at, r in w.walk(LONG)] == [(3.0, span(2), 3, 1)]


def test_an_inner_one_judged_before_is_judged_again_with_the_outer() -> None:
    w = declared()
    w.push(1, {4: 3, 3: 2}, roots=(span(3),))
    assert [(at, r.root) for at, r in w.walk(5.0)] == [(2.0, span(3))]
    w.push(1, {2: 1}, roots=(span(2),))
    ((at, released),) = w.walk(LONG)
    assert (at, released.root, released.spans, released.revision, released.traces) == (7.0, span(2), 3, 1, 1)


def test_a_parent_between_joins_inner_and_outer() -> None:
    w = declared()
    w.push(1, {5: 4, 4: 3}, roots=(span(4),))
    w.push(1, {2: 1}, roots=(span(2),))
    w.push(1, {3: 2})
    assert [(at, r.root, r.spans) for at, r in w.walk(LONG)] == [(2.0, span(2), 4)]


def test_late_spans_of_a_sub_trace_revise_it() -> None:
    w = declared()
    w.push(1, {2: 1, 9: 1}, roots=(span(2),), data=b"a")
    w.walk(5.0)
    w.push(1, {3: 2}, data=b"b")
    ((at, released),) = w.walk(20.0)
    assert (at, *told(released), released.revision, released.late) == (
        7.0,
        2,
        "root_ended",
        2,
        {b"a", b"b"},
        0,
        2,
        1,
    )


def test_a_sub_trace_is_not_released_again_before_it_is_judged() -> None:
    w = declared()
    w.push(1, {2: 1, 9: 1}, roots=(span(2),))
    (first,) = w.buffer.tick(2.0)
    w.now = 3.0
    w.push(1, {3: 2})
    assert w.buffer.tick(6.0) == []
    w.buffer.settle(first, "a")
    (second,) = w.buffer.tick(6.0)
    assert (second.root, second.revision) == (span(2), 2)


def test_a_later_run_of_a_settled_trace_is_released_by_itself() -> None:
    w = declared()
    w.push(1, {2: 1}, roots=(span(2),), data=b"a")
    w.walk(60.0)
    w.push(1, {3: 1}, roots=(span(3),), data=b"b")
    assert [told(r) for _, r in w.walk(120.0)] == [(3, "root_ended", 1, {b"b"}, 1)]
    assert w.buffer.counts.traces_started == w.buffer.counts.traces_released == 2


def test_a_later_run_after_the_window_too() -> None:
    w = declared()
    w.push(1, {2: 1}, roots=(span(2),), data=b"a")
    w.walk(5000.0)
    w.push(1, {3: 1}, roots=(span(3),), data=b"b")
    ((_, released),) = w.walk(LONG)
    assert told(released) == (3, "root_ended", 1, {b"b"}, 1)
    assert not released.partial
    assert w.buffer.counts.late_spans == 0


def test_a_compressed_trace_gives_its_sub_traces_all_it_has() -> None:
    w = declared(late_bytes=100_000)
    w.push(1, {2: 1}, roots=(span(2),), data=b"a" * 30_000)
    w.walk(10.0)
    w.buffer.tick(w.now)
    w.push(1, {3: 2}, data=b"b")
    ((_, released),) = w.walk(LONG)
    assert b"".join(released.chunks) == b"a" * 30_000 + b"b"


def test_shutdown_releases_sub_traces_and_the_rest() -> None:
    w = declared()
    w.push(1, {2: 1, 9: 1}, roots=(span(2),))
    w.push(1, {3: 1}, roots=(span(3),))
    found = w.buffer.drain(1.0)
    assert [(r.root, r.reason) for r in found] == [(span(2), "shutdown"), (span(3), "shutdown"), (None, "shutdown")]
    assert set(found[-1].without) == {span(2), span(3)}
    assert w.buffer.counts.traces_started == w.buffer.counts.traces_released == 3


def test_a_true_root_ends_everything_together() -> None:
    w = declared()
    w.push(1, {2: 1, 3: 1, 1: ROOT}, roots=(span(2), span(3)))
    found = w.walk(LONG)
    assert [(at, r.root) for at, r in found] == [(2.0, span(2)), (2.0, span(3)), (2.0, None)]


def test_a_declared_root_without_parent_is_the_whole_trace() -> None:
    w = declared()
    w.push(1, {2: 1, 1: ROOT}, roots=(span(1),))
    assert [told(r)[:3] for _, r in w.walk(LONG)] == [(1, "root_ended", 2)]
    assert w.buffer.counts.traces_started == 1


def test_loops_do_not_hang() -> None:
    w = declared()
    w.push(1, {1: 2, 2: 1, 3: 3}, roots=(span(1), span(2), span(3)))
    assert sum(r.traces for _, r in w.walk(LONG)) == w.buffer.counts.traces_started


def test_a_long_chain_costs_no_more_than_its_length() -> None:
    w = declared()
    for number in range(2, 5000):
        w.push(1, {number: number - 1}, roots=(span(2),) if number == 2 else ())
    ((_, released),) = w.walk(LONG)
    assert (released.root, released.spans) == (span(2), 4998)


def test_in_a_session_a_declared_root_is_a_root() -> None:
    w = declared(group_by="session.id")
    w.push(1, {2: 1}, roots=(span(2),), session="s")
    assert [(at, r.reason, r.root, r.trace_ids) for at, r in w.walk(LONG)] == [(600.0, "root_ended", None, (trace(1),))]


def test_roots_many_levels_deep_are_part_of_the_outermost() -> None:
    w = Walk(root_attributes={"a": "b"})
    deep = 3000
    w.push(1, {1: ROOT, **{n: n - 1 for n in range(2, deep)}}, roots=tuple(span(n) for n in range(2, deep)))
    found = [(released.root, released.spans) for _, released in w.walk(10.0)]
    assert sorted(found, key=str) == sorted([(span(2), deep - 2), (None, deep - 1)], key=str)
