"""The forward queue of one signal: what was acknowledged goes to the downstream, byte for byte, or is counted.

    enqueue(bytes, items) -> queue, bounded in requests and bytes -> sends -> sent | failed by reason

Requests are sent one after the other, so that they arrive in order, as long as that keeps up; the more of them wait,
the more are sent at once, up to `concurrency`. One that waits for its next attempt lets others pass. At any time, for
items and for requests, accepted = sent + failed (all reasons) + queued, where queued includes what is being sent.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from onpath_collector.downstream import Delivered, Failed, Outcome, Retry, Sender

log = logging.getLogger(__name__)

_JITTER: Final = 0.2  # of a wait: collectors that lost their downstream together don't come back together
_BACKLOG: Final = 4  # requests that must wait, for each one being sent, before another is sent at once


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """Seconds. The wait between attempts grows from `initial` by `multiplier` up to `max`; `elapsed` 0 is for ever."""

    initial: float = 5.0
    multiplier: float = 1.5
    max: float = 30.0
    elapsed: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardSettings:
    queue_requests: int = 1000
    queue_bytes: int = 256 << 20
    concurrency: int = 8  # requests being sent, or waiting for their next attempt, at once
    retry: RetrySettings = RetrySettings()
    quiet: frozenset[str] = frozenset()  # reasons that are not logged here: whoever enqueues tells of them


@dataclass(slots=True)
class Counts:
    """Requests and their items (spans, data points, log records) since the start; `queued` is now."""

    accepted_requests: int = 0
    accepted_items: int = 0
    sent_requests: int = 0
    sent_items: int = 0
    failed_requests: Counter[str] = field(default_factory=Counter)
    failed_items: Counter[str] = field(default_factory=Counter)  # with `partial_success`: items of sent requests
    queued_requests: int = 0
    queued_items: int = 0
    queued_bytes: int = 0
    retries: int = 0


@dataclass(slots=True, eq=False)
class _Request:
    body: bytes
    items: int
    settled: Callable[[str | None], None] | None


class Forwarder:
    """Owned by one event loop. `clock` and `sleep` are time for the retries, in seconds.

    Waits are up to a fifth shorter than said, or as much longer where the downstream has asked for one: by how much of
    that, `draw` says each time, from 0 to 1.
    """

    def __init__(
        self,
        settings: ForwardSettings,
        sender: Sender,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.counts = Counts()
        self._settings = settings
        self._sender = sender
        self._clock = clock
        self._sleep = sleep
        self._draw = draw
        self._waiting: deque[_Request] = deque()
        self._started = False
        self._active: dict[asyncio.Task[None], _Request] = {}  # being sent, or waiting for their next attempt
        self._pausing = 0  # of these, how many wait
        self._hurry = asyncio.Event()  # set while draining: waits between attempts end
        self._idle = asyncio.Event()
        self._idle.set()
        self._told: set[str] = set()

    def start(self) -> None:
        self._started = True
        self._pump()

    @property
    def capacity(self) -> int:
        """Requests that have room."""
        return self._settings.queue_requests

    def fits(self, size: int, ahead: int = 0) -> bool:
        """Whether a request may be accepted now; `size` in bytes, with those of `ahead` requests that come before."""
        counts, settings = self.counts, self._settings
        room = counts.queued_requests + ahead < settings.queue_requests
        return room and counts.queued_bytes + size <= settings.queue_bytes

    def enqueue(self, body: bytes, items: int, settled: Callable[[str | None], None] | None = None) -> None:
        """Takes a request over, whether it fits or not: asking first is the admission's part.

        `settled` is called once, with None when the downstream has the request, else with why it was dropped; not for
        what is left at `close`.
        """
        self._waiting.append(_Request(body, items, settled))
        counts = self.counts
        counts.accepted_requests += 1
        counts.accepted_items += items
        counts.queued_requests += 1
        counts.queued_items += items
        counts.queued_bytes += len(body)
        self._idle.clear()
        self._pump()

    async def drain(self, deadline: float) -> bool:
        """Sends what is queued, also what waits for its next attempt, until the clock reads `deadline`.

        Whether all was settled. What is left stays queued.
        """
        self._hurry.set()
        await _either(self._idle.wait(), self._sleep(max(0.0, deadline - self._clock())))
        return self._idle.is_set()

    async def close(self, dropped: str | None = "shutdown") -> None:
        """Stops sending. What is left is counted as failed for the reason `dropped`; None leaves it queued, for
        a journal to bring back. Safe without start and again."""
        self._started = False
        tasks = list(self._active)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sender.close()
        while dropped is not None and self._waiting:
            self._fail(self._waiting.popleft(), dropped)

    def _pump(self) -> None:
        """Begins with as many waiting requests as may be sent now."""
        while self._started and self._waiting and len(self._active) < self._settings.concurrency:
            if len(self._waiting) < (len(self._active) - self._pausing) * _BACKLOG:
                break
            request = self._waiting.popleft()
            task = asyncio.create_task(self._deliver(request))
            self._active[task] = request
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        request = self._active.pop(task)
        if task.cancelled():
            self._waiting.append(request)
        elif error := task.exception():
            log.error("a fault of the collector while a request was settled", exc_info=error)
        self._pump()

    async def _deliver(self, request: _Request) -> None:
        retry = self._settings.retry
        first, wait = self._clock(), retry.initial
        while True:
            outcome = await self._send(request.body)
            if isinstance(outcome, Delivered):
                return self._sent(request, outcome)
            self._tell(outcome)
            if isinstance(outcome, Failed):
                return self._fail(request, outcome.reason)
            jitter = _JITTER * self._draw()
            pause = outcome.after * (1 + jitter) if outcome.after else wait * (1 - jitter)
            if retry.elapsed and self._clock() + pause - first > retry.elapsed:
                return self._fail(request, "retry_exhausted")
            self.counts.retries += 1
            await self._pause(pause)
            wait = min(wait * retry.multiplier, retry.max)

    async def _send(self, body: bytes) -> Outcome:
        try:
            return await self._sender.send(body)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not cost what was acknowledged
            return Retry("internal", message=repr(error))

    async def _pause(self, seconds: float) -> None:
        self._pausing += 1
        self._pump()
        try:
            if self._hurry.is_set():
                await self._sleep(seconds)
            else:
                await _either(self._hurry.wait(), self._sleep(seconds))
        finally:
            self._pausing -= 1

    def _sent(self, request: _Request, outcome: Delivered) -> None:
        rejected = min(max(outcome.rejected, 0), request.items)
        self.counts.sent_requests += 1
        self.counts.sent_items += request.items - rejected
        if rejected:
            self.counts.failed_items["partial_success"] += rejected
        if outcome.rejected or outcome.message:
            self._tell(outcome)
        self._settle(request, None)

    def _fail(self, request: _Request, reason: str) -> None:
        self.counts.failed_requests[reason] += 1
        self.counts.failed_items[reason] += request.items
        self._settle(request, reason)

    def _settle(self, request: _Request, reason: str | None) -> None:
        counts = self.counts
        counts.queued_requests -= 1
        counts.queued_items -= request.items
        counts.queued_bytes -= len(request.body)
        if not counts.queued_requests:
            self._idle.set()
        if request.settled is not None:
            request.settled(reason)

    def _tell(self, outcome: Outcome) -> None:
        """Logs each kind of trouble once: it comes with every request, and is counted."""
        if isinstance(outcome, Delivered):
            kind, what = "partial_success", f"accepted a request in part, {outcome.rejected} items rejected"
        elif isinstance(outcome, Retry):
            kind, what = outcome.reason, "is not taking requests, they are kept and retried"
        else:
            kind, what = outcome.reason, "refused a request for good, it is dropped"
        if kind not in self._told and kind not in self._settings.quiet:
            self._told.add(kind)
            log.warning("the downstream %s (%s: %s); further ones are only counted", what, kind, outcome.message)


async def _either(*awaitables: Awaitable[object]) -> None:
    """Until the first is done; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
