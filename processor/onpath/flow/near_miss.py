"""Where a match broke: how many leading items fit, over how many steps, why the next one does not (flow.md section 4).

Unknown values count as satisfied here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from onpath.flow import bits
from onpath.flow.blocks import BlockPlan, Blocks
from onpath.flow.halves import HalfBlock
from onpath.flow.lane import Lane
from onpath.flow.pattern import AnyOf, Block, Gap, Item, Named
from onpath.flow.rows import rows
from onpath.values.outcome import Truth

Why: TypeAlias = Literal["surplus", "value", "name", "end", "timing"]


@dataclass(frozen=True, slots=True)
class NearMiss:
    """`fitted` leading items lie over the first `begin` steps; the next one breaks at `step`. Indexes from 0."""

    item: int | None  # None: all items fit, and steps are left over
    step: int
    why: Why
    fitted: int
    begin: int
    window: tuple[int, ...] = ()  # the steps of a block that breaks as a whole, as indexes of the board


def near_miss(items: Sequence[Item], blocks: Blocks) -> NearMiss:
    """For a pattern that does not match the steps of the board."""
    lane = Lane(blocks.board)
    reached = rows(items, lane, blocks, surely=False)
    fitted = max(at for at, row in enumerate(reached) if row)
    reach = reached[fitted]
    last = reach.bit_length() - 1
    if fitted == len(items):
        return NearMiss(None, last, "surplus", fitted, last)
    item = items[fitted]
    if isinstance(item, Named):
        named = reach & lane.named(item.name, surely=False)
        if named:
            step = named.bit_length() - 1
            return NearMiss(fitted, step, "value", fitted, step)
        return _stopped(fitted, last, last, lane)
    if isinstance(item, Block):
        return _block(fitted, reach, lane, blocks.plan(item))
    return _stopped(fitted, _furthest(item, last, lane), last, lane)


def _stopped(item: int, step: int, begin: int, lane: Lane) -> NearMiss:
    return NearMiss(item, step, "name" if step < lane.size else "end", item, begin)


def _furthest(item: Gap | AnyOf, begin: int, lane: Lane) -> int:
    """How far a wildcard or `any!` goes on from the last place it can begin: from an earlier one it goes no further."""
    allowed = lane.everything if isinstance(item, Gap) else lane.allowed(item, surely=False)
    reach = bits.advance(1 << begin, allowed, 0, item.maximum, lane.size)
    return reach.bit_length() - 1


def _block(item: int, reach: int, lane: Lane, plan: BlockPlan) -> NearMiss:
    takable = lane.union(plan.names, Truth.UNKNOWN)
    candidates = list(bits.places(reach & bits.runs(takable, plan.size)))
    by_name = -1
    for place in reversed(candidates):
        window = lane.window(place, plan.size)
        if plan.fits_by_name(window):
            if plan.values(window) is not Truth.FALSE:
                return NearMiss(item, place, "timing", item, place, window)
            by_name = max(by_name, place)
    if by_name >= 0:
        return NearMiss(item, by_name, "value", item, by_name, lane.window(by_name, plan.size))
    # Without branches the last place goes furthest.
    begins = list(bits.places(reach)) if plan.chains else [reach.bit_length() - 1]
    begin, step = max(((b, _goes_on(plan, b, lane)) for b in begins), key=lambda found: (found[1], found[0]))
    return _stopped(item, step, begin, lane)


def _goes_on(plan: BlockPlan, begin: int, lane: Lane) -> int:
    """How far the block goes on from a place while its steps can be given to different entries by name."""
    half = HalfBlock(plan, by_name=True, in_order="prefix")
    place = begin
    while place < lane.size and half.push(lane.order[place]):
        place += 1
    return place
