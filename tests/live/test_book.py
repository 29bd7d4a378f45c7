"""The book of open and settled runs: every rule of its settings on one clock, and nothing lost whatever comes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.live.book import Book, Run
from onpath.live.counts import Counts
from onpath.live.settings import Settings
from onpath.testing import FakeClock


class Books:
    """A book on a clock, with what it has released so far."""

    def __init__(self, *, starts: bool = True, **limits: Any) -> None:
        self.clock = FakeClock(0.0)
        self.counts = Counts()
        self.book = Book(Settings(**limits), self.counts, starts=starts)
        self.released: list[tuple[int, str, int]] = []  # trace id, reason, spans

    def start(self, trace: int, span: int, parent: int | None = None) -> None:
        self.book.start(self.clock(), trace, span, parent, None)

    def end(self, trace: int, span: int, parent: int | None = None, *, size: int = 10, marked: bool = False) -> None:
        self.book.end(self.clock(), trace, span, parent, None, size, marked=marked)

    def settle(self, released: list[tuple[Run, Any]]) -> list[tuple[int, str, int]]:
        told = [(run.trace_id, str(reason), len(run.entries)) for run, reason in released]
        for run, _ in released:
            self.book.settle(run, self.clock())
        self.released += told
        return told

    def due(self) -> list[tuple[int, str, int]]:
        return self.settle(self.book.due(self.clock()))

    def after(self, seconds: float) -> list[tuple[int, str, int]]:
        self.clock.advance(seconds)
        return self.due()


def test_a_trace_goes_when_its_last_open_span_has_ended() -> None:
    books = Books()
    books.start(1, 1)
    books.start(1, 2, 1)
    books.end(1, 1)  # the root ends before its child, which is detached
    assert books.due() == []
    books.end(1, 2, 1)
    assert books.due() == [(1, "root_ended", 2)]
    assert books.book.next_deadline() is not None
    assert books.after(10_000) == []


def test_a_trace_that_goes_on_at_once_is_not_let_go_in_between() -> None:
    books = Books()
    books.start(1, 1)
    books.end(1, 1)
    books.start(1, 2)
    assert books.due() == []
    books.end(1, 2)
    assert books.due() == [(1, "root_ended", 2)]


def test_a_span_that_never_ends_falls_under_max_age() -> None:
    books = Books(max_age=60)
    books.start(1, 1)
    books.start(1, 2, 1)
    books.end(1, 1)
    assert books.after(59) == []
    assert books.after(1) == [(1, "max_age", 2)]
    books.end(1, 2, 1)
    assert books.due() == [(1, "root_ended", 2)]
    assert books.counts.late_spans == 1


def test_late_spans_open_a_settled_trace_again_within_the_window() -> None:
    books = Books(late_window=600)
    books.start(1, 1)
    books.end(1, 1)
    assert books.due() == [(1, "root_ended", 1)]
    books.clock.advance(599)
    books.start(1, 2, 1)
    books.end(1, 2, 1)
    assert books.due() == [(1, "root_ended", 2)]
    books.after(600)
    books.start(1, 3, 1)
    books.end(1, 3, 1)
    assert books.due() == []
    assert books.counts.spans_dropped["late"] == 2
    assert books.counts.traces_started == 1


def test_a_mark_ends_a_trace_at_once() -> None:
    books = Books()
    books.start(1, 1)
    books.start(1, 2, 1)
    books.end(1, 2, 1, marked=True)
    assert books.due() == [(1, "marked", 2)]
    books.end(1, 1)
    assert books.due() == [(1, "root_ended", 2)]


def test_limits_of_one_trace() -> None:
    books = Books(span_limit=2, trace_bytes_limit=5_000)
    for span in (1, 2, 3):
        books.start(1, span)
    assert books.due() == [(1, "span_limit", 3)]
    books.start(2, 1)
    books.end(2, 1, size=5_001)
    assert books.due() == [(2, "bytes_limit", 1)]
    books.end(1, 1)  # of a trace that was over a limit nothing more is taken
    assert books.due() == []
    assert books.counts.spans_dropped["late"] == 1
    assert (books.book.size, books.book.kept_size) == (0, 0)


def test_over_the_memory_limit_settled_spans_go_first_then_the_heaviest_times_oldest() -> None:
    books = Books(memory_limit=10_000)
    books.start(9, 1)
    books.end(9, 1, size=4_000)
    books.due()
    assert books.book.kept_size == 4_000
    books.start(1, 1)
    books.end(1, 1, size=3_000)
    books.start(1, 2)
    books.clock.advance(100)
    books.start(2, 1)
    books.end(2, 1, size=4_000)
    books.start(2, 2)
    assert books.due() == []
    assert books.book.kept_size == 0
    books.start(3, 1)
    books.end(3, 1, size=4_000)
    books.start(3, 2)
    assert books.due() == [(1, "memory", 2)]


def test_a_span_seen_only_at_its_end_means_that_others_may_be_gone() -> None:
    books = Books()
    books.end(1, 1)
    [(run, _)] = books.book.due(0)
    assert run.gone
    seen = Books(starts=False)
    seen.end(1, 1)
    [(run, _)] = seen.book.ready()
    assert not run.gone


def test_a_lost_item_ends_its_trace() -> None:
    books = Books()
    books.start(1, 1)
    books.book.lost(0, 1)
    [(run, reason)] = books.book.due(0)
    assert (reason, run.gone) == ("memory", True)


def test_without_starts_a_parent_that_has_not_come_is_open() -> None:
    books = Books(starts=False, settle_delay=2, orphan_delay=10, idle_timeout=120)
    books.end(1, 2, 1)
    assert books.after(100) == []
    books.end(1, 1)
    assert books.after(1.9) == []
    assert books.after(0.1) == [(1, "root_ended", 2)]
    books.end(2, 1)
    books.end(2, 5, 4)
    assert books.after(9) == []
    assert books.after(1) == [(2, "root_ended", 2)]
    books.end(3, 5, 4)
    assert books.after(120) == [(3, "idle", 1)]


def test_without_starts_those_that_only_wait_go_when_they_are_asked_for() -> None:
    books = Books(starts=False)
    books.end(1, 1)
    books.end(2, 2, 1)
    assert books.settle(books.book.ready()) == [(1, "root_ended", 1)]
    assert books.settle(books.book.drain()) == [(2, "shutdown", 1)]


def test_drained_is_everything() -> None:
    books = Books()
    books.start(1, 1)
    books.start(2, 1)
    books.end(2, 1)
    assert sorted(books.settle(books.book.drain())) == [(1, "shutdown", 1), (2, "root_ended", 1)]
    assert len(books.book) == 0


def test_only_so_many_settled_ids_are_remembered() -> None:
    books = Books(settled_memory=3)
    for trace in range(10):
        books.start(trace, 1)
        books.end(trace, 1)
        books.due()
    books.start(9, 2)
    books.start(0, 2)
    assert books.counts.traces_started == 11


MOMENTS = st.lists(
    st.tuples(
        st.sampled_from(["start", "end", "end", "mark", "lost", "due", "wait"]),
        st.integers(1, 4),
        st.integers(1, 5),
        st.sampled_from([None, 1, 2]),
        st.integers(0, 4_000),
    ),
    max_size=60,
)


@given(MOMENTS, st.booleans())
@settings(max_examples=150)
def test_every_trace_is_let_go_and_every_byte_accounted_for(moments: list[Any], starts: bool) -> None:
    books = Books(starts=starts, max_age=50, span_limit=4, trace_bytes_limit=6_000, memory_limit=9_000, late_window=30)
    first: Counter[int] = Counter()
    for what, trace, span, parent, size in moments:
        if what == "start" and starts:
            books.start(trace, span, parent)
        elif what in ("end", "mark"):
            books.end(trace, span, parent, size=size, marked=what == "mark")
        elif what == "lost":
            books.book.lost(books.clock(), trace)
        else:
            books.clock.advance(size / 100 if what == "wait" else 0)
            for run, reason in books.book.due(books.clock()):
                first[run.trace_id] += run.released == 1
                books.settle([(run, reason)])
        held = [*books.book._open.values()]
        assert books.book.size == sum(run.size for run in held)
        assert books.book.kept_size == sum(run.size for run in books.book._kept.values())
    for run, reason in books.book.drain():
        first[run.trace_id] += run.released == 1
        books.settle([(run, reason)])
    assert len(books.book) == 0
    assert first.total() == books.counts.traces_started
    assert all(number == 1 for number in first.values())
