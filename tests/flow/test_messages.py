"""What a result of `seq!` and `parallel!` says: first line, finding, alignment."""

from __future__ import annotations

from typing import Any

import pytest

from onpath.report import AlignmentRow
from onpath.steps.model import NOT_CAPTURED, Step
from tests.flow import cases

MS = cases.MS


def run(*steps: tuple[Any, ...]) -> list[Step]:
    """Kind or name, start, end (ms), output."""
    made = []
    for at, (name, start, end, *rest) in enumerate(steps):
        made.append(
            Step(
                kind="llm" if name == "llm" else "tool",
                name=name,
                output=rest[0] if rest else NOT_CAPTURED,
                start_ns=start * MS,
                end_ns=end * MS,
                span_ids=(f"s{at}",),
            )
        )
    return made


def rows(found: tuple[AlignmentRow, ...]) -> list[tuple[str, str | None, str | None]]:
    return [(row.move, row.expected, row.seen) for row in found]


@pytest.mark.parametrize(
    ("items", "steps", "told", "rule", "spans"),
    [
        (["llm", "search"], [("llm", 0, 5), ("log", 6, 7)],
         "seq! item 2: expected search, got step 2 (tool log)", "unexpected_step", ("s1",)),
        (["a", "b", "llm"], [("a", 0, 1), ("b", 2, 3)],
         "seq! item 3: expected llm, got end of steps (after 2)", "missing_step", ()),
        (["a"], [("a", 0, 1), ("log", 2, 3)], "seq!: expected end of steps, got step 2 (tool log)", "unexpected_step",
         ("s1",)),
        (["a", {"b": {"output": {"eq!": "Rome", "length!": 9}}}], [("a", 0, 1), ("b", 2, 3, "Oslo")],
         'seq! item 2 (b), step 2 (tool b): output eq! expected "Rome", got string(4) (and 1 more)', "value", ("s1",)),
        ([{"parallel!": ["p", "q"]}], [("p", 0, 4), ("q", 9, 12)],
         "seq! item 1 (parallel!(p, q)), steps 1-2: not parallel, would need tolerance 5", "not_parallel",
         ("s0", "s1")),
        ([{"parallel!": [{"p": {"output": {"eq!": 1}}}, {"seq!": ["q"]}]}], [("p", 0, 4, 2), ("q", 1, 12)],
         "seq! item 1 (parallel!(p, seq!(q))), steps 1-2: values do not fit", "value", ("s0", "s1")),
        (["a", {"any!": {"min": 1, "max": 3, "contains": ["b", "c"], "contains_all": ["c"], "not_contains": ["d"]}}],
         [("a", 0, 1), ("z", 2, 3)], "seq! item 2: expected any!(1..3 of b, c all c not d), got step 2 (tool z)",
         "unexpected_step", ("s1",)),
        ([{"any!": {"min": 0, "contains_all": ["c"]}}], [("z", 2, 3)],
         "seq! item 1: expected any!(0.. all c), got end of steps (after 1)", "missing_step", ()),
        (["01..02"], [], "seq! item 1: expected 01..02, got end of steps (after 0)", "missing_step", ()),
    ],
)  # fmt: skip
def test_where_a_sequence_breaks(
    items: list[Any], steps: list[tuple[Any, ...]], told: str, rule: str, spans: tuple[str, ...]
) -> None:
    found = cases.judged({"seq!": items}, run(*steps), severity="critical")
    assert found.explanation == told
    (finding,) = found.findings
    assert (finding.message, finding.rule, finding.span_ids, finding.severity) == (told, rule, spans, "critical")


@pytest.mark.parametrize(
    ("entry", "steps", "told", "rule", "spans"),
    [
        (["p", "q", "r"], [("p", 0, 4)], "parallel!: no step for q", "missing_step", ()),
        ([{"seq!": ["p", "q"]}, "r"], [("q", 0, 4), ("p", 5, 6), ("r", 0, 9)], "parallel!: no step for seq!(p, q)",
         "missing_step", ()),
        (["p", "tool:p"], [("p", 0, 4)], "parallel!: not enough different steps", "missing_step", ()),
        ([{"p": {"output": {"eq!": 1}}}, "q"], [("p", 0, 4, 2), ("q", 1, 3)], "parallel!: values do not fit", "value",
         ("s0",)),
        (["p", "q"], [("p", 0, 4), ("q", 9, 12), ("p", 14, 20)],
         "parallel!: never at the same time, would need tolerance 2", "not_parallel", ("s1", "s2")),
        (["p", "q"], [("p", 0, 4), ("q", 4, 12)], "parallel!: never at the same time, would need tolerance 1",
         "not_parallel", ("s0", "s1")),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_of_parallel(
    entry: list[Any], steps: list[tuple[Any, ...]], told: str, rule: str, spans: tuple[str, ...]
) -> None:
    found = cases.judged({"parallel!": entry}, run(*steps))
    assert found.explanation == told
    (finding,) = found.findings
    assert (finding.rule, finding.span_ids) == (rule, spans)


def test_the_tolerance_named_is_the_smallest_that_passes() -> None:
    steps = run(("p", 0, 4), ("p", 20, 21), ("q", 9, 12), ("q", 31, 40), ("r", 15, 16))
    needed = int(cases.judged({"parallel!": ["p", "q", "r"]}, steps).explanation.rpartition(" ")[2])

    def label(tolerance: int) -> str:
        return str(cases.judged({"parallel!": {"tolerance": tolerance, "spans": ["p", "q", "r"]}}, steps).label)

    assert (label(needed - 1), label(needed)) == ("fail", "pass")


def test_the_alignment_of_a_match() -> None:
    found = cases.judged({"seq!": ["llm", "...", {"parallel!": ["q", "p"]}, "..."]},
                         run(("llm", 0, 5), ("p", 6, 9), ("q", 7, 8), ("x", 9, 10)))  # fmt: skip
    assert rows(found.alignment) == [
        ("same", "llm", "llm"),
        ("same", "...", None),
        ("same", "parallel!(q, p)", "p"),
        ("same", "parallel!(q, p)", "q"),
        ("same", "...", "x"),
    ]


def test_the_alignment_of_a_near_miss() -> None:
    found = cases.judged({"seq!": ["a", {"any!": {"contains": ["r"], "min": 2}}, "b"]},
                         run(("a", 0, 1), ("r", 2, 3), ("z", 4, 5), ("b", 6, 7)))  # fmt: skip
    assert rows(found.alignment) == [
        ("same", "a", "a"),
        ("same", "any!(2.. of r)", "r"),
        ("missing", "any!(2.. of r)", None),
        ("extra", None, "z"),
    ]


def test_the_alignment_of_parallel() -> None:
    found = cases.judged({"parallel!": ["p", "q", "r"]}, run(("p", 0, 9), ("q", 1, 8)))
    assert rows(found.alignment) == [("same", "p", "p"), ("same", "q", "q"), ("missing", "r", None)]


def test_what_was_left_unknown_says_why() -> None:
    waiting = run(("a", 0, 1))
    found = cases.judged({"seq!": [{"a": {"output": {"eq!": 1}}}]}, waiting)
    assert (found.label, found.score, found.reason) == ("unknown", None, "not_captured")
    assert found.explanation == "seq!: undecided, a value was not captured"
    early = cases.judged({"seq!": ["a", "b"]}, waiting, complete=False)
    assert (early.label, early.reason) == ("unknown", "incomplete_trace")
    assert early.explanation.endswith("\nIncomplete trace.")


def test_steps_that_never_ran_are_none() -> None:
    step = run(("a", 0, 1))[0]
    asked = Step(kind="tool", name="b", status="awaiting_approval", start_ns=2 * MS, end_ns=3 * MS, span_ids=("x",))
    assert cases.judged({"seq!": ["a"]}, [step, asked]).label == "pass"


def tied(*names: str) -> list[Step]:
    return [Step(kind="tool", name=name, start_ns=0, end_ns=5, span_ids=(f"{at}",)) for at, name in enumerate(names)]


@pytest.mark.parametrize(
    ("items", "names", "undetermined"),
    [
        (["a"] * 7, ["a"] * 7, True),  # more than six are not tried
        (["...", "a"], ["a"] * 7, True),
        (["..."], ["a", "b"] * 4, False),  # one item took them all
        ([{"parallel!": ["a"] * 7}], ["a"] * 7, False),
        (["...", "c"], ["a"] * 7, False),  # fails, and `...` took them all before it broke
        (["a", "..."], ["a", "a", "b", "b", "c", "c"], True),
        (["a", "..."], ["a"] * 6, False),
    ],
)
def test_groups_of_equal_starts(items: list[Any], names: list[str], undetermined: bool) -> None:
    assert cases.judged({"seq!": items}, tied(*names)).order_undetermined is undetermined
