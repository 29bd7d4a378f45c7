"""A remembered outcome is the one that the validator gives, for whatever runs and in whatever context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.report import Evaluation
from onpath.steps.model import Scope, Step, StepError
from onpath.validators.adherence import Adherence
from onpath.validators.base import Context
from onpath.validators.remembered import Outlined, Remembered, remembered
from tests.flow import cases


def told_apart(run: Sequence[Step], number: int) -> Scope:
    """The run as another trace has it: with ids of its own, at another time."""
    later = number * 1_000_000_007
    return Scope(
        trace_id=f"{number:032x}",
        span_id=f"{number:016x}",
        steps=tuple(
            replace(
                step,
                span_ids=tuple(sha256(f"{number} {span_id}".encode()).hexdigest()[:16] for span_id in step.span_ids),
                start_ns=None if step.start_ns is None else step.start_ns + later,
                end_ns=None if step.end_ns is None else step.end_ns + later,
            )
            for step in run
        ),
    )


contexts = st.builds(
    Context,
    complete=st.booleans(),
    missing_parent=st.booleans(),
    capture_content=st.booleans(),
    severity=st.sampled_from(["low", "critical"]),
)


@settings(max_examples=100, deadline=None)
@given(
    cases.patterns_with_runs(ties=True), st.lists(cases.steps(), max_size=2), st.lists(contexts, min_size=1, max_size=3)
)
def test_a_sequence(written: tuple[list[Any], list[Step]], others: list[list[Step]], seen_in: list[Context]) -> None:
    pattern, run = written
    validator = cases.loaded({"seq!": pattern})
    if validator is not None:
        _judged_alike(validator, [run, *others, run, *others], seen_in)


@st.composite
def calls(draw: st.DrawFn) -> list[Step]:
    """Tool calls of a run, mostly one after another, mostly done well, with a model call now and then."""
    made: list[Step] = []
    now = 0
    for name in draw(st.lists(st.sampled_from(["a", "b", "c", "d", "llm", None]), max_size=6)):
        start = max(0, now - draw(st.sampled_from([0, 0, 0, 5])))
        now = start + draw(st.sampled_from([0, 5, 10]))
        status: Any = draw(st.sampled_from(["ok", "ok", "ok", "unset", "error", "cancelled"]))
        kind: Any = "llm" if name == "llm" else "tool"
        made.append(
            Step(
                kind=kind,
                name=name,
                status=status,
                error=StepError() if status == "error" else None,
                start_ns=start,
                end_ns=now,
                span_ids=draw(st.sampled_from([(str(len(made)),), (str(len(made)), f"{len(made)} again")])),
            )
        )
    return sorted(made, key=lambda step: (step.start_ns or 0, step.end_ns or 0))


checks = st.builds(
    Adherence,
    expected_steps=st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple),
    required_steps=st.sampled_from([(), ("a",), ("a", "b")]),
    prohibited_steps=st.sampled_from([(), ("d",)]),
    strict_order=st.booleans(),
    extract_from=st.just("tool_calls"),
    count_failed=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(checks, st.lists(calls(), min_size=1, max_size=3), st.lists(contexts, min_size=1, max_size=3))
def test_adherence(check: Adherence, runs: list[list[Step]], seen_in: list[Context]) -> None:
    _judged_alike(check, [*runs, *runs], seen_in)


def _judged_alike(validator: Outlined, runs: Sequence[Sequence[Step]], seen_in: Sequence[Context]) -> None:
    memory = Remembered(validator)
    for number, run in enumerate(runs, 1):
        scope = told_apart(run, number)
        for context in seen_in:
            assert memory.evaluate(scope, context) == validator.evaluate(scope, context)


@dataclass
class Counted:
    """Evaluates as the validator does, and counts how often."""

    validator: Outlined
    times: int = 0
    outline: Any = field(init=False)

    def __post_init__(self) -> None:
        self.outline = self.validator.outline

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        self.times += 1
        return self.validator.evaluate(scope, context)


def tools(*names: str) -> list[Step]:
    return [
        Step(kind="tool", name=name, status="ok", start_ns=10 * at, end_ns=10 * at + 5, span_ids=(str(at),))
        for at, name in enumerate(names)
    ]


def test_a_path_that_was_taken_before_is_not_judged_again() -> None:
    counted = Counted(Adherence(expected_steps=("a", "b"), extract_from="tool_calls"))
    memory = Remembered(counted)
    for number in range(5):
        memory.evaluate(told_apart(tools("a", "b"), number), Context())
        memory.evaluate(told_apart(tools("b", "a"), number), Context())
    assert counted.times == 2


def test_the_paths_least_in_use_are_forgotten() -> None:
    counted = Counted(Adherence(expected_steps=("a",), extract_from="tool_calls"))
    memory = Remembered(counted)
    for number in range(1000):
        memory.evaluate(told_apart(tools(f"tool {number}"), number), Context())
        memory.evaluate(told_apart(tools("a"), number), Context())
    assert counted.times == 1001
    memory.evaluate(told_apart(tools("tool 0"), 0), Context())
    assert counted.times == 1002


def test_what_would_take_much_memory_is_not_kept() -> None:
    counted = Counted(Adherence(expected_steps=("a",), extract_from="tool_calls"))
    memory = Remembered(counted)
    for names in (["a"] * 100, ["a" * 5000]):
        counted.times = 0
        for number in range(2):
            memory.evaluate(told_apart(tools(*names), number), Context())
        assert counted.times == 2


def test_a_check_of_what_was_said_has_no_memory_to_use() -> None:
    said = Adherence(expected_steps=("a",))
    assert said.outline(told_apart(tools("a"), 1)) is None
    assert isinstance(remembered(said), Remembered)
