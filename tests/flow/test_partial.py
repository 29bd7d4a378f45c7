"""Traces released early: what is said of them is never undone by what was missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onpath.flow.pattern import AnyOf, Block, Chain, Gap, Item, Named
from onpath.report import Verdict
from onpath.steps.model import NOT_CAPTURED, Scope, Step
from onpath.validators.base import Context
from tests.flow import cases, oracle


def released_early(run: Sequence[Step], moment: int) -> list[Step]:
    """What is known at a moment where every span is told of when it starts: later steps missing, others unfinished."""
    kept = [step for step in run if step.start_ns is not None and step.start_ns <= moment]
    seen = [
        step if step.end_ns is not None and step.end_ns <= moment else replace(step, end_ns=None, output=NOT_CAPTURED)
        for step in kept
    ]
    return _ordered(seen)


def _ordered(steps: Sequence[Step]) -> list[Step]:
    never = float("inf")
    return sorted(steps, key=lambda s: (s.start_ns, never if s.end_ns is None else s.end_ns, s.span_ids))


def entries() -> st.SearchStrategy[tuple[dict[str, Any], list[Step]]]:
    sequences = cases.patterns_with_runs().map(lambda case: ({"seq!": case[0]}, case[1]))
    others = st.tuples(cases.blocks() | trees(), cases.steps())
    return st.one_of(sequences, sequences, others)


def trees() -> st.SearchStrategy[dict[str, Any]]:
    checks = st.sampled_from(
        [
            {"output": {"eq!": 1}},
            {"output": {"not_null!": False}},
            {"elapsed": {"lte!": 3}},
            {"status": {"eq!": "unset"}},
            {"error": {"null!": True}},
        ]
    )
    return st.builds(lambda name, tree: {name: tree}, st.sampled_from(cases.NAMES), checks)


def _never_undone(entry: dict[str, Any], seen: list[Step], full: list[Step], **context: Any) -> None:
    early = cases.judged(entry, seen, complete=False, **context)
    late = cases.judged(entry, full)
    if early.order_undetermined or late.order_undetermined:
        return
    if early.label is not Verdict.UNKNOWN:
        assert late.label is early.label, (early.explanation, late.explanation)


@settings(max_examples=250, deadline=None)
@given(entries(), st.integers(0, 15))
def test_released_at_a_moment(case: tuple[dict[str, Any], list[Step]], moment: int) -> None:
    entry, run = case
    assume(cases.loaded(entry) is not None)
    assume(all(step.start_ns is not None for step in run))
    full = [replace(step, end_ns=step.end_ns or 10**9) for step in run]  # in the end everything has ended
    full = [replace(step, output=1) if step.output is NOT_CAPTURED else step for step in full]
    _never_undone(entry, released_early(full, moment * cases.MS), _ordered(full))


@settings(max_examples=250, deadline=None)
@given(entries(), st.data())
def test_released_with_spans_missing_anywhere(case: tuple[dict[str, Any], list[Step]], data: st.DataObject) -> None:
    entry, run = case
    assume(cases.loaded(entry) is not None)
    missing = data.draw(st.sets(st.integers(0, max(0, len(run) - 1)), max_size=3))
    seen = [step for at, step in enumerate(run) if at not in missing]
    _never_undone(entry, seen, run, missing_parent=True)


def can_pass(items: Sequence[Item], steps: Sequence[Step], *, anywhere: bool) -> bool:
    """Section 11 by enumeration: blocks whole up to some item, that one half, the rest empty; or each of them half."""

    def rest(at: int, begin: int, halves: bool) -> bool:
        if begin == len(steps):
            return True
        if at == len(items):
            return False
        for end in range(begin, len(steps) + 1):
            block = steps[begin:end]
            if anywhere:
                if half(items[at], block, anywhere=True) and rest(at + 1, end, True):
                    return True
            elif oracle.takes(items[at], block) != oracle.NO and rest(at + 1, end, False):
                return True
        return not anywhere and half(items[at], steps[begin:], anywhere=False)

    return rest(0, 0, anywhere)


def half(item: Item, steps: Sequence[Step], *, anywhere: bool) -> bool:
    if isinstance(item, Named):
        return not steps or (len(steps) == 1 and oracle.fits(item, steps[0]) != oracle.NO)
    if isinstance(item, Gap):
        return item.maximum is None or len(steps) <= item.maximum
    if isinstance(item, AnyOf):
        absent = [n for n in item.contains_all if not any(oracle.name_fits(Named(n), step) for step in steps)]
        free = replace(item, minimum=0, maximum=None, contains_all=())
        room = item.maximum is None or len(steps) + len(absent) <= item.maximum
        return room and oracle.takes(free, steps) != oracle.NO
    return half_block(item, steps, anywhere=anywhere)


def half_block(block: Block, steps: Sequence[Step], *, anywhere: bool) -> bool:
    """Every way to give each step a place of its own in the block."""
    slots = [
        (at, place, item)
        for at, entry in enumerate(block.entries)
        for place, item in enumerate(entry.items if isinstance(entry, Chain) else (entry,))
    ]
    for chosen in _choices(slots, steps):
        places: dict[int, list[int]] = {}
        taken: dict[int, list[Step]] = {}
        for (at, place, _), step in zip(chosen, steps, strict=True):
            places.setdefault(at, []).append(place)
            taken.setdefault(at, []).append(step)
        if anywhere:
            in_order = all(found == sorted(found) for found in places.values())
        else:
            in_order = all(found == list(range(len(found))) for found in places.values())
        whole = [
            oracle.period(found)
            for at, found in taken.items()
            if len(found) == (len(entry.items) if isinstance(entry := block.entries[at], Chain) else 1)
        ]
        if in_order and oracle.apart(whole, block.tolerance_ns) != oracle.NO:
            return True
    return False


def _choices(slots: Sequence[tuple[int, int, Named]], steps: Sequence[Step]) -> Iterator[tuple[Any, ...]]:
    options = [[slot for slot in slots if oracle.fits(slot[2], step) != oracle.NO] for step in steps]
    for chosen in product(*options):
        if len({(at, place) for at, place, _ in chosen}) == len(chosen):
            yield chosen


@settings(max_examples=250, deadline=None)
@given(cases.patterns_with_runs(most=6), st.booleans(), st.integers(0, 6))
def test_fail_is_where_no_division_into_halves_exists(
    case: tuple[list[Any], list[Step]], anywhere: bool, length: int
) -> None:
    written, run = case
    items = cases.sequence_of(written)
    assume(items is not None)
    assert items is not None
    seen = [replace(step, end_ns=step.end_ns or 10**9) for step in run[:length]]
    found = cases.judged({"seq!": written}, seen, complete=False, missing_parent=anywhere)
    assert (found.label is not Verdict.FAIL) is can_pass(items, seen, anywhere=anywhere)


def must_pass(items: Sequence[Item], steps: Sequence[Step], *, anywhere: bool) -> bool:
    """Section 11 by enumeration: a division by what is known, every place in or at an open block."""
    needed = set(range(len(steps) + 1)) if anywhere else {len(steps)}
    for how, division in oracle.divisions(items, steps):
        covered: set[int] = set()
        for first, last in _open_runs(items):
            covered.update(range(division[first][0], division[last][1] + 1))
        if how == oracle.YES and needed <= covered:
            return True
    return False


def _open_runs(items: Sequence[Item]) -> Iterator[tuple[int, int]]:
    def is_free(item: Item) -> bool:
        named = isinstance(item, AnyOf) and (item.contains or item.not_contains or item.contains_all)
        return isinstance(item, Gap | AnyOf) and not named

    for first in range(len(items)):
        for last in range(first, len(items)):
            run = items[first : last + 1]
            if all(map(is_free, run)) and any(isinstance(i, Gap | AnyOf) and i.maximum is None for i in run):
                yield first, last
        item = items[first]
        if isinstance(item, AnyOf) and item.maximum is None and item.contains_all and not _names_more(item):
            yield first, first


def _names_more(item: AnyOf) -> bool:
    return bool(item.contains or item.not_contains)


@settings(max_examples=250, deadline=None)
@given(cases.patterns_with_runs(most=5), st.booleans())
def test_pass_is_where_every_place_is_in_an_open_block(case: tuple[list[Any], list[Step]], anywhere: bool) -> None:
    written, run = case
    items = cases.sequence_of(written)
    assume(items is not None)
    assert items is not None
    seen = [replace(step, end_ns=step.end_ns or 10**9) for step in run]
    found = cases.judged({"seq!": written}, seen, complete=False, missing_parent=anywhere)
    assert (found.label is Verdict.PASS) is must_pass(items, seen, anywhere=anywhere)
    if found.label is Verdict.PASS:
        assert all(oracle.verdict(items, full) == "pass" for full in _completions(seen, anywhere))


def _completions(seen: list[Step], anywhere: bool) -> Iterator[list[Step]]:
    """By none, one or two steps of names that patterns have and one that none has."""
    for names in [(), *product("abcz"), *product("abcz", repeat=2)]:
        for places in product(range(len(seen) + 1) if anywhere else [len(seen)], repeat=len(names)):
            if list(places) == sorted(places):
                full = list(seen)
                for name, place in reversed(list(zip(names, places, strict=True))):
                    full.insert(place, _between(seen, place, name))
                yield full


def _between(seen: list[Step], place: int, name: str) -> Step:
    before = seen[place - 1].start_ns if place else 0
    start = (before or 0) + 1
    return Step(kind="tool", name=name, output=7, start_ns=start, end_ns=start + 1, span_ids=("n",))


@pytest.mark.parametrize(
    ("recorded", "end", "label"), [(False, 9, "unknown"), (True, None, "unknown"), (True, 9, "pass")]
)
def test_what_a_scope_lacks_may_still_come(recorded: bool, end: int | None, label: str) -> None:
    scope = Scope(trace_id="t", span_id="s", run=True, start_ns=0, end_ns=end, recorded=recorded)
    (found,) = cases.loaded({"error": {"null!": True}}).evaluate(scope, Context(complete=False))
    assert found.label == label
