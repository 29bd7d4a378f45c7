"""The native form of a plan, the JSON evaluation contract (`EvalContract`) -> Plan (plan.md section 1.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from onpath.policy.plan_operations import InterfaceModel, inputs_of, operations_of
from onpath.policy.plan_schema import (
    EMPTY_CHANNEL,
    CardinalityWord,
    Name,
    ReferenceSetModel,
    SeverityWord,
    Slug,
    binding_of,
    expression_of,
    in_brackets,
    path_of,
    pointer_of,
    reference_sets_of,
    schema_fault,
    unique_ids,
    validated,
)
from onpath.policy.schema import Strict
from onpath.report import Severity
from onpath.validators.plan.expressions import REQUIRED_FIELD, UNKNOWN_FIELD
from onpath.validators.plan.model import (
    NATIVE,
    SEVERITIES,
    Binding,
    Direction,
    Interface,
    Leg,
    Location,
    Plan,
    PlanCheck,
    PlanStep,
    Reset,
)
from onpath.validators.plan.pointers import INPUT_CHANNELS, KIND_OF_INPUT, Kind
from onpath.validators.plan.values import digest

ROOT: Final = "EvalContract"


class NativeStepModel(Strict):
    stepId: Slug
    operationId: Name
    inputBinding: dict[str, Any]
    after: Slug | None
    cardinality: CardinalityWord
    interfaceId: Name | None = None


class DirectionModel(Strict):
    evidenceTargets: list[str] | None = None
    relation: str | None = None
    polarity: Literal["expects-hold", "expects-violation"] | None = None
    negativeDomain: Any = None
    scope: Any = None


class OracleModel(Strict):
    id: Name
    check: Any
    polarity: Literal["expects-hold", "expects-violation"] | None = None
    severity: SeverityWord | None = None
    commentary: Any = None
    direction: DirectionModel | None = None


class BehaviorModel(Strict):
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    severity: SeverityWord | None = None
    oracles: list[str] = Field([])


class TestDataModel(Strict):
    __test__ = False  # pytest: this is no test
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    principals: dict[str, Any] | None = None


class ResetModel(Strict):
    legId: Name
    interfaceId: Name
    operationId: Name
    inputs: dict[str, Any] | None = None


class ContractModel(Strict):
    """An evaluation contract. What is typed Any is accepted, part of the digest, and not read."""

    permittedInterfaces: list[InterfaceModel]
    interactionPlan: list[NativeStepModel]
    oracles: list[OracleModel] | None = None
    behaviors: list[BehaviorModel] | None = None
    testData: TestDataModel | None = None
    referenceSets: dict[str, ReferenceSetModel] | None = None
    fixtureReset: ResetModel | None = None
    contractId: str | None = None
    schemaVersion: Any = None
    parentDigest: Any = None
    revisionCount: Any = None
    sourceSpecDigest: Any = None
    rubrics: Any = None
    waivers: Any = None
    siblingGroups: Any = None
    scopedResources: Any = None
    forbiddenInputs: Any = None
    budgets: Any = None
    safetyLimits: Any = None
    requiredEvidence: Any = None
    probeStepBound: Any = None


class OptionsModel(Strict):
    """What may stand beside `contract` in the policy."""

    contract: Any
    id: Slug | None = None
    severity_floor: SeverityWord = "material"
    strict: bool = True
    order: Literal["start", "after_end"] = "start"


def read(raw: object, options: OptionsModel | None = None) -> Plan:
    """A contract by itself, or under `plan!` with its options. Raises PlanFault."""
    model = validated(ContractModel, raw, ROOT)
    options = options or OptionsModel(contract=None)
    checks = model.oracles or []
    unique_ids([check.id for check in checks], f"{ROOT}.oracles", "oracles")
    severities = _severities(model.behaviors or [])
    return Plan(
        id=options.id or model.contractId,
        spelling=NATIVE,
        digest=digest(raw),
        steps=tuple(_step(step, i) for i, step in enumerate(model.interactionPlan)),
        checks=tuple(_check(check, i, severities) for i, check in enumerate(checks)),
        interfaces=tuple(Interface(interface.logicalId, interface.kind) for interface in model.permittedInterfaces),
        operations=operations_of(model.permittedInterfaces, ROOT),
        principals=frozenset((model.testData and model.testData.principals) or ()),
        reference_sets=reference_sets_of(model.referenceSets, ROOT, "referenceSets"),
        severity_floor=options.severity_floor,
        strict=options.strict,
        order=options.order,
        reset=_reset(model),
    )


def _severities(behaviors: list[BehaviorModel]) -> dict[str, Severity]:
    """Check id to the highest severity of the behaviours that list it."""
    found: dict[str, Severity] = {}
    for behavior in behaviors:
        for check in behavior.oracles if behavior.severity else ():
            held: Severity = found.get(check, "low")
            found[check] = max(held, behavior.severity or held, key=SEVERITIES.index)
    return found


def _reset(model: ContractModel) -> Reset | None:
    reset = model.fixtureReset
    if reset is None:
        return None
    kinds: dict[str, Kind] = {interface.logicalId: interface.kind for interface in model.permittedInterfaces}
    kind = kinds.get(reset.interfaceId, "api")
    inputs = inputs_of(reset.inputs, kind, f"{ROOT}.fixtureReset.inputs", ("fixtureReset", "inputs"))
    return Reset(Leg(reset.legId, inputs), reset.interfaceId, reset.operationId)


def _step(step: NativeStepModel, index: int) -> PlanStep:
    at: Location = ("interactionPlan", index, "inputBinding")
    return PlanStep(
        id=step.stepId,
        operation=step.operationId,
        interface=step.interfaceId,
        after=step.after,
        cardinality=step.cardinality,
        bindings=tuple(_bindings(step.inputBinding, at)),
        channels=tuple(step.inputBinding),
    )


def _bindings(raw: Mapping[str, Any], at: Location) -> list[Binding]:
    """The channels of one kind, each null or a map of key to binding value."""
    path = path_of(ROOT, at)
    kind = next((KIND_OF_INPUT[channel] for channel in raw if channel in KIND_OF_INPUT), None)
    channels = INPUT_CHANNELS[kind] if kind else ()
    for channel in raw:
        if channel not in channels:
            raise schema_fault(f"{path}.{channel}", UNKNOWN_FIELD, (*at, channel))
    if kind is None:
        raise schema_fault(path, "expected the input channels of one kind of interface", at)
    found = []
    for channel in channels:
        where, place = f"{path}.{channel}", (*at, channel)
        if channel not in raw:
            raise schema_fault(where, REQUIRED_FIELD, at)
        bound = raw[channel]
        if bound is None:
            continue
        if not isinstance(bound, Mapping):
            raise schema_fault(where, "expected null or an object of keys to binding values", place)
        if not bound:
            raise schema_fault(where, EMPTY_CHANNEL, place)
        found += [
            binding_of(channel, key, bound[key], where + in_brackets(key), (*place, key), short=False)
            for key in sorted(bound)
        ]
    return found


def _check(check: OracleModel, index: int, severities: Mapping[str, Severity]) -> PlanCheck:
    at: Location = ("oracles", index)
    path = path_of(ROOT, at)
    return PlanCheck(
        id=check.id,
        expression=expression_of(check.check, f"{path}.check", (*at, "check"), short=False),
        severity=check.severity or severities.get(check.id, "material"),
        expects_hold=check.polarity != "expects-violation",
        direction=_direction(check.direction, path, at) if check.direction else None,
    )


def _direction(direction: DirectionModel, path: str, at: Location) -> Direction:
    targets = None
    if direction.evidenceTargets is not None:
        where = (*at, "direction", "evidenceTargets")
        targets = tuple(
            pointer_of(text, f"{path}.direction.evidenceTargets[{i}]", (*where, i), short=False)
            for i, text in enumerate(direction.evidenceTargets)
        )
    holds = None if direction.polarity is None else direction.polarity == "expects-hold"
    return Direction(targets=targets, relation=direction.relation, expects_hold=holds)
