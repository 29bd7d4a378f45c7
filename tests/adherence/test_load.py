"""Loading the `adherence` object: all problems at once, each at its place."""

from __future__ import annotations

import json
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from onpath.policy.adherence import AdherenceModel, load_adherence
from onpath.policy.problems import Problems
from onpath.validators.adherence import Adherence


def load(**config: Any) -> tuple[Adherence | None, list[str], list[str]]:
    problems = Problems()
    check = load_adherence({"expected_steps": ["a", "b"], **config}, problems)
    return check, [p.pointer for p in problems.errors], [p.pointer for p in problems.warnings]


@pytest.mark.parametrize(
    ("config", "errors"),
    [
        ({"expected_steps": []}, ["/expected_steps"]),
        ({"expected_steps": "a"}, ["/expected_steps"]),
        ({"expected_steps": ["a", None, "", "x" * 201]}, [f"/expected_steps/{i}" for i in (1, 2, 3)]),
        ({"expected_step": ["a"], "threshold": 2}, ["/expected_step", "/threshold"]),
        ({"required_steps": None, "prohibited_steps": "x"}, ["/required_steps", "/prohibited_steps"]),
        ({"strict_order": 1, "count_failed": "no"}, ["/strict_order", "/count_failed"]),
        ({"extract_from": "spans"}, ["/extract_from"]),
        ({"format": "JSON"}, ["/format"]),
        ({"format": None}, ["/format"]),
        ({"gates": ["required", "all"]}, ["/gates/1"]),
        ({"gates": "required"}, ["/gates"]),
        ({"normalise": ["separators", "x"]}, ["/normalise/1"]),
        ({"agent": " "}, ["/agent"]),
        ({"nested": None}, ["/nested"]),
        ({"aliases": ["a"]}, ["/aliases"]),
        ({"aliases": {"a": "z"}}, ["/aliases/a"]),
        ({"aliases": {"a": ["z", 3]}}, ["/aliases/a/1"]),
        ({"aliases": {" ": ["z"]}}, ["/aliases/ "]),
        ({"aliases": {3: ["z"]}}, ["/aliases/3"]),
        ({"aliases": {"a": ["Z"], "b": ["y", "z"]}}, ["/aliases/b/1"]),
        ({"aliases": {"a/~": ["b"]}}, ["/aliases/a~1~0/0"]),
        ({"aliases": {"a": ["A"]}}, ["/aliases/a/0"]),
        ({"prohibited_steps": ["x", "A", "a"]}, ["/prohibited_steps/1", "/prohibited_steps/2"]),
        ({"required_steps": ["x_y"], "prohibited_steps": ["X-Y"]}, ["/prohibited_steps/0"]),
        (
            {"prohibited_steps": ["a"], "threshold": "1", "gates": ["x"]},
            ["/prohibited_steps/0", "/threshold", "/gates/0"],
        ),
    ],
)
def test_errors(config: dict[str, Any], errors: list[str]) -> None:
    assert load(**config)[:2] == (None, errors)


@pytest.mark.parametrize("raw", [None, [], "a", 3, True])
def test_what_is_no_mapping(raw: Any) -> None:
    problems = Problems()
    assert load_adherence(raw, problems) is None
    assert [p.pointer for p in problems.errors] == [""]


def test_the_one_required_key() -> None:
    problems = Problems()
    assert load_adherence({"strict_order": True}, problems) is None
    assert [p.pointer for p in problems.errors] == ["/expected_steps"]


@pytest.mark.parametrize("threshold", [True, "0.5", None, -0.01, 1.01, math.nan, math.inf, [], 10**400])
def test_no_threshold(threshold: Any) -> None:
    assert load(threshold=threshold)[1] == ["/threshold"]


@pytest.mark.parametrize(
    ("threshold", "exact"),
    [
        (0, Fraction(0)),
        (1, Fraction(1)),
        (0.7, Fraction(7, 10)),
        (1e-3, Fraction(1, 1000)),
        (Decimal("0.70"), Fraction(7, 10)),
    ],
)
def test_a_threshold_is_the_decimal_as_written(threshold: Any, exact: Fraction) -> None:
    check, errors, _ = load(threshold=threshold)
    assert not errors
    assert check is not None
    assert check.threshold == exact


@pytest.mark.parametrize(
    ("config", "warnings"),
    [
        ({"required_steps": ["x", "y", "X", "x"]}, ["/required_steps/2", "/required_steps/3"]),
        ({"prohibited_steps": ["x", "x"]}, ["/prohibited_steps/1"]),
        ({"aliases": {"q": ["z"]}}, ["/aliases/q"]),
        ({"format": "json", "extract_from": "tool_calls"}, ["/format"]),
        ({"count_failed": False}, ["/count_failed"]),
        ({"gates": ["prohibited", "required"]}, ["/gates/0", "/gates/1"]),
        ({"gates": ["required"], "required_steps": ["a"]}, []),
        ({"extract_from": "tool_calls", "count_failed": True, "required_steps": ["x", "X"]}, []),
        ({"expected_steps": ["a", "a"]}, []),
    ],
)
def test_warnings_stop_nothing(config: dict[str, Any], warnings: list[str]) -> None:
    check, errors, warned = load(**config)
    assert check is not None
    assert (errors, warned) == ([], warnings)


def test_tool_names_are_compared_exactly_when_loading_too() -> None:
    exact = {"prohibited_steps": ["A"], "aliases": {"a": ["B"]}, "extract_from": "tool_calls"}
    assert load(**exact)[1] == []
    assert load(**exact, normalise=["casefold"])[1] == ["/prohibited_steps/0", "/aliases/a/0"]


def test_the_scope_of_this_check_alone() -> None:
    plain, _, _ = load()
    own, _, _ = load(agent="refund", nested="flatten")
    assert plain is not None
    assert own is not None
    assert (plain.agent, plain.nested) == (None, None)
    assert (own.agent, own.nested) == ("refund", "flatten")


@pytest.mark.parametrize(
    ("config", "made"),
    [
        ({}, ["workflow_adherence"]),
        (
            {"required_steps": ["a"], "prohibited_steps": ["x"]},
            ["workflow_adherence", "required_steps", "prohibited_steps"],
        ),
        (
            {"required_steps": ["a"], "prohibited_steps": ["x"], "gates": ["prohibited"]},
            ["workflow_adherence", "prohibited_steps"],
        ),
        ({"gates": ["required"]}, ["workflow_adherence"]),
    ],
)
def test_evaluations_made(config: dict[str, Any], made: list[str]) -> None:
    check, _, _ = load(**config)
    assert check is not None
    assert list(check.evaluation_names) == made


def test_a_check_can_be_sent_to_a_worker_and_shown_to_an_editor() -> None:
    check, _, _ = load(aliases={"a": ["z"]}, threshold=0.7)
    assert pickle.loads(pickle.dumps(check)) == check
    schema = AdherenceModel.model_json_schema()
    assert schema["required"] == ["expected_steps"]
    assert schema["additionalProperties"] is False
    assert "default" not in schema["properties"]["format"]
    assert schema["properties"]["threshold"]["maximum"] == 1
    json.dumps({k: v for k, v in schema.items() if k != "properties"})
