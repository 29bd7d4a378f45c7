"""The queue's promises, with a sender and a clock that do as told: nothing lost uncounted, retries as set, stopping."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath_collector.downstream import Delivered, Failed, Outcome, Retry
from onpath_collector.forward import Forwarder, ForwardSettings, RetrySettings
from tests.support.virtual_time import VirtualTime, settle


class ToldSender:
    """Answers by `behave`, given how often these bytes have been tried before; keeps what it was sent, in order."""

    def __init__(self, behave: Callable[[bytes, int], Outcome | BaseException | None] = lambda *_: Delivered()) -> None:
        self.behave = behave
        self.tried: list[bytes] = []
        self.delivered: list[bytes] = []
        self.closed = 0

    async def send(self, request: bytes) -> Outcome:
        before = sum(1 for each in self.tried if each is request)
        self.tried.append(request)
        outcome = self.behave(request, before)
        if outcome is None:
            await asyncio.Event().wait()
        if isinstance(outcome, BaseException):
            raise outcome
        assert outcome is not None
        if isinstance(outcome, Delivered):
            self.delivered.append(request)
        return outcome

    async def close(self) -> None:
        self.closed += 1


@asynccontextmanager
async def forwarding(
    sender: ToldSender, time: VirtualTime | None = None, draw: Callable[[], float] = lambda: 0.0, **options: object
) -> AsyncIterator[Forwarder]:
    time = time or VirtualTime()
    made = ForwardSettings(**options)  # type: ignore[arg-type]
    forwarder = Forwarder(made, sender, clock=time.clock, sleep=time.sleep, draw=draw)
    forwarder.start()
    try:
        yield forwarder
        await settle()
    finally:
        check(forwarder)
        await forwarder.close()
        check(forwarder)
        assert forwarder.counts.queued_requests == forwarder.counts.queued_items == forwarder.counts.queued_bytes == 0


def check(forwarder: Forwarder) -> None:
    """The conservation law."""
    counts = forwarder.counts
    assert counts.accepted_items == counts.sent_items + counts.failed_items.total() + counts.queued_items
    assert counts.accepted_requests == counts.sent_requests + counts.failed_requests.total() + counts.queued_requests


async def test_requests_go_on_in_order_and_are_the_same_objects() -> None:
    sender = ToldSender()
    bodies = [bytes([n]) * 100 for n in range(50)]
    async with forwarding(sender) as forwarder:
        for body in bodies:
            forwarder.enqueue(body, 1)
        await settle()
    assert all(sent is body for sent, body in zip(sender.delivered, bodies, strict=True))
    assert forwarder.counts.sent_items == 50


async def test_an_empty_forwarder_starts_drains_and_stops() -> None:
    sender, time = ToldSender(), VirtualTime()
    forwarder = Forwarder(ForwardSettings(), sender, clock=time.clock, sleep=time.sleep)
    assert await forwarder.drain(time.now)
    await forwarder.close()
    await forwarder.close()
    assert sender.closed == 2


async def test_retries_wait_five_seconds_growing_by_half_up_to_thirty_and_end_after_three_hundred() -> None:
    time = VirtualTime()
    sender = ToldSender(lambda *_: Retry("unavailable"))
    settled: list[str | None] = []
    async with forwarding(sender, time) as forwarder:
        forwarder.enqueue(b"a", 3, settled.append)
        start, waits = time.now, []
        while not settled:
            await settle()
            before = time.now
            await time.next()
            waits.append(time.now - before)
    assert waits[:6] == [5, 7.5, 11.25, 16.875, 25.3125, 30]
    assert set(waits[6:-1]) == {30}
    assert 270 < time.now - start <= 300
    assert settled == ["retry_exhausted"]
    assert forwarder.counts.failed_items == {"retry_exhausted": 3}


async def test_waits_differ_and_are_never_longer_than_said_nor_shorter_than_asked() -> None:
    time, drawn = VirtualTime(), iter([0.0, 0.5, 1.0, 0.0, 0.5, 1.0])
    asked = {3: 2.0, 4: 2.0, 5: 2.0}
    sender = ToldSender(lambda _, before: Delivered() if before == 6 else Retry("unavailable", asked.get(before)))
    waits = []
    async with forwarding(sender, time, lambda: next(drawn)) as forwarder:
        forwarder.enqueue(b"a", 3)
        while forwarder.counts.queued_requests:
            await settle()
            before = time.now
            await time.next()
            waits.append(time.now - before)
    assert waits == pytest.approx([5, 7.5 * 0.9, 11.25 * 0.8, 2, 2.2, 2.4])


async def test_elapsed_zero_retries_for_ever() -> None:
    time = VirtualTime()
    sender = ToldSender(lambda _, before: Delivered() if before == 500 else Retry("unavailable"))
    async with forwarding(sender, time, retry=RetrySettings(elapsed=0)) as forwarder:
        forwarder.enqueue(b"a", 3)
        while forwarder.counts.queued_requests:
            await time.next()
    assert forwarder.counts.sent_items == 3
    assert forwarder.counts.retries == 500


async def test_a_hint_replaces_the_wait() -> None:
    time = VirtualTime()
    sender = ToldSender(lambda _, before: Delivered() if before else Retry("unavailable", after=0.25))
    async with forwarding(sender, time) as forwarder:
        forwarder.enqueue(b"a", 1)
        await time.advance(0.24)
        assert len(sender.tried) == 1
        await time.advance(0.01)
    assert len(sender.delivered) == 1


async def test_a_request_that_waits_does_not_hold_up_the_others() -> None:
    time = VirtualTime()
    bad = b"bad"
    sender = ToldSender(lambda body, before: Retry("aborted") if body is bad and not before else Delivered())
    async with forwarding(sender, time, concurrency=2) as forwarder:
        for body in (b"1", bad, b"2", b"3"):
            forwarder.enqueue(body, 1)
        await settle()
        assert sender.delivered == [b"1", b"2", b"3"]
        await time.advance(5)
    assert sender.delivered[-1] is bad


async def test_one_send_after_the_other_until_a_backlog_builds_up() -> None:
    sender = ToldSender(lambda *_: None)
    async with forwarding(sender, concurrency=3) as forwarder:
        for enqueued, sending in enumerate([1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3], 1):
            forwarder.enqueue(b"x", 1)
            await settle()
            assert (len(sender.tried), forwarder.counts.queued_requests) == (sending, enqueued)
    assert forwarder.counts.failed_items == {"shutdown": 18}


async def test_stopping_before_anything_was_begun_loses_nothing() -> None:
    sender, time = ToldSender(), VirtualTime()
    forwarder = Forwarder(ForwardSettings(), sender, clock=time.clock, sleep=time.sleep)
    forwarder.start()
    for _ in range(20):
        forwarder.enqueue(b"a", 1)
    await forwarder.close()
    check(forwarder)
    assert forwarder.counts.failed_items == {"shutdown": 20}


async def test_permanent_answers_drop_by_reason() -> None:
    settled: list[str | None] = []
    sender = ToldSender(lambda body, _: Failed("invalid_argument") if body == b"a" else Failed("unimplemented"))
    async with forwarding(sender) as forwarder:
        forwarder.enqueue(b"a", 2, settled.append)
        forwarder.enqueue(b"b", 5, settled.append)
    assert forwarder.counts.failed_items == {"invalid_argument": 2, "unimplemented": 5}
    assert settled == ["invalid_argument", "unimplemented"]


@pytest.mark.parametrize(("rejected", "lost"), [(3, 3), (99, 10), (-5, 0), (0, 0)])
async def test_partial_success_counts_what_the_downstream_rejected_within_reason(rejected: int, lost: int) -> None:
    sender = ToldSender(lambda *_: Delivered(rejected, "some were bad"))
    async with forwarding(sender) as forwarder:
        forwarder.enqueue(b"a", 10)
    assert forwarder.counts.sent_items == 10 - lost
    assert forwarder.counts.failed_items.total() == lost
    assert forwarder.counts.sent_requests == 1


async def test_each_kind_of_trouble_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Outcome] = [Failed("internal", "first"), Failed("internal"), Delivered(1, "bad id"), Delivered(1)]
    sender = ToldSender(lambda *_: answers.pop(0))
    with caplog.at_level(logging.WARNING, "onpath_collector.forward"):
        async with forwarding(sender, concurrency=1) as forwarder:
            for _ in range(4):
                forwarder.enqueue(b"a", 2)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "internal: first" in caplog.text
    assert "partial_success: bad id" in caplog.text


async def test_a_fault_of_our_own_keeps_the_request() -> None:
    time = VirtualTime()
    sender = ToldSender(lambda _, before: Delivered() if before else RuntimeError("a fault"))
    async with forwarding(sender, time) as forwarder:
        forwarder.enqueue(b"a", 1)
        await time.advance(5)
    assert forwarder.counts.sent_items == 1


async def test_admission_by_requests_and_bytes_counts_what_is_being_sent() -> None:
    sender = ToldSender(lambda *_: None)
    async with forwarding(sender, concurrency=1, queue_requests=3, queue_bytes=100) as forwarder:
        assert forwarder.fits(100)
        assert not forwarder.fits(101)
        forwarder.enqueue(b"x" * 60, 1)
        await settle()
        assert forwarder.fits(40)
        assert not forwarder.fits(41)
        forwarder.enqueue(b"x", 1)
        forwarder.enqueue(b"x", 1)
        assert not forwarder.fits(0)


async def test_draining_tries_at_once_what_waits() -> None:
    time = VirtualTime()
    up = False
    sender = ToldSender(lambda *_: Delivered() if up else Retry("unavailable"))
    async with forwarding(sender, time, concurrency=2) as forwarder:
        for _ in range(5):
            forwarder.enqueue(b"a", 1)
        await settle()
        up = True
        assert await forwarder.drain(time.now + 10)
        assert time.now == 1000.0
    assert forwarder.counts.sent_items == 5


@pytest.mark.parametrize("outcome", [Retry("unavailable"), None])
async def test_draining_into_a_dead_downstream_ends_at_the_deadline(outcome: Outcome | None) -> None:
    time = VirtualTime()
    sender = ToldSender(lambda *_: outcome)
    async with forwarding(sender, time) as forwarder:
        for _ in range(20):
            forwarder.enqueue(b"a", 2)
        await settle()
        drained = asyncio.create_task(forwarder.drain(time.now + 10))
        await time.advance(9.9)
        assert not drained.done()
        await time.advance(0.1)
        assert not await drained
        assert len(sender.tried) < 60
        assert forwarder.counts.queued_items == 40
    assert forwarder.counts.failed_items == {"shutdown": 40}


async def test_what_a_journal_keeps_stays_queued_and_unsettled() -> None:
    settled: list[str | None] = []
    sender, time = ToldSender(lambda *_: None), VirtualTime()
    forwarder = Forwarder(ForwardSettings(), sender, clock=time.clock, sleep=time.sleep)
    forwarder.start()
    for _ in range(20):
        forwarder.enqueue(b"a", 2, settled.append)
    await settle()
    await forwarder.close(dropped=None)
    assert (forwarder.counts.queued_items, settled) == (40, [])
    check(forwarder)


OUTCOMES = st.sampled_from(
    [Delivered(), Delivered(1), Retry("unavailable"), Retry("aborted", 1.0), Failed("internal"), RuntimeError("fault")]
)


@settings(max_examples=40, deadline=None)
@given(
    answers=st.lists(OUTCOMES, min_size=1, max_size=12),
    sizes=st.lists(st.integers(0, 5), max_size=25),
    concurrency=st.integers(1, 4),
    steps=st.lists(st.sampled_from([0.0, 1.0, 5.0, 400.0]), max_size=6),
)
def test_items_are_conserved_at_any_time(
    answers: list[Outcome | BaseException], sizes: list[int], concurrency: int, steps: list[float]
) -> None:
    choose = random.Random(len(answers) + len(sizes))
    settled: list[str | None] = []

    async def run() -> None:
        time = VirtualTime()
        sender = ToldSender(lambda *_: choose.choice(answers))
        async with forwarding(sender, time, concurrency=concurrency) as forwarder:
            for size in sizes:
                forwarder.enqueue(bytes(size), size, settled.append)
                await asyncio.sleep(0)
                check(forwarder)
            for step in steps:
                await time.advance(step)
                check(forwarder)
                assert len(settled) == len(sizes) - forwarder.counts.queued_requests
        assert len(settled) == len(sizes)

    asyncio.run(run())
