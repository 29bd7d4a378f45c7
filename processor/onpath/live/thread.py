"""The judging thread of one process, and the inbox before it.

Hooks -> `put` (lock-free: a SimpleQueue may be put to from a destructor or a signal handler) -> after a moment to
gather: book -> work. The thread is started by the first span, so always after a fork; it is a daemon and waits without
polling; in uWSGI's master there is none. A `Station` belongs to the process that made it: `pid` tells.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, Protocol

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value

from onpath.live.book import Book, Reason, Run
from onpath.live.counts import Counts
from onpath.live.hand_on import COMPLETE
from onpath.live.outlets import is_own
from onpath.live.records import log_of, weigh, weigh_log
from onpath.live.settings import Settings

_log: Final = logging.getLogger("onpath")
_GATHER: Final = 0.02  # seconds: one waking of the thread for all that a burst of spans brings
_AT_ONCE: Final = 2_000  # items between two looks at what is due
_ROOM: Final = 0.05  # seconds that a blocked caller waits before it looks again
_LOST: Final = 10_000  # traces of which it is remembered that an item was dropped; of more, of all
_ALL: Final = 0

START, END, LOG, ASK = "start", "end", "log", "ask"


class Work(Protocol):
    """What is done with the runs that are let go; `look` at those that are open says when to look again."""

    @property
    def looks_early(self) -> bool: ...
    def release(self, run: Run, reason: Reason) -> None: ...
    def look(self, run: Run) -> float | None: ...


class Item(NamedTuple):
    kind: str
    thing: Any  # a span of the SDK, a log record or a `_Request`
    size: int


class _Request:
    """A flush, or with `last` the end of all work. `done` is set when what came before it has been judged."""

    def __init__(self, *, last: bool) -> None:
        self.last = last
        self.done = threading.Event()


class _Round:
    """Bytes put since the inbox was last drained. An addition lost between threads is forgotten with the round."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0


class Guard:
    """Runs what others wrote, or what must not take the thread down: logs the first of each kind, counts all."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def __call__(self, what: str, function: Callable[..., object], *arguments: Any) -> None:
        try:
            function(*arguments)
        except BaseException:  # noqa: BLE001 - whatever it is, SystemExit too: neither thread nor application ends of it
            self.fault(what)

    def fault(self, what: str) -> None:
        """Call it while the exception is being handled."""
        self._counts.faults[what] += 1
        if self._counts.faults[what] == 1:
            _log.exception("onpath: a fault in %s; further ones are only counted", what)


def _nothing() -> None:
    """There is nothing to be done."""


class Station:
    """One process's inbox, thread, book and work."""

    def __init__(
        self,
        settings: Settings,
        make_work: Callable[[Counts, Guard], Work],
        *,
        starts: bool,
        at_start: Callable[[], None] = _nothing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`at_start` is called when the thread has started."""
        self.pid = os.getpid()
        self.counts = Counts()
        self.guard = Guard(self.counts)
        self._settings = settings
        self._at_start = at_start
        self._clock = clock
        self._work = make_work(self.counts, self.guard)
        self.book = Book(settings, self.counts, starts=starts, watched=self._work.looks_early)
        self._inbox: SimpleQueue[Item] = SimpleQueue()
        self._round = _Round()
        self._lost: dict[int, None] = {}
        self._of_callbacks: dict[int, bool] = {}
        self._room = threading.Event()
        self._hurry = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._thread_id: int | None = None
        self._threadless = False
        self.is_ending = False
        self._look_at: float | None = None
        self._again: dict[int, Run] = {}
        self.closed = False

    # ---------------------------------------------------------------- in the application's threads

    def put(self, kind: str, thing: Any, size: int) -> None:
        """Takes what came, or drops it where there is no room and the settings say so."""
        if self.closed or self._is_of_callback(kind, thing):
            return
        if self._thread is None:
            self._start()
        if self._is_full() and not self._wait_for_room():
            self.counts.spans_dropped["queue"] += 1
            context = getattr(thing, "context", None)
            if context is not None:
                self._lost[context.trace_id if len(self._lost) < _LOST else _ALL] = None
            return
        self._round.size += size
        self._inbox.put(Item(kind, thing, size))

    def _is_of_callback(self, kind: str, thing: Any) -> bool:
        """Whether it is a span that began on the judging thread. What only ends there may be anyone's: garbage too."""
        if kind == START and threading.get_ident() == self._thread_id:
            if len(self._of_callbacks) < _LOST:
                self._of_callbacks[thing.context.span_id] = True
            return True
        return kind == END and bool(self._of_callbacks) and self._of_callbacks.pop(thing.context.span_id, False)

    def _is_full(self) -> bool:
        return self._inbox.qsize() >= self._settings.queue_size or self._round.size > self._settings.queue_bytes

    def _wait_for_room(self) -> bool:
        if self._settings.when_full != "block" or threading.get_ident() == self._thread_id:
            return False
        while self._is_full():
            thread = self._thread
            if self.closed or thread is None or not thread.is_alive():
                return False
            self._hurry.set()
            self._room.clear()
            self._room.wait(_ROOM)
        return True

    def _start(self) -> None:
        """By one of those that come first; the others go on. Without a thread a flush does its work."""
        if not self._starting.acquire(blocking=False):
            return
        thread = threading.Thread(target=self._run, name="onpath", daemon=True)
        self._threadless = _is_uwsgi_master()
        self._thread = thread
        try:
            if not self._threadless:
                thread.start()
        except RuntimeError:  # the interpreter is ending
            self._threadless = True
        self._at_start()

    def ask(self, timeout: float, *, last: bool = False) -> bool:
        """Has all judged that came before and can be judged; with `last` everything, for the last time.

        With `is_ending` nobody waits for it: at the end of a process that has been done already.
        """
        if threading.get_ident() == self._thread_id:
            return False
        if self.closed or self._thread is None:
            self.closed = self.closed or last
            return True  # nothing is to come, or ever came
        self.closed = last
        request = _Request(last=last)
        self._inbox.put(Item(ASK, request, 0))
        self._hurry.set()
        if self._threadless:
            self._work_here(request)
        return request.done.wait(0.0 if self.is_ending else max(0.0, timeout))

    def _work_here(self, request: _Request) -> None:
        self._thread_id = threading.get_ident()
        with _quiet():
            while not request.done.is_set():
                self._turn(wait=False)
        self._thread_id = None

    # ---------------------------------------------------------------- in the judging thread

    def _run(self) -> None:
        self._thread_id = threading.get_ident()
        with _quiet():
            going = True
            while going:
                try:
                    going = self._turn(wait=True)
                except Exception:  # noqa: BLE001 - the thread must outlive whatever a trace causes
                    self.guard.fault("thread")

    def _turn(self, *, wait: bool) -> bool:
        """Takes in what has come, judges what is due. False when no more is to come."""
        items = self._gather() if wait else list(self._drain())
        requests = [item.thing for item in items if item.kind == ASK]
        now = self._clock()
        for item in items:
            if item.kind != ASK:
                self._take(item, now)
        while self._lost:
            trace_id, _ = self._lost.popitem()
            self.book.lost(now, *(self.book.open_ids() if trace_id == _ALL else [trace_id]))
        self._judge(self.book.due(now))
        self._look()
        if any(request.last for request in requests):
            self._judge(self.book.drain())
            self.guard("close", getattr(self._work, "close", _nothing))
        elif requests:
            self._judge(self.book.ready())
        for request in requests:
            request.done.set()
        if self._inbox.empty():
            self._hurry.clear()
        return not any(request.last for request in requests)

    def _gather(self) -> list[Item]:
        try:
            first = self._inbox.get(timeout=self._patience())
        except Empty:
            return []
        if first.kind != ASK and self._inbox.qsize() < _AT_ONCE:
            self._hurry.wait(
                _GATHER if self._look_at is None else min(_GATHER, max(0.0, self._look_at - self._clock()))
            )
        return [first, *self._drain()]

    def _patience(self) -> float | None:
        times = [t for t in (self.book.next_deadline(), self._look_at) if t is not None]
        return max(0.0, min(times) - self._clock()) if times else None

    def _drain(self) -> Iterator[Item]:
        self._round = _Round()
        try:
            for _ in range(_AT_ONCE):
                yield self._inbox.get_nowait()
        except Empty:
            pass
        finally:
            self._room.set()

    def _take(self, item: Item, now: float) -> None:
        try:
            if item.kind == LOG:
                self._take_log(item.thing, now)
                return
            span = item.thing
            context, parent = span.context, span.parent
            parent_id = None if parent is None or parent.is_remote or not parent.span_id else parent.span_id
            if item.kind == START:
                self.book.start(now, context.trace_id, context.span_id, parent_id, span)
            elif is_own(context.span_id):
                self.counts.spans_dropped["own"] += 1
            else:
                marked = (span.attributes or {}).get(COMPLETE) is True
                self.book.end(now, context.trace_id, context.span_id, parent_id, span, weigh(span), marked=marked)
        except Exception:  # noqa: BLE001 - a span that can't be read must not cost the others
            self.guard.fault("span")

    def _take_log(self, emitted: Any, now: float) -> None:
        record = log_of(emitted)
        if record is not None:
            self.book.log(now, int(record.trace_id, 16), record, weigh_log(record))

    def _judge(self, released: list[tuple[Run, Reason]]) -> None:
        for run, reason in released:
            try:
                self._work.release(run, reason)
            except Exception:  # noqa: BLE001 - counted as dropped, the next one is judged
                self.guard.fault("evaluation")
                if run.released == 1:
                    self.counts.dropped["evaluation_failed"] += 1
            self.book.settle(run, self._clock())

    def _look(self) -> None:
        """At open runs that have changed, or were put off."""
        if not self._work.looks_early:
            return
        runs, self._again, self._look_at = (
            {**self._again, **{r.trace_id: r for r in self.book.touched_runs()}},
            {},
            None,
        )
        for trace_id, run in runs.items():
            if run.settled_at is not None:
                continue
            try:
                later = self._work.look(run)
            except Exception:  # noqa: BLE001 - the trace is judged again when it is over
                self.guard.fault("look")
                continue
            if later is not None:
                self._again[trace_id] = run
                self._look_at = later if self._look_at is None else min(self._look_at, later)


def _is_uwsgi_master() -> bool:
    """A worker that uWSGI forks while another thread holds the interpreter's lock waits for that lock for ever."""
    uwsgi = sys.modules.get("uwsgi")  # there only inside of uWSGI
    return uwsgi is not None and uwsgi.masterpid() == os.getpid()


@contextmanager
def _quiet() -> Iterator[None]:
    """What is done inside is not instrumented."""
    token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
    try:
        yield
    finally:
        detach(token)
