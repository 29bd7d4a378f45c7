"""Lays a pattern over steps: for each number of leading items, the places up to which they can take every step.

A row is a bit set of places 0 to n (`bits`); a pattern matches if the last row has place n. Each item makes the next
row from the one before. Without `parallel!` an item costs a few operations on whole rows; an `any!` that must contain
names costs one pass over the steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from onpath.flow import bits
from onpath.flow.blocks import Blocks
from onpath.flow.lane import Lane
from onpath.flow.names import StepName
from onpath.flow.pattern import AnyOf, Block, Gap, Item, Named
from onpath.values.outcome import Truth


def rows(items: Sequence[Item], lane: Lane, blocks: Blocks, *, surely: bool) -> list[int]:
    """Row i for the first i items; a flipped lane wants its items flipped too."""
    reach = 1
    found = [reach]
    for item in items:
        reach = next_row(item, reach, lane, blocks, surely=surely) if reach else 0
        found.append(reach)
    return found


def next_row(item: Item, reach: int, lane: Lane, blocks: Blocks, *, surely: bool) -> int:
    """The places where a block of the item can end that begins where `reach` says."""
    if isinstance(item, Named):
        return _takes(item, reach, lane, surely) << 1
    if isinstance(item, Gap):
        return bits.advance(reach, lane.everything, item.minimum, item.maximum, lane.size)
    if isinstance(item, AnyOf):
        allowed = lane.allowed(item, surely)
        if item.contains_all:
            return _containing(item, reach, allowed, lane, surely)
        return bits.advance(reach, allowed, item.minimum, item.maximum, lane.size)
    return _block(item, reach, lane, blocks, surely)


def _takes(item: Named, reach: int, lane: Lane, surely: bool) -> int:
    """The places of `reach` whose step the item can take; values are read nowhere else."""
    found = reach & lane.named(item.name, surely)
    if item.tree is None or not found:
        return found
    least = Truth.TRUE if surely else Truth.UNKNOWN
    return bits.of_places((p for p in bits.places(found) if lane.takes(item.tree, p, least)), lane.size)


def _containing(item: AnyOf, reach: int, allowed: int, lane: Lane, surely: bool) -> int:
    """For each end, a block may begin in one range of places: behind what is not allowed, before the last of each
    name.
    """
    size = lane.size
    begins = _next_places(reach, size)
    may = bits.flags(allowed, size)
    wanted = _columns(item.contains_all, lane, surely)
    last = [-1] * len(wanted)
    most = size if item.maximum is None else min(item.maximum, size)
    first = 0
    ends: list[int] = []
    for end in range(1, size + 1):
        step = end - 1
        if may[step] == "0":
            first = end
            continue
        for at, column in enumerate(wanted):
            if column[step] == "1":
                last[at] = step
        begin = begins[max(first, end - most)]
        if begin <= end - item.minimum and begin <= min(last):
            ends.append(end)
    return bits.of_places(ends, size + 1)


def _columns(names: Sequence[StepName], lane: Lane, surely: bool) -> list[str]:
    return [bits.flags(lane.named(name, surely), lane.size) for name in names]


def _next_places(reach: int, size: int) -> list[int]:
    """For each place the first one of `reach` that is not before it; size + 1 where there is none."""
    flags = bits.flags(reach, size + 1)
    found = [size + 1] * (size + 2)
    for place in range(size, -1, -1):
        found[place] = place if flags[place] == "1" else found[place + 1]
    return found


def _block(item: Block, reach: int, lane: Lane, blocks: Blocks, surely: bool) -> int:
    plan = blocks.plan(item)
    if plan.size > lane.size:
        return 0
    takable = lane.union(plan.names, Truth.UNKNOWN)
    least = Truth.TRUE if surely else Truth.UNKNOWN
    candidates = bits.places(reach & bits.runs(takable, plan.size))
    ends = (p + plan.size for p in candidates if lane.is_block(plan, p, least))
    return bits.of_places(ends, lane.size + 1)


def laid(
    items: Sequence[Item], blocks: Blocks, order: Sequence[int] | None = None, *, surely: bool
) -> list[tuple[int, int]] | None:
    """Which places each item takes, from and to, the first item as few steps as it can, then the second and so on.

    Over all steps of the board unless others are given. None if the items can't take exactly these.
    """
    backward = Lane(blocks.board, order, flipped=True)
    size = backward.size
    rest = rows(items[::-1], backward, blocks, surely=surely)
    if not rest[-1] >> size & 1:
        return None
    lane = Lane(blocks.board, order)
    begin = 0
    found: list[tuple[int, int]] = []
    for at, item in enumerate(items):
        ends = next_row(item, 1 << begin, lane, blocks, surely=surely)
        end = bits.lowest(ends & bits.mirrored(rest[len(items) - at - 1], size + 1))
        found.append((begin, end))
        begin = end
    return found
