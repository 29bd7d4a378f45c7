"""Very large requests on their way in: the loop turns between steps, and each is taken whole, once, or not at all."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.downstream import Delivered, Outcome
from onpath_collector.forward import Forwarder, ForwardSettings
from onpath_collector.intake import Intake
from onpath_collector.otlp import STEP, Wanted, at_once, split, splitting
from onpath_collector.receivers.base import Refused, TooLarge
from tests.support import requests
from tests.support.service import collecting

MANY = 3 * STEP


def of_many_traces(count: int = MANY) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(1, count + 1):
        spans.add(trace_id=number.to_bytes(16, "big"), span_id=requests.span_id(number), name="span")
    return request.SerializeToString()


def events(count: int = MANY) -> bytes:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for number in range(1, count + 1):
        records.add(trace_id=number.to_bytes(16, "big"), span_id=requests.span_id(number), event_name="e")
    return request.SerializeToString()


class Downstream:
    def __init__(self) -> None:
        self.got: list[bytes] = []

    async def send(self, request: bytes) -> Outcome:
        self.got.append(request)
        return Delivered()

    async def close(self) -> None:
        pass


class Parts:
    """An intake between a buffer and a downstream."""

    def __init__(self, **settings: Any) -> None:
        self.buffer = TraceBuffer(BufferSettings(**settings))
        self.downstream = Downstream()
        self.forwarder = Forwarder(ForwardSettings(), self.downstream)
        self.forwarder.start()
        forwarders: Any = {"traces": self.forwarder, "logs": self.forwarder}
        self.intake = Intake(self.buffer, forwarders, Wanted(), lambda: None, clock=time.monotonic)
        self.most_at_once = 0  # traces opened in one turn of the loop

    async def watch(self) -> None:
        before = 0
        while True:
            self.most_at_once = max(self.most_at_once, self.buffer.open_traces - before)
            before = self.buffer.open_traces
            await asyncio.sleep(0)

    async def forwarded(self) -> Sequence[bytes]:
        async with asyncio.timeout(10):
            while not self.downstream.got:  # noqa: ASYNC110 - it has no event of its own
                await asyncio.sleep(0.01)
        return self.downstream.got


async def test_the_loop_turns_while_many_traces_are_opened() -> None:
    parts, request = Parts(), of_many_traces()
    watch = asyncio.create_task(parts.watch())
    accepted = await parts.intake.traces(request)
    watch.cancel()
    assert (accepted.items, accepted.rejected) == (MANY, 0)
    assert parts.buffer.open_traces == MANY
    assert 0 < parts.most_at_once <= STEP // 8 + 1
    assert await parts.forwarded() == [request]
    assert parts.forwarder.counts.sent_items == MANY


async def test_the_loop_turns_while_log_records_are_taken() -> None:
    parts, request = Parts(), events()
    await parts.intake.traces(of_many_traces())
    turns = 0

    async def turning() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    turner = asyncio.create_task(turning())
    await asyncio.sleep(0)
    accepted = await parts.intake.logs(request)
    turner.cancel()
    assert accepted.items == MANY
    assert turns > MANY // STEP
    assert len([e for r in parts.buffer.drain(0.0) for e in r.evidence]) == MANY


async def test_a_small_request_waits_for_nothing() -> None:
    steps = Parts().intake.traces(requests.traces(1, 2, 3))
    with pytest.raises(StopIteration):
        steps.send(None)


@pytest.mark.parametrize("turns", [1, 5, 25])
async def test_a_sender_that_goes_away_meanwhile_has_sent_all_or_nothing(turns: int) -> None:
    parts, request = Parts(), of_many_traces()
    sending = asyncio.create_task(parts.intake.traces(request))
    for _ in range(turns):
        await asyncio.sleep(0)
    begun = parts.buffer.open_traces > 0
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
    for _ in range(200):
        await asyncio.sleep(0)
    assert parts.buffer.open_traces == (MANY if begun else 0)
    assert parts.downstream.got == ([request] if begun else [])


async def test_one_very_large_request_at_a_time() -> None:
    parts = Parts()
    found = await asyncio.gather(*(parts.intake.traces(of_many_traces()) for _ in range(4)), return_exceptions=True)
    assert {type(each) for each in found} <= {Refused, type(found[0])}
    taken = [each for each in found if not isinstance(each, BaseException)]
    assert taken
    assert parts.buffer.counts.spans == MANY * len(taken)


async def test_what_traces_take_besides_their_bytes_counts_before_they_come_in() -> None:
    parts = Parts(memory_limit=4 << 20)
    assert len(of_many_traces()) < 1 << 20
    with pytest.raises(Refused, match="memory"):
        await parts.intake.traces(of_many_traces())
    assert parts.buffer.counts.spans == 0
    await parts.intake.traces(of_many_traces(1000))


@pytest.mark.parametrize("where", ["resource", "scope", "request"])
async def test_large_resources_are_not_copied_for_ever_so_many_traces(where: str) -> None:
    request = ExportTraceServiceRequest.FromString(of_many_traces(1000))
    group = request.resource_spans[0]
    if where == "request":
        request.MergeFromString(b"\xc2\x3e\x80\x80\x08" + b"x" * (1 << 17))  # field 1000, of 128 KiB
    else:
        holder: Any = group.resource if where == "resource" else group.scope_spans[0].scope
        holder.attributes.add(key="large").value.string_value = "x" * (1 << 17)
    parts = Parts()
    with pytest.raises(TooLarge, match="too large for so many traces"):
        await parts.intake.traces(request.SerializeToString())
    assert parts.buffer.counts.spans == 0
    del group.scope_spans[0].spans[400:]
    assert (await parts.intake.traces(request.SerializeToString())).items == 400


async def test_a_resource_may_be_large_where_there_is_one_trace() -> None:
    request = ExportTraceServiceRequest.FromString(requests.traces(*range(1, 5001)))
    request.resource_spans[0].resource.attributes.add(key="large").value.string_value = "x" * (1 << 20)
    assert (await Parts().intake.traces(request.SerializeToString())).items == 5000


def test_in_steps_a_request_is_taken_apart_as_it_is_at_once() -> None:
    request = ExportTraceServiceRequest.FromString(of_many_traces())
    for number, span in enumerate(request.resource_spans[0].scope_spans[0].spans):
        if number % 3 == 0:
            span.span_id = b""
        if number % 5 == 0:
            span.trace_id = bytes(15) + b"\1"
    data = request.SerializeToString()
    batch = split(data)
    assert at_once(splitting(data)) == batch
    assert sum(1 for _ in splitting(data)) > 3
    assert batch.rejected == {"span_id": MANY // 3}
    assert batch.spans == MANY
    kept = [s for chunk in batch.chunks for s in requests.span_ids(chunk.data)]
    assert sorted(kept) == sorted(s.span_id for s in request.resource_spans[0].scope_spans[0].spans if s.span_id)


async def test_with_a_journal_a_very_large_request_is_kept_until_all_of_it_is_settled(tmp_path: Path) -> None:
    durability = {"mode": "journal", "directory": str(tmp_path / "journal")}
    async with collecting(tmp_path, None, buffer={"settle_delay": "10ms"}, durability=durability) as collector:
        journal = collector.service.journal
        assert journal is not None
        await collector.send(of_many_traces())
        assert journal.requests == 1
        await collector.until(lambda: collector.ledger.traces_judged == MANY)
        await collector.until(lambda: journal.requests == 0)


def large(number: int, size: int = 300_000) -> bytes:
    """A request of one trace that has ended."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="span", span_id=requests.span_id(number))
    span.trace_id = number.to_bytes(16, "big")
    span.attributes.add(key="payload").value.string_value = "x" * size
    return request.SerializeToString()


async def test_a_large_request_waits_while_much_waits_to_be_judged_and_a_small_one_does_not() -> None:
    parts = Parts(settle_delay=0.0)
    for number in range(1, 41):
        await parts.intake.traces(large(number, 1 << 20))
    released = parts.buffer.tick(time.monotonic() + 1)
    await parts.forwarder.drain(time.monotonic() + 10)
    taken = len(parts.downstream.got)
    waiting = asyncio.create_task(parts.intake.traces(large(41)))
    await asyncio.sleep(0.02)
    await parts.intake.traces(large(42, 1000))
    assert not waiting.done()
    for each in released:
        parts.buffer.settle(each, "judged")
    assert (await waiting).items == 1
    await parts.forwarder.drain(time.monotonic() + 10)
    assert len(parts.downstream.got) == taken + 2


async def test_it_comes_in_all_the_same_when_nothing_is_judged() -> None:
    parts = Parts(settle_delay=0.0)
    for number in range(1, 41):
        await parts.intake.traces(large(number, 1 << 20))
    parts.buffer.tick(time.monotonic() + 1)
    assert (await parts.intake.traces(large(41))).items == 1
    assert parts.buffer.is_open((41).to_bytes(16, "big"))
