"""Trace: a forest whatever the spans say, the same for every order and number of arrivals."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from onpath.model import FLAG_REMOTE, FLAG_REMOTE_KNOWN, Span, Trace

REMOTE = FLAG_REMOTE | FLAG_REMOTE_KNOWN
T = "a" * 32


def span(number: int, parent: int | None = None, start: int = 0, **fields: Any) -> Span:
    return Span(
        trace_id=T,
        span_id=f"{number:016x}",
        name=fields.pop("name", f"s{number}"),
        start_ns=start,
        end_ns=fields.pop("end_ns", start + 10),
        parent_span_id=None if parent is None else f"{parent:016x}",
        **fields,
    )


def names(spans: Any) -> list[str]:
    return [s.name for s in spans]


def shape(trace: Trace) -> list[tuple[str, str | None, list[str]]]:
    found = []
    for s in trace.spans:
        parent = trace.parent(s)
        found.append((s.name, parent.name if parent else None, names(trace.children(s))))
    return found


spans = st.lists(
    st.builds(
        span,
        st.integers(1, 12),
        st.none() | st.integers(1, 14),
        st.integers(0, 5),
        end_ns=st.none() | st.integers(0, 20),
        flags=st.sampled_from([0, FLAG_REMOTE_KNOWN, REMOTE]),
        attributes=st.dictionaries(st.sampled_from("ab"), st.integers(0, 2) | st.text(max_size=2)),
    ),
    max_size=14,
)


def test_a_tree_in_order_of_time() -> None:
    trace = Trace([span(3, 1, 5), span(2, 1, 1), span(1, None, 0)])
    assert names(trace.spans) == ["s1", "s2", "s3"]
    assert names(trace.roots) == ["s1"]
    assert names(trace.children(trace.spans[0])) == ["s2", "s3"]
    assert (trace.complete, trace.release_reason, trace.has_root, trace.orphans) == (True, "root_ended", True, ())


def test_a_named_parent_that_is_not_there_makes_an_orphan() -> None:
    trace = Trace([span(1), span(2, 9)])
    assert names(trace.orphans) == ["s2"]
    assert (trace.complete, trace.release_reason, trace.missing_parent) == (False, "idle", True)


def test_a_remote_parent_stands_in_for_a_root_that_was_not_seen() -> None:
    alone = Trace([span(2, 9, flags=REMOTE), span(3, 2)])
    assert (alone.complete, alone.has_root, alone.orphans) == (True, True, ())
    beside_a_root = Trace([span(1), span(2, 9, flags=REMOTE)])
    assert names(beside_a_root.orphans) == ["s2"]
    known = Trace([span(1), span(2, 1, flags=REMOTE)])
    assert names(known.children(known.roots[0])) == ["s2"]


def test_only_two_release_reasons_are_complete() -> None:
    for reason, complete in [("root_ended", True), ("marked", True), ("idle", False), ("shutdown", False)]:
        assert Trace([span(1)], release_reason=reason).complete is complete
    assert not Trace([span(1), span(2, 9)], release_reason="marked").complete


def test_who_saw_every_start_knows_where_steps_may_be_missing() -> None:
    unseen, seen = (Trace([span(1)], release_reason="max_age", starts_seen=s) for s in (None, True))
    assert (unseen.complete, unseen.missing_parent) == (False, True)
    assert (seen.complete, seen.missing_parent) == (False, False)
    assert Trace([span(1)], starts_seen=True).complete
    gone = Trace([span(1)], release_reason="root_ended", starts_seen=False)
    assert (gone.complete, gone.missing_parent) == (False, True)
    assert Trace([span(1), span(2, 9)], starts_seen=True).missing_parent


def test_a_loop_is_cut_at_its_earliest_span() -> None:
    trace = Trace([span(1, 3, 2), span(2, 1, 3), span(3, 2, 1), span(4, 2, 4)])
    assert names(trace.roots) == ["s3"]
    assert shape(trace) == [("s3", None, ["s1"]), ("s1", "s3", ["s2"]), ("s2", "s1", ["s4"]), ("s4", "s2", [])]
    assert names(Trace([span(1, 1)]).roots) == ["s1"]


def test_a_very_deep_trace_needs_no_recursion() -> None:
    trace = Trace([span(n, n - 1 if n > 1 else None, n) for n in range(1, 20_001)])
    assert len(trace.roots) == 1
    assert trace.complete


def test_of_two_records_of_a_span_the_later_ending_is_kept() -> None:
    pending = span(1, end_ns=None, name="pending")
    ended = span(1, end_ns=20, name="ended")
    for order in ([pending, ended], [ended, pending]):
        trace = Trace(order)
        assert names(trace.spans) == ["ended"]
        assert trace.duplicates == 1


def test_no_spans() -> None:
    trace = Trace([])
    assert (trace.trace_id, trace.roots, trace.complete) == ("", (), False)


@given(spans, st.randoms())
def test_order_and_number_of_arrivals_never_matter(given_spans: list[Span], chance: Any) -> None:
    again = given_spans + chance.sample(given_spans, len(given_spans) // 2)
    chance.shuffle(again)
    first, second = Trace(given_spans), Trace(again)
    assert shape(first) == shape(second)
    assert names(first.orphans) == names(second.orphans)
    assert [s.attributes for s in first.spans] == [s.attributes for s in second.spans]


@given(spans)
def test_it_is_always_a_forest(given_spans: list[Span]) -> None:
    trace = Trace(given_spans)
    seen: list[Span] = []
    below = list(trace.roots)
    while below:
        at = below.pop()
        seen.append(at)
        below.extend(trace.children(at))
    assert sorted(s.span_id for s in seen) == sorted({s.span_id for s in given_spans})
