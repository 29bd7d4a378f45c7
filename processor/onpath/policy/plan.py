"""Plans of a policy, in either spelling: document -> Plan -> compile checks -> PlanValidator.

`load_plan` is for the policy loader, which gathers problems; `compiled` is for the offline commands, which end with
the first fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from onpath.policy import plan_native, plan_short
from onpath.policy.files import Source, take_in
from onpath.policy.plan_native import OptionsModel
from onpath.policy.plan_schema import schema_fault, validated
from onpath.policy.problems import ProblemKind, Problems, pointer
from onpath.policy.schema import suggestion
from onpath.policy.yaml import Document
from onpath.validators.plan.compile import check
from onpath.validators.plan.describe import describe
from onpath.validators.plan.model import Location, Plan, PlanFault
from onpath.validators.plan.validator import PlanValidator

__all__ = ["PlanFault", "compiled", "describe", "is_contract", "load_plan"]


def load_plan(
    raw: object, problems: Problems, *, folder: Path | None = None, strict_inputs: bool | None = None
) -> PlanValidator | None:
    """What stands under `plan!`, or a contract by itself, ready to judge with; None with a problem.

    `folder` is that of the policy file, for a `contract` that names a file. With `strict_inputs` False compile check 7
    is left out, whatever the plan says. The message of a problem is `CODE: PATH: DETAIL` (plan.md section 2).
    """
    if isinstance(raw, Mapping) and isinstance(raw.get("contract"), str) and folder is not None:
        raw, found = take_in(Source(Document(""), folder), raw, "")
        problems.errors += found
        if raw is None or found:
            return None
    try:
        plan = compiled(raw, strict_inputs=strict_inputs)
    except PlanFault as fault:
        kind: ProblemKind = "plan-schema" if fault.exit_code == 5 else "plan-compile"
        problems.error(pointer(*_place(raw, fault)), str(fault), kind)
        return None
    _warn_of_anchors(raw, plan, problems)
    return PlanValidator(plan=plan)


def _warn_of_anchors(raw: object, plan: Plan, problems: Problems) -> None:
    """An `after` may name a step that is not declared; then it asks for nothing, which is seldom what was meant."""
    at: Location = ("interactionPlan",) if is_contract(raw) else ("steps",)
    if isinstance(raw, Mapping) and "contract" in raw:
        at = ("contract", "interactionPlan")
    known = tuple(step.id for step in plan.steps)
    for number, step in enumerate(plan.steps):
        if step.after is not None and step.after not in known:
            said = f"no step is named `{step.after}`, so this sets no order{suggestion(step.after, known)}"
            problems.warn(pointer(*at, number, "after"), said)


def compiled(raw: object, *, strict_inputs: bool | None = None) -> Plan:
    """A plan that has passed its compile checks. Raises PlanFault."""
    try:
        plan = read(raw)
    except RecursionError:
        root = plan_native.ROOT if is_contract(raw) else plan_short.ROOT
        raise schema_fault(root, "nested too deep") from None
    if strict_inputs is False:
        plan = replace(plan, strict=False)
    check(plan)
    return plan


def read(raw: object) -> Plan:
    """A plan as written, unchecked. Raises PlanFault."""
    if is_contract(raw):
        return plan_native.read(raw)
    if not isinstance(raw, Mapping) or "contract" not in raw:
        return plan_short.read(raw)
    options = validated(OptionsModel, raw, plan_short.ROOT)
    if isinstance(options.contract, str):
        at = ("contract",)
        raise schema_fault(f"{plan_short.ROOT}.contract", "a contract file needs a policy file that names it", at)
    return plan_native.read(options.contract, options)


def is_contract(raw: object) -> bool:
    """Whether a document is an evaluation contract by itself."""
    return isinstance(raw, Mapping) and ("interactionPlan" in raw or "permittedInterfaces" in raw)


def _place(raw: object, fault: PlanFault) -> Location:
    """Where a fault stands in what `load_plan` was given: the places of a contract are below `contract`."""
    below = isinstance(raw, Mapping) and "contract" in raw and fault.path.startswith(plan_native.ROOT)
    return ("contract", *(fault.at or ())) if below else fault.at or ()
