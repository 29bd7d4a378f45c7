"""One case of an adherence vector file (adherence.md section 12): configuration and run in, evaluations out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from onpath.policy.adherence import load_adherence
from onpath.policy.problems import Problems
from onpath.report import Evaluation, Verdict
from onpath.steps.model import NOT_CAPTURED, Scope, Step
from onpath.validators.base import Context

_DATA = ("extracted", "lcs", "missing_required", "prohibited_found", "format", "source", "extra_steps", "failed",
         "waiting", "retries", "order_undetermined")  # fmt: skip


def run(case: dict[str, Any]) -> list[str]:
    """What differs from the right answer; empty when nothing does."""
    problems = Problems()
    check = load_adherence(case["config"], problems)
    expect = case["expect"]
    if "load_error" in expect or check is None:
        found = [p.pointer for p in problems.errors]
        wanted = expect.get("load_error")
        return [] if found[:1] == [wanted] else [f"load errors {found}, expected {wanted}"]
    context = Context(complete=case["complete"], capture_content=case.get("capture_content", False))
    made = check.evaluate(_scope(case), context)
    seen = _seen(made)
    seen["warnings"] = [p.pointer for p in problems.warnings]
    return [f"{key}: {seen.get(key)!r}, expected {value!r}" for key, value in expect.items() if seen.get(key) != value]


def _seen(made: tuple[Evaluation, ...]) -> dict[str, Any]:
    first = made[0]
    return {
        "evaluations": [_evaluation(e) for e in made],
        "verdict": str(Verdict.of([e.label for e in made])),
        **{key: _plain(first.data[key]) for key in _DATA},
        "repair": [change.data for change in first.data["repair"]],
        "explanation": first.explanation,
        "reason": first.reason,
        "findings": [{"evaluation": e.name, "rule": f.rule, "step": f.step} for e in made for f in e.findings],
    }


def _evaluation(evaluation: Evaluation) -> dict[str, Any]:
    score = None if evaluation.score is None else _fraction(evaluation.score)
    return {"name": evaluation.name, "score": score, "label": str(evaluation.label)}


def _fraction(score: Fraction) -> str:
    return f"{score.numerator}/{score.denominator}"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _scope(case: dict[str, Any]) -> Scope:
    steps = sorted(map(_step, case["steps"]), key=_order)
    output = case.get("agent_output")
    return Scope(
        trace_id="0" * 31 + "1",
        span_id="0" * 15 + "1",
        run=True,
        steps=tuple(steps),
        output=NOT_CAPTURED if output is None else output,
        output_messages=_messages(case, "messages"),
        input_messages=_messages(case, "input_messages"),
    )


def _messages(case: dict[str, Any], key: str) -> list[Any] | None:
    """Recorded as a list, as a JSON text, or as flattened keys."""
    messages = case.get(key)
    return messages if messages is None or isinstance(messages, list) else [messages]


def _step(given: dict[str, Any]) -> Step:
    end = given["end_ms"]
    return Step(
        kind=given["kind"],
        name=given["name"],
        status=given["status"],
        input=given.get("input", NOT_CAPTURED),
        start_ns=given["start_ms"] * 1_000_000,
        end_ns=None if end is None else end * 1_000_000,
        span_ids=(given["span_id"],),
        finish_reasons=tuple(given.get("finish_reasons", ())),
    )


def _order(step: Step) -> tuple[float, float, str]:
    return (step.start_ns or 0, float("inf") if step.end_ns is None else step.end_ns, step.span_ids[0])
