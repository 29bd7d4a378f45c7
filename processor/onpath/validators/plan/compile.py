"""Compile checks 1 to 13: a plan that passes them can be judged (plan.md section 2).

ROWS is the table of the checks in their order; the first fault found is the one reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from onpath.validators.plan import legality
from onpath.validators.plan.graph import graph_faults
from onpath.validators.plan.model import ActingAs, Binding, Captured, Location, Operation, Plan, PlanFault, PlanStep
from onpath.validators.plan.pointers import Pointer
from onpath.validators.plan.reach import (
    capture_fault,
    declared_type,
    distinct_fault,
    off_channel,
    operation_at,
    the_operation,
    undeclared_artifact,
    unreachable,
)
from onpath.validators.plan.relate import pointers_of, walk

Faults: TypeAlias = Iterator[PlanFault]

UNREACHABLE: Final = "unreachable-check-evidence"
ARTIFACT: Final = "unresolved-artifact-reference"


def check(plan: Plan) -> None:
    """Raises the first fault of a plan as PlanFault."""
    for row in ROWS:
        for fault in row(plan):
            raise fault


def _duplicate_interfaces(plan: Plan) -> Faults:
    for name, count in Counter(interface.id for interface in plan.interfaces).items():
        if count > 1:
            path = f"EvalContract.permittedInterfaces[logicalId={name}]"
            yield PlanFault("duplicate-interface-identifier", path, f'{count} interfaces are called "{name}"')


def _artifacts(plan: Plan) -> Faults:
    for operation in plan.operations:
        kind, _, name = operation.described.partition("/")
        if kind == "artifact" and name not in operation.artifacts:
            path = f"{operation_path(operation)}.descriptorChannel"
            yield PlanFault(ARTIFACT, path, f'artifact "{name}" is not among the operation\'s artifacts')
        for pointer in pointers_of(operation.witness.relation) if operation.witness else ():
            if undeclared_artifact(operation, pointer):
                path = f"{operation_path(operation)}.sensitivityWitness.relation"
                yield PlanFault(ARTIFACT, path, _artifact(pointer))
    for pointer, path, where in _all_pointers(plan):
        found = operation_at(plan, pointer)
        if isinstance(found, Operation) and undeclared_artifact(found, pointer):
            yield PlanFault(ARTIFACT, path, _artifact(pointer), where)


def _artifact(pointer: Pointer) -> str:
    return f'pointer "{pointer.text}" names artifact "{pointer.part}", which its operation does not declare'


def _all_pointers(plan: Plan) -> Iterator[tuple[Pointer, str, Location]]:
    for step, binding, where in _bindings(plan):
        if binding.source is not None:
            yield binding.source, plan.spelling.binding(step.id, binding), where
    for index, item in enumerate(plan.checks):
        at = plan.spelling.at_check(index)
        for pointer in pointers_of(item.expression):
            yield pointer, plan.spelling.check(item.id), at
        for pointer in (item.direction and item.direction.targets) or ():
            yield pointer, plan.spelling.direction(item.id, "evidenceTargets"), at


def _check_evidence(plan: Plan) -> Faults:
    for index, item in enumerate(plan.checks):
        for pointer in pointers_of(item.expression):
            found = operation_at(plan, pointer)
            reason = found if isinstance(found, str) else unreachable(found, pointer)
            if reason:
                path, where = plan.spelling.check(item.id), plan.spelling.at_check(index)
                yield PlanFault(UNREACHABLE, path, f'pointer "{pointer.text}" {reason}', where)


def _binding_sources(plan: Plan) -> Faults:
    for step, binding, where in _bindings(plan):
        if (pointer := binding.source) is None:
            continue
        captures = isinstance(binding.accepts, Captured)
        reason = (capture_fault if captures else distinct_fault)(plan, step, binding, pointer)
        if reason:
            detail = f'{"captured " if captures else ""}pointer "{pointer.text}" {reason}'
            yield PlanFault(UNREACHABLE, plan.spelling.binding(step.id, binding), detail, where)


def _expressions(plan: Plan) -> Faults:
    sites = [
        (item.expression, plan.spelling.check(item.id), plan.spelling.at_check(i)) for i, item in enumerate(plan.checks)
    ]
    sites += [
        (operation.witness.relation, f"{operation_path(operation)}.sensitivityWitness.relation", ())
        for operation in plan.operations
        if operation.witness
    ]
    for code in legality.CODES:
        for expression, path, where in sites:
            for found, detail in legality.faults(expression, plan.reference_sets, lambda p: _type_at(plan, p)):
                if found == code:
                    yield PlanFault(code, path, detail, where)


def _type_at(plan: Plan, pointer: Pointer) -> str | None:
    found = operation_at(plan, pointer)
    return None if isinstance(found, str) else declared_type(found, pointer)


def _duplicate_steps(plan: Plan) -> Faults:
    for name, count in Counter(step.id for step in plan.steps).items():
        if count > 1:
            where = plan.spelling.at_step([step.id for step in plan.steps].index(name))
            detail = f'{count} steps are called "{name}"'
            yield PlanFault("duplicate-step-identifier", plan.spelling.step(name), detail, where)


def _undeclared_inputs(plan: Plan) -> Faults:
    if not plan.strict:
        return
    for step, binding, where in _bindings(plan):
        operation = the_operation(plan, step)
        detail = None
        if operation is not None:
            shape = operation.input_shape(binding.channel)
            if not shape.open and binding.key not in shape.types:
                detail = f'operation "{operation.id}" declares no {binding.channel} key "{binding.key}"'
        if isinstance(binding.accepts, ActingAs) and binding.accepts.principal not in plan.principals:
            detail = detail or f'principal "{binding.accepts.principal}" is not declared'
        if detail:
            yield PlanFault("undeclared-mandatory-input", plan.spelling.binding(step.id, binding), detail, where)


def _directions(plan: Plan) -> Faults:
    code = "direction-check-misaligned"
    for index, item in enumerate(plan.checks):
        said, path, where = item.direction, plan.spelling.direction, plan.spelling.at_check(index)
        if said is None:
            continue
        read = {_place(pointer) for pointer in pointers_of(item.expression)}
        for pointer in said.targets or ():
            if _place(pointer) not in read:
                detail = f'target "{pointer.text}" is not read by the check'
                yield PlanFault(code, path(item.id, "evidenceTargets"), detail, where)
        if said.relation is not None and said.relation not in {part.word for part in walk(item.expression)}:
            detail = f'relation "{said.relation}" is not used by the check'
            yield PlanFault(code, path(item.id, "relation"), detail, where)
        if said.expects_hold is not None and said.expects_hold != item.expects_hold:
            word = "expects-hold" if said.expects_hold else "expects-violation"
            yield PlanFault(code, path(item.id, "polarity"), f'the check does not say "{word}"', where)


def _place(pointer: Pointer) -> tuple[object, ...]:
    return (pointer.step, pointer.channel, pointer.part, pointer.tail)


def _kinds(plan: Plan) -> Faults:
    for interface in plan.interfaces:
        if interface.kind == "web":
            path = f"EvalContract.permittedInterfaces[logicalId={interface.id}].kind"
            yield PlanFault("unsupported-interface-kind", path, 'kind "web" is not supported')


def _channels(plan: Plan) -> Faults:
    for step, binding, where in _bindings(plan):
        if (pointer := binding.source) is None:
            continue
        source = operation_at(plan, pointer)
        if isinstance(source, Operation) and off_channel(source, binding, pointer):
            detail = (
                f'captured pointer "{pointer.text}" names the {pointer.full_channel} channel, '
                "which the referenced operation's response descriptor does not declare (AD-26)"
            )
            yield PlanFault("captured-channel-undeclared", plan.spelling.binding(step.id, binding), detail, where)


def _bindings(plan: Plan) -> Iterator[tuple[PlanStep, Binding, Location]]:
    for index, step in enumerate(plan.steps):
        for binding in step.bindings:
            yield step, binding, plan.spelling.at_binding(index, binding)


def operation_path(operation: Operation) -> str:
    return f"EvalContract.permittedInterfaces[logicalId={operation.interface}].operations[operationId={operation.id}]"


ROWS: Final[tuple[Callable[[Plan], Faults], ...]] = (
    _duplicate_interfaces,  # 1
    _artifacts,  # 2
    _check_evidence,  # 3
    _binding_sources,  # 4
    _expressions,  # 5
    _duplicate_steps,  # 6
    _undeclared_inputs,  # 7
    _directions,  # 8
    _kinds,  # 9
    graph_faults,  # 10, 11, 12
    _channels,  # 13
)
