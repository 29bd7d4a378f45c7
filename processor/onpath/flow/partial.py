"""Patterns over a trace that is not complete: what no further step can change (flow.md section 11).

Steps may be missing after the last one; with a missing parent anywhere. `can_pass`: some completion could match;
unknown values count as holding. `must_pass`: every completion matches, by what is known alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from onpath.flow import bits
from onpath.flow.blocks import Blocks
from onpath.flow.halves import HalfBlock
from onpath.flow.lane import Lane
from onpath.flow.pattern import AnyOf, Block, Gap, Item, Named
from onpath.flow.rows import next_row, rows


def can_pass(items: Sequence[Item], lane: Lane, blocks: Blocks, *, anywhere: bool) -> bool:
    """`anywhere`: a parent is missing, so every item may be half."""
    end = 1 << lane.size
    if anywhere:
        reach = 1
        for item in items:
            reach = _half_row(item, reach, lane, blocks)
        return bool(reach & end)
    reached = rows(items, lane, blocks, surely=False)
    halves = zip(items, reached[:-1], strict=True)
    return bool(reached[-1] & end) or any(row and _half_to_end(item, row, lane, blocks) for item, row in halves)


def _half_to_end(item: Item, reach: int, lane: Lane, blocks: Blocks) -> bool:
    """Whether the item could have taken all steps from some place on, and more that were not seen."""
    last = reach.bit_length() - 1
    left = lane.size - last
    if isinstance(item, Named | Gap):
        return bool(_half_row(item, reach, lane, blocks) >> lane.size & 1)
    if isinstance(item, AnyOf):  # from an earlier place it would only take more
        allowed = lane.allowed(item, surely=False)
        if bits.runs(allowed, left) >> last & 1 == 0:
            return False
        steps = ((1 << left) - 1) << last
        absent = sum(not lane.named(name, surely=False) & steps for name in item.contains_all)
        return item.maximum is None or left + absent <= item.maximum
    plan = blocks.plan(item)
    earliest = max(0, lane.size - plan.size)
    for begin in bits.places(reach >> earliest << earliest):
        half = HalfBlock(plan, by_name=False, in_order="prefix")
        if all(half.push(step) for step in lane.order[begin:]):
            return True
    return False


def _half_row(item: Item, reach: int, lane: Lane, blocks: Blocks) -> int:
    """The places where the steps that were seen of an item can end."""
    if isinstance(item, Named):
        return reach | next_row(item, reach, lane, blocks, surely=False)
    if isinstance(item, Gap):
        return bits.advance(reach, lane.everything, 0, item.maximum, lane.size)
    if isinstance(item, AnyOf):
        if item.maximum is not None and item.contains_all:
            return _half_containing(item, item.maximum, reach, lane)
        return bits.advance(reach, lane.allowed(item, surely=False), 0, item.maximum, lane.size)
    return _half_block(item, reach, lane, blocks)


def _half_containing(item: AnyOf, maximum: int, reach: int, lane: Lane) -> int:
    """A block ends where its steps and the names not yet seen have room; the first place it can begin only moves on."""
    size = lane.size
    allowed = bits.flags(lane.allowed(item, surely=False), size)
    columns = [bits.flags(lane.named(name, surely=False), size) for name in item.contains_all]
    seen = [0] * len(columns)
    begins = bits.flags(reach, size + 1)
    first, ends, open_begins = 0, [], 0
    for end in range(size + 1):
        if end:
            for at, column in enumerate(columns):
                seen[at] += column[end - 1] == "1"
        open_begins += begins[end] == "1"
        while first < end and (allowed[end - 1] == "0" or end - first + seen.count(0) > maximum):
            for at, column in enumerate(columns):
                seen[at] -= column[first] == "1"
            open_begins -= begins[first] == "1"
            first += 1
        if open_begins:
            ends.append(end)
    return bits.of_places(ends, size + 1)


def _half_block(item: Block, reach: int, lane: Lane, blocks: Blocks) -> int:
    half = HalfBlock(blocks.plan(item), by_name=False, in_order="some")
    begins = bits.flags(reach, lane.size + 1)
    ends: set[int] = set()
    end = 0
    for begin in range(lane.size + 1):
        if end < begin:
            end = begin
        while end < lane.size and half.push(lane.order[end]):
            end += 1
        if begins[begin] == "1":
            ends.update(range(begin, end + 1))
        if len(half):
            half.shift()
    return bits.of_places(ends, lane.size + 1)


@dataclass(frozen=True, slots=True)
class _Open:
    """Items into which any further step fits, in any place: see `_parts`."""

    items: tuple[Item, ...]


def must_pass(items: Sequence[Item], lane: Lane, blocks: Blocks, *, anywhere: bool) -> bool:
    """Whether a match by what is known has each place where a step may be missing in an open block or at its edge."""
    parts = list(_parts(items))
    if anywhere:
        return _covered(parts, lane, blocks)
    reach = 1
    for at, part in enumerate(parts):
        for item in part.items if isinstance(part, _Open) else (part,):
            reach = next_row(item, reach, lane, blocks, surely=True)
        if isinstance(part, _Open) and reach >> lane.size & 1 and all(map(_takes_none, parts[at + 1 :])):
            return True
    return False


def _covered(parts: Sequence[_Open | Item], lane: Lane, blocks: Blocks) -> bool:
    """Between two open blocks only one step may be taken by others, before the first and after the last one none."""
    none_taken, one_taken = 1, 0  # places reached with no step, or one, since the last open block
    begun = False
    for part in parts:
        if isinstance(part, _Open):
            none_taken |= one_taken
            one_taken = 0
            begun = True
            for item in part.items:
                none_taken = next_row(item, none_taken, lane, blocks, surely=True)
        else:
            stays = -1 if _takes_none(part) else 0
            taken = _takes_one(part, none_taken, lane, blocks) if begun else 0
            none_taken, one_taken = none_taken & stays, taken | (one_taken & stays)
    return begun and bool(none_taken >> lane.size & 1)


def _takes_none(part: _Open | Item) -> bool:
    """Whether the items match no steps at all."""
    if isinstance(part, _Open):
        return all(map(_takes_none, part.items))
    return isinstance(part, Gap | AnyOf) and part.minimum == 0 and not (isinstance(part, AnyOf) and part.contains_all)


def _takes_one(item: Item, reach: int, lane: Lane, blocks: Blocks) -> int:
    """The places reached by an item that takes exactly one step."""
    if isinstance(item, Gap | AnyOf):
        if item.minimum > 1 or item.maximum == 0:
            return 0
        item = replace(item, minimum=1, maximum=1)
    elif isinstance(item, Block) and item.size > 1:
        return 0
    return next_row(item, reach, lane, blocks, surely=True)


def _parts(items: Sequence[Item]) -> Iterator[_Open | Item]:
    """The items, with open blocks put together.

    Open is a run of neighbouring wildcards and `any!` without names, at least one of them without a most, and an `any!`
    without a most that only has to contain names.
    """
    for free, group in groupby(items, key=_is_free):
        run = tuple(group)
        if free and any(isinstance(item, Gap | AnyOf) and item.maximum is None for item in run):
            yield _Open(run)
            continue
        for item in run:
            yield _Open((item,)) if _is_guarded(item) else item


def _is_free(item: Item) -> bool:
    if isinstance(item, AnyOf):
        return not (item.contains or item.not_contains or item.contains_all)
    return isinstance(item, Gap)


def _is_guarded(item: Item) -> bool:
    if not isinstance(item, AnyOf) or item.maximum is not None:
        return False
    return bool(item.contains_all) and not (item.contains or item.not_contains)
