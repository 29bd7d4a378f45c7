"""Interfaces and operations of an evaluation contract -> Operation values (plan.md section 1.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from onpath.policy.plan_schema import Name, Slug, expression_of, path_of, schema_fault, tail_at, validated
from onpath.policy.schema import Strict
from onpath.validators.plan.expressions import REQUIRED_FIELD, UNKNOWN_FIELD
from onpath.validators.plan.model import CLOSED, Leg, Location, Operation, Shape, Witness
from onpath.validators.plan.pointers import INPUT_CHANNELS, Kind
from onpath.validators.plan.values import Tail

TypeName = Literal["string", "number", "boolean", "object", "array", "null"] | None


class ShapeModel(Strict):
    requiredKeys: list[str] = Field([])
    permittedKeys: list[str] = Field([])
    types: dict[str, TypeName] = Field({})

    def build(self) -> Shape:
        keys = dict.fromkeys([*self.requiredKeys, *self.permittedKeys])
        return Shape({key: self.types.get(key) for key in keys}, frozenset(self.requiredKeys))


class ExactModel(Strict):
    mode: Literal["exact"]
    count: Annotated[float, Field(ge=0)]


class BoundedModel(Strict):
    mode: Literal["at-most", "page-bounded"]
    max: Annotated[float, Field(ge=0)]


class CollectionModel(Strict):
    pointer: str
    expectedCardinality: Annotated[ExactModel | BoundedModel, Field(discriminator="mode")]
    referenceSet: Any = None


class DescriptorModel(ShapeModel):
    collectionLocations: list[CollectionModel] | None = None
    successIndicator: Any = None
    channelRoles: Any = None


class LegModel(Strict):
    legId: Name
    inputs: dict[str, Any] | None


class WitnessModel(Strict):
    legs: list[LegModel] = Field(min_length=2, max_length=2)
    relation: Any
    witnessId: Any = None
    channel: Any = None


class StreamModel(Strict):
    kind: Literal["stream"]
    channel: Literal["stdout", "stderr"]


class ArtifactModel(Strict):
    kind: Literal["artifact"]
    artifactId: Name


class OperationModel(Strict):
    operationId: Name
    toolName: Name | None = None
    stateChangeMarker: bool | None = None
    requestShape: dict[str, ShapeModel | None] | None = None
    responseDescriptor: DescriptorModel | None = None
    volatilePointers: list[str] | None = None
    sensitivityWitness: WitnessModel | None = None
    descriptorChannel: Annotated[StreamModel | ArtifactModel, Field(discriminator="kind")] | None = None
    artifacts: list[Name] | None = None
    method: Any = None
    pathTemplate: Any = None
    invocation: Any = None


class InterfaceModel(Strict):
    logicalId: Slug
    kind: Literal["api", "cli", "mcp", "web"]
    operations: list[Any]


_CLI_ONLY: Final = ("descriptorChannel", "artifacts")


def operations_of(interfaces: Sequence[InterfaceModel], root: str) -> tuple[Operation, ...]:
    """All operations in order of declaration. Raises PlanFault."""
    found = []
    for i, interface in enumerate(interfaces):
        for j, raw in enumerate(interface.operations):
            at: Location = ("permittedInterfaces", i, "operations", j)
            found.append(_operation(raw, interface, path_of(root, at), at))
    return tuple(found)


def _operation(raw: object, interface: InterfaceModel, path: str, at: Location) -> Operation:
    model = validated(OperationModel, raw, path, at)
    _fits_kind(model, interface.kind, path, at)
    descriptor = model.responseDescriptor
    collections = {}
    for i, location in enumerate(descriptor.collectionLocations or () if descriptor else ()):
        where: Location = ("responseDescriptor", "collectionLocations", i, "pointer")
        size = location.expectedCardinality
        tail = tail_at(location.pointer, path_of(path, where), (*at, *where))
        collections[tail] = size.count if isinstance(size, ExactModel) else size.max
    return Operation(
        id=model.operationId,
        tool_name=model.toolName or model.operationId,
        interface=interface.logicalId,
        kind=interface.kind,
        mutates=bool(model.stateChangeMarker),
        inputs={name: shape.build() if shape else CLOSED for name, shape in (model.requestShape or {}).items()},
        output=descriptor.build() if descriptor else CLOSED,
        described=_described(model),
        artifacts=frozenset(model.artifacts or ()),
        collections=collections,
        volatile=_volatile(model, path, at),
        witness=_witness(model.sensitivityWitness, interface.kind, path, at) if model.sensitivityWitness else None,
    )


def _fits_kind(model: OperationModel, kind: Kind, path: str, at: Location) -> None:
    """Fields and channels that only some kinds of interface have."""
    if kind == "web":
        return  # refused as a whole, by a later check
    for field in _CLI_ONLY if kind != "cli" else ():
        if getattr(model, field) is not None:
            raise schema_fault(f"{path}.{field}", UNKNOWN_FIELD, (*at, field))
    if kind == "cli" and model.descriptorChannel is None:
        raise schema_fault(f"{path}.descriptorChannel", REQUIRED_FIELD, at)
    for channel in model.requestShape or ():
        if channel not in INPUT_CHANNELS[kind]:
            raise schema_fault(f"{path}.requestShape.{channel}", UNKNOWN_FIELD, (*at, "requestShape", channel))


def _described(model: OperationModel) -> str:
    channel = model.descriptorChannel
    if channel is None:
        return "response-body"
    return channel.channel if isinstance(channel, StreamModel) else f"artifact/{channel.artifactId}"


def _volatile(model: OperationModel, path: str, at: Location) -> tuple[Tail, ...]:
    return tuple(
        tail_at(text, f"{path}.volatilePointers[{i}]", (*at, "volatilePointers", i))
        for i, text in enumerate(model.volatilePointers or ())
    )


def _witness(model: WitnessModel, kind: Kind, path: str, at: Location) -> Witness:
    path, at = f"{path}.sensitivityWitness", (*at, "sensitivityWitness")
    first, second = (
        Leg(leg.legId, inputs_of(leg.inputs, kind, f"{path}.legs[{i}].inputs", (*at, "legs", i, "inputs")))
        for i, leg in enumerate(model.legs)
    )
    relation = expression_of(model.relation, f"{path}.relation", (*at, "relation"), short=False)
    return Witness((first, second), relation)


def inputs_of(raw: Mapping[str, Any] | None, kind: Kind, path: str, at: Location) -> Mapping[str, Any]:
    """What a leg sends. Those of a tool stand under `arguments`, and nothing beside it. Raises PlanFault."""
    inputs = raw or {}
    for name in inputs if kind == "mcp" else ():
        if name != "arguments":
            raise schema_fault(f"{path}.{name}", UNKNOWN_FIELD, (*at, name))
    return inputs
