"""Laws of the adherence check, against plain ways to say the same: LCS, orders the clock leaves open, scores."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.report import Evaluation, Verdict
from onpath.steps.model import Scope, Step
from onpath.validators.adherence import Adherence
from onpath.validators.adherence.extraction import Entry
from onpath.validators.adherence.lcs import longest_common
from onpath.validators.adherence.order import undetermined
from onpath.validators.adherence.score import Counts
from onpath.validators.base import Context

NAMES = st.sampled_from("abcd")
EXPECTED = st.lists(st.sampled_from("abc"), min_size=1, max_size=5)


def plain_lcs(expected: list[str], seen: list[str]) -> tuple[tuple[int, int], ...]:
    """By trying all pairs of equally long selections, longest first."""
    for size in range(min(len(expected), len(seen)), -1, -1):
        found = [
            (a, b)
            for a in combinations(range(len(expected)), size)
            for b in combinations(range(len(seen)), size)
            if all(expected[i] == seen[j] for i, j in zip(a, b, strict=True))
        ]
        if found:
            return tuple(zip(*min(found), strict=True))
    return ()


@given(EXPECTED, st.lists(NAMES, max_size=6))
@settings(max_examples=200)
def test_the_reported_lcs_is_the_smallest(expected: list[str], seen: list[str]) -> None:
    lcs = longest_common(expected, seen)
    assert lcs.pairs == plain_lcs(expected, seen)
    for i in range(len(expected) + 1):
        for j in range(len(seen) + 1):
            assert lcs.rest(i, j) == len(plain_lcs(expected[i:], seen[j:]))


# ------------------------------------------------------------------ orders

TIMES = st.tuples(st.integers(0, 6), st.none() | st.integers(0, 4))


@st.composite
def calls(draw: st.DrawFn, most: int = 6) -> list[Step]:
    made = []
    for number in range(draw(st.integers(0, most))):
        start, length = draw(TIMES)
        end = None if length is None else start + length
        name, status = draw(NAMES), draw(st.sampled_from(["ok", "ok", "error", "cancelled"]))
        made.append(
            Step(
                kind="tool", name=name, status=status, input=number, start_ns=start, end_ns=end, span_ids=(f"{number}",)
            )
        )
    return sorted(made, key=lambda s: (s.start_ns, float("inf") if s.end_ns is None else s.end_ns, s.span_ids))


def before(a: Step, b: Step) -> bool:
    """Certainly, by the words of the specification."""

    def end(step: Step) -> float:
        return float("inf") if step.end_ns is None else step.end_ns

    assert a.start_ns is not None
    assert b.start_ns is not None
    return end(a) <= b.start_ns and not end(b) <= a.start_ns


def order_score(expected: list[str], names: list[str], strict: bool) -> Fraction:
    return Fraction(names == expected) if strict else Fraction(len(plain_lcs(expected, names)), len(expected))


@given(EXPECTED, calls(5), st.booleans())
@settings(max_examples=200, deadline=None)
def test_the_order_is_undetermined_where_a_possible_one_scores_otherwise(
    expected: list[str], steps: list[Step], strict: bool
) -> None:
    looked_at = [s for s in steps if strict or s.name in expected]
    scores = {
        order_score(expected, [str(s.name) for s in order], strict)
        for order in permutations(looked_at)
        if not any(before(b, a) for a, b in combinations(order, 2))
    }
    entries = [Entry(s.name, (s,)) for s in steps]
    assert undetermined(expected, entries, strict) == (len(scores) > 1)


def test_orders_of_two_groups_together_can_change_what_each_alone_does_not() -> None:
    times = {"x": (0, 10), "y": (1, 11), "p": (20, 30), "q": (21, 31)}
    entries = [Entry(n, (Step(kind="tool", name=n, start_ns=a, end_ns=b),)) for n, (a, b) in times.items()]
    assert undetermined("yxqyp", entries, strict=False)


def test_a_group_of_more_than_six_counts_by_its_names() -> None:
    entries = [Entry("a", (Step(kind="tool", name="a", start_ns=i, end_ns=100),)) for i in range(7)]
    assert not undetermined(["a", "b"], entries, strict=False)
    other = Entry("b", (Step(kind="tool", name="b", start_ns=7, end_ns=100),))
    assert undetermined(["a", "b"], [*entries, other], strict=False)
    unexpected = Entry("z", (Step(kind="tool", name="z", start_ns=7, end_ns=100),))
    assert not undetermined(["a", "b"], [*entries, unexpected], strict=True)


# ------------------------------------------------------------------ scores


@given(st.data())
@settings(max_examples=200)
def test_scores_are_bounded_and_what_can_still_come_encloses_them(data: st.DataObject) -> None:
    expected = data.draw(st.integers(1, 24))
    extracted = data.draw(st.integers(0, 30))
    required = data.draw(st.integers(0, 12))
    prohibits = data.draw(st.booleans())
    counts = Counts(
        expected=expected,
        extracted=extracted,
        matched=data.draw(st.integers(0, min(expected, extracted))),
        required=required,
        missing=data.draw(st.integers(0, required)),
        prohibits=prohibits,
        prohibited_found=prohibits and data.draw(st.booleans()),
        strict=data.draw(st.booleans()),
    )
    assert 0 <= counts.lowest <= counts.score <= counts.highest <= 1
    threshold = data.draw(st.fractions(0, 1))
    settled = counts.label(threshold, complete=False)
    assert settled in (Verdict.UNKNOWN, counts.label(threshold, complete=True))


CHECKS = st.builds(
    Adherence,
    expected_steps=EXPECTED.map(tuple),
    required_steps=st.lists(NAMES, max_size=2).map(tuple),
    prohibited_steps=st.sampled_from([(), ("d",), ("d", "e")]),
    strict_order=st.booleans(),
    extract_from=st.just("tool_calls"),
    count_failed=st.booleans(),
    threshold=st.sampled_from([Fraction(1, 2), Fraction(7, 10), Fraction(1)]),
    gates=st.sampled_from([("required", "prohibited"), (), ("required",)]),
)


def judge(check: Adherence, steps: list[Step], **context: Any) -> tuple[Evaluation, ...]:
    return check.evaluate(Scope(trace_id="1" * 32, span_id="1" * 16, steps=tuple(steps)), Context(**context))


@given(CHECKS, calls(), calls())
@settings(max_examples=200)
def test_what_an_incomplete_trace_settles_stays_when_more_comes(
    check: Adherence, seen: list[Step], later: list[Step]
) -> None:
    late = [
        replace(s, start_ns=100 + (s.start_ns or 0), end_ns=200, input=f"late {i}", span_ids=(f"late {i}",))
        for i, s in enumerate(later)
    ]
    if not seen:
        return
    early = {e.name: e for e in judge(check, seen, complete=False)}
    for evaluation in judge(check, [*seen, *late]):
        settled = early[evaluation.name].label
        assert settled in (Verdict.UNKNOWN, evaluation.label)
    for evaluation in judge(check, seen):
        assert evaluation.score == early[evaluation.name].score
        assert early[evaluation.name].label in (Verdict.UNKNOWN, evaluation.label)


@given(CHECKS, calls())
@settings(max_examples=100)
def test_a_run_is_judged_the_same_every_time(check: Adherence, steps: list[Step]) -> None:
    made = judge(check, steps)
    again: Adherence = pickle.loads(pickle.dumps(check))
    assert judge(again, steps) == made
    assert [e.name for e in made] == list(check.evaluation_names)
    assert all(not e.findings for e in made if e.label is not Verdict.FAIL)


@given(CHECKS, calls())
@settings(max_examples=200)
def test_the_repair_repairs(check: Adherence, steps: list[Step]) -> None:
    """Applied to the extracted list it gives full order, all required names and nothing prohibited."""
    made = judge(check, steps)
    if made[0].score is None:
        return
    names, changes = list(made[0].data["extracted"]), made[0].data["repair"]
    gone = {c.step for c in changes if c.op != "insert"}
    kept = [(i, n) for i, n in enumerate(names, 1) if i not in gone]
    placed: list[str] = []
    for at in range(len(names) + 1):
        placed += [n for i, n in kept if i == at]
        placed += [c.name for c in changes if c.op != "delete" and c.after == at]
    placed += [c.name for c in changes if c.op == "insert" and c.after is None]
    assert len(longest_common(check.expected_steps, placed)) == len(check.expected_steps)
    if not check.strict_order:  # which leaves no room for required steps that are not expected
        assert set(check.required_steps) <= {*placed, *check.prohibited_steps}
    wanted = set(check.expected_steps) | set(check.required_steps)
    assert not (set(check.prohibited_steps) - wanted) & set(placed)
    if check.strict_order:
        assert placed[: len(check.expected_steps)] == list(check.expected_steps)
    rows = made[0].alignment
    assert [r.expected for r in rows if r.expected is not None] == list(check.expected_steps)
    assert len([r for r in rows if r.move != "missing"]) == len(names)
