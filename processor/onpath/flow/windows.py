"""The single entries of a block and the steps of a moving window: which can be given to which, kept up as it moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from onpath.flow.assignment import Matching
from onpath.flow.pattern import Named

Fits: TypeAlias = Callable[[Named, int], bool]


def kinds_of(items: Sequence[Named]) -> tuple[list[tuple[Named, int]], list[int]]:
    """Different items, each with the set of entries that ask for it; and for each entry the number of its item."""
    numbers: dict[tuple[str, int], int] = {}
    own = [numbers.setdefault((item.written, id(item.tree)), len(numbers)) for item in items]
    kinds = [(items[own.index(kind)], 0) for kind in range(len(numbers))]
    for entry, kind in enumerate(own):
        item, entries = kinds[kind]
        kinds[kind] = (item, entries | 1 << entry)
    return kinds, own


class Assigning:
    """The steps held now have a bit each, handed on when one leaves. Entries that ask for the same are of one kind."""

    def __init__(self, items: Sequence[Named], fits: Fits) -> None:
        self._fits = fits
        self._kinds, kinds = kinds_of(items)
        self._adjacency = [0] * len(self._kinds)
        self._matching = Matching(self._adjacency, kinds)
        self._bits: dict[int, int] = {}
        self._free = list(range(len(items), -1, -1))
        self._known: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._bits)

    @property
    def all_taken(self) -> bool:
        """Whether every step held has an entry of its own."""
        return not self._matching.spare

    def add(self, step: int) -> None:
        """One more than there are entries at most."""
        bit = self._bits[step] = self._free.pop()
        takers = self._takers(step)
        for kind, (_, entries) in enumerate(self._kinds):
            if takers & entries:
                self._adjacency[kind] |= 1 << bit
        self._matching.add(bit, takers)

    def drop(self, step: int) -> None:
        bit = self._bits.pop(step)
        for kind in range(len(self._adjacency)):
            self._adjacency[kind] &= ~(1 << bit)
        self._matching.drop(bit)
        self._free.append(bit)

    def move_to(self, steps: Sequence[int]) -> bool:
        """Holds exactly these steps from now on. Whether each has an entry of its own, and each entry a step."""
        wanted = set(steps)
        for step in [held for held in self._bits if held not in wanted]:
            self.drop(step)
        for step in steps:
            if step not in self._bits:
                self.add(step)
        return self.all_taken and self._matching.is_full

    def _takers(self, step: int) -> int:
        found = self._known.get(step)
        if found is None:
            found = 0
            for item, entries in self._kinds:
                if self._fits(item, step):
                    found |= entries
            self._known[step] = found
        return found
