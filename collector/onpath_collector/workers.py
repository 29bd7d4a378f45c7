"""Where traces are judged: worker processes that get bytes and give bytes, so that no check can hold up receiving.

    Pool.run(job) -> least busy Worker -> frame on its stdin -> `python -m onpath_collector.workers` -> frame on stdout

A frame is a length (4 bytes, big-endian) and a pickle; pickles pass only between this module and itself. A job over its
time costs its worker: the process is killed, the jobs queued behind go to another, and the job raises JobTimeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import signal
import struct
import sys
import threading
import time
from collections import deque
from typing import IO, Any, Final, Protocol

from onpath_collector.judging import Job, Outcome, Setup, judge
from onpath_collector.timing import Timer

# -P: a worker imports what is installed, not what happens to lie in the folder that the collector was started in.
_COMMAND: Final = (sys.executable, "-P", "-m", "onpath_collector.workers")
_AFTER_STILLBIRTH: Final = 1.0  # seconds before the next try, when a worker has died before it could do anything
_LENGTH: Final = struct.Struct(">I")
_DEPTH: Final = 4  # jobs handed to a worker at a time: it never waits for the loop between two small ones


class JobTimeout(Exception):
    """The job took longer than `evaluate.timeout`."""


class JobFailed(Exception):
    """The job raised, or took its process down; the message says how."""


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
    answer = _answer(job, setup, Timer(setup.policy, time.perf_counter))
    with contextlib.suppress(RuntimeError):  # the loop has gone: nobody waits any more
        answered.get_loop().call_soon_threadsafe(_give, answered, answer)


def _give(answered: asyncio.Future[Outcome | str], answer: Outcome | str) -> None:
    if not answered.done():
        answered.set_result(answer)


def _answer(job: Job, setup: Setup, timer: Timer) -> Outcome | str:
    """The outcome, or how the job failed: whatever a trace causes, its sender is told and the next is judged."""
    try:
        return judge(job, setup, timer)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"


class Pool:
    """Worker processes, started at the first job."""

    def __init__(self, setup: Setup, timeout: float, processes: int) -> None:
        self._setup = pickle.dumps(setup)
        self._timeout = timeout
        self._size = processes
        self._workers: list[_Worker] = []
        self._free = asyncio.Semaphore(processes * _DEPTH)
        self._starting = asyncio.Lock()
        self._newest: _Worker | None = None
        self.killed = 0

    async def set_up(self, setup: Setup) -> None:
        """Jobs sent from now on are judged by this setup."""
        self._setup = pickle.dumps(setup)
        for worker in self._workers:
            worker.send(self._setup)

    async def run(self, job: Job) -> Outcome:
        """Raises JobTimeout or JobFailed. A job whose worker died of another job is run again."""
        async with self._free:
            frame = pickle.dumps(job)
            while True:
                worker = await self._pick()
                try:
                    return await worker.run(frame)
                except _Bystander:
                    continue
                except JobTimeout:
                    self.killed += 1
                    raise

    async def _pick(self) -> _Worker:
        async with self._starting:
            self._workers = [w for w in self._workers if w.alive]
            if len(self._workers) < self._size and all(w.load for w in self._workers):
                if self._newest is not None and self._newest.stillborn:
                    await asyncio.sleep(_AFTER_STILLBIRTH)
                self._newest = await _Worker.start(self._setup, self._timeout)
                self._workers.append(self._newest)
            return min(self._workers, key=lambda w: w.load)

    async def close(self) -> None:
        for worker in self._workers:
            await worker.stop()
        self._workers = []


class _Bystander(Exception):
    """The worker died while this job waited behind the one that killed it."""


class _Worker:
    """One process. Jobs are answered in the order sent; the clock of the one at the head runs once it is under way."""

    def __init__(self, process: asyncio.subprocess.Process, timeout: float) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._timeout = timeout
        self._pending: deque[asyncio.Future[Outcome]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._running = False
        self._over_time = False
        self.alive = True
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, setup: bytes, job_timeout: float) -> _Worker:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*_COMMAND, stdin=pipe, stdout=pipe)
        worker = cls(process, job_timeout)
        worker.send(setup)
        return worker

    @property
    def load(self) -> int:
        return len(self._pending)

    @property
    def stillborn(self) -> bool:
        return not self.alive and not self._running

    def send(self, frame: bytes) -> None:
        self._stdin.write(_LENGTH.pack(len(frame)))
        self._stdin.write(frame)

    async def run(self, frame: bytes) -> Outcome:
        if not self.alive:
            raise _Bystander
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._pending.append(future)
        self.send(frame)
        if self._timer is None:
            self._watch()
        return await future

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending and self._running:
            self._timer = asyncio.get_running_loop().call_later(self._timeout, self._kill)

    def _kill(self) -> None:
        self._over_time = True
        if self._process.returncode is None:
            self._process.kill()

    async def _read(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await self._receive()  # it is up: starting an interpreter and loading a policy is not a job's time
            self._running = True
            self._watch()
            while True:
                answer = await self._receive()
                future = self._pending.popleft()
                self._watch()
                if future.done():
                    continue
                if isinstance(answer, Outcome):
                    future.set_result(answer)
                else:
                    future.set_exception(JobFailed(answer))
        await self._bury()

    async def _receive(self) -> Any:
        (size,) = _LENGTH.unpack(await self._stdout.readexactly(_LENGTH.size))
        return pickle.loads(await self._stdout.readexactly(size))

    async def _bury(self) -> None:
        """The process has gone: the job at the head is why, the others are run again elsewhere."""
        self.alive = False
        if self._timer is not None:
            self._timer.cancel()
        code = await self._process.wait()
        for position, future in enumerate(self._pending):
            if future.done():
                continue
            if position:
                future.set_exception(_Bystander())
            elif self._over_time:
                future.set_exception(JobTimeout())
            else:
                future.set_exception(JobFailed(f"the worker process ended with {code}"))
        self._pending.clear()

    async def stop(self) -> None:
        self._stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 1)
        except TimeoutError:
            self._process.kill()
        await self._reader


def _serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """The worker process: setups and jobs in, outcomes or error texts out, until the pipe closes."""
    setup: Setup | None = None
    timer: Timer | None = None
    while head := source.read(_LENGTH.size):
        message: Any = pickle.loads(source.read(_LENGTH.unpack(head)[0]))
        if isinstance(message, Setup):
            if setup is None:
                _send(sink, None)
            setup, timer = message, Timer(message.policy, time.perf_counter)
            continue
        assert setup is not None
        assert timer is not None
        _send(sink, _answer(message, setup, timer))


def _send(sink: IO[bytes], message: object) -> None:
    frame = pickle.dumps(message)
    sink.write(_LENGTH.pack(len(frame)) + frame)
    sink.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the collector, which drains first
    own_stdout = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints must not end up between frames
    _serve(sys.stdin.buffer, own_stdout)
