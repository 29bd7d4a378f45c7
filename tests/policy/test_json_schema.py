"""The schema for editors accepts every policy that loads, and refuses the common slips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from onpath.policy.json_schema import policy_schema
from onpath.policy.yaml import read_text
from tests.conftest import FIXTURES, ROOT, SHARED
from tests.policy.test_load import CONTRACT, POLICY, REFUND

VALIDATOR = Draft202012Validator(policy_schema())


def faults(data: Any) -> list[str]:
    return [error.message for error in VALIDATOR.iter_errors(data)]


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(policy_schema())
    assert json.loads(json.dumps(policy_schema())) == policy_schema()


@pytest.mark.parametrize(
    "data",
    [POLICY, REFUND, [REFUND, REFUND], CONTRACT, REFUND["adherence"], {**REFUND["adherence"], "match": {}}],
    ids=["policy", "workflow", "list", "contract", "steps", "steps-with-match"],
)
def test_every_form_is_accepted(data: Any) -> None:
    assert faults(data) == []


@pytest.mark.parametrize("path", sorted((ROOT / "deploy" / "policies").glob("*.yaml")), ids=lambda p: p.name)
def test_the_example_policies_are_accepted(path: Path) -> None:
    assert faults(yaml.safe_load(path.read_text(encoding="utf-8"))) == []


def test_every_case_that_loads_is_accepted_and_most_that_do_not_are_refused() -> None:
    folder = SHARED / "vectors" if (SHARED / "vectors").is_dir() else FIXTURES / "vectors"
    refused, wrong = 0, []
    for spec, loads, name in [*_flow(folder), *_adherence(folder), *_field(folder)]:
        found = faults(spec)
        if loads and found:
            wrong.append(name)
        refused += not loads and bool(found)
    assert wrong == []
    assert refused > 0


def _cases(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def _flow(folder: Path) -> list[tuple[Any, bool, str]]:
    return [(c["spec"], c["expect"]["verdict"] != "load_error", c["id"]) for c in _cases(folder / "flow.json")]


def _adherence(folder: Path) -> list[tuple[Any, bool, str]]:
    return [
        ({"adherence": c["config"]}, "load_error" not in c["expect"], c["id"])
        for c in _cases(folder / "adherence.json")
    ]


def _field(folder: Path) -> list[tuple[Any, bool, str]]:
    return [
        (
            c["policy"] if "policy" in c else read_text(c["policy_text"], c["policy_name"]).data,
            "load_error" not in c["expect"],
            c["id"],
        )
        for c in _cases(folder / "field.json")
    ]


@pytest.mark.parametrize(
    "slip",
    [
        {"version": 2, "workflows": [REFUND]},
        {"version": 1},
        {"version": 1, "workflows": []},
        {**REFUND, "agnet": "x"},
        {**REFUND, "severity": "high"},
        {**REFUND, "sample": 2},
        {**REFUND, "sequence!": ["a"]},
        {**REFUND, "seq!": []},
        {**REFUND, "seq!": [{"a": None, "b": None}]},
        {**REFUND, "seq!": [{"a": {"outptu": {"eq!": 1}}}]},
        {**REFUND, "parallel!": {"tolerence": 1, "spans": ["a"]}},
        {**REFUND, "output": {"equals!": "x"}},
        {**REFUND, "output": {"a": {"b": {"equals!": "x"}}}},
        {**REFUND, "fetch_user": {"output": [{"min_length!": "x"}]}},
        {**REFUND, "elapsed": {"lt!": "soon"}},
        {**REFUND, "match": {"servce": "x"}},
        {**REFUND, "adherence": {"expected_step": ["a"]}},
        {**REFUND, "adherence": {"expected_steps": ["a"], "threshold": True}},
        {**REFUND, "plan!": {"id": "x", "stpes": []}},
        {**REFUND, "checks": [{"seq!": ["a"]}]},
        {**REFUND, "checks": [{"name": "x", "agent": "y", "seq!": ["a"]}]},
        [5],
        "text",
    ],
)
def test_common_slips_are_refused(slip: Any) -> None:
    assert faults(slip)
