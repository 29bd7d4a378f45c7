"""Entries of a block to steps, each to one of its own: a largest bipartite matching, kept up while steps come and go.

Entries are numbered, steps have a bit each. Mostly a step finds an entry, or an entry a step, at once; otherwise a
search over alternating paths moves others on.
"""

from __future__ import annotations

from collections.abc import Sequence

from onpath.flow.bits import lowest, places


class Matching:
    """`adjacency[kinds[e]]` is the set of steps that entry e could take, of those here and others to come."""

    __slots__ = ("_adjacency", "_kinds", "_owner", "_takers", "_unmatched", "size", "spare", "taken")

    def __init__(self, adjacency: Sequence[int], kinds: Sequence[int]) -> None:
        self._adjacency = adjacency
        self._kinds = kinds
        self._takers: dict[int, int] = {}  # step to the set of entries that could take it
        self._owner: dict[int, int] = {}
        self._unmatched = (1 << len(kinds)) - 1
        self.taken = [-1] * len(kinds)  # entry to its step
        self.spare = 0  # the steps that are no entry's
        self.size = 0

    def _could(self, entry: int) -> int:
        return self._adjacency[self._kinds[entry]]

    @property
    def is_full(self) -> bool:
        """Whether every entry has a step."""
        return not self._unmatched

    def add(self, step: int, takers: int) -> None:
        """`takers`: the set of entries that could take it."""
        self._takers[step] = takers
        if not self._enter(step):
            self.spare |= 1 << step

    def drop(self, step: int) -> None:
        del self._takers[step]
        entry = self._owner.pop(step, None)
        if entry is None:
            self.spare &= ~(1 << step)
            return
        self.taken[entry] = -1
        self._unmatched |= 1 << entry
        self.size -= 1
        if self.spare:
            self._fill(entry)

    def _enter(self, new: int) -> bool:
        """Finds an entry for a step; only a path that begins there can make the matching larger."""
        came_from: dict[int, int] = {}
        unseen = -1
        queue = [new]
        for step in queue:
            options = self._takers[step] & unseen
            free = options & self._unmatched
            if free:
                self._move_up(lowest(free), step, came_from)
                return True
            unseen &= ~options
            for entry in places(options):
                came_from[entry] = step
                queue.append(self.taken[entry])
        return False

    def _move_up(self, entry: int, step: int, came_from: dict[int, int]) -> None:
        self._unmatched &= ~(1 << entry)
        self.size += 1
        left: int | None = entry
        while left is not None:
            before = self._owner.get(step)
            self._owner[step] = left
            self.taken[left] = step
            left = before
            if before is not None:
                step = came_from[before]

    def _fill(self, empty: int) -> None:
        """Finds a spare step for an entry that lost its own."""
        came_from: dict[int, int] = {}
        unseen = -1
        queue = [empty]
        for entry in queue:
            options = self._could(entry) & unseen
            free = options & self.spare
            if free:
                self._move_down(entry, lowest(free), came_from)
                return
            for step in self._owned(options):
                unseen &= ~(1 << step)
                came_from[self._owner[step]] = entry
                queue.append(self._owner[step])

    def _owned(self, options: int) -> list[int]:
        return [step for step in self._owner if options >> step & 1]

    def _move_down(self, entry: int, step: int, came_from: dict[int, int]) -> None:
        self.spare &= ~(1 << step)
        self.size += 1
        gives: int = step
        while True:
            before = self.taken[entry]
            self.taken[entry] = gives
            self._owner[gives] = entry
            if before < 0:
                self._unmatched &= ~(1 << entry)
                return
            entry, gives = came_from[entry], before

    def smallest(self) -> list[int]:
        """Of all full assignments the one that is smallest when read as a list; only for a full one."""
        fixed = 0
        for entry in range(len(self.taken)):
            fixed |= 1 << self._lower(entry, fixed)
        return list(self.taken)

    def _lower(self, entry: int, fixed: int) -> int:
        """Gives an entry the lowest step that leaves the later ones an assignment."""
        held = self.taken[entry]
        lower = self._could(entry) & ((1 << held) - 1) & ~fixed
        if not lower:
            return held
        within_reach, moves = self._within_reach(entry, held, fixed)
        chosen = lowest(self._could(entry) & within_reach)
        if chosen != held:
            self._displace(entry, chosen, held, moves)
        return chosen

    def _within_reach(self, entry: int, held: int, fixed: int) -> tuple[int, dict[int, int]]:
        """The steps an entry could take if later entries moved on, and where they would move."""
        reach = (self.spare | 1 << held) & ~fixed
        moves: dict[int, int] = {}
        waiting = list(range(entry + 1, len(self.taken)))
        moved = True
        while moved:
            moved = False
            still: list[int] = []
            for other in waiting:
                options = self._could(other) & reach
                if options:
                    moves[other] = lowest(options)
                    reach |= 1 << self.taken[other]
                    moved = True
                else:
                    still.append(other)
            waiting = still
        return reach, moves

    def _displace(self, entry: int, chosen: int, held: int, moves: dict[int, int]) -> None:
        del self._owner[held]
        self.spare |= 1 << held
        mover: int | None = entry
        step = chosen
        while mover is not None:
            displaced = self._owner.get(step)
            self._owner[step] = mover
            self.taken[mover] = step
            self.spare &= ~(1 << step)
            mover = displaced
            step = moves[displaced] if displaced is not None else step
