"""A plan in sentences: what `onpath validate` says of it, and the words that findings use.

Literals of the policy are its author's own words and may be said; nothing of a trace is known here.
"""

from __future__ import annotations

import json
from typing import Any, Final

from onpath.validators.plan.model import (
    ActingAs,
    Anything,
    Binding,
    Captured,
    DistinctFrom,
    Exactly,
    Plan,
    PlanCheck,
    PlanStep,
)
from onpath.validators.plan.relate import Expression, Members, Operand, Place

_LONGEST: Final = 60  # characters of a literal

_HOW_OFTEN: Final = {
    "exactly-one": "exactly one call",
    "at-most-one": "at most one call",
    "any": "the first call, if there is one,",
}
_TEMPLATES: Final = {
    "equality": "{0} equals {1}",
    "deep-equality": "{0} equals {1}",
    "existence": "{0} has a value",
    "absence": "{0} has no value",
    "containment": "{0} contains {1}",
    "set-membership": "{0} is one of {1}",
    "covers-by-key": "{1} covers {0}",
    "regex": "{0} matches {pattern}",
    "ordering": "{0} is in {direction} order of {key}",
    "count-tolerance": "{0} has {expected} elements (tolerance {tolerance}{percent})",
    "shape": "{0} has the shape {{{keys}}}",
}


def describe(plan: Plan) -> list[str]:
    """One sentence for each step and each check, the plan as a whole first."""
    order = "their starts" if plan.order == "start" else "the end of the one and the start of the next"
    count = f"{len(plan.steps)} step{'' if len(plan.steps) == 1 else 's'}"
    head = (
        f"{plan.title[0].upper()}{plan.title[1:]} has {count}, ordered by {order}; "
        f"checks of severity {plan.severity_floor} or above fail it."
    )
    return [head, *(_step_sentence(step) for step in plan.steps), *(_check_sentence(check) for check in plan.checks)]


def step_words(step: PlanStep) -> str:
    return f'step "{step.id}" ({step.operation})'


def _step_sentence(step: PlanStep) -> str:
    words = f'Step "{step.id}": {_HOW_OFTEN[step.cardinality]} of {step.operation}'
    if step.interface is not None:
        words += f" on {step.interface}"
    if step.after is not None:
        words += f' after step "{step.after}"'
    if step.bindings:
        words += ", where " + " and ".join(binding_words(binding) for binding in step.bindings)
    return words + "."


def _check_sentence(check: PlanCheck) -> str:
    asked = expression_words(check.expression)
    return f'Check "{check.id}" ({check.severity}): {asked if check.expects_hold else f"not ({asked})"}.'


def binding_words(binding: Binding) -> str:
    name = f'input["{binding.key}"]' if binding.channel == "arguments" else f'{binding.channel}["{binding.key}"]'
    match binding.accepts:
        case Exactly(value):
            return f"{name} equals {_literal(value)}"
        case Anything():
            return f"{name} is there"
        case Captured(pointer):
            return f"{name} equals {pointer.text}"
        case DistinctFrom(pointer):
            return f"{name} differs from {pointer.text}"
        case ActingAs(principal):
            return f"{name} was sent as {principal}"
        case _:
            return f"{name} is not of its declared type"


def expression_words(expression: Expression) -> str:
    """An expression as a person would say it; legal ones only."""
    parts = [_operand_words(operand) for operand in expression.operands]
    match expression.word:
        case "not":
            return f"not ({parts[0]})"
        case "all" | "any":
            return f"{expression.word} of ({'; '.join(parts)})"
        case "for-all" | "for-any":
            which = "every" if expression.word == "for-all" else "some"
            return f"for {which} element of {parts[0]}: {parts[1]}"
    options: dict[str, Any] = dict(expression.options)
    keys = ", ".join((*options.get("requiredKeys", ()), *(f"{k}?" for k in options.get("permittedKeys", ()))))
    percent = " percent" if options.get("relative") else ""
    return _TEMPLATES[expression.word].format(*parts, **options, keys=keys, percent=percent)


def _operand_words(operand: Operand | Expression) -> str:
    if isinstance(operand, Expression):
        return expression_words(operand)
    if isinstance(operand, Place):
        return operand.pointer.text
    return f"the set {operand.name}" if isinstance(operand, Members) else _literal(operand.value)


def _literal(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "..."
