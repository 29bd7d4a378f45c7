"""The short form of a plan, as it stands under `plan!` in a policy -> Plan (plan.md section 1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from onpath.policy.plan_schema import (
    EMPTY_CHANNEL,
    CardinalityWord,
    Name,
    ReferenceSetModel,
    SeverityWord,
    Slug,
    binding_of,
    expression_of,
    path_of,
    reference_sets_of,
    schema_fault,
    tail_at,
    unique_ids,
    validated,
)
from onpath.policy.schema import Strict
from onpath.validators.plan.expressions import read_types
from onpath.validators.plan.model import OPEN, SHORT, Binding, Location, Operation, Plan, PlanCheck, PlanStep, Shape
from onpath.validators.plan.values import digest

ROOT: Final = "plan!"

TypeWord = Literal["string", "number", "boolean", "object", "array", "null", "unknown"] | None
Types = Annotated[dict[str, TypeWord] | None, Field(description="name to type; `unknown`: declared without a type")]


class ToolModel(Strict):
    """What a tool takes and gives."""

    mutates: bool = Field(False, description="whether a call changes state")
    input: Types = None
    optional_input: Types = None
    output: Types = None
    collections: dict[str, Annotated[float, Field(ge=0)]] = Field(
        {}, description="pointer into the output to the largest number of elements"
    )
    volatile: list[str] = Field([], description="pointers into the output that differ from call to call")


class StepModel(Strict):
    """Which call answers for the step."""

    step: Slug
    tool: Name
    input: Any = Field(None, description="argument name to a binding value, an object with one tag")
    after: Slug | None = Field(None, description="the step whose call came before")
    cardinality: CardinalityWord = "exactly-one"


class CheckModel(Strict):
    """What must be true of the evidence: one relation word beside these."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    id: Name
    severity: SeverityWord = "material"
    expects: Literal["hold", "violation"] = "hold"


class PlanModel(Strict):
    """The calls that a run has to contain, their order, their values, and what must be true of them."""

    id: Slug
    severity_floor: SeverityWord = Field("material", description="checks at or above it fail the plan")
    strict: bool = Field(True, description="whether keys and principals that are bound have to be declared")
    order: Literal["start", "after_end"] = Field("start", description="what `after` compares")
    principals: list[Name] | None = None
    tools: dict[str, ToolModel] | None = None
    reference_sets: dict[str, ReferenceSetModel] | None = None
    steps: list[StepModel]
    checks: list[CheckModel] | None = None


def read(raw: object) -> Plan:
    """Raises PlanFault."""
    model = validated(PlanModel, raw, ROOT)
    steps = tuple(_step(step, i) for i, step in enumerate(model.steps))
    checks = model.checks or []
    unique_ids([check.id for check in checks], f"{ROOT}.checks", "checks")
    declared = {name: _tool(name, tool) for name, tool in (model.tools or {}).items()}
    named = {step.operation: _unknown_tool(step.operation) for step in steps}
    return Plan(
        id=model.id,
        spelling=SHORT,
        digest=digest(raw),
        steps=steps,
        checks=tuple(_check(check, i) for i, check in enumerate(checks)),
        operations=tuple({**named, **declared}[name] for name in {**declared, **named}),
        principals=frozenset(model.principals or ()),
        reference_sets=reference_sets_of(model.reference_sets, ROOT, "reference_sets"),
        severity_floor=model.severity_floor,
        strict=model.strict,
        order=model.order,
    )


def _unknown_tool(name: str) -> Operation:
    return Operation(id=name, tool_name=name, inputs={"arguments": OPEN}, declared=False)


def _tool(name: str, tool: ToolModel) -> Operation:
    at: Location = ("tools", name)
    collections = {}
    for place, size in tool.collections.items():
        where = (*at, "collections", place)
        collections[tail_at(place, path_of(ROOT, where), where)] = size
    volatile = []
    for i, place in enumerate(tool.volatile):
        where = (*at, "volatile", i)
        volatile.append(tail_at(place, path_of(ROOT, where), where))
    arguments = OPEN
    if tool.input is not None or tool.optional_input is not None:
        required = read_types(tool.input, "input")
        arguments = Shape({**read_types(tool.optional_input, "optional_input"), **required}, frozenset(required))
    return Operation(
        id=name,
        tool_name=name,
        mutates=tool.mutates,
        inputs={"arguments": arguments},
        output=OPEN if tool.output is None else Shape(read_types(tool.output, "output")),
        collections=collections,
        volatile=tuple(volatile),
    )


def _step(step: StepModel, index: int) -> PlanStep:
    return PlanStep(
        id=step.step,
        operation=step.tool,
        after=step.after,
        cardinality=step.cardinality,
        bindings=_bindings(step.input, ("steps", index, "input")),
    )


def _bindings(raw: object, at: Location) -> tuple[Binding, ...]:
    path = path_of(ROOT, at)
    if raw is None:
        return ()
    if not isinstance(raw, Mapping):
        raise schema_fault(path, "expected a mapping of argument names to binding values", at)
    if not raw:
        raise schema_fault(path, EMPTY_CHANNEL, at)
    return tuple(
        binding_of("arguments", key, raw[key], path_of(ROOT, (*at, key)), (*at, key), short=True) for key in sorted(raw)
    )


def _check(check: CheckModel, index: int) -> PlanCheck:
    at: Location = ("checks", index)
    return PlanCheck(
        id=check.id,
        expression=expression_of(check.model_extra or {}, path_of(ROOT, at), at, short=True),
        severity=check.severity,
        expects_hold=check.expects == "hold",
    )
