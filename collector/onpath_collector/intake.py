"""What every receiver calls: a request goes to the forward queue and the buffer, whole or not at all.

    request -> split -> admitted? -> [journal: written] -> taken: buffer, forward queue -> acknowledged

Nothing waits but for the journal, where there is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from onpath_collector.buffer import TraceBuffer
from onpath_collector.downstream import Signal
from onpath_collector.forward import Forwarder
from onpath_collector.journal import Full, Journal
from onpath_collector.otlp import Batch, Evidence, Wanted, count_items, split, split_logs
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
        journal: Journal | None = None,
    ) -> None:
        """`schedule` is called when the buffer's next deadline may have moved."""
        self._buffer = buffer
        self._forwarders = forwarders
        self._wanted = wanted
        self._schedule = schedule
        self._clock = clock
        self._journal = journal
        self.closed = journal is not None  # until what the journal holds has been brought back
        self.received: Counter[Signal] = Counter()  # items: spans, data points, log records
        self.dropped: Counter[Signal] = Counter()  # items that no downstream is there for
        self.rejected: Counter[str] = Counter()  # spans with wrong ids, by reason; forwarded all the same
        self.own = 0  # spans of results that came back
        self.impersonated = 0  # spans of a scope named like ours, and not ours

    async def traces(self, request: bytes) -> Accepted:
        batch = split(request, self._wanted)
        self._admit("traces", request, batch.spans)
        self._admit_to_buffer(sum(len(chunk.data) for chunk in batch.chunks), batch.spans)
        return await self._keep("traces", request, batch.spans, partial(self._take_spans, request, batch))

    async def metrics(self, request: bytes) -> Accepted:
        items = count_items("metrics", request)
        self._admit("metrics", request, items)
        return await self._keep("metrics", request, items, partial(self._take, "metrics", request, items, 0))

    async def logs(self, request: bytes) -> Accepted:
        items = count_items("logs", request)
        evidence = split_logs(request, self._wanted.own_instance)
        self._admit("logs", request, items)
        self._admit_to_buffer(sum(len(record.data) for record in evidence), items)
        return await self._keep("logs", request, items, partial(self._take_logs, request, items, evidence))

    def forwards(self, signal: Signal) -> bool:
        """Whether there is a downstream for it."""
        return signal in self._forwarders

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

    def _admit(self, signal: Signal, request: bytes, items: int) -> None:
        if self.closed:
            raise Refused("starting", _RETRY_AFTER, items)
        forwarder = self._forwarders.get(signal)
        if forwarder is None:
            return
        requests, size = (0, 0) if self._journal is None else self._journal.pending
        if not forwarder.fits(size + len(request), requests):
            raise Refused("queue_full", _RETRY_AFTER, items)

    def _admit_to_buffer(self, size: int, items: int) -> None:
        if self._journal is not None:
            self._buffer.elsewhere = self._journal.pending[1]
        if not self._buffer.admits(self._clock(), size):
            self._schedule()  # what is released early to make room is due at once
            raise Refused("memory", _RETRY_AFTER, items)

    async def _keep(
        self, signal: Signal, request: bytes, items: int, take: Callable[[int | None], Accepted]
    ) -> Accepted:
        """Has a request taken, once it is written if there is a journal. `take` is given its number there."""
        if self._journal is None or not request or (signal == "metrics" and not self.forwards(signal)):
            return take(None)
        try:
            return await self._journal.append(signal, items, request, take)
        except Full:
            raise Refused("journal_full", _RETRY_AFTER, items) from None

    def _take_spans(self, request: bytes, batch: Batch, number: int | None) -> Accepted:
        now = self._clock()
        holds = sum([self._buffer.push(now, chunk, number) for chunk in batch.chunks])
        self.rejected += batch.rejected
        self.own += batch.own
        self.impersonated += batch.impersonated
        self._take("traces", request, batch.spans, holds, number)
        self._schedule()
        return Accepted(batch.spans, batch.rejected.total(), batch.message)

    def _take_logs(self, request: bytes, items: int, evidence: Sequence[Evidence], number: int | None) -> Accepted:
        now = self._clock()
        holds = sum([self._buffer.attach(now, record, number) for record in evidence])
        self._schedule()
        return self._take("logs", request, items, holds, number)

    def _take(self, signal: Signal, request: bytes, items: int, holds: int, number: int | None) -> Accepted:
        """Hands it on; `holds` traces keep it in the journal."""
        if self._journal is not None and number is not None:
            self._journal.hold(number, holds, waits=self.forwards(signal))
        self.hand_on(signal, request, items, number)
        return Accepted(items)

    def hand_on(self, signal: Signal, request: bytes, items: int, number: int | None) -> None:
        """Counts a request and queues it for the downstream."""
        self.received[signal] += items
        forwarder = self._forwarders.get(signal)
        if forwarder is None:
            self.dropped[signal] += items
        elif request:
            journal = self._journal
            done = None if journal is None or number is None else lambda _: journal.forwarded(number)
            forwarder.enqueue(request, items, done)
