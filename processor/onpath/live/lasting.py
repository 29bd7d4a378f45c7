"""What outlives a fork: a `Station` for whichever process asks; and the end of a process, which waits for verdicts."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Callable
from typing import Final

from onpath.live.thread import Station


class Stations:
    """`here()` is this process's own station; the child of a fork starts with an empty one.

    Most forks are noticed by Python's hook. Those that call no hooks (uWSGI's) are noticed by the process id, which is
    compared each time.
    """

    def __init__(self, make: Callable[[Callable[[], None]], Station], exit_timeout: float) -> None:
        """`make` is given what a station calls when its thread starts."""
        self._make = make
        self._exit_timeout = exit_timeout
        self._made: dict[int, Station] = {}
        self._here = self._new(os.getpid())
        if hasattr(os, "register_at_fork"):
            forked = weakref.WeakMethod(self._forked)
            os.register_at_fork(after_in_child=lambda: _call(forked))

    def here(self) -> Station:
        station = self._here
        if station.pid != (pid := os.getpid()):
            station = self._new(pid)
        return station

    def _new(self, pid: int) -> Station:
        """Of two threads that come at once, one makes the station of both."""
        station = self._made.setdefault(pid, self._make(self._wait_at_exit))
        self._here = station
        for other in [p for p in self._made if p != pid]:
            self._made.pop(other, None)
        return station

    def _forked(self) -> None:
        self._new(os.getpid())

    def _wait_at_exit(self) -> None:
        """Has the end of this process wait for what is under way.

        What is registered last runs first. Verdicts must be out before the application's providers shut down, which
        have been registered before the first span came.
        """
        atexit.register(_call, weakref.WeakMethod(self._flush))
        self._finalize()
        for name in _FORKERS:
            forker = sys.modules.get(name)
            if forker is not None:
                forker.register_after_fork(self, Stations._finalize)

    def _finalize(self) -> None:
        """A process that such a module has begun forgets what was registered before, and calls this."""
        for name in _FORKERS:
            forker = sys.modules.get(name)
            if forker is not None:
                forker.Finalize(None, _call, args=(weakref.WeakMethod(self._flush),), exitpriority=_FIRST)

    def _flush(self) -> None:
        """When the providers shut down after it, they don't wait once more for what has not come by then."""
        station = self.here()
        station.is_ending = not station.ask(self._exit_timeout)


_FIRST: Final = 100
_FORKERS: Final = ("multiprocessing.util", "billiard.util")  # their processes end without what atexit holds


def _call(method: weakref.WeakMethod[Callable[[], None]]) -> None:
    found = method()
    if found is not None:
        found()
