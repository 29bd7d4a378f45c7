"""Which requests a harness has to send, in order: sensitivity, control, seeded faults (plan.md section 7.1).

Nothing is called here. Names of control legs are minted so that they collide with no step and no other leg.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from onpath.policy.plan_operations import inputs_of
from onpath.preflight.documents import Defect, Probe
from onpath.validators.plan import legality
from onpath.validators.plan.compile import UNREACHABLE
from onpath.validators.plan.model import Operation, Plan, PlanFault
from onpath.validators.plan.reach import declared_type

Purpose: TypeAlias = Literal["sensitivity", "control-observe", "control-mutate", "control-reset", "seeded-fault"]


@dataclass(frozen=True, slots=True)
class PlannedLeg:
    """One request. `inputs` is laid out as the contract has it."""

    id: str
    purpose: Purpose
    operation: Operation
    inputs: Mapping[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {
            "legId": self.id,
            "purpose": self.purpose,
            "interfaceId": self.operation.interface,
            "operationId": self.operation.id,
            "name": self.operation.tool_name,
            "inputs": dict(self.inputs),
        }


@dataclass(frozen=True, slots=True)
class LegPlan:
    """All legs in order. `controlled`: the control legs carry both control checks; `warning` says why not."""

    legs: tuple[PlannedLeg, ...]
    defects: tuple[Defect, ...]
    controlled: bool
    warning: str | None = None

    @property
    def control(self) -> tuple[PlannedLeg, ...]:
        return tuple(leg for leg in self.legs if leg.purpose.startswith("control-"))


def plan_legs(plan: Plan, probes: Sequence[Probe]) -> LegPlan:
    """Raises PlanFault: a leg id used twice, a leg of an undeclared operation, a relation that says nothing."""
    defects = tuple(defect for probe in probes if not probe.expected_clean for defect in probe.defects)
    faults = tuple(_fault_legs(plan, defects))
    sensitivity = tuple(_sensitivity_legs(plan))
    reset = _reset_leg(plan)
    declared = [leg.id for leg in (*sensitivity, *((reset,) if reset else ()), *faults)]
    for leg_id in declared:
        if declared.count(leg_id) > 1:
            detail = f'{declared.count(leg_id)} legs are called "{leg_id}"'
            raise PlanFault("duplicate-leg-identifier", f"legs[{leg_id}]", detail)
    taken = {*declared, *(step.id for step in plan.steps)}
    control = tuple(_control_legs(plan, reset, taken))
    controlled = len(control) == (2 if reset is None else 4)
    return LegPlan((*sensitivity, *control, *faults), defects, controlled, _warning(reset, control, controlled))


def _sensitivity_legs(plan: Plan) -> Iterator[PlannedLeg]:
    for operation in declared_operations(plan):
        for leg in operation.witness.legs if operation.witness else ():
            yield PlannedLeg(leg.id, "sensitivity", operation, leg.inputs)


def declared_operations(plan: Plan) -> list[Operation]:
    return [operation for operation in plan.operations if operation.declared]


def _reset_leg(plan: Plan) -> PlannedLeg | None:
    reset = plan.reset
    if reset is None:
        return None
    operation = _declared(plan, reset.leg.id, reset.interface, reset.operation)
    return PlannedLeg(reset.leg.id, "control-reset", operation, reset.leg.inputs)


def _fault_legs(plan: Plan, defects: Sequence[Defect]) -> Iterator[PlannedLeg]:
    for defect in defects:
        shown = defect.manifestation
        if shown is None:
            continue
        path = f"legs[{shown.leg.id}]"
        operation = _declared(plan, shown.leg.id, shown.interface, shown.operation)
        inputs = inputs_of(shown.leg.inputs, operation.kind, f"{path}.inputs", ())
        fault = legality.first_fault(shown.relation, plan.reference_sets, partial(declared_type, operation))
        if fault is not None:
            raise PlanFault(fault[0], path, fault[1])
        yield PlannedLeg(shown.leg.id, "seeded-fault", operation, inputs)


def _declared(plan: Plan, leg_id: str, interface: str, name: str) -> Operation:
    for operation in declared_operations(plan):
        if (operation.interface, operation.id) == (interface, name):
            return operation
    detail = f'operation "{name}" of interface "{interface}" is not declared'
    raise PlanFault(UNREACHABLE, f"legs[{leg_id}]", detail)


def _control_legs(plan: Plan, reset: PlannedLeg | None, taken: set[str]) -> Iterator[PlannedLeg]:
    """Read, and if there is a reset change and reset, then read again."""
    usable = [operation for operation in declared_operations(plan) if control_inputs(operation) is not None]
    observed = next((operation for operation in usable if not operation.mutates), None)
    if observed is None:
        return
    yield _minted("control-observe", observed, taken)
    if reset is not None:
        changing = (op for op in usable if op.mutates and op.interface == reset.operation.interface)
        mutating = next(changing, None)
        if mutating is not None:
            yield _minted("control-mutate", mutating, taken)
            yield reset
    yield _minted("control-observe", observed, taken)


def control_inputs(operation: Operation) -> Mapping[str, Any] | None:
    """What a control leg sends: the inputs of the first witness leg, or none where no key is required."""
    if operation.witness is not None:
        return operation.witness.legs[0].inputs
    return None if operation.required_keys else {}


def _minted(purpose: Purpose, operation: Operation, taken: set[str]) -> PlannedLeg:
    name, number = f"preflight-{purpose}", 2
    while name in taken:
        name, number = f"preflight-{purpose}-{number}", number + 1
    taken.add(name)
    return PlannedLeg(name, purpose, operation, control_inputs(operation) or {})


def _warning(reset: PlannedLeg | None, control: Sequence[PlannedLeg], controlled: bool) -> str | None:
    if controlled:
        return None
    unplanned = "state-reset and clean-control were not planned"
    if not control:
        wanting = "no operation that leaves the state alone can be given inputs"
        return f"a fixture reset is declared but {wanting}; {unplanned}" if reset else f"{wanting}; {unplanned}"
    return f"a fixture reset is declared but no mutating operation of its interface can be given inputs; {unplanned}"
