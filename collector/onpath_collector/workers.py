"""Where traces are judged: worker processes that get bytes and give bytes, so that no check can hold up receiving.

    Pool.run(job) -> least busy Worker -> its process -> Outcome

A job over its time costs its worker: the process is killed, the jobs queued behind go to another, and the job raises
JobTimeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Final, Protocol

from onpath_collector.judging import Job, Outcome, Setup
from onpath_collector.timing import Timer
from onpath_collector.worker import Bystander, JobFailed, JobTimeout, Worker, answer_to, frame_of

__all__ = ["JOBS_AHEAD", "JobFailed", "JobTimeout", "Judge", "Pool", "Threaded"]

JOBS_AHEAD: Final = 64  # jobs that a worker may have at a time ...
_AHEAD: Final = 1 << 20  # ... as long as they are small: so many bytes together ...
_DEPTH: Final = 2  # ... and large ones: it never waits for the loop between two of them
_AFTER_STILLBIRTH: Final = 1.0  # seconds before the next try, when a worker has died before it could do anything


class Judge(Protocol):
    """Runs jobs somewhere. `close` is safe without a job ever run, and twice."""

    async def run(self, job: Job) -> Outcome: ...
    async def set_up(self, setup: Setup) -> None: ...
    async def close(self) -> None: ...


class Threaded:
    """One thread of the collector's own process, for the smallest sidecars: over its time a check is abandoned."""

    def __init__(self, setup: Setup, timeout: float) -> None:
        self._setup = setup
        self._timeout = timeout
        self._free = asyncio.Lock()  # a job's time runs from when it is under way, not from when it was queued

    async def set_up(self, setup: Setup) -> None:
        self._setup = setup

    async def run(self, job: Job) -> Outcome:
        async with self._free:
            return await self._run(job)

    async def _run(self, job: Job) -> Outcome:
        answered: asyncio.Future[Outcome | str] = asyncio.get_running_loop().create_future()
        # A thread of its own, and a daemon: one that is abandoned must not keep the process from ending.
        threading.Thread(target=_judge_for, args=(answered, job, self._setup), daemon=True).start()
        try:
            answer = await asyncio.wait_for(answered, self._timeout)
        except TimeoutError:
            raise JobTimeout from None
        if isinstance(answer, str):
            raise JobFailed(answer)
        return answer

    async def close(self) -> None:
        """Nothing is left but what was abandoned."""


def _judge_for(answered: asyncio.Future[Outcome | str], job: Job, setup: Setup) -> None:
    answer = answer_to(job, setup, Timer(setup.policy, time.perf_counter))
    with contextlib.suppress(RuntimeError):  # the loop has gone: nobody waits any more
        answered.get_loop().call_soon_threadsafe(_give, answered, answer)


def _give(answered: asyncio.Future[Outcome | str], answer: Outcome | str) -> None:
    if not answered.done():
        answered.set_result(answer)


class Pool:
    """Worker processes, started at the first job."""

    def __init__(self, setup: Setup, timeout: float, processes: int) -> None:
        self._setup = frame_of(setup)
        self._timeout = timeout
        self._size = processes
        self._workers: list[Worker] = []
        self._picking = asyncio.Lock()
        self._answered = asyncio.Event()
        self._newest: Worker | None = None
        self.killed = 0

    async def set_up(self, setup: Setup) -> None:
        """Jobs sent from now on are judged by this setup."""
        self._setup = frame_of(setup)
        for worker in self._workers:
            worker.set_up(self._setup)

    async def run(self, job: Job) -> Outcome:
        """Raises JobTimeout or JobFailed. A job whose worker died of another job is run again."""
        size = sum(map(len, job.chunks)) + sum(map(len, job.evidence))
        while True:
            worker = await self._pick(size)
            try:
                return await worker.run(frame_of(job))  # only now: of a job that waits its bytes are there once
            except Bystander:
                continue
            except JobTimeout:
                self.killed += 1
                raise

    async def _pick(self, size: int) -> Worker:
        """The worker that has the least to do, when it has room for a job of so many bytes."""
        async with self._picking:
            while True:
                worker = await self._least_busy()
                if worker.load < _DEPTH or (worker.load < JOBS_AHEAD and worker.bytes + size <= _AHEAD):
                    return worker
                self._answered.clear()
                await self._answered.wait()

    async def _least_busy(self) -> Worker:
        self._workers = [w for w in self._workers if w.alive]
        if len(self._workers) < self._size and all(w.load for w in self._workers):
            if self._newest is not None and self._newest.stillborn:
                await asyncio.sleep(_AFTER_STILLBIRTH)
            self._newest = await Worker.start(self._setup, self._timeout, self._answered)
            self._workers.append(self._newest)
        return min(self._workers, key=lambda w: w.load)

    async def close(self) -> None:
        for worker in self._workers:
            await worker.stop()
        self._workers = []
