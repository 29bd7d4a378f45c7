"""After a crash: what the journal holds goes through the collector again, as if it came now, before any sender may.

    requests in order -> forward queue, if the downstream has not got them
                      -> spans and log records -> settled before: passed over
                                               -> released before: pushed, released for the same reason, judged again
                                               -> open at the crash: pushed, and released as `recovered` when due

What came late to a trace that had been released waits until that release has been repeated: so revisions are numbered
as they were.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, cast

from onpath_collector.buffer import Reason, TraceBuffer
from onpath_collector.exporters.own_spans import OwnSpans
from onpath_collector.intake import Intake
from onpath_collector.journal import Contents, Ending, Journal, Request
from onpath_collector.otlp import Chunk, DecodeError, Evidence, Wanted, split, split_logs
from onpath_collector.release import Release

log: Final = logging.getLogger("onpath")

_PROGRESS: Final = 10.0  # seconds between two words of how far it is
_LOOK: Final = 0.005  # seconds between looks at whether a release is through


@dataclass(slots=True)
class Recovered:
    """What was read back: requests, of these not yet forwarded, and those that can't be read."""

    requests: int = 0
    unsent: int = 0
    unreadable: int = 0


@dataclass(slots=True)
class _History:
    """Of one trace: spans of requests up to `done` are judged; `endings` are to be repeated, in order."""

    done: int = 0
    endings: list[Ending] = field(default_factory=list)


class Replay:
    """`run` is called once, while nothing else comes in. Cancelled, it leaves the journal as it was."""

    def __init__(
        self,
        journal: Journal,
        buffer: TraceBuffer,
        intake: Intake,
        release: Release,
        wanted: Wanted,
        own_spans: OwnSpans,
        clock: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._buffer = buffer
        self._intake = intake
        self._release = release
        self._wanted = wanted
        self._own_spans = own_spans
        self._clock = clock
        self._histories: dict[bytes, _History] = {}
        self._later: list[tuple[int, Chunk | Evidence]] = []
        self.recovered = Recovered()

    async def run(self) -> Recovered:
        contents = self._journal.contents
        self._recall(contents.endings, lossy=contents.damaged)
        told = self._clock()
        for done, number in enumerate(contents.requests):
            if self._clock() >= told + _PROGRESS:
                told = self._clock()
                log.info("%d of %d requests are back from the journal so far", done, len(contents.requests))
            request = await self._journal.read(number)
            if request is None:
                self.recovered.unreadable += 1
                self._journal.taken(number)
            else:
                self._take(request, forwarded=number in contents.forwarded)
        self._buffer.recovered(lossy=contents.damaged)
        await self._repeat()
        self._release.schedule()
        self._journal.contents = Contents()
        return self.recovered

    def _recall(self, endings: list[Ending], *, lossy: bool) -> None:
        """Where spans may have been lost, nothing is repeated: what was complete is so no longer."""
        for ending in endings:
            if ending.settled:
                self._own_spans.add(ending.results)
                for trace_id in ending.traces:
                    self._buffer.restore(trace_id, ending.memory)
                    history = self._histories.setdefault(trace_id, _History())
                    history.done = max(history.done, ending.upto)
        again = [e for e in endings if not e.settled and any(e.upto > self._of(t).done for t in e.traces)]
        for ending in [] if lossy else again:
            for trace_id in ending.traces:
                self._histories.setdefault(trace_id, _History()).endings.append(ending)
        repeated = set() if lossy else {e.id for e in again}
        self._journal.forget([e.id for e in endings if not e.settled and e.id not in repeated])

    def _of(self, trace_id: bytes) -> _History:
        return self._histories.get(trace_id) or _History()

    def _take(self, request: Request, *, forwarded: bool) -> None:
        parts = list(self._parts(request))
        holds = sum([self._push(request.id, part) for part in parts])
        body, items = self._intake.left_again(request, parts, forwarded=forwarded)
        self._journal.hold(request.id, holds, waits=bool(body))
        self.recovered.requests += 1
        if body:
            self.recovered.unsent += 1
            self._intake.hand_on(request.signal, body, items, request.id)
        self._journal.taken(request.id)

    def _parts(self, request: Request) -> Iterator[Chunk | Evidence]:
        try:
            if request.signal == "traces":
                yield from split(request.body, self._wanted).chunks
            elif request.signal == "logs":
                yield from split_logs(request.body, self._wanted.own_instance)
        except DecodeError as error:  # it was decoded before it was written
            log.error("request %d of the journal can't be decoded (%s); it is only passed on", request.id, error)

    def _push(self, number: int, part: Chunk | Evidence) -> bool:
        """Whether something of it is kept, now or for later."""
        history = self._of(part.trace_id)
        if number <= history.done:
            self._intake.set_apart(part)  # where it was held, it was passed on before that
            return False
        if history.endings and number > history.endings[0].upto:
            self._intake.set_apart(part)
            self._later.append((number, part))
            return True
        return self._intake.put(part, number)

    async def _repeat(self) -> None:
        """Round by round: the first ending of each trace, and then what came after it.

        Between pushing and ending nothing waits: a deadline that is over meanwhile must not be the end.
        """
        while first := self._first_endings():
            for ending in first:
                self._end(ending)
            self._release.tick()
            for ending in first:
                while self._is_open(ending):
                    await asyncio.sleep(_LOOK)
                    self._release.tick()
                for trace_id in ending.traces:
                    self._histories[trace_id].endings.remove(ending)
            self._journal.forget([ending.id for ending in first])
            later, self._later = self._later, []
            for number, part in later:
                if not self._push(number, part):
                    self._intake.hand_on_late(part, partial(self._journal.let_go, number))
            self._buffer.recovered()

    def _first_endings(self) -> list[Ending]:
        """In order, those that come first for all of their traces."""
        found = {h.endings[0].id: h.endings[0] for h in self._histories.values() if h.endings}
        return [
            found[number]
            for number in sorted(found)
            if all(self._histories[t].endings[0].id == number for t in found[number].traces)
        ]

    def _end(self, ending: Ending) -> None:
        reason = cast(Reason, ending.reason)
        for trace_id in ending.traces:
            if ending.root:
                self._buffer.end_part(self._clock(), trace_id, ending.root, reason)
            else:
                self._buffer.end(self._clock(), trace_id, reason)

    def _is_open(self, ending: Ending) -> bool:
        if ending.root:
            return self._buffer.is_part_open(ending.traces[0], ending.root)
        return any(self._buffer.is_open(trace_id) for trace_id in ending.traces)
