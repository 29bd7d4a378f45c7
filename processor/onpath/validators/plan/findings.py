"""Words for a plan's result: one finding for each code, the explanation, and the alignment of steps and calls.

Findings name the step, the binding and the spans. A value of an argument or an answer stands in them only where the
policy says `capture_content`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from onpath.report import AlignmentRow, Finding, Severity, one_line
from onpath.steps.model import NOT_CAPTURED
from onpath.validators.plan.calls import Call
from onpath.validators.plan.describe import binding_words, expression_words, step_words
from onpath.validators.plan.evidence import read
from onpath.validators.plan.relate import pointers_of
from onpath.validators.plan.select import operation_of
from onpath.validators.plan.values import MISSING
from onpath.validators.plan.verdict import CheckResult, PlanResult, StepResult

_LONGEST: Final = 200  # characters of a value in a message

_NO_CALL: Final = {
    "anchor-unresolved": "the step it comes after is not bound",
    "source-unresolved": "a step whose value it needs is not bound",
    "no-call": "the tool was never called",
    "temporal-floor": "no call of the tool came after the call of the step it follows",
    "capture-floor": "no call of the tool started after the value it needs had been returned",
    "bindings": "no call of the tool sent what the step asks for",
    "not-captured": "what was sent or returned was not recorded",
    "no-times": "without times it cannot be told whether the call came late enough",
}


def findings_of(result: PlanResult, severity: Severity, *, capture_content: bool = False) -> tuple[Finding, ...]:
    """One for each code; those below the deciding tier are warnings (severity low)."""
    found = []
    for part in result.parts:
        if part.tier == "pass":
            continue
        of_part = part.check.severity if isinstance(part, CheckResult) else severity
        decides = part.tier == result.tier != "concerns"
        found.append(_finding(result, part, of_part if decides else "low", capture_content))
    return tuple(found)


def _finding(result: PlanResult, part: StepResult | CheckResult, severity: Severity, capture_content: bool) -> Finding:
    if isinstance(part, CheckResult):
        rule, name, spans = f"check_{part.resolution}", part.check.id, part.calls
        message = _check_message(result, part, capture_content)
    else:
        rule, name = f"step_{part.state}", part.step.id
        spans = part.selection.candidates or part.selection.refused
        message = step_message(part)
    return Finding(rule=rule, message=message, severity=severity, step=name, span_ids=tuple(c.span_id for c in spans))


def step_message(part: StepResult) -> str:
    """What is wrong with a step; an ambiguity offers both ways out."""
    selection, named = part.selection, step_words(part.step)
    if part.state == "ambiguous":
        return (
            f"{named} is ambiguous: {len(selection.candidates)} calls fit ({_spans(selection.candidates)}). "
            "Say `cardinality: any` to take the first, or add a binding that separates them."
        )
    why = _NO_CALL.get(selection.reason or "", "no call answers for it")
    if selection.refusing:
        why += f" ({'; '.join(binding_words(binding) for binding in selection.refusing)})"
    looked_at = selection.candidates or selection.refused
    return f"{named} is {part.state}: {why}" + (f": {_spans(looked_at)}" if looked_at else "")


def _check_message(result: PlanResult, part: CheckResult, capture_content: bool) -> str:
    asked = f"{'' if part.check.expects_hold else 'not '}{expression_words(part.check.expression)}"
    message = f'check "{part.check.id}" is {part.resolution}: {_why(result, part)}{asked}'
    if part.calls:
        message += f" (read from {_spans(part.calls)})"
    if capture_content and part.resolution in ("violated", "abstained"):
        message += "".join(f"; {text} = {value}" for text, value in _values(result, part))
    return message


def _why(result: PlanResult, part: CheckResult) -> str:
    names = dict.fromkeys(pointer.step or "" for pointer in pointers_of(part.check.expression))
    states = [f"{name} {result.steps[name].state}" for name in names if result.steps[name].state != "bound"]
    if part.resolution == "unreached" or (part.resolution == "blocked" and states):
        return f"it reads {', '.join(states)}: "
    if part.resolution == "blocked":
        return "it reads what was not recorded: "
    return "there is nothing to look at: " if part.resolution == "abstained" else ""


def _values(result: PlanResult, part: CheckResult) -> Iterable[tuple[str, str]]:
    for pointer in dict.fromkeys(pointers_of(part.check.expression)):
        step = result.steps[pointer.step or ""]
        call = step.selection.call
        value: Any = MISSING if call is None else read(call, operation_of(result.plan, step.step), pointer)
        if value is not MISSING and value is not NOT_CAPTURED:
            text = json.dumps(value, ensure_ascii=False, default=str)
            yield pointer.text, text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
        else:
            yield pointer.text, "no value"


def explanation_of(result: PlanResult, findings: Sequence[Finding]) -> str:
    """One line first, then a line for each finding."""
    bound = sum(step.state == "bound" for step in result.steps.values())
    held = sum(check.resolution == "held" for check in result.checks.values())
    basis = f": {', '.join(result.basis)}" if result.basis else ""
    first = f"{result.plan.title}: {result.verdict}{basis}; {bound} of {len(result.steps)} steps bound"
    if result.checks:
        first += f", {held} of {len(result.checks)} checks held"
    return "\n".join([one_line(first), *(f"- {one_line(finding.message)}" for finding in findings)])


def alignment_of(result: PlanResult) -> tuple[AlignmentRow, ...]:
    """Steps beside the calls that answer for them; optional steps without one are left out."""
    rows = []
    for part in result.steps.values():
        call = part.selection.call
        if call is not None:
            rows.append(AlignmentRow(move="same", expected=part.step.id, seen=call.name, span_ids=(call.span_id,)))
        elif part.state != "absent":
            rows.append(AlignmentRow(move="missing", expected=part.step.id))
    return tuple(rows)


def _spans(calls: Sequence[Call]) -> str:
    return ", ".join(call.span_id for call in calls)
