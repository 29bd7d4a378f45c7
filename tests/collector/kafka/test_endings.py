"""Records are let go of when nothing of their trace is under way any more."""

from __future__ import annotations

from onpath_collector.receivers.kafka import Endings, Offsets
from onpath_collector.receivers.kafka.offsets import Place

PLACE = Place("t", 0)
TRACE = b"a" * 16


def held(offsets: Offsets) -> int:
    return offsets.partitions[PLACE].held


async def test_a_record_is_held_until_the_results_are_sent() -> None:
    offsets = Offsets()
    offsets.assign(PLACE, None)
    number = offsets.begin(PLACE, 1, [TRACE])
    endings = Endings(offsets)
    closing = endings.releasing((TRACE,), "root_ended", [number])
    endings.flush([closing])
    await closing.written
    endings.judged(closing, None)
    assert held(offsets) == 1
    endings.sent(closing)
    assert held(offsets) == 0


async def test_a_trace_judged_in_parts_is_held_until_the_last_of_them_is_sent() -> None:
    offsets = Offsets()
    offsets.assign(PLACE, None)
    number = offsets.begin(PLACE, 1, [TRACE])
    endings = Endings(offsets)
    part = endings.releasing((TRACE,), "root_ended", [], b"r" * 8)
    whole = endings.releasing((TRACE,), "root_ended", [number])
    for closing in (whole, part):
        assert held(offsets) == 1
        endings.judged(closing, None)
        endings.sent(closing)
    assert held(offsets) == 0
