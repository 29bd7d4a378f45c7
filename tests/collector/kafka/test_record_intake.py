"""Records on their way in: held by what needs them, and patient where a sender would have been told to come again."""

from __future__ import annotations

import pytest

from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.otlp import DecodeError, Wanted
from onpath_collector.receivers.base import Refused, TooLarge
from onpath_collector.receivers.kafka.offsets import Offsets, Place, Record
from onpath_collector.record_intake import RecordIntake
from tests.support import requests

PLACE = Place("t", 0)


class Bench:
    def __init__(self, memory: int | None = None) -> None:
        self.now = 100.0
        self.buffer = TraceBuffer(BufferSettings(settle_delay=1.0, orphan_delay=2.0, memory_limit=memory))
        self.intake = RecordIntake(self.buffer, {}, Wanted(), lambda: None, clock=lambda: self.now)
        self.offsets = Offsets()
        self.offsets.assign(PLACE, None)

    async def take(self, offset: int, request: bytes, *, passes_on: bool = True) -> None:
        await self.intake.take(request, Record(self.offsets, PLACE, offset, passes_on))

    @property
    def held(self) -> int:
        return self.offsets.partitions[PLACE].held


async def test_a_record_is_held_by_traces_that_keep_something_of_it() -> None:
    bench = Bench()
    await bench.take(0, requests.traces(1, trace=1) + requests.traces(1, trace=2))
    await bench.take(1, requests.traces(1, trace=1))
    await bench.take(2, b"")
    assert bench.held == 1
    assert bench.offsets.partitions[PLACE].position == 3
    ((_, tags),) = [bench.buffer.give_up(bench.offsets.numbers([PLACE]), "partition_revoked")]
    assert tags == bench.offsets.numbers([PLACE])


async def test_what_can_not_be_decoded_is_not_begun() -> None:
    bench = Bench()
    with pytest.raises(DecodeError):
        await bench.take(0, b"\xff")
    assert bench.offsets.partitions[PLACE].position is None


async def test_traces_that_another_has_judged_are_not_judged_by_what_follows() -> None:
    bench = Bench()
    assert await bench.intake.recall(requests.traces(1, trace=1)) == [(1).to_bytes(16, "big")]
    await bench.take(0, requests.traces(2, trace=1))
    assert bench.held == 0
    assert bench.buffer.open_traces == 0
    assert bench.buffer.counts.late_unjudged == 1


async def test_what_is_not_passed_on_is_accounted_for() -> None:
    bench = Bench()
    await bench.take(0, requests.traces(1, 2, trace=1), passes_on=False)
    await bench.take(1, requests.traces(1, trace=2))
    assert bench.intake.sums() == {
        "spans_received": 3,
        "spans_forwarded": 0,
        "spans_dropped": {"no_downstream": 1, "not_passed_on": 2},
        "spans_queued": 0,
    }


async def test_for_want_of_memory_it_waits_until_traces_have_left_by_themselves() -> None:
    bench = Bench(memory=10_000)
    record = requests.traces(1, trace=1, padding=6000)
    await bench.take(0, record)
    for _ in range(3):
        with pytest.raises(Refused):
            await bench.take(1, requests.traces(1, trace=2, padding=6000))
        bench.now += 0.3
    bench.now += 0.2
    (released,) = bench.buffer.tick(bench.now)
    assert released.reason == "root_ended"
    bench.buffer.settle(released, None)
    await bench.take(1, requests.traces(1, trace=2, padding=6000))


async def test_what_does_not_leave_by_itself_is_released_early_at_last() -> None:
    bench = Bench(memory=10_000)
    await bench.take(0, requests.traces(1, trace=1, padding=6000))
    for wait in (3.1, 0.0):
        with pytest.raises(Refused):
            await bench.take(1, requests.traces(1, trace=2, padding=6000))
        bench.now += wait
    (released,) = bench.buffer.tick(bench.now)
    assert released.reason == "memory"


async def test_what_there_will_never_be_room_for_is_too_large() -> None:
    bench = Bench(memory=10_000)
    with pytest.raises(TooLarge):
        await bench.take(0, requests.traces(1, padding=20_000))
