"""What model messages say about calls: calls that only they show, and what spans lost (steps.md section 3).

Data flow: model calls of a scope -> their messages, decoded when somebody looks -> `messages.calls_in` -> calls with
the model call that asked for each. They repair the tool spans of a scope; where it has none they are its calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, overload

from onpath.conventions.base import Fact
from onpath.conventions.messages import walk
from onpath.json_values import equal
from onpath.model import NOT_CAPTURED
from onpath.steps.calls import same_tool
from onpath.steps.facts import Facts
from onpath.steps.messages import calls_in
from onpath.steps.model import Step

_BY_PROVIDER: Final = frozenset({"server_tool_call", "server_tool_use"})
_PROVIDER_WORDS: Final = ("server_tool_", "providerExecuted")
_APPROVAL_WORD: Final = "tool-approval-request"


class CallMessages(Sequence[Any]):
    """The messages of a scope's model calls, one list for each call that has any, read when first looked at."""

    __slots__ = ("_calls", "_fact", "_read")

    def __init__(self, calls: Sequence[Facts], fact: Fact) -> None:
        self._calls = calls
        self._fact = fact
        self._read: list[Any] | None = None

    def _all(self) -> list[Any]:
        if self._read is None:
            found = (facts.get(self._fact) for facts in self._calls)
            self._read = [f for f in found if f is not NOT_CAPTURED]
        return self._read

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        return self._all()[index]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._all() == list(other)

    __hash__ = None  # type: ignore[assignment]


def recorded(calls: Sequence[Facts], fact: Fact) -> CallMessages | None:
    """The messages of model calls; None where none of them recorded any."""
    return CallMessages(calls, fact) if any(facts.holds(fact) for facts in calls) else None


def asked_for(calls: Sequence[Facts], *, results: bool) -> list[tuple[int, Step]]:
    """Calls that model calls asked for, each with the number of the model call; `results` looks for their outcome."""
    outputs = [_list(facts.get("output_messages")) for facts in calls]
    placed: list[tuple[int, Step]] = []
    seen: set[str] = set()
    for number, output in enumerate(outputs):
        for call in calls_in(output) if output else ():
            if call.call_id is not None:
                if call.call_id in seen:
                    continue
                seen.add(call.call_id)
            placed.append((number, call))
    if not results or not seen:
        return placed
    known = {step.call_id: step for step in _with_results(outputs, calls)}
    return [(number, known.get(step.call_id, step) if step.call_id else step) for number, step in placed]


def _with_results(outputs: Sequence[Any], calls: Sequence[Facts]) -> Sequence[Step]:
    """The calls with what became of them. The last model call is given the whole talk as a rule; it is asked first."""
    last = _list(calls[-1].get("input_messages"))
    steps = calls_in(outputs, last)
    waiting = {s.call_id for s in steps if s.status == "unset"}
    if waiting <= {s.call_id for s in calls_in(outputs[-1])}:
        return steps
    return calls_in(outputs, [_list(facts.get("input_messages")) for facts in calls])


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def without_spans(calls: Sequence[Facts]) -> list[tuple[int, Step]]:
    """Calls that have no span even where others have: run by the model's provider, or waiting for an approval."""
    provider = [facts.mentions("output_messages", *_PROVIDER_WORDS) for facts in calls]
    waiting = any(facts.mentions("output_messages", _APPROVAL_WORD) for facts in calls)
    if not waiting and not any(provider):
        return []
    ids = {i for facts in calls for i in _provider_ids(facts.get("output_messages"))}
    return [
        (number, step)
        for number, step in asked_for(calls, results=True)
        if (step.call_id, step.name) in ids or step.status == "awaiting_approval"
    ]


def _provider_ids(found: Any) -> Iterator[tuple[Any, Any]]:
    for part in walk(_list(found)):
        if part.get("type") in _BY_PROVIDER:
            yield part.get("id"), part.get("name")


# ------------------------------------------------------------------ repair


def needs_repair(step: Step) -> bool:
    return step.call_id is None or step.name is None or not isinstance(step.input, Mapping)


def repaired(steps: Sequence[Step], asked: Sequence[tuple[int, Step]]) -> list[tuple[Step, int | None]]:
    """Tool steps with what their spans lost, and the number of the model call that asked for each, where that is known.

    A call is found by its id, else by name and order among those whose arguments do not contradict the step's: first
    one that no other step is, then, for a further attempt, one that another step is.
    """
    by_id = {call.call_id: (number, call) for number, call in asked if call.call_id is not None}
    taken = {id(by_id[s.call_id][1]) for s in steps if s.call_id in by_id}
    found: list[tuple[Step, int | None]] = []
    for step in steps:
        match = by_id.get(step.call_id) if step.call_id is not None else None
        if match is None and step.name is not None:
            match = _by_order(step, asked, taken)
        found.append((step, None) if match is None else (_mend(step, match[1]), match[0]))
    return found


def _by_order(step: Step, asked: Sequence[tuple[int, Step]], taken: set[int]) -> tuple[int, Step] | None:
    again: tuple[int, Step] | None = None
    for entry in asked:
        call = entry[1]
        if not same_tool(call.name, step.name) or not _agree(step.input, call.input):
            continue
        if step.call_id is not None and call.call_id is not None:
            continue
        if id(call) not in taken:
            taken.add(id(call))
            return entry
        again = again or entry
    return again


def _agree(held: Any, asked: Any) -> bool:
    if held is NOT_CAPTURED or asked is NOT_CAPTURED:
        return True
    return equal(held, asked) or _is_bare(held, asked)


def _is_bare(held: Any, asked: Any) -> bool:
    """Whether arguments were unwrapped to the value of the only one."""
    return isinstance(asked, Mapping) and len(asked) == 1 and _same_text(held, next(iter(asked.values())))


def _same_text(held: Any, value: Any) -> bool:
    return equal(held, value) or (isinstance(held, str) and not isinstance(value, bool) and held == str(value))


def _mend(step: Step, call: Step) -> Step:
    changes: dict[str, Any] = {}
    if step.call_id is None and call.call_id is not None:
        changes["call_id"] = call.call_id
    if step.name is None and call.name is not None:
        changes["name"] = call.name
    if call.input is not NOT_CAPTURED and (step.input is NOT_CAPTURED or _is_bare(step.input, call.input)):
        changes["input"] = call.input
    return replace(step, **changes) if changes else step
