"""Selection: which call answers for which step, tier by tier (plan.md section 4).

A floor or a binding accepts a call, refuses it, or is unsure because something was not recorded. Refused calls are
out; what the unsure ones leave of a step is decided once, in `_decide`, and never by a coin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from onpath.redaction import is_redacted
from onpath.steps.model import NOT_CAPTURED
from onpath.validators.plan.calls import Call
from onpath.validators.plan.evidence import input_channel, read
from onpath.validators.plan.graph import source_steps, tiers_of
from onpath.validators.plan.model import (
    ActingAs,
    Anything,
    Binding,
    Captured,
    DistinctFrom,
    Exactly,
    Operation,
    Plan,
    PlanStep,
)
from onpath.validators.plan.pointers import KIND_OF_INPUT, Pointer
from onpath.validators.plan.values import MISSING, equal, json_type

Reason: TypeAlias = Literal[
    "anchor-unresolved", "source-unresolved", "no-call", "temporal-floor", "capture-floor", "bindings",
    "not-captured", "no-times",
]  # fmt: skip
Sure: TypeAlias = bool | None  # None: cannot be told from what was recorded
Bound: TypeAlias = Callable[[str | None], Call | None]  # step id to the call bound to it
_Refusing: TypeAlias = dict[tuple[str, str], Binding]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What selection says of one step. `candidates` fit, or may fit where the reason is that something is not known."""

    result: Literal["one", "several", "none"]
    candidates: tuple[Call, ...] = ()
    call: Call | None = None
    reason: Reason | None = None
    overlaps_anchor: bool = False
    refused: tuple[Call, ...] = ()  # the last calls that fell, with the bindings that refused one of them
    refusing: tuple[Binding, ...] = ()


@dataclass(frozen=True, slots=True)
class _Record:
    """The calls of a trace in sequence, and what was selected so far."""

    plan: Plan
    calls: Sequence[Call]
    places: Mapping[int, int]  # identity of a call to its place in the sequence
    selected: dict[str, Selection]

    def bound(self, step: str | None) -> Call | None:
        found = self.selected.get(step) if step is not None else None
        return found.call if found else None

    def later(self, call: Call, than: Call) -> bool:
        return self.places[id(call)] > self.places[id(than)]


@dataclass(slots=True)
class _Candidate:
    call: Call
    times_known: bool = True
    captured: bool = True

    @property
    def sure(self) -> bool:
        return self.times_known and self.captured


def select(plan: Plan, calls: Sequence[Call]) -> dict[str, Selection]:
    """Step id to its selection, for calls in sequence. The plan has passed its compile checks."""
    record = _Record(plan, calls, {id(call): place for place, call in enumerate(calls)}, {})
    steps = {step.id: step for step in plan.steps}
    for tier in tiers_of(plan):
        record.selected.update({step_id: _select(record, steps[step_id]) for step_id in tier})
    return record.selected


def _select(record: _Record, step: PlanStep) -> Selection:
    anchored = step.after in record.selected
    anchor = record.bound(step.after)
    if anchored and anchor is None:
        return Selection(result="none", reason="anchor-unresolved")
    if any(record.bound(source) is None for source in source_steps(step)):
        return Selection(result="none", reason="source-unresolved")
    left = [_Candidate(call) for call in calls_of_step(record.plan, step, record.calls)]
    if not left:
        return Selection(result="none", reason="no-call")
    floors: list[tuple[Reason, Callable[[Call], Sure]]] = [
        ("temporal-floor", lambda call: True if anchor is None else _after_anchor(record, call, anchor)),
        ("capture-floor", lambda call: _after_sources(record, step, call)),
    ]
    for reason, floor in floors:
        before, left = left, _passing(left, floor)
        if not left:
            return Selection(result="none", reason=reason, refused=tuple(c.call for c in before))
    before = left
    refusing: _Refusing = {}
    operation = operation_of(record.plan, step)
    left = [candidate for candidate in before if _fits(record, step, operation, candidate, refusing)]
    if not left:
        refused = tuple(c.call for c in before)
        return Selection(result="none", reason="bindings", refused=refused, refusing=tuple(refusing.values()))
    return _decide(step, left, anchor)


def calls_of_step(plan: Plan, step: PlanStep, calls: Iterable[Call]) -> list[Call]:
    """The calls of a step's operation: by name, and by interface where both sides name one."""
    operations = plan.operations_of(step)
    names = {operation.tool_name for operation in operations} or {step.operation}
    return [call for call in calls if call.name in names and _same_interface(step.interface, call.interface)]


def _same_interface(wanted: str | None, recorded: str | None) -> bool:
    return wanted is None or recorded is None or wanted == recorded


def _passing(candidates: list[_Candidate], floor: Callable[[Call], Sure]) -> list[_Candidate]:
    passing = []
    for candidate in candidates:
        sure = floor(candidate.call)
        if sure is not False:
            candidate.times_known = candidate.times_known and sure is True
            passing.append(candidate)
    return passing


def _after_anchor(record: _Record, call: Call, anchor: Call) -> Sure:
    if not record.later(call, anchor):
        return False
    return _after_end(call, anchor) if record.plan.order == "after_end" else True


def _after_sources(record: _Record, step: PlanStep, call: Call) -> Sure:
    """A value does not exist before the call that returns it has ended."""
    sure: Sure = True
    for name in source_steps_captured(step):
        source = record.bound(name)
        if source is None or not record.later(call, source):
            return False
        after = _after_end(call, source)
        if after is False:
            return False
        sure = sure and after
    return sure


def source_steps_captured(step: PlanStep) -> tuple[str, ...]:
    pointers = (b.accepts.pointer for b in step.bindings if isinstance(b.accepts, Captured))
    return tuple(dict.fromkeys(pointer.step for pointer in pointers if pointer.step is not None))


def _after_end(call: Call, earlier: Call) -> Sure:
    """Whether a call started at or after the end of another; without times the turn of the model tells."""
    if call.start_ns is not None and earlier.end_ns is not None:
        return call.start_ns >= earlier.end_ns
    if call.turn is None or earlier.turn is None or call.turn == earlier.turn:
        return None
    return call.turn > earlier.turn


def _fits(record: _Record, step: PlanStep, operation: Operation, candidate: _Candidate, refusing: _Refusing) -> bool:
    for binding in step.bindings:
        sure = accepts(record.plan, operation, binding, candidate.call, record.bound)
        if sure is False:
            refusing[binding.channel, binding.key] = binding
            return False
        candidate.captured = candidate.captured and sure is True
    return True


def accepts(plan: Plan, operation: Operation, binding: Binding, call: Call, bound: Bound) -> Sure:
    """Whether a binding accepts a call of the operation, with what `bound` gives for the steps it depends on."""
    held = input_channel(call.input, operation.kind, binding.channel)
    value: Any = NOT_CAPTURED
    if held is not NOT_CAPTURED:
        value = held[binding.key] if isinstance(held, Mapping) and binding.key in held else MISSING
    if value is MISSING:
        return False
    recorded: Sure = None if value is NOT_CAPTURED else True
    if is_redacted(value):  # the key was sent, with a value that nobody may see
        value = NOT_CAPTURED
    known: Sure = None if value is NOT_CAPTURED else True
    match binding.accepts:
        case Exactly(wanted):
            return known and equal(value, wanted)
        case Anything():
            return recorded
        case ActingAs(principal):
            return recorded if call.principal == principal else False
        case Captured(pointer):
            return _compared(value, _source_value(plan, pointer, bound), wanted=True)
        case DistinctFrom(pointer):
            return _compared(value, _source_value(plan, pointer, bound), wanted=False)
        case _:
            declared = operation.input_shape(binding.channel).types.get(binding.key)
            return False if declared is None else known and json_type(value) != declared


def _compared(value: Any, source: Any, *, wanted: bool) -> Sure:
    """A place without a value equals nothing and is distinct from nothing."""
    if source is MISSING:
        return False
    if value is NOT_CAPTURED or source is NOT_CAPTURED:
        return None
    return equal(value, source) is wanted


def _source_value(plan: Plan, pointer: Pointer, bound: Bound) -> Any:
    call, step = bound(pointer.step), plan.step(pointer.step or "")
    return MISSING if call is None or step is None else read(call, operation_of(plan, step), pointer)


def operation_of(plan: Plan, step: PlanStep) -> Operation:
    """The operation of a step, or a stand-in for one that is not declared: it selects by name."""
    found = plan.operations_of(step)
    if found:
        return found[0]
    kind = KIND_OF_INPUT.get(step.channels[0], "mcp") if step.channels else "mcp"
    return Operation(id=step.operation, tool_name=step.operation, kind=kind, declared=False)


def _decide(step: PlanStep, candidates: list[_Candidate], anchor: Call | None) -> Selection:
    """One, several or none of what is left; a call that only may fit leaves no more than may be said without it."""
    calls = tuple(candidate.call for candidate in candidates)
    fitting = tuple(candidate.call for candidate in candidates if candidate.sure)
    takes_first = step.cardinality == "any"
    if len(fitting) < len(calls):
        settled = candidates[0].sure if takes_first else len(fitting) > 1
        if not settled:
            unknown = [candidate for candidate in candidates if not candidate.sure]
            reason: Reason = "no-times" if all(candidate.captured for candidate in unknown) else "not-captured"
            return Selection(result="none", candidates=calls, reason=reason)
    if len(fitting) > 1 and not takes_first:
        return Selection(result="several", candidates=fitting)
    call = fitting[0]
    return Selection(
        result="one" if len(fitting) == 1 else "several",
        candidates=fitting,
        call=call,
        overlaps_anchor=_overlaps(call, anchor),
    )


def _overlaps(call: Call, anchor: Call | None) -> bool:
    if anchor is None or call.start_ns is None or anchor.end_ns is None:
        return False
    return call.start_ns < anchor.end_ns
