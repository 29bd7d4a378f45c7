"""What a plan says of a trace: the state of each step, the resolution of each check, and the worst of them.

Data flow: calls in sequence -> select -> states -> resolutions -> codes by tier -> PlanResult (plan.md section 6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from onpath.steps.model import NOT_CAPTURED
from onpath.validators.plan.calls import Call
from onpath.validators.plan.evidence import read
from onpath.validators.plan.graph import dependencies, tiers_of
from onpath.validators.plan.model import Plan, PlanCheck, PlanStep, at_least
from onpath.validators.plan.pointers import Pointer
from onpath.validators.plan.reach import is_collection
from onpath.validators.plan.relate import Evidence, evaluate, pointers_of
from onpath.validators.plan.select import Selection, operation_of, select
from onpath.validators.plan.values import MISSING

State: TypeAlias = Literal["bound", "missing", "absent", "ambiguous", "blocked", "unknown"]
Resolution: TypeAlias = Literal["held", "violated", "abstained", "blocked", "unreached"]
Tier: TypeAlias = Literal["invalid", "fail", "unknown", "concerns", "pass"]

TIERS: Final[Sequence[Tier]] = ("invalid", "fail", "unknown", "concerns", "pass")  # the worst first
_UNREADABLE: Final = frozenset({"ambiguous", "missing", "blocked", "unknown"})


@dataclass(frozen=True, slots=True)
class StepResult:
    step: PlanStep
    state: State
    selection: Selection
    tier: Tier = "pass"

    @property
    def code(self) -> str:
        return f"step-{self.state}:{self.step.id}"


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: PlanCheck
    resolution: Resolution
    calls: tuple[Call, ...] = ()  # bound calls that it reads
    tier: Tier = "pass"

    @property
    def code(self) -> str:
        return f"check-{self.resolution}:{self.check.id}"


@dataclass(frozen=True, slots=True)
class PlanResult:
    plan: Plan
    steps: Mapping[str, StepResult]
    checks: Mapping[str, CheckResult]
    calls: tuple[Call, ...]

    @property
    def parts(self) -> tuple[StepResult | CheckResult, ...]:
        """Steps, then checks, as declared."""
        return (*self.steps.values(), *self.checks.values())

    @property
    def tier(self) -> Tier:
        """The worst of the parts; `verdict` writes unknown as invalid."""
        return min((part.tier for part in self.parts), key=TIERS.index, default="pass")

    @property
    def verdict(self) -> Literal["invalid", "fail", "concerns", "pass"]:
        return "invalid" if self.tier == "unknown" else self.tier

    @property
    def basis(self) -> tuple[str, ...]:
        """The codes of the deciding tier."""
        return tuple(part.code for part in self.parts if part.tier == self.tier != "pass")

    @property
    def tally(self) -> tuple[int, int] | None:
        """Satisfied and counted; None for an invalid verdict, or when nothing is counted."""
        counted = [part for part in self.parts if _counts(part)]
        if self.verdict == "invalid" or not counted:
            return None
        satisfied = sum(_good(part) for part in counted)
        return satisfied, len(counted)

    @property
    def score(self) -> Fraction | None:
        return None if self.tally is None else Fraction(*self.tally)

    def as_json(self) -> dict[str, Any]:
        """The result as the offline commands and callers in the same process read it."""
        return {
            "tiers": [list(tier) for tier in tiers_of(self.plan)],
            "verdict": self.verdict,
            "score": None if self.tally is None else list(self.tally),
            "basis": list(self.basis),
            "steps": {name: _step_json(result) for name, result in self.steps.items()},
            "checks": {
                name: {"resolution": result.resolution, "severity": result.check.severity}
                for name, result in self.checks.items()
            },
        }


def judge(plan: Plan, calls: Sequence[Call], *, complete: bool = True) -> PlanResult:
    """Judges calls in sequence; `complete` is False for a trace that was released early."""
    selections = select(plan, calls)
    states = {step.id: _state(step, selections[step.id], complete) for step in plan.steps}
    steps = {
        step.id: StepResult(step, states[step.id], selections[step.id], _step_tier(plan, step, states, complete))
        for step in plan.steps
    }
    checks = {check.id: _check(plan, check, steps, complete) for check in plan.checks}
    return PlanResult(plan, steps, checks, tuple(calls))


def _state(step: PlanStep, selection: Selection, complete: bool) -> State:
    if selection.call is not None:
        return "bound"
    if selection.result == "several":
        return "ambiguous"
    if selection.reason in ("anchor-unresolved", "source-unresolved"):
        return "blocked"
    if selection.reason in ("not-captured", "no-times"):
        return "unknown"
    if step.cardinality != "exactly-one":
        return "absent"
    return "missing" if complete else "unknown"


def _step_tier(plan: Plan, step: PlanStep, states: Mapping[str, State], complete: bool) -> Tier:
    state = states[step.id]
    if state == "blocked":
        if step.cardinality != "exactly-one":
            return "pass"
        return "unknown" if not complete or _by_unknown(plan, step.id, states) else "fail"
    tiers: dict[State, Tier] = {"ambiguous": "invalid", "missing": "fail", "unknown": "unknown"}
    return tiers.get(state, "pass")


def _by_unknown(plan: Plan, step: str, states: Mapping[str, State]) -> bool:
    """Whether all that blocks a step goes back to unknown ones."""
    causes = [name for name in dependencies(plan)[step] if states[name] != "bound"]
    return all(
        states[name] == "unknown" or (states[name] == "blocked" and _by_unknown(plan, name, states)) for name in causes
    )


def _check(plan: Plan, check: PlanCheck, steps: Mapping[str, StepResult], complete: bool) -> CheckResult:
    pointers = tuple(pointers_of(check.expression))
    read_steps = [steps[name] for name in dict.fromkeys(pointer.step or "" for pointer in pointers)]
    calls = tuple(result.selection.call for result in read_steps if result.selection.call is not None)
    at_floor = at_least(check.severity, plan.severity_floor)
    resolution = _unread(read_steps, complete)
    if resolution is not None:
        return CheckResult(check, resolution, calls, "concerns")
    if any(_read(plan, steps, pointer) is NOT_CAPTURED for pointer in pointers):
        return CheckResult(check, "blocked", calls, "unknown" if at_floor else "concerns")
    evidence = Evidence(
        lambda pointer: _read(plan, steps, pointer), lambda pointer: _is_list(plan, pointer), plan.reference_sets
    )
    outcome = evaluate(check.expression, evidence)
    if outcome is None:
        return CheckResult(check, "abstained", calls, "fail" if at_floor else "concerns")
    if outcome is check.expects_hold:
        return CheckResult(check, "held", calls)
    return CheckResult(check, "violated", calls, "fail" if at_floor else "concerns")


def _unread(steps: Sequence[StepResult], complete: bool) -> Resolution | None:
    """Why a check is not evaluated, by the states of the steps that it reads."""
    states = {result.state for result in steps}
    if states & _UNREADABLE:
        return "blocked"
    if states == {"absent"}:
        return "unreached"
    return "blocked" if "absent" in states and not complete else None


def _read(plan: Plan, steps: Mapping[str, StepResult], pointer: Pointer) -> Any:
    result = steps[pointer.step or ""]
    call = result.selection.call
    return MISSING if call is None else read(call, operation_of(plan, result.step), pointer)


def _is_list(plan: Plan, pointer: Pointer) -> bool:
    step = plan.step(pointer.step or "")
    return step is not None and is_collection(operation_of(plan, step), pointer)


def _counts(part: StepResult | CheckResult) -> bool:
    if isinstance(part, CheckResult):
        return part.resolution in ("held", "violated", "abstained")
    return part.step.cardinality == "exactly-one" and part.tier != "unknown"


def _good(part: StepResult | CheckResult) -> bool:
    return part.resolution == "held" if isinstance(part, CheckResult) else part.state == "bound"


def _step_json(result: StepResult) -> dict[str, Any]:
    selection = result.selection
    return {
        "state": result.state,
        "result": selection.result,
        "candidates": [call.span_id for call in selection.candidates],
        "span": selection.call.span_id if selection.call else None,
        "reason": selection.reason,
        "overlaps_anchor": selection.overlaps_anchor,
    }
