"""Files of the offline commands: whatever they hold, they are read or refused, and what is read can be judged."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onpath.policy.plan import PlanFault, compiled
from onpath.preflight.answers import equal_inputs
from onpath.preflight.documents import (
    observations_of,
    preflight_verdict_of,
    probe_of,
    probes_of,
    scoring_policy_of,
    trials_of,
)
from onpath.preflight.reduce import verdict
from onpath.score import score
from tests.plan.documents import JSON, changed
from tests.plan.test_commands import CASES, case, contract

ANY = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
PREFLIGHTS = [c["id"] for c in CASES["cases"] if c["kind"] == "preflight"]
SCORES = [c["id"] for c in CASES["cases"] if c["kind"] == "score"]
Files = dict[str, Any]


def files(case_id: str) -> Files:
    names = ("probes", "observations", "probe", "trials", "preflightVerdict", "policy")
    held = case(case_id)
    return {"contract": contract(case_id), **{name: copy.deepcopy(held[name]) for name in names if name in held}}


@ANY
@given(
    JSON, st.sampled_from([observations_of, trials_of, probes_of, probe_of, preflight_verdict_of, scoring_policy_of])
)
def test_any_json_is_read_or_refused(raw: object, read: Any) -> None:
    with suppress(PlanFault):
        read(raw)


@st.composite
def changed_files(draw: st.DrawFn, case_ids: list[str]) -> Files:
    held = files(draw(st.sampled_from(case_ids)))
    name = draw(st.sampled_from(sorted(held)))
    return {**held, name: draw(changed(held[name]))}


@ANY
@given(changed_files(PREFLIGHTS))
def test_changed_preflights_are_judged_or_refused(raw: Files) -> None:
    with suppress(PlanFault):
        plan, probes = compiled(raw["contract"]), probes_of(raw["probes"])
        calls = observations_of({"observations": raw["observations"]})
        made = verdict(plan, probes, calls)
        assert made == verdict(plan, probes, calls)
        json.dumps(made)


@ANY
@given(changed_files(SCORES))
def test_changed_scores_are_judged_or_refused(raw: Files) -> None:
    with suppress(PlanFault):
        preflight = preflight_verdict_of(raw["preflightVerdict"])
        policy = scoring_policy_of(raw.get("policy", {}))
        made = score(compiled(raw["contract"]), probe_of(raw["probe"]), trials_of(raw["trials"]), preflight, policy)
        assert made.exit_code in (0, 1, 2, 3)
        json.dumps(made.artifact)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"body": {"name": "a"}}, {"name": "a"}, True),
        ({"body": {"kind": "json", "value": {"name": "a"}}}, {"body": {"name": "a"}, "path": None}, True),
        ({"path": {"id": 1}}, {"query": {"id": 1}}, False),
        ({"path": {"id": 1}, "query": {"id": 1}}, {"id": 1.0}, True),
        ({"path": {"id": 1}, "query": {"id": 2}}, {"id": 1}, False),
        ({"body": {"kind": "json", "value": ["a"]}}, {"a": 1}, False),
        ({"body": {"kind": "json", "value": ["a"]}}, {"body": {"kind": "json", "value": ["a"]}}, True),
        ({}, None, True),
        ({"body": {"kind": "absent"}, "path": {}}, {}, True),
        ({"path": {"id": True}}, {"id": 1}, False),
    ],
)
def test_equal_inputs(one: dict[str, Any], other: dict[str, Any] | None, same: bool) -> None:
    assert equal_inputs("api", one, other) is same
    assert equal_inputs("api", other, one) is same


def test_equal_arguments() -> None:
    assert equal_inputs("mcp", {}, None)
    assert equal_inputs("mcp", {"path": {"id": 1}}, {"path": {"id": 1.0}})
    assert not equal_inputs("mcp", {"arguments": {"id": 1}}, {"id": 1})
