"""Compile checks 10 to 12: how the steps of a plan hang together, and the tiers they are resolved in.

`after` joins steps into chains of one level; `captured` and `distinct_from` add dependencies. Neither may close a
circle. Sizes are bounded, so plain searches will do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from onpath.validators.plan.model import Plan, PlanFault, PlanStep

MAX_WIDTH: Final = 2  # steps that one step anchors
MAX_SHARED: Final = 2  # steps that anchor more than one other
MAX_PAIRS: Final = 4  # separate groups of exactly two steps
MAX_STEPS: Final = 16


def graph_faults(plan: Plan) -> Iterator[PlanFault]:
    yield from _nested(plan)
    if detail := _over_bounds(plan.steps):
        yield PlanFault("plan-exceeds-scripting-bound", plan.spelling.steps, detail, plan.spelling.at_steps)
    yield from _circles(plan)


def _nested(plan: Plan) -> Iterator[PlanFault]:
    anchors = {step.id: step.after for step in plan.steps}
    for index, step in enumerate(plan.steps):
        if step.after in anchors and anchors[step.after] in anchors:
            detail = f'step "{step.after}" has an after clause of its own; a chain is one level deep'
            path = f"{plan.spelling.step(step.id)}.after"
            yield PlanFault("nested-temporal-clause", path, detail, (*plan.spelling.at_step(index), "after"))


def _over_bounds(steps: tuple[PlanStep, ...]) -> str | None:
    declared = {step.id for step in steps}
    widths = Counter(step.after for step in steps if step.after in declared)
    widest = max(widths.values(), default=0)
    shared = sum(width > 1 for width in widths.values())
    # A chain is one level deep, so a group of two is an anchor with one dependent.
    pairs = sum(width == 1 for width in widths.values())
    if widest > MAX_WIDTH:
        return f"one step anchors {widest} others; the limit is {MAX_WIDTH}"
    if shared > MAX_SHARED:
        return f"{shared} steps each anchor more than one other; the limit is {MAX_SHARED}"
    if pairs > MAX_PAIRS:
        return f"{pairs} separate two-step pairs; the limit is {MAX_PAIRS}"
    if len(steps) > MAX_STEPS:
        return (
            f"{len(steps)} steps; the limit is {MAX_STEPS}, "
            "since a plan is a bounded set of witness relations and no inventory of every operation"
        )
    return None


def _circles(plan: Plan) -> Iterator[PlanFault]:
    edges = dependencies(plan)
    for index, step in enumerate(plan.steps):
        for binding in step.bindings:
            source = binding.source
            if source is None or source.step is None or step.id not in _reached(edges, source.step):
                continue
            detail = (
                f'captured pointer "{source.text}" closes a cycle over the capture and temporal-clause edges; '
                "a captured value has no earlier step to resolve from (AD-39)"
            )
            path, where = plan.spelling.binding(step.id, binding), plan.spelling.at_binding(index, binding)
            yield PlanFault("binding-cycle", path, detail, where)


def _reached(edges: Mapping[str, tuple[str, ...]], start: str) -> set[str]:
    """`start` and every step that it depends on."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        step = waiting.pop()
        if step not in seen:
            seen.add(step)
            waiting.extend(edges.get(step, ()))
    return seen


def dependencies(plan: Plan) -> dict[str, tuple[str, ...]]:
    """For each step the declared ones that are resolved before it: its anchor, then its sources."""
    declared = {step.id for step in plan.steps}
    return {
        step.id: tuple(name for name in dict.fromkeys((step.after, *source_steps(step))) if name in declared)
        for step in plan.steps
    }


def source_steps(step: PlanStep) -> tuple[str, ...]:
    """The steps that it captures or is distinct from."""
    sources = (binding.source for binding in step.bindings)
    return tuple(dict.fromkeys(source.step for source in sources if source is not None and source.step is not None))


def tiers_of(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Groups of steps that are resolved together, in turn; ids in order of declaration. The plan has no circle."""
    waiting = dependencies(plan)
    tiers: list[tuple[str, ...]] = []
    while waiting:
        ready = tuple(step for step, needed in waiting.items() if not any(name in waiting for name in needed))
        tiers.append(ready)
        for step in ready:
            del waiting[step]
    return tuple(tiers)
