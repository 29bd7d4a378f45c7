"""A plan as it is judged: frozen, the same for both spellings. `policy.plan` makes one, `compile` checks it.

Data flow: policy.plan (native or short form) -> Plan -> compile.check -> PlanValidator.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from onpath.report import Severity
from onpath.validators.plan.pointers import Kind, Pointer
from onpath.validators.plan.relate import Expression, ReferenceSet
from onpath.validators.plan.values import Tail

Cardinality: TypeAlias = Literal["exactly-one", "at-most-one", "any"]
Order: TypeAlias = Literal["start", "after_end"]
Location: TypeAlias = tuple[str | int, ...]  # keys and list positions from the document's root

SCHEMA: Final = "schema-parse-failure"
_SCHEMA_CODES: Final = frozenset({SCHEMA, "port-contract-violation"})


class PlanFault(Exception):
    """What is wrong with a plan or with what stands beside it, where, and how its command ends (plan.md 9).

    `at` leads to the place in the document, where it is known, so that a reader of the file can find its line.
    """

    def __init__(self, code: str, path: str, detail: str, at: Location | None = None) -> None:
        super().__init__(f"{code}: {path}: {detail}")
        self.code = code
        self.path = path
        self.detail = detail
        self.at = at

    @property
    def exit_code(self) -> int:
        return 5 if self.code in _SCHEMA_CODES else 4


@dataclass(frozen=True, slots=True)
class Shape:
    """What a channel declares: key to type, None for a key without one. `open`: nothing is declared or checked."""

    types: Mapping[str, str | None] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    open: bool = False


OPEN: Final = Shape(open=True)
CLOSED: Final = Shape()


@dataclass(frozen=True, slots=True)
class Leg:
    """One request that a harness sends: a witness's, or the reset of a fixture."""

    id: str
    inputs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Witness:
    """Two requests whose answers have to stand in a relation if the operation heeds its input."""

    legs: tuple[Leg, Leg]
    relation: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A tool, an HTTP operation or a command. `described` is the channel that `output` describes."""

    id: str
    tool_name: str
    interface: str | None = None
    kind: Kind = "mcp"
    mutates: bool = False
    inputs: Mapping[str, Shape] = field(default_factory=dict)
    output: Shape = OPEN
    described: str = "response-body"
    artifacts: frozenset[str] = frozenset()
    collections: Mapping[Tail, float] = field(default_factory=dict)  # place in the output to its largest size
    volatile: tuple[Tail, ...] = ()
    witness: Witness | None = None
    declared: bool = True  # False: a step names the tool, and nothing is said about it

    def input_shape(self, channel: str) -> Shape:
        return self.inputs.get(channel, CLOSED)

    @property
    def required_keys(self) -> frozenset[str]:
        return frozenset().union(*(shape.required for shape in self.inputs.values()))

    @property
    def takes_input(self) -> bool:
        return any(shape.types for shape in self.inputs.values())


@dataclass(frozen=True, slots=True)
class Interface:
    id: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Exactly:
    value: Any


@dataclass(frozen=True, slots=True)
class Anything:
    pass


@dataclass(frozen=True, slots=True)
class TypeViolating:
    pass


@dataclass(frozen=True, slots=True)
class Captured:
    pointer: Pointer


@dataclass(frozen=True, slots=True)
class DistinctFrom:
    pointer: Pointer


@dataclass(frozen=True, slots=True)
class ActingAs:
    principal: str


Accepts: TypeAlias = Exactly | Anything | TypeViolating | Captured | DistinctFrom | ActingAs


@dataclass(frozen=True, slots=True)
class Binding:
    """What the argument `key` of a channel has to be."""

    channel: str
    key: str
    accepts: Accepts

    @property
    def source(self) -> Pointer | None:
        """The place in another step's evidence that this depends on."""
        return self.accepts.pointer if isinstance(self.accepts, Captured | DistinctFrom) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
    """A selector: the call that answers for it. `bindings` stand in channel order, keys sorted."""

    id: str
    operation: str  # operationId, or the tool's name
    interface: str | None = None
    after: str | None = None
    cardinality: Cardinality = "exactly-one"
    bindings: tuple[Binding, ...] = ()
    channels: tuple[str, ...] = ("arguments",)  # of the input binding as written


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """What a check says of itself, held against what it does. None: not said."""

    targets: tuple[Pointer, ...] | None = None
    relation: str | None = None
    expects_hold: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCheck:
    id: str
    expression: Expression
    severity: Severity = "material"
    expects_hold: bool = True
    direction: Direction | None = None


@dataclass(frozen=True, slots=True)
class Reset:
    leg: Leg
    interface: str
    operation: str


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a form calls the places of a plan, in faults, and where they stand in the document."""

    steps: str
    step_id: str
    bindings: str
    checks: str
    check_tail: str
    native: bool

    @property
    def at_steps(self) -> Location:
        return ("interactionPlan",) if self.native else ("steps",)

    def at_step(self, index: int) -> Location:
        return (*self.at_steps, index)

    def at_binding(self, index: int, binding: Binding) -> Location:
        channel = (binding.channel,) if self.native else ()
        return (*self.at_step(index), self.bindings, *channel, binding.key)

    def at_check(self, index: int) -> Location:
        return ("oracles" if self.native else "checks", index)

    def step(self, step_id: str) -> str:
        return f"{self.steps}[{self.step_id}={step_id}]"

    def binding(self, step_id: str, binding: Binding) -> str:
        channel = f".{binding.channel}" if self.native else ""
        return f"{self.step(step_id)}.{self.bindings}{channel}[{json.dumps(binding.key, ensure_ascii=False)}]"

    def check(self, check_id: str) -> str:
        return f"{self.checks}[id={check_id}]{self.check_tail}"

    def direction(self, check_id: str, word: str) -> str:
        return f"{self.checks}[id={check_id}].direction.{word}"


NATIVE: Final = Spelling(
    "EvalContract.interactionPlan", "stepId", "inputBinding", "EvalContract.oracles", ".check", native=True
)
SHORT: Final = Spelling("plan!.steps", "step", "input", "plan!.checks", "", native=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`digest` is that of the document as parsed (plan.md 7.3); a contract need not have an id."""

    id: str | None
    spelling: Spelling
    digest: str
    steps: tuple[PlanStep, ...] = ()
    checks: tuple[PlanCheck, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    operations: tuple[Operation, ...] = ()
    principals: frozenset[str] = frozenset()
    reference_sets: Mapping[str, ReferenceSet] = field(default_factory=dict)
    severity_floor: Severity = "material"
    strict: bool = True
    order: Order = "start"
    reset: Reset | None = None

    @property
    def title(self) -> str:
        return f'plan "{self.id}"' if self.id else "the plan"

    def operations_of(self, step: PlanStep) -> tuple[Operation, ...]:
        """Those that the step may mean: none if it names one that is not declared."""
        return tuple(
            operation
            for operation in self.operations
            if operation.id == step.operation and step.interface in (None, operation.interface)
        )

    def step(self, step_id: str) -> PlanStep | None:
        return next((step for step in self.steps if step.id == step_id), None)


SEVERITIES: Final[Sequence[Severity]] = ("low", "material", "critical")


def at_least(severity: Severity, floor: Severity) -> bool:
    return SEVERITIES.index(severity) >= SEVERITIES.index(floor)
