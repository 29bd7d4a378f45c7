"""Answers of a harness -> verdict of the pre-flight: the six checks, the drop rule, the digests.

Source: plan.md sections 7.3 to 7.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from onpath.preflight.answers import assign, equal_inputs, leg_inputs
from onpath.preflight.documents import Defect, Probe
from onpath.preflight.legs import LegPlan, PlannedLeg, declared_operations, plan_legs
from onpath.steps.model import NOT_CAPTURED
from onpath.validators.plan.calls import Call
from onpath.validators.plan.evidence import read
from onpath.validators.plan.model import Operation, Plan
from onpath.validators.plan.pointers import Pointer
from onpath.validators.plan.reach import is_collection
from onpath.validators.plan.relate import Evidence, Expression, Outcome, evaluate
from onpath.validators.plan.values import MISSING, digest, equal, without

Outcomes: TypeAlias = Literal["satisfied", "failed", "exempt"]

_UNTRUE = {False: "the relation is false", None: "the relation could not be decided"}


@dataclass(frozen=True, slots=True)
class Check:
    kind: str
    subject: str | None
    note: str | None = None
    outcome: Outcomes = "satisfied"

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "subject": self.subject, "outcome": self.outcome, "note": self.note}


def _check(kind: str, subject: str | None, note: str | None) -> Check:
    """Satisfied without a note, failed with one."""
    return Check(kind, subject, note, "satisfied" if note is None else "failed")


def verdict(plan: Plan, probes: Sequence[Probe], calls: Sequence[Call], run_id: str | None = None) -> dict[str, Any]:
    """The verdict file of a pre-flight over calls in sequence. Raises PlanFault."""
    return _Reduction(plan, plan_legs(plan, probes), calls).verdict(run_id)


class _Reduction:
    """One pre-flight: its legs, the calls that answered them, and what the checks say."""

    def __init__(self, plan: Plan, planned: LegPlan, calls: Sequence[Call]) -> None:
        self.plan = plan
        self.planned = planned
        self.legs = {leg.id: leg for leg in planned.legs}
        self.places = {id(call): place for place, call in enumerate(calls)}
        self.answers = assign(planned.legs, calls)
        self.projections = {name: projection(self.legs[name], call) for name, call in self.answers.items()}

    def verdict(self, run_id: str | None) -> dict[str, Any]:
        checks = [*self._interfaces(), *self._sensitivities(), *self._controls(), *self._faults()]
        return {
            "runId": run_id,
            "contractDigest": self.plan.digest,
            "fixtureDigest": digest([[name, self.projections[name]] for name in sorted(self.projections)]),
            "passed": not any(check.outcome == "failed" for check in checks),
            "checks": [check.as_json() for check in checks],
            "warnings": [] if self.planned.warning is None else [self.planned.warning],
        }

    def _unanswered(self, legs: Sequence[str]) -> str | None:
        missing = [name for name in legs if name not in self.answers]
        return f"unanswered: {', '.join(missing)}" if missing else None

    def _interfaces(self) -> Iterator[Check]:
        by_operation: dict[tuple[str | None, str], list[str]] = {}
        for leg in self.planned.legs:
            by_operation.setdefault((leg.operation.interface, leg.operation.id), []).append(leg.id)
        for (_, operation), legs in by_operation.items():
            yield _check("interface-present", operation, self._unanswered(legs))

    def _sensitivities(self) -> Iterator[Check]:
        kind = "input-sensitivity"
        for operation in declared_operations(self.plan):
            witness = operation.witness
            if witness is not None:
                legs = [leg.id for leg in witness.legs]
                note = self._unanswered(legs) or _UNTRUE.get(self._related(witness.relation, {n: n for n in legs}))
                yield _check(kind, operation.id, note)
            elif operation.takes_input:
                yield _check(kind, operation.id, "declares request keys but no sensitivity witness")
            else:
                yield Check(kind, operation.id, "takes no input", "exempt")

    def _controls(self) -> Iterator[Check]:
        if not self.planned.controlled:
            return
        legs = [leg.id for leg in self.planned.control]
        yield _check("state-reset", None, self._unanswered(legs) or self._unstable(legs))
        anomalous = [name for name in legs if name in self.answers and _anomalous(self.answers[name])]
        yield _check("clean-control", None, f"anomalous: {', '.join(anomalous)}" if anomalous else None)

    def _unstable(self, legs: Sequence[str]) -> str | None:
        if not equal(self.projections[legs[0]], self.projections[legs[-1]]):
            return "the first and the last control read differ"
        seen = [self.places[id(self.answers[name])] for name in legs]
        return None if seen == sorted(seen) else "the control legs were not observed in planned order"

    def _faults(self) -> Iterator[Check]:
        for defect in self.planned.defects:
            shown = defect.manifestation
            if shown is None:
                yield _check("seeded-fault-fired", defect.id, f"{defect.id}: no manifestation witness")
                continue
            leg = self.legs[shown.leg.id]
            yield _check("seeded-faults-scoped", defect.id, self._unscoped(defect, leg, shown.relation))
            note = self._unanswered([leg.id]) or _UNTRUE.get(self._related(shown.relation, {leg.id: leg.id}))
            yield _check("seeded-fault-fired", defect.id, note and f"{defect.id}: {note}")

    def _unscoped(self, defect: Defect, leg: PlannedLeg, relation: Expression) -> str | None:
        """Why nothing shows that a fault is in one place: the legs before it say so, or none is left to say it."""
        before = self.planned.legs[: self.planned.legs.index(leg)]
        same = (leg.operation.interface, leg.operation.id)
        clean = [other for other in before if (other.operation.interface, other.operation.id) == same]
        if not clean:
            return (
                f"{defect.id}: the operation has no leg besides the fault leg, "
                "so nothing here establishes that the defect is scoped to it"
            )
        remaining = [other for other in clean if not self._repeats(leg, other)]
        if not remaining:
            dropped = ", ".join(f'"{other.id}"' for other in clean)
            return (
                f"{defect.id}: every other leg of the operation issued the fault leg's own request and received "
                f"its answer ({dropped}), so nothing here establishes that the defect is scoped to it"
            )
        for other in remaining:
            if other.id in self.answers and self._related(relation, {leg.id: other.id}):
                return f'{defect.id}: also fires on clean leg "{other.id}"'
        return None

    def _repeats(self, leg: PlannedLeg, other: PlannedLeg) -> bool:
        """Whether a clean leg sent the fault leg's request and got its answer."""
        if leg.id not in self.answers or other.id not in self.answers:
            return False
        same = equal_inputs(leg.operation.kind, leg_inputs(leg), leg_inputs(other))
        return same and equal(self.projections[leg.id], self.projections[other.id])

    def _related(self, relation: Expression, standing_for: Mapping[str, str]) -> Outcome:
        """The relation over legs, each read from the answer of the leg that stands for it."""

        def at(pointer: Pointer) -> tuple[Call, Operation] | None:
            name = standing_for.get(pointer.step or "")
            if name is None or name not in self.answers:
                return None
            return evidence_call(self.legs[name], self.answers[name]), self.legs[name].operation

        def read_leg(pointer: Pointer) -> Any:
            found = at(pointer)
            value = MISSING if found is None else read(*found, pointer)
            return MISSING if value is NOT_CAPTURED else value

        def is_list(pointer: Pointer) -> bool:
            found = at(pointer)
            return found is not None and is_collection(found[1], pointer)

        return evaluate(relation, Evidence(read_leg, is_list, self.plan.reference_sets))


def evidence_call(leg: PlannedLeg, call: Call) -> Call:
    """The answer as relations read it: an output that was not captured is null, such inputs are the leg's own."""
    if call.output is NOT_CAPTURED:
        call = replace(call, output=None)
    return replace(call, input=leg_inputs(leg)) if call.input is NOT_CAPTURED else call


def projection(leg: PlannedLeg, call: Call) -> dict[str, Any]:
    """What of an answer is the same in every run of a fixture."""
    body = None if call.output is NOT_CAPTURED else call.output
    return {
        "interface": leg.operation.interface,
        "operation": leg.operation.id,
        "status": "error" if call.failed else "ok",
        "http_status": call.http_status,
        "exit_code": call.exit_code,
        "body": without(body, leg.operation.volatile),
    }


def _anomalous(call: Call) -> bool:
    return call.failed or (call.http_status or 0) >= 400 or bool(call.exit_code)
