"""Attempt groups: which calls are further attempts of one call."""

from __future__ import annotations

from typing import Any

import pytest

from onpath.model import NOT_CAPTURED
from onpath.steps.attempts import attempts_of
from onpath.steps.model import Attempt, Step


def call(
    start: int, end: int | None, status: str = "ok", *, name: str | None = "pay", given: Any = 1, **more: Any
) -> Step:
    return Step(kind="tool", name=name, input=given, status=status, start_ns=start, end_ns=end, **more)  # type: ignore[arg-type]


def groups(*steps: Step) -> list[tuple[int, int] | None]:
    found = attempts_of(steps, [s.name for s in steps])
    return [None if a is None else (a.group, a.number) for a in found]


def test_a_call_after_a_failed_one_with_equal_arguments_is_its_next_attempt() -> None:
    assert groups(call(0, 1, "error"), call(1, 2, "error"), call(5, 6), call(7, 8)) == [(0, 1), (0, 2), (0, 3), (1, 1)]


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(call(2, 3, name="refund"), id="other name"),
        pytest.param(call(2, 3, given=2), id="other arguments"),
        pytest.param(call(0, 3), id="side by side"),
        pytest.param(call(2, 3, given=NOT_CAPTURED), id="arguments not captured"),
        pytest.param(call(2, 3, given="[REDACTED]"), id="arguments redacted"),
        pytest.param(call(2, 3, given=True), id="true is not 1"),
    ],
)
def test_a_new_call(later: Step) -> None:
    assert groups(call(0, 1, "error"), later) == [(0, 1), (1, 1)]


def test_a_call_that_has_not_ended_has_not_failed_in_time() -> None:
    assert groups(call(0, None, "error"), call(5, 6)) == [(0, 1), (1, 1)]


def test_only_the_latest_equal_call_counts() -> None:
    assert groups(call(0, 1, "error"), call(2, 3), call(4, 5)) == [(0, 1), (0, 2), (1, 1)]


def test_other_calls_between_attempts_make_no_difference() -> None:
    assert groups(call(0, 1, "error"), call(2, 3, name="log"), call(4, 5)) == [(0, 1), (1, 1), (0, 2)]


def test_arguments_not_captured_or_redacted_equal_each_other() -> None:
    hidden = [call(0, 1, "error", given=NOT_CAPTURED), call(1, 2, "error", given="***"), call(2, 3, given="<REDACTED>")]
    assert groups(*hidden) == [(0, 1), (0, 2), (0, 3)]


def test_calls_without_times_go_by_their_order() -> None:
    steps = [Step(kind="tool", name="pay", status=s, source="messages") for s in ("error", "ok")]  # type: ignore[arg-type]
    assert groups(*steps) == [(0, 1), (0, 2)]


def test_what_is_no_call_has_no_attempt() -> None:
    model_call = Step(kind="llm", name="llm", start_ns=0, end_ns=1, attempt=Attempt(3, 1))
    waiting = call(1, 2, "awaiting_approval")
    assert groups(model_call, call(0, 1, "error"), waiting, call(3, 4)) == [None, (0, 1), None, (0, 2)]


def test_a_call_without_a_name_is_nobodys_retry() -> None:
    assert groups(call(0, 1, "error", name=None), call(2, 3, name=None)) == [(0, 1), (1, 1)]


def test_names_can_be_given() -> None:
    steps = (call(0, 1, "error", name="Pay"), call(2, 3, name="pay"))
    assert attempts_of(steps, ["pay" for _ in steps]) == [Attempt(0, 1), Attempt(0, 2)]
