"""A second, slow implementation of matching, by enumeration and straight from the text of flow.md sections 4 to 6 and
11.

It shares the pattern and step values with the product and nothing of how they are matched. Only for a handful of
steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations, permutations, product
from typing import Any

from onpath.flow.pattern import AnyOf, Block, Chain, Gap, Item, Named
from onpath.steps.model import Step

Division = tuple[tuple[int, int], ...]

NO, PERHAPS, YES = 0, 1, 2


def name_fits(item: Named, step: Step) -> bool:
    written = item.written
    for kind in ("tool", "agent", "span", "llm"):
        if written.startswith(kind + ":"):
            rest = written[len(kind) + 1 :]
            if kind == "llm":
                return step.kind == "llm" and step.model == rest
            return step.kind == kind and rest in (step.name, f"{step.agent}/{step.name}")
    return written in (step.name, f"{step.agent}/{step.name}")


def fits(item: Named, step: Step, *, open_ended: bool = False) -> int:
    """Only trees of one `output` `eq!` number are known here."""
    if not name_fits(item, step):
        return NO
    if item.tree is None:
        return YES
    wanted: Any = item.tree.leaves[0].check.argument
    if isinstance(step.output, int):
        return YES if step.output == wanted else NO
    return PERHAPS


def apart(periods: Sequence[tuple[int | None, float | None]], tolerance: int) -> int:
    """NO where what is known lies apart, PERHAPS where times are missing, else YES."""
    if len(periods) < 2:
        return YES
    starts = [start for start, _ in periods if start is not None]
    ends = [end for _, end in periods if end is not None]
    if starts and ends:
        latest = max(starts)
        real = min(ends)
        shared = min(end + 1 if end == start else end for start, end in periods if end is not None)
        if not (latest < shared or (tolerance > 0 and latest - real <= tolerance)):
            return NO
    return YES if all(start is not None and end is not None for start, end in periods) else PERHAPS


def period(steps: Sequence[Step]) -> tuple[int | None, float | None]:
    if steps[0].start_ns is None:
        return (None, None)
    ends: list[float] = []
    for step in steps:
        if step.start_ns is None:
            return (steps[0].start_ns, None)
        ends.append(float("inf") if step.end_ns is None else max(step.start_ns, step.end_ns))
    return (steps[0].start_ns, max(ends))


def block_assignments(block: Block, steps: Sequence[Step]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Every way to give exactly these steps to the entries: how well it holds, and indexes in the order of the
    entries.
    """
    slots = [
        (at, item)
        for at, entry in enumerate(block.entries)
        for item in (entry.items if isinstance(entry, Chain) else (entry,))
    ]
    if len(slots) != len(steps):
        return
    for order in permutations(range(len(steps))):
        found = YES
        for (_, item), index in zip(slots, order, strict=True):
            found = min(found, fits(item, steps[index]))
        by_entry: dict[int, list[int]] = {}
        for (at, _), index in zip(slots, order, strict=True):
            by_entry.setdefault(at, []).append(index)
        if found == NO or any(taken != sorted(taken) for taken in by_entry.values()):
            continue
        periods = [period([steps[index] for index in taken]) for taken in by_entry.values()]
        yield min(found, apart(periods, block.tolerance_ns)), order


def takes(item: Item, steps: Sequence[Step]) -> int:
    """How well an item takes exactly these steps."""
    if isinstance(item, Named):
        return fits(item, steps[0]) if len(steps) == 1 else NO
    if isinstance(item, Gap):
        return YES if item.minimum <= len(steps) and (item.maximum is None or len(steps) <= item.maximum) else NO
    if isinstance(item, AnyOf):
        return YES if any_takes(item, steps) else NO
    return max((how for how, _ in block_assignments(item, steps)), default=NO)


def any_takes(item: AnyOf, steps: Sequence[Step]) -> bool:
    def one_of(names: Any, step: Step) -> bool:
        return any(name_fits(Named(name), step) for name in names)

    return (
        item.minimum <= len(steps)
        and (item.maximum is None or len(steps) <= item.maximum)
        and (not item.contains or all(one_of(item.contains, step) for step in steps))
        and not any(one_of(item.not_contains, step) for step in steps)
        and all(any(name_fits(Named(name), step) for step in steps) for name in item.contains_all)
    )


def divisions(items: Sequence[Item], steps: Sequence[Step]) -> Iterator[tuple[int, Division]]:
    """Every division of the steps into blocks, the first item as few steps as it can first."""

    @cache
    def how(at: int, begin: int, end: int) -> int:
        return takes(items[at], steps[begin:end])

    def rest(at: int, begin: int) -> Iterator[tuple[int, Division]]:
        if at == len(items):
            if begin == len(steps):
                yield YES, ()
            return
        for end in range(begin, len(steps) + 1):
            here = how(at, begin, end)
            if here != NO:
                for after, division in rest(at + 1, end):
                    yield min(here, after), ((begin, end), *division)

    yield from rest(0, 0)


def verdict(items: Sequence[Item], steps: Sequence[Step]) -> str:
    best = max((how for how, _ in divisions(items, steps)), default=NO)
    return {NO: "fail", PERHAPS: "unknown", YES: "pass"}[best]


def matched(items: Sequence[Item], steps: Sequence[Step]) -> dict[int, list[int]]:
    division = next(found for how, found in divisions(items, steps) if how == YES)
    result: dict[int, list[int]] = {}
    for at, (begin, end) in enumerate(division):
        item = items[at]
        result[at] = list(range(begin, end))
        if isinstance(item, Block):
            orders = [order for how, order in block_assignments(item, steps[begin:end]) if how == YES]
            result[at] = [begin + index for index in min(orders)]
    return result


def near_miss(items: Sequence[Item], steps: Sequence[Step]) -> tuple[int | None, int, str]:
    """Section 4, word by word."""
    fitted, ends = 0, [0]
    for count in range(len(items), -1, -1):
        ends = [j for j in range(len(steps) + 1) if any(True for _ in divisions(items[:count], steps[:j]))]
        if ends:
            fitted = count
            break
    if fitted == len(items):
        return None, max(ends), "surplus"
    item = items[fitted]
    if isinstance(item, Named):
        named = [j for j in ends if j < len(steps) and name_fits(item, steps[j])]
        if named:
            return fitted, max(named), "value"
        furthest = max(ends)
    elif isinstance(item, Block):
        whole = [j for j in ends if _assignable(item, steps[j : j + item.size], values=True)]
        if whole:
            return fitted, max(whole), "timing"
        named = [j for j in ends if _assignable(item, steps[j : j + item.size], values=False)]
        if named:
            return fitted, max(named), "value"
        furthest = max(_goes_on(item, steps, j) for j in ends)
    else:
        furthest = max(_wild_goes_on(item, steps, j) for j in ends)
    return fitted, furthest, "name" if furthest < len(steps) else "end"


def _assignable(block: Block, steps: Sequence[Step], *, values: bool, partly: bool = False) -> bool:
    """Whether the steps can be given to different entries, branches in chain order from their first."""
    slots = [
        (at, place, item)
        for at, entry in enumerate(block.entries)
        for place, item in enumerate(entry.items if isinstance(entry, Chain) else (entry,))
    ]
    if len(steps) != len(slots) and not (partly and len(steps) < len(slots)):
        return False
    for chosen in permutations(slots, len(steps)):
        good = all(
            fits(item, step) != NO if values else name_fits(item, step)
            for (_, _, item), step in zip(chosen, steps, strict=True)
        )
        by_entry: dict[int, list[int]] = {}
        for at, place, _ in chosen:
            by_entry.setdefault(at, []).append(place)
        if good and all(places == list(range(len(places))) for places in by_entry.values()):
            return True
    return False


def _goes_on(block: Block, steps: Sequence[Step], begin: int) -> int:
    end = begin
    while end < len(steps) and _assignable(block, steps[begin : end + 1], values=False, partly=True):
        end += 1
    return end


def _wild_goes_on(item: Gap | AnyOf, steps: Sequence[Step], begin: int) -> int:
    end = begin
    while end < len(steps) and (item.maximum is None or end - begin < item.maximum):
        if isinstance(item, AnyOf):
            if item.contains and not any(name_fits(Named(name), steps[end]) for name in item.contains):
                break
            if any(name_fits(Named(name), steps[end]) for name in item.not_contains):
                break
        end += 1
    return end


def orders_with_ties(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """A step without times stays behind the one before it."""
    groups: list[list[list[Step]]] = []
    for step in steps:
        if groups and step.start_ns is None:
            groups[-1][-1].append(step)
        elif groups and groups[-1][0][0].start_ns == step.start_ns and step.start_ns is not None:
            groups[-1].append([step])
        else:
            groups.append([[step]])
    for chosen in product(*(permutations(group) for group in groups)):
        yield [step for group in chosen for unit in group for step in unit]


def parallel(block: Block, steps: Sequence[Step]) -> list[tuple[int, int | None, list[list[int]]]]:
    """Section 6, at the top: every assignment with how it holds, its latest start and its lists of indexes."""
    options = [list(_options(entry, steps)) for entry in block.entries]
    found: list[tuple[int, int | None, list[list[int]]]] = []
    for chosen in product(*options):
        used = [index for _, taken in chosen for index in taken]
        if len(set(used)) < len(used):
            continue
        periods = [period([steps[index] for index in taken]) for _, taken in chosen]
        how = min((*(how for how, _ in chosen), apart(periods, block.tolerance_ns)))
        starts = [start for start, _ in periods if start is not None]
        if how != NO:
            found.append((how, max(starts, default=None), [list(taken) for _, taken in chosen]))
    return found


def _options(entry: Named | Chain, steps: Sequence[Step]) -> Iterator[tuple[int, tuple[int, ...]]]:
    items = entry.items if isinstance(entry, Chain) else (entry,)
    own = [index for index, step in enumerate(steps) if any(name_fits(item, step) for item in items)]
    for begin in range(len(own) - len(items) + 1):
        taken = tuple(own[begin : begin + len(items)])
        how = min(fits(item, steps[index]) for item, index in zip(items, taken, strict=True))
        if how != NO:
            yield how, taken


def parallel_progress(block: Block, steps: Sequence[Step]) -> tuple[int, int]:
    for count in range(len(block.entries), 0, -1):
        for entries in combinations(block.entries, count):
            if parallel(Block(entries, block.tolerance_ns), steps):
                return count, len(block.entries)
    return 0, len(block.entries)
