"""What every receiver calls: a request goes to the forward queue and the buffer, whole or not at all.

    request -> split -> admitted? -> [journal: written] -> taken: buffer, forward queue -> acknowledged
                                                                  '-> Hold, in inline mode: spans wait there

Nothing waits but for the journal, where there is one, and large requests, a moment, while much is to be judged or
forwarded. Very large ones are taken apart, and put into the buffer, one after the other and in steps, between which the
loop turns.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar

from onpath_collector.buffer import TraceBuffer
from onpath_collector.downstream import Signal
from onpath_collector.forward import Forwarder
from onpath_collector.hold import Hold
from onpath_collector.journal import Full, Journal, Request
from onpath_collector.otlp import (
    STEP,
    Batch,
    Chunk,
    Evidence,
    Steps,
    TooManyCopies,
    Wanted,
    counting_points,
    sound_only,
    splitting,
    splitting_logs,
)
from onpath_collector.otlp.marking import left_over
from onpath_collector.receivers.base import Accepted, Refused, TooLarge
from onpath_collector.receivers.room import turn

T = TypeVar("T")
Part = TypeVar("Part", Chunk, Evidence, Chunk | Evidence)
Rest: TypeAlias = "list[asyncio.Task[None]]"
"""What is left of taking a request, if it takes more than a step."""

_RETRY_AFTER: Final = 1.0  # seconds; senders back off from there
_TRACE: Final = 8  # spans that a trace of its own is as much work as
_BEHIND: Final = 16 << 20  # bytes that wait to be judged or forwarded, until senders of ...
_LARGE: Final = 256 << 10  # ... requests of so many bytes are slowed down, ...
_LOOK: Final = 0.005  # ... by so many seconds ...
_LOOKS: Final = 200  # ... at most so often: only a lack of memory is a cause to refuse one


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
        hold: Hold | None = None,
        drop_invalid: bool = False,
    ) -> None:
        """`schedule` is called when the buffer's next deadline may have moved."""
        self._buffer = buffer
        self._forwarders = forwarders
        self._wanted = wanted
        self._schedule = schedule
        self._clock = clock
        self._journal = journal
        self._hold = hold
        self._drop_invalid = drop_invalid and "traces" in forwarders
        self.closed = journal is not None  # until what the journal holds has been brought back
        self.received: Counter[Signal] = Counter()  # items: spans, data points, log records
        self.dropped: Counter[Signal] = Counter()  # items that no downstream is there for
        self.rejected: Counter[str] = Counter()  # spans with wrong ids, by reason
        self.invalid = 0  # of these, not passed on
        self.own = 0  # spans of results that came back
        self.impersonated = 0  # spans of a scope named like ours, and not ours
        self._large = asyncio.Lock()  # one request that takes more than a step is worked on
        self._coming = 0  # bytes of requests that are being taken
        self._rests: set[asyncio.Task[None]] = set()

    async def traces(self, request: bytes) -> Accepted:
        if len(request) >= _LARGE:
            await self._slow_down()
        self._coming += len(request)
        try:
            return await self._traces(request)
        finally:
            self._coming -= len(request)

    async def _traces(self, request: bytes) -> Accepted:
        batch = await self._in_steps(splitting(request, self._wanted))
        self._admit("traces", request, batch.spans)
        size = sum(len(chunk.data) for chunk in batch.chunks)
        self._admit_to_buffer(self._buffer.weight_of(size, batch.spans, len(batch.chunks)), batch.spans)
        items = batch.spans
        if self._drop_invalid and batch.rejected:
            items -= batch.rejected.total()
            request = await self._in_steps(sound_only(request)) if items else b""
        rest: Rest = []
        accepted = await self._keep("traces", request, items, partial(self._take_spans, request, items, batch, rest))
        await _done(rest)
        return accepted

    async def metrics(self, request: bytes) -> Accepted:
        items = await self._in_steps(counting_points(request))
        self._admit("metrics", request, items)
        return await self._keep("metrics", request, items, partial(self._take, "metrics", request, items, 0))

    async def logs(self, request: bytes) -> Accepted:
        items, evidence = await self._in_steps(splitting_logs(request, self._wanted.own_instance))
        self._admit("logs", request, items)
        self._admit_to_buffer(sum(len(record.data) for record in evidence), items)
        rest: Rest = []
        accepted = await self._keep("logs", request, items, partial(self._take_logs, request, items, evidence, rest))
        await _done(rest)
        return accepted

    def forwards(self, signal: Signal) -> bool:
        """Whether there is a downstream for it."""
        return signal in self._forwarders

    @property
    def held(self) -> int:
        """Spans that wait for the verdict on their trace."""
        return 0 if self._hold is None else self._hold.spans

    def sums(self) -> dict[str, Any]:
        """The spans' half of the ledger."""
        dropped = Counter({"no_downstream": self.dropped["traces"], "invalid": self.invalid})
        forwarded = queued = 0
        if forwarder := self._forwarders.get("traces"):
            dropped += forwarder.counts.failed_items
            forwarded, queued = forwarder.counts.sent_items, forwarder.counts.queued_items
        return {
            "spans_received": self.received["traces"] + (0 if self._hold is None else self._hold.kept),
            "spans_forwarded": forwarded,
            "spans_dropped": {reason: n for reason, n in dropped.items() if n},
            "spans_queued": queued + self.held,
        }

    def _ahead(self) -> bool:
        """Whether senders are faster than what comes after: the judges, and the downstream."""
        forwarder = self._forwarders.get("traces")
        queued = 0 if forwarder is None else forwarder.counts.queued_bytes
        return self._coming + self._buffer.outgoing + queued > _BEHIND

    async def _slow_down(self) -> None:
        """Until what comes after has caught up: what senders are ahead of it is memory here."""
        for _ in range(_LOOKS):
            if not self._ahead():
                break
            await asyncio.sleep(_LOOK)

    async def _in_steps(self, steps: Steps[T]) -> T:
        """Small requests are one step, which waits for nothing. Raises DecodeError, TooLarge, Refused."""
        try:
            next(steps)
            async with turn(self._large):
                while True:
                    await asyncio.sleep(0)
                    next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
        except TooManyCopies as error:
            raise TooLarge(str(error)) from None

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

    def _take_spans(self, request: bytes, items: int, batch: Batch, rest: Rest, number: int | None) -> Accepted:
        self.rejected += batch.rejected
        self.received["traces"] += batch.spans - items
        self.invalid += batch.spans - items
        self.own += batch.own
        self.impersonated += batch.impersonated
        self._take_parts("traces", request, items, batch.chunks, rest, number)
        return Accepted(batch.spans, batch.rejected.total(), batch.message)

    def _take_logs(
        self, request: bytes, items: int, evidence: Sequence[Evidence], rest: Rest, number: int | None
    ) -> Accepted:
        return self._take_parts("logs", request, items, evidence, rest, number)

    def _take_parts(
        self,
        signal: Signal,
        request: bytes,
        items: int,
        parts: Sequence[Chunk | Evidence],
        rest: Rest,
        number: int | None,
    ) -> Accepted:
        """What is left for later steps goes into `rest`, and the request downstream when they are done."""
        steps = in_steps(parts)
        holds = self._push(next(steps, ()), number)
        second = next(steps, None)
        if second is None:
            return self._take(signal, *self._left(request, parts, items), holds, number)
        self._keep_for(signal, number, holds + 1)  # one for the steps to come
        later = self._take_rest(signal, request, items, chain((second,), steps), number, parts)
        task = asyncio.ensure_future(later)
        self._rests.add(task)
        task.add_done_callback(self._rests.discard)
        rest.append(task)
        return Accepted(items)

    def _push(self, parts: Iterable[Chunk | Evidence], number: int | None) -> int:
        """How many of the traces keep the request in the journal."""
        holds = sum([self.put(part, number) for part in parts])
        self._schedule()
        return holds

    def put(self, part: Chunk | Evidence, number: int | None) -> bool:
        """Into the buffer; whether something of it is kept there."""
        if not isinstance(part, Chunk):
            return self._buffer.attach(self._clock(), part, number)
        kept = self._buffer.push(self._clock(), part, number)
        if self._hold is not None:
            self._hold.keep(part, kept)
        return kept

    def _left(self, request: bytes, parts: Sequence[Chunk | Evidence], items: int) -> tuple[bytes, int]:
        """What of a request goes downstream now."""
        if self._hold is None:
            return request, items
        return left_over(request, [part for part in parts if isinstance(part, Chunk)], items)

    async def _take_rest(
        self,
        signal: Signal,
        request: bytes,
        items: int,
        steps: Iterable[Sequence[Chunk | Evidence]],
        number: int | None,
        all_parts: Sequence[Chunk | Evidence],
    ) -> None:
        for parts in steps:
            await asyncio.sleep(0)
            self._keep_for(signal, number, self._push(parts, number))
        self.hand_on(signal, *self._left(request, all_parts, items), number)
        if self._journal is not None and number is not None:
            self._journal.let_go(number)

    def _take(self, signal: Signal, request: bytes, items: int, holds: int, number: int | None) -> Accepted:
        """Hands it on; `holds` traces keep it in the journal."""
        self._keep_for(signal, number, holds)
        self.hand_on(signal, request, items, number)
        return Accepted(items)

    def _keep_for(self, signal: Signal, number: int | None, holds: int) -> None:
        """So many traces keep it in the journal, and the downstream, if there is one, which has not got it yet."""
        if self._journal is not None and number is not None:
            self._journal.hold(number, holds, waits=self.forwards(signal))

    def set_apart(self, part: Chunk | Evidence) -> None:
        """It doesn't go downstream with its request, if spans are held."""
        if isinstance(part, Chunk):
            part.apart = self._hold is not None

    def left_again(self, request: Request, parts: Sequence[Chunk | Evidence], *, forwarded: bool) -> tuple[bytes, int]:
        """What goes downstream of a request that comes from the journal: empty, if nothing does.

        That it was `forwarded` says nothing of spans that were held, and are not held any more.
        """
        if not self.forwards(request.signal):
            return b"", 0
        if not forwarded:
            return self._left(request.body, parts, request.items)
        if self._hold is None:
            return b"", 0
        again = [part for part in parts if isinstance(part, Chunk) and not part.apart]
        return b"".join([part.data for part in again]), sum(len(part.spans) for part in again)

    def hand_on_late(self, part: Chunk | Evidence, done: Callable[[], None]) -> None:
        """What comes from the journal after its request, and is not kept; `done` when nothing needs it any more."""
        forwarder = self._forwarders.get("traces")
        if self._hold is None or forwarder is None or not isinstance(part, Chunk) or part.apart:
            done()
        else:
            self.received["traces"] += len(part.spans)
            forwarder.enqueue(part.data, len(part.spans), lambda _: done())

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
        elif self._journal is not None and number is not None:
            self._journal.forwarded(number)  # all of it is held


def in_steps(parts: Sequence[Part]) -> Iterator[Sequence[Part]]:
    """As many at a time as are a few milliseconds' work: for most requests, all."""
    start, work = 0, 0
    for end, part in enumerate(parts, 1):
        work += _TRACE + (len(part.spans) if isinstance(part, Chunk) else part.records)
        if work >= STEP:
            yield parts[start:end]
            start, work = end, 0
    if start < len(parts):
        yield parts[start:]


async def _done(rest: Rest) -> None:
    """A sender that goes away meanwhile has sent it all the same."""
    for task in rest:
        await asyncio.shield(task)
