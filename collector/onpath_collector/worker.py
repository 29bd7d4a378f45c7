"""One worker process, seen from both of its ends.

    Worker.run(frame) -> stdin -> `python -m onpath_collector.worker` -> stdout -> the job's future

A frame is a length (4 bytes, big-endian) and a pickle; pickles pass only between the two halves of this module. Frames
are gathered both ways: what is written in one turn of the loop is one write, and answers are looked for only every so
often, for a loop woken for each small trace would cost as much as judging it.
"""

from __future__ import annotations

import asyncio
import contextlib
import copyreg
import fcntl
import gc
import pickle
import signal
import struct
import sys
import time
from collections import deque
from operator import attrgetter
from typing import IO, Any, Final

from onpath_collector.judging import Job, Outcome, Setup, VerdictLine, judge
from onpath_collector.timing import Timer

# -P: a worker imports what is installed, not what happens to lie in the folder that the collector was started in.
_COMMAND: Final = (sys.executable, "-P", "-m", "onpath_collector.worker")
_LENGTH: Final = struct.Struct(">I")
_PICKLE: Final = 5
_GATHER: Final = 0.005  # seconds between looks at the answers; nobody waits for one of them
_PIPE: Final = 1 << 20  # bytes of answers that wait for the next look without holding up the worker
_GARBAGE: Final = 20_000  # objects made between searches for cycles: a trace makes some hundred, and gives them back


class JobTimeout(Exception):
    """The job took longer than `evaluate.timeout`."""


class JobFailed(Exception):
    """The job raised, or took its process down; the message says how."""


class Bystander(Exception):
    """The worker died while this job waited behind the one that killed it."""


def _pickle_by_position(kind: type[Any]) -> None:
    """Has values of a frozen dataclass with slots pass as its fields in order: by name takes thrice as long."""
    fields = attrgetter(*kind.__slots__)
    copyreg.pickle(kind, lambda value: (kind, fields(value)))


for _kind in (Job, Outcome, VerdictLine):
    _pickle_by_position(_kind)


def frame_of(message: object) -> bytes:
    data = pickle.dumps(message, _PICKLE)
    return _LENGTH.pack(len(data)) + data


class Worker(asyncio.SubprocessProtocol):
    """One process. Jobs are answered in the order sent; the clock of the one at the head runs once it is under way."""

    def __init__(self, timeout: float, answered: asyncio.Event) -> None:
        """`answered` is set with each answer, and when the process has gone."""
        self._timeout = timeout
        self._answered = answered
        self._pending: deque[tuple[asyncio.Future[Outcome], int] | None] = deque()  # None for a setup
        self._outgoing: list[bytes] = []
        self._incoming = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._up = False
        self._over_time = False
        self._gone = asyncio.Event()
        self.alive = True
        self.load = 0  # jobs that are not answered, and ...
        self.bytes = 0  # ... their bytes

    @classmethod
    async def start(cls, setup: bytes, job_timeout: float, answered: asyncio.Event) -> Worker:
        pipe = asyncio.subprocess.PIPE
        start = asyncio.get_running_loop().subprocess_exec
        _, worker = await start(lambda: cls(job_timeout, answered), *_COMMAND, stdin=pipe, stdout=pipe, stderr=None)
        worker.set_up(setup)
        return worker

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        stdin, stdout = transport.get_pipe_transport(0), transport.get_pipe_transport(1)
        assert isinstance(stdin, asyncio.WriteTransport)
        assert isinstance(stdout, asyncio.ReadTransport)
        self._process, self._stdin, self._stdout = transport, stdin, stdout
        for end in (stdin, stdout):
            with contextlib.suppress(OSError, AttributeError):  # not on every system, not always allowed
                fcntl.fcntl(end.get_extra_info("pipe").fileno(), fcntl.F_SETPIPE_SZ, _PIPE)

    @property
    def stillborn(self) -> bool:
        return not self.alive and not self._up

    def set_up(self, frame: bytes) -> None:
        """For the jobs after it."""
        self._pending.append(None)
        self._send(frame)

    def _send(self, frame: bytes) -> None:
        """Once this turn of the loop is over."""
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append(frame)

    def _flush(self) -> None:
        frames, self._outgoing = self._outgoing, []
        self._stdin.write(b"".join(frames))

    async def run(self, frame: bytes) -> Outcome:
        """Raises JobTimeout, JobFailed and Bystander."""
        if not self.alive:
            raise Bystander
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._pending.append((future, len(frame)))
        self.load += 1
        self.bytes += len(frame)
        self._send(frame)
        if self._timer is None:
            self._watch()
        return await future

    def _watch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pending and self._pending[0] is not None:  # to start an interpreter, to load a policy is no job's time
            self._timer = asyncio.get_running_loop().call_later(self._timeout, self._kill)

    def _kill(self) -> None:
        self._over_time = True
        if self._process.get_returncode() is None:
            self._process.kill()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._incoming += data
        at, end = 0, len(self._incoming)
        with memoryview(self._incoming) as held:
            while end - at >= _LENGTH.size:
                (size,) = _LENGTH.unpack_from(held, at)
                if end - at - _LENGTH.size < size:
                    break
                at += _LENGTH.size + size
                self._take(pickle.loads(held[at - size : at]))
        if at:
            del self._incoming[:at]
            self._watch()
            self._answered.set()
            self._stdout.pause_reading()
            asyncio.get_running_loop().call_later(_GATHER, self._look)

    def _look(self) -> None:
        if not self._stdout.is_closing():
            self._stdout.resume_reading()

    def _take(self, answer: Any) -> None:
        asked = self._pending.popleft()
        if asked is None:
            self._up = True
            return
        future, size = asked
        self.load -= 1
        self.bytes -= size
        if future.done():
            return
        if isinstance(answer, Outcome):
            future.set_result(answer)
        else:
            future.set_exception(JobFailed(answer))

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has gone: the job at the head is why, the others are run again elsewhere."""
        self.alive = False
        if self._timer is not None:
            self._timer.cancel()
        for position, (future, _) in enumerate(filter(None, self._pending)):
            if future.done():
                continue
            if position:
                future.set_exception(Bystander())
            elif self._over_time:
                future.set_exception(JobTimeout())
            else:
                future.set_exception(JobFailed(f"the worker process ended with {self._process.get_returncode()}"))
        self._pending.clear()
        self.load = self.bytes = 0
        self._answered.set()
        self._process.close()
        self._gone.set()

    async def stop(self) -> None:
        self._stdin.close()
        try:
            async with asyncio.timeout(1):
                await self._gone.wait()
        except TimeoutError:
            self._kill()
            await self._gone.wait()


# ------------------------------------------------------------------ the process itself


def answer_to(job: Job, setup: Setup, timer: Timer) -> Outcome | str:
    """The outcome, or how the job failed: whatever a trace causes, its sender is told and the next is judged."""
    try:
        return judge(job, setup, timer)
    except Exception as error:  # noqa: BLE001
        return f"{type(error).__name__}: {error}"


def _serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Setups and jobs in; None for a setup that is loaded, outcomes or error texts out, until the pipe closes."""
    setup: Setup | None = None
    timer: Timer | None = None
    while head := source.read(_LENGTH.size):
        message: Any = pickle.loads(source.read(_LENGTH.unpack(head)[0]))
        if isinstance(message, Setup):
            setup, timer = message, Timer(message.policy, time.perf_counter)
            gc.collect()
            gc.freeze()
            _send(sink, None)
            continue
        assert setup is not None
        assert timer is not None
        _send(sink, answer_to(message, setup, timer))


def _send(sink: IO[bytes], message: object) -> None:
    sink.write(frame_of(message))
    sink.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for the collector, which drains first
    gc.set_threshold(_GARBAGE, 50, 100)
    own_stdout = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a library prints must not end up between frames
    _serve(sys.stdin.buffer, own_stdout)
