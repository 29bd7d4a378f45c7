"""Whether a plan's check catches a fault that was planted: trials -> vote -> strength -> verdict (plan.md section 8).

Data flow: the plan judges each trial; the probe's signature says on which calls the fault showed; both together give
the trial's state, the states a vote, the vote an outcome, and the scoring policy what it comes to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from onpath.policy.plan_schema import schema_fault
from onpath.preflight.documents import (
    PreflightVerdictModel,
    Probe,
    ScoringPolicyModel,
    Signature,
    Trial,
    refuse_repeats,
)
from onpath.steps.model import NOT_CAPTURED
from onpath.validators.plan import legality
from onpath.validators.plan.calls import Call
from onpath.validators.plan.compile import UNREACHABLE
from onpath.validators.plan.evidence import read, uncaptured
from onpath.validators.plan.expressions import REQUIRED_FIELD
from onpath.validators.plan.model import Operation, Plan, PlanCheck, PlanFault, PlanStep, at_least
from onpath.validators.plan.pointers import Pointer
from onpath.validators.plan.reach import declared_type, is_collection
from onpath.validators.plan.relate import Evidence, Outcome, evaluate, pointers_of
from onpath.validators.plan.select import accepts, calls_of_step
from onpath.validators.plan.values import MISSING
from onpath.validators.plan.verdict import CheckResult, PlanResult, judge

State: TypeAlias = Literal[
    "infrastructure-error", "passed-clean-control", "false-positive", "abstained", "unreached", "not-applicable",
    "caught", "missed", "confirmed",
]  # fmt: skip

OBSERVED: Final = "observed"  # the step that a signature's predicate reads

_BY_RESOLUTION: Final[Mapping[str, State]] = {
    "held": "confirmed",
    "abstained": "abstained",
    "blocked": "unreached",
    "unreached": "unreached",
    "violated": "infrastructure-error",  # a claim without a witness
}
_CLEAN: Final[Mapping[str, State]] = {**_BY_RESOLUTION, "held": "passed-clean-control", "violated": "false-positive"}
_UNVOTED: Final = ("unreached", "not-applicable")
_BAD: Final = ("missed", "abstained", "false-positive", "caught-below-threshold")
_MILD: Final = frozenset({"outcome-unreached", "outcome-not-applicable", "too-few-trials"})


@dataclass(frozen=True, slots=True)
class TrialResult:
    trace_id: str
    state: State
    result: PlanResult
    cited: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "trace_id": self.trace_id,
            "state": self.state,
            "basis": list(self.result.basis),
            "cited": list(self.cited),
            "planVerdict": self.result.verdict,
        }


@dataclass(frozen=True, slots=True)
class Score:
    """The artifact of a score, without the digests of files, and how the command ends."""

    artifact: dict[str, Any]
    exit_code: int


def score(
    plan: Plan,
    probe: Probe,
    trials: Sequence[Trial],
    preflight: PreflightVerdictModel,
    policy: ScoringPolicyModel,
    *,
    run_id: str | None = None,
    strict: bool = False,
) -> Score:
    """Raises PlanFault: a reference to an undeclared check or operation, no trial, a trial given twice."""
    check = _check_of(plan, probe)
    signature = None if probe.expected_clean else _signature_of(plan, probe)
    refuse_repeats(trials)
    artifact: dict[str, Any] = {
        "runId": run_id,
        "contractId": plan.id,
        "contractDigest": plan.digest,
        "probeId": probe.id,
        "fixtureDigest": preflight.fixtureDigest,
    }
    refusal = _refusal(plan, preflight, run_id)
    results = [] if refusal else [_trial(plan, check, signature, trial) for trial in trials]
    states = [result.state for result in results]
    outcome = None if refusal else _outcome(states, policy)
    strength = _strength(probe, states, outcome, policy)
    verdict, basis = _verdict(check, states, outcome, strength["comparable"], policy)
    if refusal:
        verdict, basis = "invalid", [refusal]
    artifact.update(
        trials=[result.as_json() for result in results],
        vote=_vote(states),
        outcome=outcome,
        strength=strength,
        verdict=verdict,
        basis=basis,
    )
    return Score(artifact, _exit_code(verdict, basis, strict))


def _check_of(plan: Plan, probe: Probe) -> PlanCheck:
    if probe.check is None:
        raise schema_fault("probe.oracleId", REQUIRED_FIELD)
    for check in plan.checks:
        if check.id == probe.check:
            return check
    raise PlanFault(UNREACHABLE, "probe.oracleId", f'check "{probe.check}" is not declared')


def _signature_of(plan: Plan, probe: Probe) -> tuple[Signature, Operation]:
    """The signature of the first defect, with its operation. Raises PlanFault."""
    if not probe.defects:
        raise schema_fault("probe.defects", "a probe that is not expected clean has a defect")
    path = f"probe.defects[defectId={probe.defects[0].id}].defectSignature"
    signature = probe.defects[0].signature
    if signature is None:
        raise schema_fault(path, REQUIRED_FIELD)
    found = [
        operation
        for operation in plan.operations
        if operation.id == signature.operation and signature.interface in (None, operation.interface)
    ]
    if not found:
        raise PlanFault(UNREACHABLE, path, f'operation "{signature.operation}" is not declared')
    fault = legality.first_fault(signature.predicate, plan.reference_sets, partial(declared_type, found[0]))
    if fault is not None:
        raise PlanFault(fault[0], f"{path}.predicate", fault[1])
    for pointer in pointers_of(signature.predicate):
        if pointer.step != OBSERVED:
            detail = f'pointer "{pointer.text}" does not read /interactions/{OBSERVED}'
            raise PlanFault(UNREACHABLE, f"{path}.predicate", detail)
    return signature, found[0]


def _refusal(plan: Plan, preflight: PreflightVerdictModel, run_id: str | None) -> str | None:
    if not preflight.passed:
        return "preflight-failed"
    if preflight.contractDigest not in (None, plan.digest):
        return "preflight-contract-mismatch"
    return "preflight-run-mismatch" if run_id is not None and run_id != preflight.runId else None


def _trial(plan: Plan, check: PlanCheck, signature: tuple[Signature, Operation] | None, trial: Trial) -> TrialResult:
    result = judge(plan, trial.calls, complete=trial.complete)
    checked = result.checks[check.id]
    if result.verdict == "invalid":
        state: State = "infrastructure-error"
    elif signature is None:
        state = _CLEAN[checked.resolution]
    else:
        state = _contrast(plan, *signature, trial.calls, checked)
    return TrialResult(trial.trace_id, state, result, tuple(call.span_id for call in checked.calls))


def _contrast(
    plan: Plan, signature: Signature, operation: Operation, calls: Sequence[Call], checked: CheckResult
) -> State:
    """What the check said, against where the fault showed."""
    step = PlanStep(id=OBSERVED, operation=signature.operation, interface=signature.interface)
    called = calls_of_step(plan, step, calls)
    if not called:
        return "not-applicable"
    outcomes = {id(call): _shows(plan, signature, operation, call) for call in called}
    home = {name: outcome for name, outcome in outcomes.items() if outcome != "elsewhere"}
    showing = {name for name, outcome in home.items() if outcome is True}
    if showing:
        cited = checked.resolution == "violated" and any(id(call) in showing for call in checked.calls)
        return "caught" if cited else "missed"
    if home and all(outcome is None for outcome in home.values()):
        return "infrastructure-error"
    return _BY_RESOLUTION[checked.resolution]


def _shows(plan: Plan, signature: Signature, operation: Operation, call: Call) -> Outcome | Literal["elsewhere"]:
    """Whether the fault shows on a call, None where that can't be decided; elsewhere: the selector refuses the call."""
    admitted = [accepts(plan, operation, binding, call, lambda _: None) for binding in signature.selector]
    if False in admitted:
        return "elsewhere"
    if None in admitted or uncaptured(call, operation, pointers_of(signature.predicate)):
        return None

    def read_call(pointer: Pointer) -> Any:
        value = read(call, operation, pointer)
        return MISSING if value is NOT_CAPTURED else value

    evidence = Evidence(read_call, partial(is_collection, operation), plan.reference_sets)
    return evaluate(signature.predicate, evidence)


def _vote(states: Sequence[State]) -> dict[str, int]:
    count = Counter(states)
    invalidated, unvoted = count["infrastructure-error"], sum(count[state] for state in _UNVOTED)
    valid = len(states) - invalidated - unvoted
    return {"valid": valid, "caught": count["caught"], "invalidated": invalidated, "unvoted": unvoted}


def _outcome(states: Sequence[State], policy: ScoringPolicyModel) -> str:
    vote = _vote(states)
    if vote["valid"] == 0:
        return next(state for state in (*_UNVOTED, "infrastructure-error") if state in states)
    if Fraction(vote["caught"], vote["valid"]) > Fraction(str(policy.confidenceThreshold)):
        return "caught"
    for state in ("false-positive", "missed", "abstained", "passed-clean-control"):
        if state in states:
            return state
    return "caught-below-threshold" if vote["caught"] else "confirmed"


def _strength(probe: Probe, states: Sequence[State], outcome: str | None, policy: ScoringPolicyModel) -> dict[str, Any]:
    vote = _vote(states)
    counts = vote["valid"] > 0 and not probe.expected_clean and probe.kind != "canary"
    exercised, caught = int(counts), int(counts and outcome == "caught")
    kept = len(states) - vote["invalidated"]
    strength: dict[str, Any] = {
        "class": probe.kind,
        "exercised": exercised,
        "caught": caught,
        "rate": caught / exercised if exercised else None,
        "comparable": outcome is not None and kept >= policy.minimumTrialCount,
    }
    if not strength["comparable"]:
        strength["note"] = f"{kept} trials were not invalidated; {policy.minimumTrialCount} are asked for"
    return strength


def _verdict(
    check: PlanCheck, states: Sequence[State], outcome: str | None, comparable: bool, policy: ScoringPolicyModel
) -> tuple[str, list[str]]:
    vote = _vote(states)
    if vote["invalidated"] == len(states):
        return "invalid", ["all-trials-invalidated"]
    bad = [f"outcome-{outcome}"] if outcome in _BAD else []
    if bad and at_least(check.severity, policy.severityFloor):
        return "fail", bad
    concerns = [
        *bad,
        *(["defect-not-manifested"] if outcome == "confirmed" else []),
        *(["mixed-vote"] if outcome == "caught" and vote["caught"] < vote["valid"] else []),
        *(["trials-invalidated"] if vote["invalidated"] else []),
        *([f"outcome-{outcome}"] if outcome in _UNVOTED else []),
        *([] if comparable else ["too-few-trials"]),
    ]
    return ("concerns", concerns) if concerns else ("pass", [])


def _exit_code(verdict: str, basis: Sequence[str], strict: bool) -> int:
    if verdict == "concerns":
        return int(strict and not set(basis) <= _MILD)
    return {"pass": 0, "fail": 2, "invalid": 3}[verdict]
