"""A collector without ports and processes, over a real journal: what is in it survives `crash`."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from onpath_collector.buffer import BufferSettings, TraceBuffer
from onpath_collector.downstream import Delivered, Retry
from onpath_collector.downstream import Outcome as Sent
from onpath_collector.exporters.own_spans import OwnSpans
from onpath_collector.forward import Forwarder, ForwardSettings, RetrySettings
from onpath_collector.hold import Hold
from onpath_collector.intake import Intake
from onpath_collector.journal import Journal, JournalSettings
from onpath_collector.judging import Job, Outcome, Setup
from onpath_collector.otlp import Wanted, decode
from onpath_collector.release import Release
from onpath_collector.replay import Recovered, Replay
from onpath_collector.workers import JobFailed
from tests.collector.journal.filled import crash

MARK = Span(attributes=[KeyValue(key="onpath.verdict", value=AnyValue(string_value="pass"))]).SerializeToString()


class Downstream:
    """Keeps what it is sent; while it is `away` it says so."""

    def __init__(self) -> None:
        self.away = False
        self.requests: list[bytes] = []

    async def send(self, request: bytes) -> Sent:
        if self.away:
            return Retry("away")
        self.requests.append(request)
        return Delivered()

    async def close(self) -> None:
        return


class SlowJudge:
    """Answers with what was judged, once `allowed`: as many jobs as that says; nothing, if it is `broken`."""

    def __init__(self) -> None:
        self.broken = False
        self._allowed = asyncio.Semaphore(0)

    def allow(self, jobs: int) -> None:
        for _ in range(jobs):
            self._allowed.release()

    async def run(self, job: Job) -> Outcome:
        await self._allowed.acquire()
        if self.broken:
            raise JobFailed("told to")
        spans, logs = decode(job.chunks, job.evidence)
        found = {
            "reason": job.release_reason,
            "revision": job.revision,
            "root": job.root.hex() if job.root else None,
            "trace": spans[0].trace_id if spans else None,
            "session": job.session,
            "spans": sorted({int(s.span_id, 16) for s in spans}),
            "logs": len(logs),
            "unknown": job.unknown,
        }
        signature = json.dumps([found["root"], found["spans"], found["logs"], found["unknown"]])
        first = min([bytes.fromhex(s.span_id) for s in spans], default=b"")
        return Outcome(
            trace_id=str(found["trace"]),
            revision=job.revision,
            signature=signature,
            lines=(json.dumps(found),),
            own_spans=(b"own%05d" % (hash(signature) % 100_000),),
            marks={(bytes.fromhex(s.trace_id), job.root or first): MARK for s in spans},
        )

    async def set_up(self, setup: Setup) -> None:
        raise AssertionError("not asked for here")

    async def close(self) -> None:
        return


class Exits:
    """Keeps reports. They count as sent once `send` was called, at once if `prompt`."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []
        self.prompt = True
        self._then: list[Callable[[], None]] = []

    def export(self, outcome: Outcome) -> None:
        self.reports += [json.loads(line) for line in outcome.lines]

    def when_sent(self, then: Callable[[], None]) -> None:
        if self.prompt:
            then()
        else:
            self._then.append(then)

    def send(self) -> None:
        waiting, self._then = self._then, []
        for each in waiting:
            each()


class Journalled:
    """`walk` moves its clock; nothing else does."""

    def __init__(self, folder: Path, hold: bool = False, **settings: Any) -> None:
        """`hold`: inline mode."""
        self.now = 100.0
        self.folder = folder
        self._settings: dict[str, Any] = {"hold": hold, **settings}
        self.journal = Journal.open(JournalSettings(directory=folder, fsync="never"))
        self.buffer = TraceBuffer(BufferSettings(**settings))
        self.judge = SlowJudge()
        self.exits = Exits()
        self.downstream = Downstream()
        limits = ForwardSettings(retry=RetrySettings(initial=0.01, elapsed=0))
        self.forwarder = Forwarder(limits, self.downstream)
        self.hold = Hold(self.forwarder) if hold else None
        self.release = Release(
            self.buffer,
            self.judge,
            clock=lambda: self.now,
            wall_clock=lambda: 5,
            parallel=8,
            queue=1000,
            journal=self.journal,
            hold=self.hold,
        )
        self.own_spans = OwnSpans()
        roots = settings.get("root_attributes", {})
        self.wanted = Wanted(roots, settings.get("group_by"), self.journal.instance, self.own_spans)
        self.intake = Intake(
            self.buffer,
            {"traces": self.forwarder},
            self.wanted,
            lambda: None,
            clock=lambda: self.now,
            journal=self.journal,
            hold=self.hold,
        )

    async def start(self, clock: Callable[[], float] | None = None) -> Recovered:
        """`clock` is that of the replay, if not this one's own."""
        self.journal.start()
        self.forwarder.start()
        self.release.start([self.exits, self.own_spans])
        parts = (self.journal, self.buffer, self.intake, self.release, self.wanted, self.own_spans)
        found = await Replay(*parts, clock=clock or (lambda: self.now)).run()
        self.intake.closed = False
        return found

    async def walk(self, seconds: float) -> None:
        self.now += seconds
        self.release.tick()
        await asyncio.sleep(0)

    async def judged(self) -> None:
        """Has everything judged that can be."""
        self.judge.allow(1000)
        async with asyncio.timeout(20):
            while self.release.sums()["traces_open"] != self.buffer.open_traces or self.release.waiting:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await self.release._queue.join()  # revisions too
        await asyncio.sleep(0.005)

    async def until_reports(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.exits.reports) < count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def written(self) -> None:
        self.journal.flush([])
        await self.journal.read(0)

    async def stop(self, *, leave: bool = False) -> None:
        await self.release.stop(self.now + 0.5, leave=leave)
        if not self.downstream.away:
            await self.forwarder.drain(asyncio.get_running_loop().time() + 20)
        await self.forwarder.close(None)
        await self.journal.close()
        self.assert_adds_up()

    def assert_adds_up(self) -> None:
        traces, spans = self.release.sums(), self.intake.sums()
        left = traces["traces_judged"] + sum(traces["traces_dropped"].values()) + traces["traces_open"]
        assert traces["traces_started"] == left, traces
        assert spans["spans_received"] == spans["spans_forwarded"] + spans["spans_queued"], spans

    async def crash(self, folder: Path) -> Journalled:
        """Another, not started, over what is on the disk now; this one's end is of no consequence."""
        await self.written()
        crash(self.folder, folder)
        await self.stop(leave=True)
        return Journalled(folder, **self._settings)


@asynccontextmanager
async def journalled(**settings: Any) -> AsyncIterator[tuple[Journalled, Callable[[], Path]]]:
    """A started one, and where the next may have its journal."""
    with tempfile.TemporaryDirectory() as made:
        names = iter(range(100))
        first = Journalled(Path(made) / "first", **settings)
        await first.start()
        yield first, lambda: Path(made) / f"{next(names)}"
        await first.stop(leave=True)


def reasons(reports: Sequence[dict[str, Any]]) -> list[tuple[str, int, list[int]]]:
    """Of each: its reason, revision and spans."""
    return [(r["reason"], r["revision"], r["spans"]) for r in reports]
