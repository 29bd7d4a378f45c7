"""Entries of a block to steps, each to one of its own: bipartite matching on bit sets.

Entries are numbered; `adjacency[e]` is the set of steps (bit by place) that entry e can take. Steps can be made
available and taken away one at a time, so that a window can move over a run and keep its matching.
"""

from __future__ import annotations

from collections.abc import Sequence

from onpath.flow.bits import lowest


class Matching:
    """A largest assignment of entries to available steps, kept largest."""

    __slots__ = ("_adjacency", "_available", "_owner", "_taken", "size")

    def __init__(self, adjacency: Sequence[int], available: int = 0) -> None:
        self._adjacency = adjacency
        self._available = available
        self._taken = [-1] * len(adjacency)
        self._owner: dict[int, int] = {}
        self.size = 0
        while available and self._augment():
            pass

    @property
    def is_full(self) -> bool:
        """Whether every entry has a step."""
        return self.size == len(self._adjacency)

    @property
    def taken(self) -> list[int]:
        """The step of each entry, -1 where it has none."""
        return list(self._taken)

    def add(self, step: int) -> None:
        self._available |= 1 << step
        self._augment()

    def drop(self, step: int) -> None:
        self._available &= ~(1 << step)
        entry = self._owner.pop(step, None)
        if entry is not None:
            self._taken[entry] = -1
            self.size -= 1
            self._augment()

    def _augment(self) -> bool:
        """Finds one entry a step, moving others where that helps; searches from all entries without one at once."""
        queue = [entry for entry, step in enumerate(self._taken) if step < 0]
        came_from: dict[int, int] = {}
        unseen = self._available
        for entry in queue:
            options = self._adjacency[entry] & unseen
            while options:
                step = lowest(options)
                options &= options - 1
                unseen &= ~(1 << step)
                came_from[step] = entry
                owner = self._owner.get(step)
                if owner is None:
                    self._hand_over(step, came_from)
                    return True
                queue.append(owner)
        return False

    def _hand_over(self, step: int, came_from: dict[int, int]) -> None:
        at = step
        while at >= 0:
            entry = came_from[at]
            before = self._taken[entry]
            self._taken[entry] = at
            self._owner[at] = entry
            at = before
        self.size += 1

    def smallest(self) -> list[int]:
        """Of all full assignments the one that is smallest when read as a list; only for a full one."""
        fixed = 0
        for entry in range(len(self._adjacency)):
            fixed |= 1 << self._lower(entry, fixed)
        return list(self._taken)

    def _lower(self, entry: int, fixed: int) -> int:
        """Gives an entry the lowest step that leaves the later ones an assignment."""
        held = self._taken[entry]
        owned = 0
        for step in self._owner:
            owned |= 1 << step
        within_reach = ((self._available & ~owned) | 1 << held) & ~fixed
        moves: dict[int, int] = {}
        waiting = list(range(entry + 1, len(self._adjacency)))
        moved = True
        while moved:
            moved = False
            for other in list(waiting):
                options = self._adjacency[other] & within_reach
                if options:
                    moves[other] = lowest(options)
                    within_reach |= 1 << self._taken[other]
                    waiting.remove(other)
                    moved = True
        chosen = lowest(self._adjacency[entry] & within_reach)
        if chosen != held:
            self._displace(entry, chosen, held, moves)
        return chosen

    def _displace(self, entry: int, chosen: int, held: int, moves: dict[int, int]) -> None:
        del self._owner[held]
        mover: int | None = entry
        step = chosen
        while mover is not None:
            displaced = self._owner.get(step)
            self._owner[step] = mover
            self._taken[mover] = step
            mover = displaced
            step = moves[displaced] if displaced is not None else step
