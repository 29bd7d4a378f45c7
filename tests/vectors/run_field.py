"""Whole traces with a policy and the verdict they deserve (adherence.md, last part of section 12)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from onpath.evaluate import evaluate
from onpath.model import Trace
from onpath.otlp_json import spans_of
from onpath.policy.load import PolicyError, load_data
from onpath.policy.model import Policy
from onpath.report import Evaluation, Report, Result
from tests.support.policy_text import load_text


def run(case: dict[str, Any]) -> list[str]:
    expect = case["expect"]
    try:
        policy = _policy(case)
    except PolicyError as error:
        wanted = expect.get("load_error")
        if wanted is not None and wanted in {p.pointer for p in error.problems}:
            return []
        return [f"load: {error}"]
    if "load_error" in expect:
        return [f"loaded, expected a fault at {expect['load_error']}"]
    trace = Trace(span for request in case["traces"] for span in spans_of(request))
    return list(_mismatches(evaluate(trace, policy), expect))


def _policy(case: dict[str, Any]) -> Policy:
    if "policy_text" in case:
        return load_text(case["policy_text"], case["policy_name"])
    return load_data(case["policy"])


def _mismatches(report: Report, expect: dict[str, Any]) -> list[str]:
    found: list[str] = []
    verdicts = {result.workflow: str(result.verdict) for result in report.results}
    if "verdict" in expect:
        seen = None if report.verdict is None else str(report.verdict)
        if seen != expect["verdict"]:
            found.append(f"verdict {seen}, expected {expect['verdict']}: {_why(report)}")
    for name, wanted in expect.get("workflows", {}).items():
        if verdicts.get(name) != wanted:
            found.append(f"workflow {name}: {verdicts.get(name)}, expected {wanted}: {_why(report)}")
    if "workflows" in expect and not verdicts.keys() <= expect["workflows"].keys():
        found.append(f"results of {sorted(verdicts)}, expected only {sorted(expect['workflows'])}")
    evaluations = [e for result in report.results for e in result.evaluations]
    for wanted in expect.get("evaluations", []):
        found += _evaluation(evaluations, wanted)
    if "complete" in expect and report.complete is not expect["complete"]:
        found.append(f"complete {report.complete}, expected {expect['complete']}")
    if "order_undetermined" in expect:
        seen = any(e.order_undetermined for e in evaluations)
        if seen is not expect["order_undetermined"]:
            found.append(f"order_undetermined {seen}, expected {expect['order_undetermined']}")
    return found


def _evaluation(evaluations: list[Evaluation], wanted: dict[str, Any]) -> list[str]:
    for evaluation in evaluations:
        if evaluation.name == wanted["name"]:
            seen: dict[str, Any] = {"name": evaluation.name, "label": str(evaluation.label)}
            if "score" in wanted:
                seen["score"] = None if evaluation.score is None else Fraction(evaluation.score)
                wanted = {**wanted, "score": None if wanted["score"] is None else Fraction(wanted["score"])}
            return [] if seen == wanted else [f"evaluation {seen}, expected {wanted}: {evaluation.explanation}"]
    return [f"no evaluation named {wanted['name']}, only {[e.name for e in evaluations]}"]


def _why(report: Report) -> str:
    def told(result: Result) -> str:
        return "; ".join(f"{e.name} {e.label}: {e.explanation or e.reason}" for e in result.evaluations)

    return " | ".join(map(told, report.results)) or f"unmatched {dict(report.unmatched)}"
