"""What the declared operations let a pointer resolve to: compile checks 2, 3, 4 and 13 rest on it.

A place is judged by its step, that step's operation, the channel and the shape that describes it. Open shapes (short
form) say nothing of keys and types; everything else holds for them too.
"""

from __future__ import annotations

from typing import TypeAlias

from onpath.validators.plan.model import OPEN, Binding, Captured, Operation, Plan, PlanStep, Shape
from onpath.validators.plan.pointers import INPUT_CHANNELS, KINDS_OF_CHANNEL, Pointer
from onpath.validators.plan.values import SCALARS, index_of

Reason: TypeAlias = str | None  # why a pointer never resolves; None: it may


def the_operation(plan: Plan, step: PlanStep) -> Operation | None:
    """The one operation that a step means; None if none or several are declared."""
    found = plan.operations_of(step)
    return found[0] if len(found) == 1 else None


def operation_at(plan: Plan, pointer: Pointer) -> Operation | str:
    """The operation whose call a pointer reads, or why there is not exactly one."""
    steps = [step for step in plan.steps if step.id == pointer.step]
    if len(steps) != 1:
        return f'names step "{pointer.step}", which is declared {_times(len(steps))}'
    operations = plan.operations_of(steps[0])
    if len(operations) != 1:
        named = f'names step "{pointer.step}", whose operation "{steps[0].operation}"'
        return f"{named} is declared {_times(len(operations))}"
    return operations[0]


def unreachable(operation: Operation, pointer: Pointer) -> Reason:
    """Why no call of this operation has a value there (row 3)."""
    kinds = KINDS_OF_CHANNEL.get(pointer.channel)
    if kinds is not None and operation.kind not in kinds:
        return f'reads the {pointer.full_channel} channel, which operation "{operation.id}" does not have'
    if pointer.channel == "call-inputs" and pointer.part not in INPUT_CHANNELS.get(operation.kind, ()):
        return f'reads the input channel {pointer.part}, which operation "{operation.id}" does not have'
    shape = shape_of(operation, pointer)
    if shape is None or not pointer.tail:
        return None
    return _outside(operation, pointer) or _undeclared(operation, shape, pointer)


def shape_of(operation: Operation, pointer: Pointer) -> Shape | None:
    """What declares the keys of a channel; None for channels that nothing describes and that may hold anything."""
    if pointer.channel == "call-inputs":
        return operation.input_shape(pointer.part or "")
    if pointer.full_channel == operation.described:
        return operation.output
    return None if pointer.channel == "response-headers" else Shape()


def declared_type(operation: Operation, pointer: Pointer) -> str | None:
    """The type declared for exactly that place; None if none is."""
    shape = shape_of(operation, pointer)
    if shape is None or len(pointer.tail) != 1:
        return None
    return shape.types.get(pointer.tail[0])


def undeclared_artifact(operation: Operation, pointer: Pointer) -> bool:
    return pointer.channel == "artifact" and operation.kind == "cli" and pointer.part not in operation.artifacts


def is_collection(operation: Operation, pointer: Pointer) -> bool:
    """Whether a list is declared there (`collections`)."""
    return pointer.full_channel == operation.described and pointer.tail in operation.collections


def _outside(operation: Operation, pointer: Pointer) -> Reason:
    if pointer.full_channel != operation.described:
        return None
    for place, size in operation.collections.items():
        inside = pointer.tail[len(place) : len(place) + 1]
        index = index_of(inside[0]) if inside and pointer.tail[: len(place)] == place else None
        if index is not None and index >= size:
            return f"reads element {inside[0]} of a list declared with at most {size:g}"
    return None


def _undeclared(operation: Operation, shape: Shape, pointer: Pointer) -> Reason:
    key = pointer.tail[0]
    a_list = () in operation.collections and pointer.full_channel == operation.described
    if shape.open or (a_list and index_of(key) is not None):
        return None
    if key not in shape.types:
        return f'reads key "{key}", which operation "{operation.id}" does not declare'
    if len(pointer.tail) > 1 and shape.types[key] in SCALARS:
        return f'reads inside key "{key}", which operation "{operation.id}" declares as {shape.types[key]}'
    return None


def capture_fault(plan: Plan, step: PlanStep, binding: Binding, pointer: Pointer) -> Reason:
    """What is wrong with a capture (row 4), as the words after the pointer."""
    source = operation_at(plan, pointer)
    if isinstance(source, str):
        return source
    if pointer.full_channel != source.described:
        return None  # row 13 speaks of it
    if len(pointer.tail) != 1:
        return f"has {len(pointer.tail)} segments after the channel; a captured value is one key of it"
    if index_of(pointer.tail[0]) is not None:
        return "captures an element of a list, which no declaration gives a type"
    if reason := unreachable(source, pointer):
        return reason
    given = declared_type(source, pointer)
    if not source.output.open and given not in SCALARS:
        known = "no type" if given is None else f'the type "{given}"'
        return f"reads a key that is declared with {known}; only a declared scalar is captured"
    target = the_operation(plan, step)
    shape = OPEN if target is None else target.input_shape(binding.channel)
    if shape.open or binding.key not in shape.types:
        return None
    wanted = shape.types[binding.key]
    if wanted is None:
        return f'is bound to the {binding.channel} parameter "{binding.key}", which is declared without a type'
    if given in (None, wanted):
        return None
    return (
        f'resolves to a declared "{given}", which is not the "{wanted}" '
        f'the bound {binding.channel} parameter "{binding.key}" is declared as'
    )


def distinct_fault(plan: Plan, step: PlanStep, binding: Binding, pointer: Pointer) -> Reason:
    """What is wrong with a `distinct_from` (row 4)."""
    source = operation_at(plan, pointer)
    if isinstance(source, str):
        return source
    if off_channel(source, binding, pointer):
        return None  # row 13 speaks of it
    if reason := unreachable(source, pointer):
        return reason
    target = the_operation(plan, step)
    given = declared_type(source, pointer)
    wanted = None if target is None else target.input_shape(binding.channel).types.get(binding.key)
    if given is not None and wanted is not None and given != wanted:
        return f'is declared "{given}" and the bound key "{wanted}": they always differ, so this binds nothing'
    return None


def off_channel(source: Operation, binding: Binding, pointer: Pointer) -> bool:
    """Whether a binding reads a channel that it may not (row 13)."""
    if pointer.full_channel == source.described:
        return False
    return isinstance(binding.accepts, Captured) or pointer.channel != "call-inputs"


def _times(count: int) -> str:
    return "nowhere" if count == 0 else f"{count} times"
