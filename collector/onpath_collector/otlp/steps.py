"""Work on large requests in steps: the event loop does what else there is between two of them.

    steps -> at_once(steps)                 all of it now
          -> next(steps), something else, next(steps) ...

A request of a few thousand records is one step, which costs a comparison here and there. One of a million, which two
megabytes can be, would otherwise hold up everything for seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Yields where it may be left for a while; its value is the result."""

STEP: Final = 2048  # records between two looks, a few milliseconds


class Pace:
    """Counts records as they are worked on."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = STEP

    def over(self, records: int) -> bool:
        """Whether a step is over, so many records later."""
        self._left -= records
        if self._left > 0:
            return False
        self._left = STEP
        return True


def slices(items: Collection[Any]) -> Iterator[Collection[Any]]:
    """Of at most a step each: what is small, as it is."""
    if len(items) <= STEP:
        return iter((items,))
    return _sliced(items)


def _sliced(items: Collection[Any]) -> Iterator[Collection[Any]]:
    left = iter(items)
    while part := list(islice(left, STEP)):
        yield part


def at_once(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value
