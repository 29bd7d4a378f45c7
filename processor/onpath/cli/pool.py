"""Runs calls in processes, some at a time, and gives what they return in the order in which they were asked for."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from types import TracebackType
from typing import Any, Final

_AHEAD: Final = 2  # calls for each process that wait or are under way: none of them is ever without
_GARBAGE: Final = 20_000  # objects made between searches for cycles: a trace makes some hundred, and gives them back

_setup: Any = None


class Here:
    """Calls in this process, each when its outcome is taken."""

    def __init__(self, setup: object) -> None:
        self._setup = setup
        self._waiting: deque[tuple[Callable[..., Any], Any]] = deque()

    @property
    def is_full(self) -> bool:
        return bool(self._waiting)

    def submit(self, call: Callable[..., Any], argument: object) -> None:
        self._waiting.append((call, argument))

    def outcome(self) -> Any:
        """Of the call that waits longest. Raises what it raises."""
        call, argument = self._waiting.popleft()
        return call(argument, self._setup)

    def __len__(self) -> int:
        return len(self._waiting)

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.clear()


class Processes:
    """Calls in so many processes. Each gets `setup` once. Raises BrokenProcessPool where one of them dies."""

    def __init__(self, setup: object, number: int) -> None:
        self._number = number
        self._others = active_children()
        self._executor = ProcessPoolExecutor(number, get_context("spawn"), _start, (setup,))
        self._waiting: deque[Future[Any]] = deque()

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= self._number * _AHEAD

    def submit(self, call: Callable[..., Any], argument: object) -> None:
        with _interrupts_put_off():
            try:
                self._waiting.append(self._executor.submit(_run, call, argument))
            except OSError as error:  # no process can be started, or its pipes have just been closed for a dead one
                raise BrokenProcessPool(str(error)) from error

    def outcome(self) -> Any:
        """Of the call that waits longest. Raises what it raises."""
        return self._waiting.popleft().result()

    def __len__(self) -> int:
        return len(self._waiting)

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        """After an error all processes are killed: the executor overlooks one that was just being started."""
        self._executor.shutdown(wait=kind is None, cancel_futures=True)
        if kind is not None:
            for process in active_children():
                if process not in self._others:
                    process.kill()


@contextmanager
def less_garbage_collected() -> Iterator[None]:
    """Searching for cycles at Python's pace takes a fifth of the time that judging takes."""
    before = gc.get_threshold()
    gc.set_threshold(_GARBAGE)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextmanager
def _interrupts_put_off() -> Iterator[None]:
    """A process begun in here is not interrupted before it knows what to do then."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start(setup: object) -> None:
    """In a new process: it ends at once and without a word when it is interrupted, and when its parent has gone."""
    global _setup
    _setup = setup
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.freeze()
    gc.set_threshold(_GARBAGE)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(call: Callable[..., Any], argument: object) -> Any:
    return call(argument, _setup)
