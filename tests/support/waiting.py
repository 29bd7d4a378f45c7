"""Waiting for what another process does, without a fixed sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(find: Callable[[], T], what: Callable[[], str], patience: float = 30) -> T:
    """The first true value of `find`. Raises AssertionError with `what` was awaited when time is up."""
    deadline = time.monotonic() + patience
    while not (found := find()):
        assert time.monotonic() < deadline, f"waited {patience} s for {what()}"
        time.sleep(0.05)
    return found
