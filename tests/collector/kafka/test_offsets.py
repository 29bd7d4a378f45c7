"""What is committed, and what whoever reads on from there sees: all of a trace that it is to judge, or none."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onpath_collector.receivers.kafka.offsets import Mark, Offsets, Partition, Place

PLACE = Place("t", 0)
A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def at(mark: Mark | None = None) -> tuple[Offsets, Partition]:
    offsets = Offsets()
    offsets.assign(PLACE, mark)
    return offsets, offsets.partitions[PLACE]


def taken(offsets: Offsets, offset: int, *traces: bytes) -> int:
    """A record that each of its traces holds."""
    number = offsets.begin(PLACE, offset, traces)
    offsets.hold(number, len(traces))
    offsets.let_go(number)
    return number


def test_nothing_is_due_before_a_record() -> None:
    offsets, _ = at()
    assert offsets.due([PLACE], 0.0) == []


def test_settled_records_are_committed_up_to_the_oldest_that_is_not() -> None:
    offsets, partition = at()
    first, second = taken(offsets, 10, A), taken(offsets, 11, B)
    assert offsets.due([PLACE], 0.0) == [(PLACE, Mark(10, 10, 12))]
    offsets.let_go(second)
    assert partition.watermark == 10
    offsets.let_go(first)
    assert offsets.due([PLACE], 0.0) == [(PLACE, Mark(12, 12, 12))]


def test_reading_begins_before_settled_traces_that_reach_over_the_watermark() -> None:
    offsets, _ = at()
    numbers = [taken(offsets, 10, A), taken(offsets, 11, B), taken(offsets, 12, C), taken(offsets, 13, A)]
    offsets.let_go(numbers[0])
    offsets.let_go(numbers[3])
    offsets.let_go(numbers[1])
    assert offsets.due([PLACE], 0.0) == [(PLACE, Mark(10, 12, 14))]
    offsets.let_go(numbers[2])
    assert offsets.due([PLACE], 0.0) == [(PLACE, Mark(14, 14, 14))]


def test_where_reading_begins_is_committed_before_the_first_record() -> None:
    offsets = Offsets()
    offsets.assign(PLACE, None, 7)
    assert offsets.due([PLACE], 0.0) == [(PLACE, Mark(7, 7, 7))]


def test_a_trace_that_is_open_for_long_does_not_have_all_others_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onpath_collector.receivers.kafka.offsets._MANY", 50)
    offsets, partition = at()
    partition._limit = 50
    taken(offsets, 0, A)
    for offset in range(1, 1000):
        offsets.let_go(taken(offsets, offset, offset.to_bytes(16, "big")))
    across = [taken(offsets, 1000, B), taken(offsets, 1001, C), taken(offsets, 1002, B)]
    offsets.let_go(across[0])
    offsets.let_go(across[2])
    for offset in range(1003, 2000):
        offsets.let_go(taken(offsets, offset, offset.to_bytes(16, "big")))
    assert len(partition._first) + len(partition._last) + len(partition._offsets) < 200
    assert offsets.due([PLACE], 0.0) == [(PLACE, Mark(0, 0, 2000))]
    offsets.let_go(1)
    assert offsets.due([PLACE], 0.0) == [(PLACE, Mark(1000, 1001, 2000))]


def test_reading_begins_where_the_watermark_was_a_while_ago() -> None:
    offsets = Offsets(30.0)
    offsets.assign(PLACE, None)
    for now, offset, start in (
        (100.0, 5, 5),
        (110.0, 6, 5),
        (120.0, 7, 5),
        (140.0, 8, 7),
        (149.9, 9, 7),
        (151.0, 10, 8),
    ):
        offsets.let_go(taken(offsets, offset, offset.to_bytes(16, "big")))
        assert offsets.due([PLACE], now) == [(PLACE, Mark(start, offset + 1, offset + 1))]
    assert offsets.due([PLACE], 181.0) == [(PLACE, Mark(11, 11, 11))]


def test_the_next_owner_looks_back_from_where_it_began() -> None:
    offsets = Offsets(30.0)
    offsets.assign(PLACE, Mark(10, 12, 12))
    offsets.partitions[PLACE].note(10, [A])
    offsets.partitions[PLACE].note(11, [B])
    offsets.let_go(taken(offsets, 12, C))
    assert offsets.due([PLACE], 100.0) == [(PLACE, Mark(10, 13, 13))]
    assert offsets.due([PLACE], 131.0) == [(PLACE, Mark(13, 13, 13))]


def test_what_is_committed_is_not_due_again() -> None:
    offsets, partition = at()
    taken(offsets, 10, A)
    ((_, mark),) = offsets.due([PLACE], 0.0)
    partition.mark = mark
    assert offsets.due([PLACE], 0.0) == []


def test_the_next_owner_commits_nothing_before_it_has_read_as_far() -> None:
    offsets, partition = at(Mark(10, 12, 14))
    assert [partition.is_settled(offset) for offset in (10, 11, 12)] == [True, True, False]
    partition.note(10, [A])
    partition.note(11, [B])
    assert offsets.due([PLACE], 0.0) == []
    offsets.let_go(taken(offsets, 12, C))
    assert offsets.due([PLACE], 0.0) == []
    taken(offsets, 13)
    assert offsets.due([PLACE], 0.0) == [(PLACE, Mark(14, 14, 14))]


def test_a_topic_that_was_made_anew_is_read_whole() -> None:
    _, partition = at(Mark(1000, 1100, 1200))
    assert not partition.is_settled(0)
    partition.note(0, [A])
    assert not partition.is_settled(1050)


def test_records_of_a_partition_that_has_gone_are_let_go_in_vain() -> None:
    offsets, _ = at()
    number = taken(offsets, 10, A)
    assert offsets.numbers([PLACE]) == {number}
    offsets.remove(PLACE)
    assert offsets.numbers([PLACE]) == set()
    offsets.let_go(number)
    offsets.assign(PLACE, None)
    offsets.let_go(number)
    assert offsets.partitions[PLACE].held == 0


@pytest.mark.parametrize(
    ("metadata", "mark"),
    [
        ("onpath/1 settled=12 read=14", Mark(10, 12, 14)),
        ("onpath/1 settled=2 read=3", Mark(10, 10, 10)),
        ("onpath/1 settled=x read=14", Mark(10, 10, 10)),
        ("onpath/2 settled=12 read=14", Mark(10, 10, 10)),
        ("", Mark(10, 10, 10)),
        (None, Mark(10, 10, 10)),
    ],
)
def test_what_another_hand_has_committed_is_an_offset_and_no_more(metadata: str | None, mark: Mark) -> None:
    assert Mark.of(10, metadata) == mark


def test_a_mark_survives_being_committed() -> None:
    mark = Mark(10, 12, 14)
    assert Mark.of(mark.start, mark.metadata) == mark
    assert len(Mark(10**18, 10**18, 10**18).metadata) < 100


@dataclass
class Owner:
    """Reads a log from a mark on, judges traces as it likes, and dies. What it knows is gone with it."""

    log: list[bytes]
    draw: random.Random
    offsets: Offsets = field(default_factory=Offsets)
    known: set[bytes] = field(default_factory=set)  # settled by the owner before
    open: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    seen: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    judged: set[bytes] = field(default_factory=set)

    def live(self, mark: Mark | None, upto: int, last: list[int]) -> Mark | None:
        """Reads up to an offset; the last thing that it has committed. A trace is judged once its last record is in."""
        self.offsets = Offsets(self.draw.choice((0.0, 5.0)))
        self.offsets.assign(PLACE, mark)
        partition = self.offsets.partitions[PLACE]
        partition._limit = self.draw.choice((3, 50))
        committed = mark
        for offset in range(0 if mark is None else mark.start, upto):
            trace_id = self.log[offset]
            if partition.is_settled(offset):
                partition.note(offset, [trace_id])
                self.known.add(trace_id)
            elif trace_id in self.known:
                self.offsets.let_go(self.offsets.begin(PLACE, offset, [trace_id]))
            else:
                self.seen[trace_id].append(offset)
                self.open[trace_id].append(taken(self.offsets, offset, trace_id))
            for done in [t for t in self.open if last[t[0]] <= offset and self.draw.random() < 0.5]:
                self.judged.add(done)
                for number in self.open.pop(done):
                    self.offsets.let_go(number)
            if self.draw.random() < 0.4:
                for _, due in self.offsets.due([PLACE], float(offset)):
                    assert committed is None or (due.start >= committed.start and due.settled >= committed.settled)
                    committed = due
        return committed


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """What can be forgotten is, all the time."""
    monkeypatch.setattr("onpath_collector.receivers.kafka.offsets._MANY", 3)


@pytest.mark.usefixtures("forgetful")
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 12), min_size=1, max_size=60), st.lists(st.integers(0, 60), max_size=4), st.randoms())
def test_every_trace_is_judged_and_always_whole(numbers: list[int], deaths: list[int], draw: random.Random) -> None:
    log = [bytes([n]) * 16 for n in numbers]
    last = [max((i for i, n in enumerate(numbers) if n == trace), default=-1) for trace in range(13)]
    whole = {bytes([n]) * 16: [i for i, m in enumerate(numbers) if m == n] for n in set(numbers)}
    mark: Mark | None = None
    judged: set[bytes] = set()
    for death in [*sorted(deaths), None]:
        owner = Owner(log, draw)
        upto = len(log) if death is None else min(death, len(log))
        mark = owner.live(mark, upto, last)
        assert all(owner.seen[trace_id] == whole[trace_id] for trace_id in owner.judged)
        judged |= owner.judged
        if death is None:
            judged |= set(owner.open)
            assert all(owner.seen[trace_id] == whole[trace_id] for trace_id in owner.open)
    assert judged == set(whole)
