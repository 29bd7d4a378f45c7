"""Flow cases (flow.md section 15): one entry of a policy over the steps of one scope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from onpath.policy.flow import load_flow
from onpath.policy.model import Check
from onpath.policy.problems import Problems
from onpath.policy.yaml import read_text
from onpath.report import Evaluation, Verdict
from onpath.steps.model import NOT_CAPTURED, Attempt, Scope, Step, StepError
from onpath.validators.base import Context


def run(case: Mapping[str, Any]) -> list[str]:
    expect = case["expect"]
    problems = Problems()
    checks = load_flow(case["spec"], problems)
    found = list(_yaml_mismatches(case))
    pointers = {problem.pointer for problem in problems.errors}
    if expect["verdict"] == "load_error":
        if not pointers:
            return [*found, "loaded, expected a load error"]
        if "error_at" in expect and expect["error_at"] not in pointers:
            found.append(f"errors at {sorted(pointers)}, expected {expect['error_at']}")
        return found
    if pointers:
        return [*found, f"load: {[str(problem) for problem in problems.errors]}"]
    return [*found, *_mismatches(checks, case)]


def _yaml_mismatches(case: Mapping[str, Any]) -> Iterator[str]:
    if "spec_yaml" not in case:
        return
    document = read_text(case["spec_yaml"], "case.yaml")
    data = document.data[0] if isinstance(document.data, list) else document.data
    if document.problems or data != case["spec"]:
        yield f"yaml: {[str(problem) for problem in document.problems]} {data}"


def _mismatches(checks: tuple[Check, ...], case: Mapping[str, Any]) -> Iterator[str]:
    context = Context(
        complete=case["complete"],
        missing_parent=case.get("missing_parent", False),
        capture_content=case["spec"].get("capture_content", False),
    )
    scope = scope_of(case)
    made = {check.key: e for check in checks for e in check.validator.evaluate(scope, context)}
    expect = case["expect"]
    verdict = Verdict.of([e.label for e in made.values()])
    if verdict != expect["verdict"]:
        yield f"verdict {verdict}, expected {expect['verdict']}: {[e.explanation for e in made.values()]}"
    evaluation = made.get("seq!") or next(iter(made.values()))
    yield from _details(evaluation, expect)


def _details(evaluation: Evaluation, expect: Mapping[str, Any]) -> Iterator[str]:
    data = evaluation.data
    seen: dict[str, Any] = {
        "matched": {str(at): steps for at, steps in data.get("matched", {}).items()},
        "near_miss": data.get("near_miss"),
        "message": evaluation.explanation.partition("\n")[0],
        "order_undetermined": evaluation.order_undetermined,
    }
    for key, value in seen.items():
        if key in expect and value != expect[key]:
            yield f"{key} {value}, expected {expect[key]}"
    if "progress" in expect and abs(data.get("progress", Fraction(-1)) - Fraction(expect["progress"])) > 1e-6:
        yield f"progress {data.get('progress')}, expected {expect['progress']}"


def scope_of(case: Mapping[str, Any]) -> Scope:
    raw = case.get("scope")
    steps = in_order([step_of(step) for step in case["steps"]])
    if raw is None:
        return Scope(trace_id="t", span_id="s", run=True, steps=steps, recorded=False)
    return Scope(trace_id="t", span_id="s", run=True, steps=steps, agent=raw.get("name"), **_record(raw))


def step_of(raw: Mapping[str, Any]) -> Step:
    attempt = raw.get("attempt")
    return Step(
        kind=raw["kind"],
        name=raw["name"],
        agent=raw.get("agent"),
        model=raw.get("model"),
        span_ids=tuple(raw.get("span_ids", ())),
        source=raw.get("source", "spans"),
        attempt=Attempt(attempt["group"], attempt["number"]) if attempt else None,
        **_record(raw),
    )


def _record(raw: Mapping[str, Any]) -> dict[str, Any]:
    error = raw.get("error")
    return {
        "start_ns": raw["start_ns"],
        "end_ns": raw["end_ns"],
        "input": raw.get("input", NOT_CAPTURED),
        "output": raw.get("output", NOT_CAPTURED),
        "usage": raw.get("usage", {}),
        "status": raw.get("status", "unset"),
        "error": StepError(error.get("type"), error.get("message")) if error else None,
    }


def in_order(steps: list[Step]) -> tuple[Step, ...]:
    """By start, end and span id; a step without times stays behind the one it is listed after."""
    units: list[list[Step]] = []
    for step in steps:
        if step.start_ns is None and units:
            units[-1].append(step)
        else:
            units.append([step])
    units.sort(key=lambda unit: _key(unit[0]))
    return tuple(step for unit in units for step in unit)


def _key(step: Step) -> tuple[float, float, str]:
    never = float("inf")
    start = -never if step.start_ns is None else step.start_ns
    return (start, never if step.end_ns is None else step.end_ns, step.span_ids[0] if step.span_ids else "")
