"""What every receiver calls: a request goes to the forward queue and the buffer, whole or not at all; nothing waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from onpath_collector.buffer import TraceBuffer
from onpath_collector.downstream import Signal
from onpath_collector.forward import Forwarder
from onpath_collector.otlp import Wanted, count_items, split, split_logs
from onpath_collector.receivers.base import Accepted, Refused

_RETRY_AFTER: Final = 1.0  # seconds; senders back off from there


class Intake:
    """Implements receivers.base.Consumer. Without a forwarder for a signal, what is accepted is counted and dropped."""

    def __init__(
        self,
        buffer: TraceBuffer,
        forwarders: Mapping[Signal, Forwarder],
        wanted: Wanted,
        schedule: Callable[[], None],
        *,
        clock: Callable[[], float],
    ) -> None:
        """`schedule` is called when the buffer's next deadline may have moved."""
        self._buffer = buffer
        self._forwarders = forwarders
        self._wanted = wanted
        self._schedule = schedule
        self._clock = clock
        self.received: Counter[Signal] = Counter()  # items: spans, data points, log records
        self.dropped: Counter[Signal] = Counter()  # items that no downstream is there for
        self.rejected: Counter[str] = Counter()  # spans with wrong ids, by reason; forwarded all the same
        self.own = 0  # spans of results that came back

    async def traces(self, request: bytes) -> Accepted:
        batch = split(request, self._wanted)
        now = self._clock()
        self._admit("traces", request)
        self._admit_to_buffer(now, sum(len(chunk.data) for chunk in batch.chunks))
        for chunk in batch.chunks:
            self._buffer.push(now, chunk)
        self._hand_on("traces", request, batch.spans)
        self.rejected += batch.rejected
        self.own += batch.own
        self._schedule()
        return Accepted(batch.spans, batch.rejected.total(), batch.message)

    async def metrics(self, request: bytes) -> Accepted:
        items = count_items("metrics", request)
        self._admit("metrics", request)
        self._hand_on("metrics", request, items)
        return Accepted(items)

    async def logs(self, request: bytes) -> Accepted:
        items = count_items("logs", request)
        evidence = split_logs(request)
        now = self._clock()
        self._admit("logs", request)
        self._admit_to_buffer(now, sum(len(record.data) for record in evidence))
        for record in evidence:
            self._buffer.attach(now, record)
        self._hand_on("logs", request, items)
        self._schedule()
        return Accepted(items)

    def sums(self) -> dict[str, Any]:
        """The spans' half of the ledger."""
        dropped = Counter({"no_downstream": self.dropped["traces"]})
        forwarded = queued = 0
        if forwarder := self._forwarders.get("traces"):
            dropped += forwarder.counts.failed_items
            forwarded, queued = forwarder.counts.sent_items, forwarder.counts.queued_items
        return {
            "spans_received": self.received["traces"],
            "spans_forwarded": forwarded,
            "spans_dropped": {reason: n for reason, n in dropped.items() if n},
            "spans_queued": queued,
        }

    def _admit(self, signal: Signal, request: bytes) -> None:
        forwarder = self._forwarders.get(signal)
        if forwarder is not None and not forwarder.fits(len(request)):
            raise Refused("queue_full", _RETRY_AFTER)

    def _admit_to_buffer(self, now: float, size: int) -> None:
        if not self._buffer.admits(now, size):
            self._schedule()  # what is released early to make room is due at once
            raise Refused("memory", _RETRY_AFTER)

    def _hand_on(self, signal: Signal, request: bytes, items: int) -> None:
        self.received[signal] += items
        forwarder = self._forwarders.get(signal)
        if forwarder is None:
            self.dropped[signal] += items
        elif request:
            forwarder.enqueue(request, items)
