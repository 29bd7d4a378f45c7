"""Names: what they fit, what is refused, and which could fit one step."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onpath.flow.names import Signature, could_fit_one, parse_name, ruled_out
from onpath.flow.pattern import parse_gap
from onpath.steps.model import Step
from onpath.values.outcome import Truth
from tests.flow import cases

WRITTEN = ["a", "b", "llm", "x/a", "x/llm", "tool:a", "tool:x/a", "tool:llm", "agent:a", "span:a", "llm:m", "llm:n"]
STEPS = [
    Signature(kind, name, agent, model)
    for kind, agent in product(("tool", "agent", "span"), (None, "x", "y"))
    for name, model in product(("a", "b", "llm", "x/a", "x/llm", "y/x/a"), (None,))
] + [Signature("llm", "llm", agent, model) for agent, model in product((None, "x"), (None, "m", "n", "llm"))]


@given(st.sampled_from(WRITTEN), st.sampled_from(WRITTEN))
def test_names_that_could_fit_one_step_are_those_that_do(a: str, b: str) -> None:
    one, other = parse_name(a), parse_name(b)
    both = any(one.fits(step) is Truth.TRUE and other.fits(step) is Truth.TRUE for step in STEPS)
    assert could_fit_one(one, other) is both


@given(st.sampled_from(WRITTEN), st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=3))
def test_what_is_ruled_out_fits_no_step_that_is_left(name: str, by: list[str]) -> None:
    one, others = parse_name(name), [parse_name(written) for written in by]
    left = [
        step
        for step in STEPS
        if one.fits(step) is Truth.TRUE and not any(other.fits(step) is Truth.TRUE for other in others)
    ]
    if ruled_out(one, others):
        assert not left


def test_kinds_together_rule_a_name_out() -> None:
    kinds = [parse_name(f"{kind}:a") for kind in ("tool", "agent", "span")]
    assert ruled_out(parse_name("a"), kinds)
    assert not ruled_out(parse_name("a"), kinds[:2])
    assert ruled_out(parse_name("llm:m"), [parse_name("llm")])
    assert not ruled_out(parse_name("llm"), [parse_name("llm:m")])


@pytest.mark.parametrize(
    "written",
    ["", " a", "a ", "a\n", "\u3000a", "tool:", "llm:", "a!", "seq!", "mcp:a!", "....", "1...3", "1 .. 3", ".", "1.2",
     ". .", "delete_*", "tool:x*", "*"],
)  # fmt: skip
def test_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        parse_name(written)


@pytest.mark.parametrize(
    "written",
    ["a b", "a.b", "42", "mcp:search", "tool:1..2", "tool:x!", "span:GET /x/*", "Tool:x", "a/b", "é", "tool:a:b"],
)
def test_taken(written: str) -> None:
    assert parse_name(written).written == written


@pytest.mark.parametrize(
    ("written", "bounds"),
    [("..", (1, 1)), ("...", (0, None)), ("2..", (2, None)), ("..3", (0, 3)), ("01..03", (1, 3)), ("0..0", (0, 0)),
     ("a", None), ("....", None), ("1...3", None), ("1.2", None), ("1..2..3", None)],
)  # fmt: skip
def test_wildcards(written: str, bounds: tuple[int, int | None] | None) -> None:
    gap = parse_gap(written)
    assert (None if gap is None else (gap.minimum, gap.maximum)) == bounds


def test_numbers_of_any_length_are_wildcards() -> None:
    assert cases.judged({"seq!": [f"..{'9' * 9000}"]}, []).label == "pass"
    assert cases.judged({"seq!": [f"{'9' * 9000}.."]}, []).label == "fail"
    with pytest.raises(ValueError, match="greater"):
        parse_gap("3..1")


def named(*names: Any) -> list[Step]:
    """Tool calls side by side; None has no name."""
    return [Step(kind="tool", name=name, start_ns=at, end_ns=99, span_ids=(str(at),)) for at, name in enumerate(names)]


@pytest.mark.parametrize("unnamed", [None, "[REDACTED]"])
@pytest.mark.parametrize(
    ("entry", "label"),
    [
        ({"seq!": ["a", "b"]}, "unknown"),
        ({"seq!": ["a", ".."]}, "pass"),
        ({"seq!": ["a", "agent:b"]}, "fail"),
        ({"seq!": [{"any!": {"not_contains": ["del"]}}]}, "unknown"),
        ({"seq!": [{"any!": {"contains": ["a", "b"]}}]}, "unknown"),
        ({"seq!": [{"any!": {"contains_all": ["a"]}}]}, "pass"),
        ({"seq!": [{"any!": {"contains_all": ["a", "b"]}}]}, "unknown"),
        ({"seq!": [{"parallel!": ["b", "a"]}]}, "unknown"),
        ({"seq!": [{"parallel!": ["b", "c"]}]}, "fail"),
        ({"seq!": [{"parallel!": [{"seq!": ["a", "b"]}]}]}, "unknown"),
        ({"parallel!": ["a", "b"]}, "unknown"),
        ({"parallel!": [{"seq!": ["a", "b"]}]}, "unknown"),
        ({"b": {"output": {"not_null!": True}}}, "unknown"),
        ({"agent:b": {"output": {"not_null!": True}}}, "fail"),
    ],
)
def test_a_tool_whose_name_was_not_captured_may_be_any(unnamed: Any, entry: dict[str, Any], label: str) -> None:
    found = cases.judged(entry, named("a", unnamed))
    assert found.label == label
    if label == "unknown":
        assert found.reason in ("tool_names_not_captured", "not_captured")
