"""Patterns and trees in words."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

import pytest
from inline_snapshot import snapshot

from onpath.policy.flow import load_flow
from onpath.policy.load import load_data
from onpath.policy.problems import Problems
from onpath.policy.summary import summary
from onpath.policy.words import describe


def said(entry: dict[str, Any], agent: str | None = None) -> list[str]:
    """Lines of a hundred characters."""
    problems = Problems()
    checks = load_flow(entry, problems)
    assert not problems.errors
    return [line for check in checks for sentence in describe(check, agent) for line in wrap(sentence, 100)]


def test_a_sequence() -> None:
    assert said(
        {
            "seq!": [
                "llm",
                "...",
                {"parallel!": ["get_datetime", "get_weather"]},
                {"llm": {"output": {"type!": "string"}}},
            ]
        }
    ) == snapshot(
        [
            "first a model call, then any number of steps, then get_datetime and get_weather at the same time,",
            'then a model call (output is of type "string"); nothing else.',
        ]
    )


def test_wildcards_and_any() -> None:
    assert said({"seq!": ["..", "2..2", "0..0", "1..3", "2..", "..4", "a"]}) == snapshot(
        [
            "first one step, then 2 steps, then no step, then 1 to 3 steps, then 2 steps or more, then up to 4",
            "steps, then a; nothing else.",
        ]
    )
    guard = {"any!": {"min": 0, "max": 3, "contains": ["a", "llm:m"], "not_contains": ["b"], "contains_all": ["a"]}}
    assert said({"seq!": [guard]}) == snapshot(
        ["the whole run is up to 3 steps (each of them a or a model call of m, none of them b, with a among", "them)."]
    )


def test_blocks_and_branches() -> None:
    branch = {"seq!": ["tool:a", "agent:b"]}
    assert said({"parallel!": {"tolerance": 100, "spans": [branch, "span:GET /x", "scout/llm"]}}) == snapshot(
        [
            "somewhere in the run (tool a followed by agent b), span GET /x and a model call of agent scout at",
            "the same time, or at most 100 ms apart, each a step of its own; other steps do not matter.",
        ]
    )
    assert said({"parallel!": ["a"]}) == snapshot(["somewhere in the run a."])


def test_values() -> None:
    assert said({"pay": {"input": {"sum": {"lte!": 50, "gt!": 0}}, "status": {"ne!": "error"}}}) == snapshot(
        [
            "there is a step pay, and for every one input.sum is 50 or less and is more than 0 and status is not",
            '"error".',
        ]
    )
    assert said({"elapsed": {"lt!": 6000}, "output": {"gt!": "2026-01-01", "not_json!": False}}) == snapshot(
        ["the run's elapsed is less than 6000 ms.", 'the run\'s output is later than "2026-01-01" and is JSON.']
    )
    options = {"eq!": {"value": "A", "transform": ["trim", "lowercase"], "negate": True}}
    assert said({"output": options, "error": {"not_null!": False}}) == snapshot(
        ['the run\'s output is not "a" (after trim, lowercase).', "the run's error is null."]
    )


def test_values_of_an_agent() -> None:
    assert said({"elapsed": {"lt!": 5}}, "refund") == snapshot(["each refund run's elapsed is less than 5 ms."])
    options = {"contains_any!": {"value": [" A"], "transform": "trim"}, "not_starts_with!": {"value": "x "}}
    assert said({"output": {**options, "ends_with!": {"value": " y ", "transform": "trim"}}}) == snapshot(
        [
            'the run\'s output contains one of ["A"] (after trim), does not start with "x " and ends with "y"',
            "(after trim).",
        ]
    )


def test_which_traces() -> None:
    workflow = {
        "name": "x",
        "sample": 0.1,
        "match": {
            "attributes": {"tenant": {"not_eq!": "test"}, "plan": {"a": {"b": {"gt!": 5}}}},
            "input": {"contains!": "q", "ends_with!": "?"},
        },
        "seq!": ["a"],
    }
    assert wrap(list(summary(load_data({"workflows": [workflow]})))[3].strip(), 100) == snapshot(
        [
            'Applies to traces with attribute tenant that is not "test", attribute plan whose a.b is more than 5',
            'and an input that contains "q" and ends with "?", 10% of them.',
        ]
    )


def test_what_a_judge_decides() -> None:
    assert said({"output": {"prompt!": "polite", "not_rubric!": ["short"]}}) == snapshot(
        [
            'the run\'s output satisfies "polite" and does not meet the rubric ["short"].',
            "A judge decides in part: it is sent the value it judges; without one configured the verdict is",
            "unknown.",
        ]
    )


@pytest.mark.parametrize(
    "key", ["eq", "contains", "starts_with", "ends_with", "pattern", "prompt", "semantic", "language"]
)
def test_every_negation_is_told(key: str) -> None:
    plain, negated = said({"output": {f"{key}!": "x"}}), said({"output": {f"not_{key}!": "x"}})
    assert plain != negated
    assert said({"output": {f"{key}!": {"value": "x", "negate": True}}}) == negated
