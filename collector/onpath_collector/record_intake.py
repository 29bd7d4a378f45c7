"""The way in for requests that their sender keeps until nothing needs them: records of a log, in place of a journal.

record -> split -> admitted? -> begun -> held by each trace that keeps spans of it -> let go when that is settled
                                      -> held until the downstream has it
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from onpath_collector.intake import Intake, in_steps
from onpath_collector.otlp import Batch, splitting
from onpath_collector.receivers.base import Accepted, Refused, Source, TooLarge


class RecordIntake(Intake):
    """Implements receivers.base.RecordConsumer too."""

    kept_back = 0  # spans of sources that are not passed on
    _short_since: float | None = None  # since when a record has waited for memory

    async def take(self, request: bytes, source: Source) -> Accepted:
        batch = await self._in_steps(splitting(request, self._wanted))
        if source.passes_on:
            self._admit("traces", request, batch.spans)
        size = sum(len(chunk.data) for chunk in batch.chunks)
        weight = self._buffer.weight_of(size, batch.spans, len(batch.chunks))
        if weight > (self._buffer.settings.memory_limit or weight):
            raise TooLarge("more than all memory that traces may take")  # there will never be room for it
        self._admit_patiently(weight, batch.spans)
        number = source.begin([chunk.trace_id for chunk in batch.chunks])
        try:
            await self._put(batch, source, number)
            self._pass_on(request, batch.spans, source, number)
        finally:
            source.let_go(number)
        return Accepted(batch.spans, batch.rejected.total(), batch.message)

    def _admit_patiently(self, weight: int, spans: int) -> None:
        """A log can wait: open traces are released early only when they have not left by themselves in time."""
        now, settings = self._clock(), self._buffer.settings
        patience = settings.settle_delay + settings.orphan_delay
        if self._short_since is None or now < self._short_since + patience:
            if not self._buffer.admits(now, weight, early=False):
                self._short_since = self._short_since or now
                self._schedule()
                raise Refused("memory", items=spans)
        else:
            self._admit_to_buffer(weight, spans)
        self._short_since = None

    async def recall(self, request: bytes) -> Sequence[bytes]:
        batch = await self._in_steps(splitting(request, self._wanted))
        traces = [chunk.trace_id for chunk in batch.chunks]
        for trace_id in traces:
            if not self._buffer.is_open(trace_id):
                self._buffer.restore(trace_id, None)
        return traces

    async def _put(self, batch: Batch, source: Source, number: int) -> None:
        """Into the buffer, in steps; each trace that keeps something of it holds the record."""
        self.rejected += batch.rejected
        self.own += batch.own
        self.impersonated += batch.impersonated
        for step, chunks in enumerate(in_steps(batch.chunks)):
            if step:
                await asyncio.sleep(0)
            now = self._clock()
            holds = sum([self._buffer.push(now, chunk, number) for chunk in chunks])
            if holds:
                source.hold(number, holds)
            self._schedule()

    def _pass_on(self, request: bytes, spans: int, source: Source, number: int) -> None:
        self.received["traces"] += spans
        forwarder = self._forwarders.get("traces")
        if not source.passes_on:
            self.kept_back += spans
        elif forwarder is None:
            self.dropped["traces"] += spans
        elif request:
            source.hold(number, 1)
            forwarder.enqueue(request, spans, lambda _: source.let_go(number))

    def sums(self) -> dict[str, Any]:
        found = super().sums()
        if self.kept_back:
            found["spans_dropped"]["not_passed_on"] = self.kept_back
        return found

    def behind(self) -> float:
        """By how many seconds the earliest deadline of the buffer is over: judging does not keep up."""
        deadline = self._buffer.next_deadline()
        return 0.0 if deadline is None else max(0.0, self._clock() - deadline)
