"""`plan!` as a validator: Scope -> calls -> PlanResult -> Evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from onpath.policy.model import Principal
from onpath.report import Evaluation, Verdict
from onpath.steps.model import Scope
from onpath.validators.base import Context
from onpath.validators.plan.calls import calls_of
from onpath.validators.plan.findings import alignment_of, explanation_of, findings_of
from onpath.validators.plan.model import Plan
from onpath.validators.plan.verdict import PlanResult, Tier, judge

_LABELS: dict[Tier, Verdict] = {
    "pass": Verdict.PASS,
    "concerns": Verdict.PASS,
    "fail": Verdict.FAIL,
    "unknown": Verdict.UNKNOWN,
    "invalid": Verdict.UNKNOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanValidator:
    """A compiled plan of a workflow. `principal` says how the workflow tells who acted."""

    plan: Plan
    principal: Principal | None = None

    def judge(self, scope: Scope, context: Context) -> PlanResult:
        """The result in the plan's own words, for the offline commands."""
        calls = calls_of(scope, self.plan.principals, self.principal)
        return judge(self.plan, calls, complete=context.complete)

    def evaluate(self, scope: Scope, context: Context) -> tuple[Evaluation, ...]:
        """One evaluation, named `plan`. Its `data` holds the result under `plan`."""
        result = self.judge(scope, context)
        findings = findings_of(result, context.severity, capture_content=context.capture_content)
        label = label_of(result)
        return (
            Evaluation(
                name="plan",
                label=label,
                score=result.score,
                explanation=explanation_of(result, findings),
                reason=result.basis[0].partition(":")[0] if label is Verdict.UNKNOWN else None,
                findings=findings,
                alignment=alignment_of(result),
                data={"plan": result.as_json()},
            ),
        )


def label_of(result: PlanResult) -> Verdict:
    return _LABELS[result.tier]
