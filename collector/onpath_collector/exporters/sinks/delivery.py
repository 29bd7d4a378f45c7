"""The way to a sink: results wait, are sent, are tried again, and are counted; nothing else waits for them.

    export(outcome) -> one entry a result (bounded) -> Sink.send -> sent | tried again for ten minutes | dropped

A revision takes the place of its predecessor while that one waits, and follows it when it is being sent. Scores are
counted: accepted = sent + replaced + dropped (by reason) + queued; what a backend has no place for is `skipped`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from onpath.cli.text import printable
from onpath_collector.downstream.base import Delivered, Failed, Outcome, Retry
from onpath_collector.exporters.sinks.base import Http, Scored, Sink
from onpath_collector.forward import RetrySettings
from onpath_collector.judging import Outcome as Judged

_log: Final = logging.getLogger("onpath")
_RETRY: Final = RetrySettings(initial=1.0, multiplier=2.0, max=30.0, elapsed=600.0)
_NO_SCORE: Final = "no_score"  # and no place for a label alone
_NOT_THERE: Final = "http_404"  # as a rule the trace is on its way
_STOPPED: Final = "shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    results: int = 1000  # that wait or are being sent ...
    bytes: int = 64 << 20  # ... and their size
    concurrency: int = 4
    retry: RetrySettings = _RETRY


@dataclass(slots=True)
class SinkCounts:
    """Scores since the start; `queued` and `results` are now."""

    accepted: int = 0
    sent: int = 0
    replaced: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    queued: int = 0
    results: int = 0
    retries: int = 0


@dataclass(slots=True, eq=False)
class _Entry:
    scored: Scored
    since: float
    then: list[Callable[[], None]] = field(default_factory=list)

    @property
    def scores(self) -> int:
        return len(self.scored.evaluations)


class SinkExporter:
    """Owned by one event loop. `label` tells it from other sinks; `clock` and `sleep` are time, in seconds."""

    def __init__(
        self,
        label: str,
        sink: Sink,
        http: Http,
        settings: DeliverySettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.label = label
        self.counts = SinkCounts()
        self.settings = settings or DeliverySettings()
        self._sink = sink
        self._http = http
        self._clock = clock
        self._sleep = sleep
        self._slots = asyncio.Semaphore(self.settings.concurrency)
        self._entries: dict[tuple[str, str, str], _Entry] = {}
        self._bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._hurry = asyncio.Event()  # set while draining: what waits for its next attempt has it now
        self._idle = asyncio.Event()
        self._idle.set()
        self._told: set[str] = set()

    def export(self, outcome: Judged) -> None:
        for line, place in zip(outcome.lines, outcome.places, strict=True):
            whole = Scored.of(line, place)
            scored = whole.only(self._sink.holds)
            if skipped := len(whole.evaluations) - len(scored.evaluations):
                self.counts.skipped[_NO_SCORE] += skipped
            if scored.evaluations:
                self._take(scored)

    def _take(self, scored: Scored) -> None:
        counts = self.counts
        counts.accepted += len(scored.evaluations)
        entry = self._entries.get(scored.identity)
        if entry is not None:
            self._replace(entry, scored)
            return
        size = len(scored.line)
        if len(self._entries) >= self.settings.results or self._bytes + size > self.settings.bytes:
            counts.dropped["queue_full"] += len(scored.evaluations)
            self._tell("queue_full", "has too much waiting: results are dropped")
            return
        entry = _Entry(scored, self._clock())
        self._entries[scored.identity] = entry
        self._count(entry, 1)
        self._idle.clear()
        task = asyncio.get_running_loop().create_task(self._deliver(entry))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _replace(self, entry: _Entry, scored: Scored) -> None:
        if scored.revision < entry.scored.revision:  # workers answer in any order
            self.counts.replaced += len(scored.evaluations)
            return
        self.counts.replaced += entry.scores
        self._count(entry, -1)
        entry.scored, entry.since = scored, self._clock()
        self._count(entry, 1)

    def _count(self, entry: _Entry, sign: int) -> None:
        self.counts.queued += sign * entry.scores
        self.counts.results += sign
        self._bytes += sign * len(entry.scored.line)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            _log.error("a fault of the collector while a result was settled", exc_info=error)

    async def _deliver(self, entry: _Entry) -> None:
        retry = self.settings.retry
        scored, wait = entry.scored, retry.initial
        while True:
            async with self._slots:
                if scored is not entry.scored:
                    scored, wait = entry.scored, retry.initial
                outcome = await self._send(scored)
            if scored is not entry.scored:  # its revision came meanwhile
                continue
            if isinstance(outcome, Delivered):
                self.counts.sent += entry.scores
                return self._settle(entry)
            self._tell(outcome.reason, _trouble(outcome))
            if isinstance(outcome, Failed):
                return self._drop(entry, outcome.reason)
            pause = outcome.after or wait
            if self._clock() + pause - entry.since > retry.elapsed:
                self._tell("retry_exhausted", f"has not taken a score for {retry.elapsed:g} s, it is dropped")
                return self._drop(entry, "retry_exhausted")
            self.counts.retries += 1
            await self._pause(pause)
            wait = min(wait * retry.multiplier, retry.max)

    async def _send(self, scored: Scored) -> Outcome:
        try:
            return await self._sink.send(self._http, scored)
        except Exception as error:  # noqa: BLE001 - an answer that nobody has foreseen must not end the delivery
            return Failed("internal", repr(error))

    async def _pause(self, seconds: float) -> None:
        if self._hurry.is_set():
            await self._sleep(seconds)
            return
        tasks = [asyncio.ensure_future(each) for each in (self._hurry.wait(), self._sleep(seconds))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    def when_sent(self, then: Callable[[], None]) -> None:
        """See `exporters.base.SendingExporter`."""
        left = len(self._entries)
        if not left:
            return then()

        def one_less() -> None:
            nonlocal left
            left -= 1
            if not left:
                then()

        for entry in self._entries.values():
            entry.then.append(one_less)

    def _drop(self, entry: _Entry, reason: str) -> None:
        self.counts.dropped[reason] += entry.scores
        if reason == _STOPPED:
            entry.then.clear()  # a journal keeps what it takes to send them after the next start
        self._settle(entry)

    def _settle(self, entry: _Entry) -> None:
        del self._entries[entry.scored.identity]
        self._count(entry, -1)
        if not self._entries:
            self._idle.set()
        for each in entry.then:
            each()

    def _tell(self, kind: str, trouble: str) -> None:
        """Logs each kind of trouble once; all are counted."""
        if kind not in self._told:
            self._told.add(kind)
            level = logging.INFO if kind == _NOT_THERE else logging.WARNING
            _log.log(level, "the sink %s %s; further ones are only counted", self.label, trouble)

    async def close(self, deadline: float) -> None:
        """Sends what is left until the clock reads `deadline`; the rest is dropped, and counted. Safe again."""
        self._hurry.set()
        try:
            async with asyncio.timeout(max(0.0, deadline - self._clock())):
                await self._idle.wait()
        except TimeoutError:
            _log.warning("the sink %s: stopped with %d scores not sent", self.label, self.counts.queued)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for entry in list(self._entries.values()):
            self._drop(entry, _STOPPED)
        await self._http.close()


def _trouble(outcome: Retry | Failed) -> str:
    what = "is not taking a score, it is retried" if isinstance(outcome, Retry) else "refused a score, it is dropped"
    return f"{what} ({outcome.reason}{': ' + printable(outcome.message) if outcome.message else ''})"
