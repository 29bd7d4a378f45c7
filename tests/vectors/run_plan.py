"""Runs cases of interaction plans: compile, select, verdict, equivalent, preflight and score.

What a case means stands under `about` in the vector file; its `expect` is partial.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from onpath.policy import plan_native, plan_short
from onpath.policy.plan import compiled
from onpath.policy.plan_native import OptionsModel
from onpath.policy.plan_schema import validated
from onpath.preflight.documents import (
    observation,
    preflight_verdict_of,
    probe_of,
    probes_of,
    scoring_policy_of,
    trials_of,
)
from onpath.preflight.legs import plan_legs
from onpath.preflight.reduce import verdict
from onpath.score import score
from onpath.validators.plan.calls import in_sequence
from onpath.validators.plan.compile import check
from onpath.validators.plan.findings import step_message
from onpath.validators.plan.model import Plan, PlanFault
from onpath.validators.plan.validator import label_of
from onpath.validators.plan.verdict import judge


def run(case: dict[str, Any]) -> list[str]:
    try:
        got = _KINDS[case["kind"]](case)
    except PlanFault as fault:
        got = {"ok": False, "exit": fault.exit_code, "code": fault.code, "path": fault.path, "message": str(fault)}
    return differences(case["expect"], got)


def differences(expected: Any, got: Any, at: str = "") -> list[str]:
    """What of `expected` is not so; a key that is not named is not compared."""
    if isinstance(expected, Mapping):
        if set(expected) == {"$has"}:
            text = "\n".join(got) if isinstance(got, list) else str(got)
            return [f"{at}: {text!r} lacks {part!r}" for part in expected["$has"] if part not in text]
        if not isinstance(got, Mapping):
            return [f"{at}: expected {expected!r}, got {got!r}"]
        return [d for key, value in expected.items() for d in differences(value, got.get(key, "(none)"), f"{at}.{key}")]
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        return [d for i, (e, g) in enumerate(zip(expected, got, strict=True)) for d in differences(e, g, f"{at}[{i}]")]
    return [] if expected == got and type(expected) is type(got) else [f"{at}: expected {expected!r}, got {got!r}"]


def document(case: dict[str, Any], given: dict[str, Any]) -> tuple[object, dict[str, Any]]:
    """The document of an input and, for the native form, what stands beside `contract`."""
    if given["form"] == "short":
        return given["plan"], {}
    if "contract" in given:
        raw = given["contract"]
    else:
        raw = {**copy.deepcopy(case["shared"]["contracts"][given["base"]]), **given.get("overlay", {})}
    return raw, given.get("options", {})


def plan_of(case: dict[str, Any], given: dict[str, Any]) -> Plan:
    raw, options = document(case, given)
    if given["form"] == "short":
        return compiled(raw)
    named = {"severity_floor" if key == "floor" else key: value for key, value in options.items()}
    plan = plan_native.read(raw, validated(OptionsModel, {"contract": raw, **named}, plan_short.ROOT))
    check(plan)
    return plan


def _compile(case: dict[str, Any]) -> dict[str, Any]:
    plan_of(case, case["input"])
    return {"ok": True}


def _judge(case: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    calls = in_sequence(observation(raw) for raw in case["observations"])
    result = judge(plan_of(case, given), calls, complete=case.get("incomplete") is None)
    ambiguities = [step_message(step) for step in result.steps.values() if step.state == "ambiguous"]
    return {**result.as_json(), "label": label_of(result).value, "messages": ambiguities}


def _equivalent(case: dict[str, Any]) -> dict[str, Any]:
    short, native = _judge(case, case["short"]), _judge(case, case["native"])
    return {"equal": short == native, "result": short}


def _preflight(case: dict[str, Any]) -> dict[str, Any]:
    plan = plan_of(case, case["input"])
    probes = probes_of(case["probes"])
    calls = in_sequence(observation(raw) for raw in case["observations"])
    result = verdict(plan, probes, calls, case.get("runId"))
    legs = [[leg.id, leg.purpose, leg.operation.id] for leg in plan_legs(plan, probes).legs]
    return {**result, "legs": legs, "exit": 0 if result["passed"] else 3}


def _score(case: dict[str, Any]) -> dict[str, Any]:
    plan = plan_of(case, case["input"])
    given = score(
        plan,
        probe_of(case["probe"]),
        trials_of(case["trials"]),
        preflight_verdict_of(case["preflightVerdict"]),
        scoring_policy_of(case.get("policy", {})),
        run_id=case.get("runId"),
        strict=case.get("strict", False),
    )
    return {**given.artifact, "exit": given.exit_code}


_KINDS = {
    "preflight": _preflight,
    "score": _score,
    "compile": _compile,
    "select": lambda case: _judge(case, case["input"]),
    "verdict": lambda case: _judge(case, case["input"]),
    "equivalent": _equivalent,
}
