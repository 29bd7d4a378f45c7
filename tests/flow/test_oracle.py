"""Matching against a second implementation that enumerates, and against regular expressions."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from onpath.flow.pattern import AnyOf, Gap, Item, Named
from onpath.steps.model import Step
from tests.flow import cases, oracle


@settings(max_examples=250, deadline=None)
@given(cases.patterns_with_runs() | st.tuples(st.lists(cases.items(), min_size=1, max_size=4), cases.steps()))
def test_seq_is_what_enumeration_finds(case: tuple[list[Any], list[Step]]) -> None:
    written, run = case
    items = cases.sequence_of(written)
    assume(items is not None)
    assert items is not None
    found = cases.judged({"seq!": written}, run)
    assert str(found.label) == oracle.verdict(items, run)
    if found.label == "pass":
        assert found.data["matched"] == oracle.matched(items, run)
    if found.label == "fail":
        item, step, why = oracle.near_miss(items, run)
        assert found.data["near_miss"] == {"item": item, "step": step, "why": why}
        fitted = len(items) if item is None else item
        assert found.data["progress"] == Fraction(fitted, len(items))


@settings(max_examples=150, deadline=None)
@given(cases.patterns_with_runs(ties=True, most=5))
def test_ties_are_marked_where_another_order_gives_another_verdict(case: tuple[list[Any], list[Step]]) -> None:
    written, run = case
    items = cases.sequence_of(written)
    assume(items is not None)
    assert items is not None
    found = cases.judged({"seq!": written}, run)
    verdicts = {oracle.verdict(items, order) for order in oracle.orders_with_ties(run)}
    assert found.order_undetermined is (len(verdicts) > 1)


@settings(max_examples=150, deadline=None)
@given(cases.blocks(), cases.steps())
def test_parallel_is_what_enumeration_finds(written: dict[str, Any], run: list[Step]) -> None:
    validator = cases.loaded(written)
    assume(validator is not None)
    found = cases.judged(written, run)
    assignments = oracle.parallel(validator.block, run)
    best = max((how for how, _, _ in assignments), default=oracle.NO)
    assert str(found.label) == {oracle.NO: "fail", oracle.PERHAPS: "unknown", oracle.YES: "pass"}[best]
    if best == oracle.YES:
        sure = [(-1 if latest is None else latest, lists) for how, latest, lists in assignments if how == oracle.YES]
        if len(validator.block.entries) == 1:  # nothing to overlap with: steps without times stand where they stand
            sure = [(0, lists) for _, lists in sure]
        assert found.data["matched"] == dict(enumerate(min(sure)[1]))
    if best == oracle.NO:
        assert found.data["progress"] == Fraction(*oracle.parallel_progress(validator.block, run))


@settings(max_examples=150, deadline=None)
@given(cases.blocks(), cases.steps(most=5, ties=True))
def test_ties_inside_branches_are_marked_at_the_top_too(written: dict[str, Any], run: list[Step]) -> None:
    validator = cases.loaded(written)
    assume(validator is not None)
    found = cases.judged(written, run)
    verdicts = {
        max((how for how, _, _ in oracle.parallel(validator.block, order)), default=oracle.NO)
        for order in oracle.orders_with_ties(run)
    }
    assert found.order_undetermined is (len(verdicts) > 1)


def as_expression(items: tuple[Item, ...]) -> str:
    """One character a name."""
    parts = []
    for item in items:
        if isinstance(item, Named):
            parts.append(item.name.text)
            continue
        assert isinstance(item, Gap | AnyOf)
        allowed = [name for name in cases.NAMES if _is_allowed(item, name)]
        characters = f"[{''.join(allowed)}]" if allowed else r"[^\s\S]"
        parts.append(f"{characters}{{{item.minimum},{'' if item.maximum is None else item.maximum}}}")
    return "".join(parts)


def _is_allowed(item: Gap | AnyOf, name: str) -> bool:
    if isinstance(item, Gap):
        return True
    listed = [allowed.text for allowed in item.contains]
    return name not in [other.text for other in item.not_contains] and (not listed or name in listed)


@settings(max_examples=250, deadline=None)
@given(
    st.lists(cases.items(with_blocks=False), min_size=1, max_size=7),
    st.text(alphabet="abc", max_size=40),
)
@example(["...", "a", "...", "b", {"any!": {"contains": ["c"], "min": 2, "max": 3}}], "abaabacc")
def test_seq_without_blocks_is_a_regular_expression(written: list[Any], names: str) -> None:
    plain = [item if isinstance(item, str) or "any!" in item else next(iter(item)) for item in written]
    items = cases.sequence_of(plain)
    assume(items is not None)
    assert items is not None
    assume(not any(isinstance(item, AnyOf) and item.contains_all for item in items))
    run = [
        Step(kind="tool", name=name, start_ns=at, end_ns=at + 1, span_ids=(str(at),)) for at, name in enumerate(names)
    ]
    matches = re.fullmatch(as_expression(items), names) is not None
    assert (cases.judged({"seq!": plain}, run).label == "pass") is matches


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
    st.integers(0, 4),
    st.integers(0, 4) | st.none(),
    st.text(alphabet="abcd", max_size=9),
)
def test_contains_all_is_an_expression_with_lookahead(names: list[str], least: int, more: int | None, run: str) -> None:
    most = None if more is None else max(least + more, len(names))
    item = {"any!": {"min": least, "max": most, "contains_all": names}}
    ahead = "".join(f"(?=.*{name})" for name in names)
    expression = re.compile(f"{ahead}.{{{least},{'' if most is None else most}}}", re.DOTALL)
    steps = [Step(kind="tool", name=c, start_ns=at, end_ns=at + 1, span_ids=(str(at),)) for at, c in enumerate(run)]
    assert (cases.judged({"seq!": [item]}, steps).label == "pass") is (expression.fullmatch(run) is not None)
