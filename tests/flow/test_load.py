"""Loading: everything wrong is told at once, each at its place, and nothing raises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onpath.policy.flow import load_flow, load_tree
from onpath.policy.problems import Problems
from onpath.validators.parallel import Parallel
from onpath.validators.sequence import Sequential
from tests.support.policy_text import load_text


def faults(entry: Any) -> list[str]:
    problems = Problems()
    load_flow(entry, problems)
    return [problem.pointer for problem in problems.errors]


@pytest.mark.parametrize(
    ("entry", "at"),
    [
        ({"seq!": ["a", {"...": None}]}, "/seq!/1/..."),
        ({"seq!": [{"a!": None}]}, "/seq!/0/a!"),
        ({"seq!": [{"a": []}]}, "/seq!/0/a"),
        ({"seq!": [{"a": [{"output": {"eq!": 1}}, 5]}]}, "/seq!/0/a/1"),
        ({"seq!": [{"a": {"input": [{"eq!": 1}, {}]}}]}, "/seq!/0/a/input/1"),
        ({"seq!": [{"a/b": {"out": 1}}]}, "/seq!/0/a~1b/out"),
        ({"seq!": [{"seq!": ["a"]}]}, "/seq!/0/seq!"),
        ({"seq!": [{"any!": ["a"]}]}, "/seq!/0/any!"),
        ({"seq!": [{"any!": {"max": 0}}]}, "/seq!/0/any!/max"),
        ({"seq!": [{"any!": {"min": 3, "max": 1}}]}, "/seq!/0/any!/min"),
        ({"seq!": [{"any!": {"min": None}}]}, "/seq!/0/any!/min"),
        ({"seq!": [{"any!": {"contains": ["a", "a"]}}]}, "/seq!/0/any!/contains/1"),
        ({"seq!": [{"any!": {"contains": ["a"], "contains_all": ["b"]}}]}, "/seq!/0/any!/contains_all/0"),
        ({"seq!": [{"any!": {"not_contains": ["a"], "contains_all": ["tool:a"]}}]}, "/seq!/0/any!/contains_all/0"),
        ({"seq!": [{"any!": {"contain": ["a"]}}]}, "/seq!/0/any!/contain"),
        ({"parallel!": {"spans": ["a"], "tolerance": None}}, "/parallel!/tolerance"),
        ({"parallel!": {"spans": ["a"], "tolerance": -1}}, "/parallel!/tolerance"),
        ({"parallel!": {"tolerance": 1}}, "/parallel!"),
        ({"parallel!": {"spans": ["a", ".."]}}, "/parallel!/spans/1"),
        ({"parallel!": [{"any!": None}]}, "/parallel!/0/any!"),
        ({"parallel!": [{"seq!": []}]}, "/parallel!/0/seq!"),
        ({"parallel!": [{"seq!": ["a", ".."]}]}, "/parallel!/0/seq!/1"),
        ({"parallel!": [{"seq!": ["a", {"seq!": ["b"]}]}]}, "/parallel!/0/seq!/1/seq!"),
        ({"parallel!": {"spans": [{"seq!": ["a", "b"]}, {"seq!": ["b"]}]}}, "/parallel!/spans/0"),
        ({"...": {"output": {"eq!": 1}}}, "/..."),
        ({"a": None}, "/a"),
        ({"a": {"eq!": 1}}, "/a/eq!"),
        ({"a": {"seq!": ["b"]}}, "/a/seq!"),
        ({True: {"output": {"eq!": 1}}}, "/True"),
        ({"output": []}, "/output"),
        ({"output": {"k": 5}}, "/output/k"),
        ({"output": {5: {"eq!": 1}}}, "/output/5"),
        ({"usage": {"eq!": 1}}, "/usage/eq!"),
        ({"usage": {"m:": {"eq!": 1}}}, "/usage/m:"),
        ({"usage": {"a": {"contains!": 1}}}, "/usage/a/contains!"),
        ({"elapsed": {"eq!": None}}, "/elapsed/eq!"),
        ({"elapsed": {"lt!": {"value": 1, "transform": "trim"}}}, "/elapsed/lt!/transform"),
        ({"elapsed": {"x": {"lt!": 1}}}, "/elapsed/x"),
        ({"status": {"eq!": {"value": "good"}}}, "/status/eq!/value"),
        ({"status": {"ne!": 5}}, "/status/ne!"),
        ({"output": {"not_not_null!": True}}, "/output/not_not_null!"),
        ({"output": {"not_ne!": 1}}, "/output/not_ne!"),
        ({"output": {"ne!": {"value": 1, "negate": True}}}, "/output/ne!/negate"),
        ({"output": {"null!": {"value": 1}}}, "/output/null!/value"),
        ({"output": {"null!": {"value": True, "transform": "trim"}}}, "/output/null!/transform"),
        ({"output": {"eq!": {"value": 1, "transform": "lower"}}}, "/output/eq!/transform"),
        ({"output": {"eq!": {"negate": True}}}, "/output/eq!"),
        ({"output": {"eq!": float("nan")}}, "/output/eq!"),
        ({"output": {"length!": 1.0}}, "/output/length!"),
        ({"output": {"length!": {"a": 1}}}, "/output/length!"),
        ({"output": {"gt!": True}}, "/output/gt!"),
        ({"output": {"gt!": {"value": "soon"}}}, "/output/gt!/value"),
        ({"output": {"contains!": None}}, "/output/contains!"),
        ({"output": {"contains_all!": []}}, "/output/contains_all!"),
        ({"output": {"contains_any!": ["a", ""]}}, "/output/contains_any!"),
        ({"output": {"starts_with!": ""}}, "/output/starts_with!"),
        ({"output": {"json!": 1}}, "/output/json!"),
        ({"output": {"prompt!": {"value": "p", "model": 5}}}, "/output/prompt!/model"),
        ({"output": {"prompt!": {"value": "p", "context": "c"}}}, "/output/prompt!/context"),
        ({"output": {"prompt!": {"model": "m"}}}, "/output/prompt!"),
        ({"output": {"rubric!": {"value": ["a"], "pass_threshold": True}}}, "/output/rubric!/pass_threshold"),
        ({"output": {"rubric!": {"criteria": ["a"], "weights": 1}}}, "/output/rubric!/weights"),
        ({"output": {"rubric!": {"criteria": []}}}, "/output/rubric!"),
        ({"output": {"rubric!": {"criteria": [{"criterion": "a", "weight": 0}]}}}, "/output/rubric!"),
        ({"output": {"language!": ["en"]}}, "/output/language!"),
    ],
)  # fmt: skip
def test_a_fault_is_told_at_its_place(entry: Any, at: str) -> None:
    assert at in faults(entry)


def test_all_faults_are_told_at_once() -> None:
    entry = {"seq!": ["a", "3..1", {"b": {"x": 1, "output": {"eqq!": 1}}}], "output": {"gt!": "soon"}, "owner": "me"}
    assert faults(entry) == [
        "/seq!/1",
        "/seq!/2/b/x",
        "/seq!/2/b/output/eqq!",
        "/output/gt!",
        "/owner",
    ]


def test_a_misspelt_validator_is_told_what_was_meant() -> None:
    problems = Problems()
    load_flow({"output": {"contain!": "x"}}, problems)
    assert "did you mean `contains!`" in problems.errors[0].message


SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 5) | st.floats() | st.sampled_from(["a", "..", "1..2", "x!", "", "*"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["seq!", "parallel!", "any!", "spans", "tolerance", "min", "max", "contains", "contains_all", "eq!", "gt!",
             "rubric!", "criteria", "value", "negate", "transform", "output", "usage", "status", "a", "a/b", "..", "x!"]
        ),
        inner,
        max_size=3,
    ),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from(["seq!", "parallel!", "output", "usage", "status", "a", "any!"]), SHAPES, max_size=2
    )
)
def test_whatever_is_written_either_loads_or_is_told(entry: dict[str, Any]) -> None:
    problems = Problems()
    checks = load_flow(entry, problems)
    asked = [key for key in entry if key not in ("name",)]
    assert problems.errors or len(checks) == len(asked) > 0


def test_checks_stand_in_the_order_of_the_file() -> None:
    entry = {"b": {"status": {"eq!": "ok"}}, "parallel!": ["a"], "output": {"null!": None}, "seq!": ["..."]}
    problems = Problems()
    checks = load_flow(entry, problems, known=())
    assert [check.key for check in checks] == ["b", "parallel!", "output", "seq!"]
    assert isinstance(checks[1].validator, Parallel)
    assert isinstance(checks[3].validator, Sequential)


def test_keys_of_others_are_left_to_them() -> None:
    assert faults({"seq!": ["a"], "match": 5, "checks": 7, "plan!": 9}) == []
    problems = Problems()
    assert load_flow({"adherence": {"expected_steps": ["a"]}}, problems) == ()
    assert not problems.errors


def test_a_tree_for_match() -> None:
    problems = Problems()
    fits = load_tree({"tier": {"pattern!": "^gold"}, "not_null!": True}, problems)
    assert fits is not None
    assert fits({"tier": "golden"})
    assert not fits({"tier": "old"})
    assert not fits({"tier": "***"})
    assert not fits("golden")
    direct = load_tree({"contains!": "refund"}, problems)
    assert direct is not None
    assert direct("a refund")
    assert not problems.errors


def test_no_judge_says_which_traces_are_meant() -> None:
    problems = Problems()
    load_tree({"k": {"prompt!": "about money"}}, problems, "/match/input")
    assert [problem.pointer for problem in problems.errors] == ["/match/input/k/prompt!"]


def test_the_published_examples_load_as_files(shared: Path) -> None:
    """From YAML as they stand, and as JSON: the same policy."""
    cases = json.loads((shared / "vectors" / "flow.json").read_text(encoding="utf-8"))
    pages = {case["spec_yaml"]: case["spec"] for case in cases if "spec_yaml" in case}
    assert len(pages) > 20
    for text, spec in pages.items():
        from_yaml = load_text(text, "page.yaml")
        from_json = load_text(json.dumps([spec] if text.lstrip().startswith("- name") else spec), "page.json")
        assert from_yaml.fingerprint == from_json.fingerprint
        assert from_yaml.workflows[0].checks == from_json.workflows[0].checks
