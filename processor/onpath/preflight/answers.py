"""Which recorded call answers which leg, and when two requests are equal (plan.md section 7.2).

A call that names its leg answers that leg; the others answer by tool and equal input, in order of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onpath.preflight.legs import PlannedLeg
from onpath.steps.model import NOT_CAPTURED
from onpath.validators.plan.calls import Call
from onpath.validators.plan.evidence import channels_of
from onpath.validators.plan.model import PlanFault
from onpath.validators.plan.pointers import Kind
from onpath.validators.plan.values import equal


def assign(legs: Sequence[PlannedLeg], calls: Sequence[Call]) -> dict[str, Call]:
    """Leg id to its call; `calls` stand in sequence. Raises PlanFault: port-contract-violation."""
    answers: dict[str, Call] = {}
    by_id = {leg.id: leg for leg in legs}
    for call in calls:
        if call.leg in by_id:
            leg = by_id[call.leg]
            _answer(answers, leg, call)
            if reason := _wrong_answer(leg, call):
                raise _violation(leg.id, reason)
    for call in calls:
        if call.leg is not None:
            continue
        asked = [leg for leg in legs if _same_operation(leg, call) and answers_by_input(leg, call.input)]
        waiting = next((leg for leg in asked if leg.id not in answers), None)
        if waiting is not None:
            answers[waiting.id] = call
        elif asked:
            raise _violation(asked[0].id, "more calls than legs send this request")
    if not answers:
        raise PlanFault("port-contract-violation", "legs", "no leg was answered")
    return answers


def _answer(answers: dict[str, Call], leg: PlannedLeg, call: Call) -> None:
    if leg.id in answers:
        raise _violation(leg.id, "this leg was answered twice")
    answers[leg.id] = call


def _violation(leg_id: str, reason: str) -> PlanFault:
    return PlanFault("port-contract-violation", f"legs[{leg_id}]", reason)


def _wrong_answer(leg: PlannedLeg, call: Call) -> str | None:
    if not _same_operation(leg, call):
        return f'answered by a call of "{call.name}"'
    if call.input is None or call.input is NOT_CAPTURED or answers_by_input(leg, call.input):
        return None
    return "answered by a call with other inputs"


def _same_operation(leg: PlannedLeg, call: Call) -> bool:
    operation = leg.operation
    same_interface = None in (operation.interface, call.interface) or operation.interface == call.interface
    return call.name == operation.tool_name and same_interface


def answers_by_input(leg: PlannedLeg, sent: Any) -> bool:
    return sent is not NOT_CAPTURED and equal_inputs(leg.operation.kind, leg_inputs(leg), sent)


def leg_inputs(leg: PlannedLeg) -> Any:
    """A leg's inputs in the form in which a call's are recorded."""
    return leg.inputs.get("arguments") if leg.operation.kind == "mcp" else leg.inputs


def equal_inputs(kind: Kind, one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two inputs are one request, laid out by channel or flat; null is the request without input."""
    if kind == "mcp":
        return equal(one or {}, other or {})
    left, right = channels_of(one, kind), channels_of(other, kind)
    if left is not None and right is not None:
        return equal(left, right)
    flat_left = one if left is None else merged(left)
    flat_right = other if right is None else merged(right)
    return flat_left is not None and flat_right is not None and equal(flat_left, flat_right)


def merged(channels: Mapping[str, Any]) -> dict[str, Any] | None:
    """The channels in one object; None where they do not merge."""
    found: dict[str, Any] = {}
    for held in channels.values():
        if not isinstance(held, Mapping):
            return None
        for key, value in held.items():
            if key in found and not equal(found[key], value):
                return None
            found[key] = value
    return found
