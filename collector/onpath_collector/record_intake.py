"""The way in for requests that their sender keeps until nothing needs them: records of a log, in place of a journal.

record -> split -> admitted? -> begun -> held by each trace that keeps spans of it -> let go when that is settled
                                      -> held until the downstream has it
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onpath_collector.intake import Intake
from onpath_collector.otlp import Batch, split
from onpath_collector.receivers.base import Accepted, Source


class RecordIntake(Intake):
    """Implements receivers.base.RecordConsumer too."""

    kept_back = 0  # spans of sources that are not passed on

    async def take(self, request: bytes, source: Source) -> Accepted:
        batch = split(request, self._wanted)
        if source.passes_on:
            self._admit("traces", request, batch.spans)
        self._admit_to_buffer(sum(len(chunk.data) for chunk in batch.chunks), batch.spans)
        number = source.begin([chunk.trace_id for chunk in batch.chunks])
        try:
            if holds := self._pushed(batch, number):
                source.hold(number, holds)
            self._pass_on(request, batch.spans, source, number)
        finally:
            source.let_go(number)
        return Accepted(batch.spans, batch.rejected.total(), batch.message)

    def _pushed(self, batch: Batch, number: int) -> int:
        """How many traces keep something of it."""
        now = self._clock()
        holds = sum([self._buffer.push(now, chunk, number) for chunk in batch.chunks])
        self.rejected += batch.rejected
        self.own += batch.own
        self.impersonated += batch.impersonated
        self._schedule()
        return holds

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

    async def recall(self, request: bytes) -> Sequence[bytes]:
        traces = [chunk.trace_id for chunk in split(request, self._wanted).chunks]
        for trace_id in traces:
            if not self._buffer.is_open(trace_id):
                self._buffer.restore(trace_id, None)
        return traces

    def sums(self) -> dict[str, Any]:
        found = super().sums()
        if self.kept_back:
            found["spans_dropped"]["not_passed_on"] = self.kept_back
        return found

    def behind(self) -> float:
        """By how many seconds the earliest deadline of the buffer is over: judging does not keep up."""
        deadline = self._buffer.next_deadline()
        return 0.0 if deadline is None else max(0.0, self._clock() - deadline)
