"""Hypothesis strategies for patterns and runs that are small enough to enumerate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from onpath.flow.pattern import Item
from onpath.policy.flow import load_flow
from onpath.policy.problems import Problems
from onpath.report import Evaluation
from onpath.steps.model import NOT_CAPTURED, Scope, Step
from onpath.validators.base import Context
from tests.vectors.run_flow import in_order

MS = 1_000_000
NAMES = ("a", "b", "c")
UNTIMED = -1


def written_names() -> st.SearchStrategy[Any]:
    plain = st.sampled_from([*NAMES, "tool:a"])
    with_value = st.builds(lambda name, value: {name: {"output": {"eq!": value}}}, plain, st.integers(0, 1))
    return st.one_of(plain, plain, with_value)


def wildcards() -> st.SearchStrategy[str]:
    return st.sampled_from(["..", "...", "..1", "..2", "1..", "1..2", "2..3", "0..0"])


@st.composite
def any_ofs(draw: st.DrawFn) -> dict[str, Any]:
    least = draw(st.integers(0, 2))
    given: dict[str, Any] = {"min": least}
    if draw(st.booleans()):
        given["max"] = least + draw(st.integers(0, 2))
    for key in ("contains", "not_contains", "contains_all"):
        if draw(st.integers(0, 2)) == 0:
            given[key] = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))
    return {"any!": given}


@st.composite
def blocks(draw: st.DrawFn) -> dict[str, Any]:
    chains = st.builds(lambda items: {"seq!": items}, st.lists(written_names(), min_size=1, max_size=2))
    entries = draw(st.lists(st.one_of(written_names(), written_names(), chains), min_size=1, max_size=3))
    tolerance = draw(st.sampled_from([0, 0, 1, 2]))
    return {"parallel!": {"tolerance": tolerance, "spans": entries} if tolerance else entries}


def items(*, with_blocks: bool = True) -> st.SearchStrategy[Any]:
    kinds = [written_names(), written_names(), wildcards(), any_ofs()]
    return st.one_of(*kinds, blocks()) if with_blocks else st.one_of(*kinds)


def steps(*, most: int = 6, ties: bool = False) -> st.SearchStrategy[list[Step]]:
    """In order; ends may be open, or instants; now and then a step has no times."""
    gap = st.integers(0 if ties else 1, 3)
    length = st.sampled_from([None, 0, 1, 2, 3, 5, 9, UNTIMED])
    output = st.sampled_from([NOT_CAPTURED, 0, 1, 1])
    raw = st.lists(st.tuples(st.sampled_from(NAMES), gap, length, output), max_size=most)
    return raw.map(_run)


def _run(raw: Sequence[tuple[str, int, int | None, Any]]) -> list[Step]:
    made: list[Step] = []
    now = 0
    for at, (name, gap, length, output) in enumerate(raw):
        now += gap * MS
        end = None if length is None else now + length * MS
        timed = length != UNTIMED
        made.append(
            Step(
                kind="tool",
                name=name,
                output=output,
                start_ns=now if timed else None,
                end_ns=end if timed else None,
                span_ids=(f"{at:02}",),
                source="spans" if timed else "messages",
            )
        )
    return list(in_order(made))


@st.composite
def patterns_with_runs(draw: st.DrawFn, *, ties: bool = False, most: int = 7) -> tuple[list[Any], list[Step]]:
    """A pattern, and a run made to suit it more or less: what each item names, now and then something else."""
    written = draw(st.lists(items(), min_size=1, max_size=4))
    raw: list[tuple[str, int, int | None, Any]] = []
    for item in written:
        suiting = _suiting(draw, item)
        if len(suiting) > 1 and draw(st.booleans()):
            suiting = draw(st.permutations(suiting))
        together = isinstance(item, dict) and "parallel!" in item and draw(st.integers(0, 3)) > 0
        for name, output in suiting:
            if draw(st.integers(0, 14)) == 0:
                name = draw(st.sampled_from(NAMES))
            length = draw(st.sampled_from([3, 5, 9, 9, None, UNTIMED] if together else [0, 1, 2, 3, 9]))
            gap = draw(st.integers(0, 1)) if ties else 1
            raw.append((name, gap if together or ties else draw(st.integers(1, 3)), length, output))
    return written, _run(raw[:most])


def _suiting(draw: st.DrawFn, item: Any) -> list[tuple[str, Any]]:
    some = st.tuples(st.sampled_from(NAMES), st.sampled_from([0, 1, NOT_CAPTURED]))
    if isinstance(item, str) and ".." in item:
        return draw(st.lists(some, max_size=2))
    if isinstance(item, str):
        return [(item.removeprefix("tool:"), draw(st.sampled_from([0, 1])))]
    key, below = next(iter(item.items()))
    if key == "any!":
        names = below.get("contains_all", []) + below.get("contains", [])
        return [(name, 1) for name in names] + ([] if names else draw(st.lists(some, max_size=3)))
    if key in ("parallel!", "seq!"):
        entries = below["spans"] if isinstance(below, dict) else below
        return [pair for entry in entries for pair in _suiting(draw, entry)]
    wanted = below["output"]["eq!"]
    return [(key.removeprefix("tool:"), draw(st.sampled_from([wanted, wanted, 1 - wanted, NOT_CAPTURED])))]


def loaded(entry: dict[str, Any]) -> Any:
    """The validator of an entry's only check, None where the entry is refused."""
    problems = Problems()
    checks = load_flow(entry, problems)
    return None if problems.errors else checks[0].validator


def all_loaded(entry: dict[str, Any]) -> list[Any]:
    problems = Problems()
    checks = load_flow(entry, problems)
    assert not problems.errors
    return [check.validator for check in checks]


def sequence_of(written: list[Any]) -> tuple[Item, ...] | None:
    validator = loaded({"seq!": written})
    return None if validator is None else validator.items


def judged(entry: dict[str, Any], run: Sequence[Step], **context: Any) -> Evaluation:
    scope = Scope(trace_id="t", span_id="s", run=True, steps=tuple(run))
    (evaluation,) = loaded(entry).evaluate(scope, Context(**context))
    result: Evaluation = evaluation
    return result
