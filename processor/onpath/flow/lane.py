"""The steps of a board in one order, as bit sets by name.

A lane that is flipped runs from the last step to the first: a pattern laid over it backwards says from which places its
later items reach the end. `surely` asks for what is known to hold, else what is unknown counts as holding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onpath.flow.board import Board
from onpath.flow.names import Signature, StepName
from onpath.flow.pattern import AnyOf
from onpath.values.outcome import Truth


class Lane:
    """Place p of a lane has the step `order[p]` behind it."""

    def __init__(self, board: Board, order: Sequence[int], *, flipped: bool = False) -> None:
        self.board = board
        self.flipped = flipped
        self.order: Sequence[int] = order[::-1] if flipped else order
        self.size = len(order)
        self.everything = (1 << self.size) - 1
        self._by_signature = self._groups()
        self._masks: dict[tuple[str, Truth], int] = {}

    def _groups(self) -> dict[Signature, int]:
        groups: dict[Signature, list[int]] = {}
        seen = self.board.signatures
        for place, index in enumerate(self.order):
            groups.setdefault(seen[index], []).append(place)
        return {signature: _mask(found) for signature, found in groups.items()}

    def at_least(self, name: StepName, truth: Truth) -> int:
        """The steps that a name fits, with at least this certainty."""
        key = (name.written, truth)
        found = self._masks.get(key)
        if found is None:
            found = 0
            for signature, mask in self._by_signature.items():
                if self.board.signature_fit(name, signature) >= truth:
                    found |= mask
            self._masks[key] = found
        return found

    def named(self, name: StepName, surely: bool) -> int:
        return self.at_least(name, Truth.TRUE if surely else Truth.UNKNOWN)

    def union(self, names: Iterable[StepName], truth: Truth) -> int:
        found = 0
        for name in names:
            found |= self.at_least(name, truth)
        return found

    def allowed(self, item: AnyOf, surely: bool) -> int:
        """The steps that an `any!` may take."""
        wanted, excluded = (Truth.TRUE, Truth.UNKNOWN) if surely else (Truth.UNKNOWN, Truth.TRUE)
        found = self.union(item.contains, wanted) if item.contains else self.everything
        return found & ~self.union(item.not_contains, excluded)

    def window(self, place: int, length: int) -> tuple[int, ...]:
        """The steps from a place on, as they ran."""
        found = tuple(self.order[place : place + length])
        return found[::-1] if self.flipped else found


def _mask(found: list[int]) -> int:
    mask = 0
    for place in found:
        mask |= 1 << place
    return mask
