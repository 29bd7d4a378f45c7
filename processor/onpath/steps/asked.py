"""What model messages say about calls: calls that only they show, and what spans lost (steps.md section 3).

Data flow: model calls of a scope -> their messages, decoded when somebody looks -> `messages.calls_in` -> calls with
the model call that asked for each. They repair the tool spans of a scope; where it has none they are its calls.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, overload

from onpath.conventions.base import Fact
from onpath.conventions.messages import walk
from onpath.json_values import equal
from onpath.model import NOT_CAPTURED
from onpath.steps.calls import last_part, same_tool
from onpath.steps.facts import Facts
from onpath.steps.messages import calls_in
from onpath.steps.model import Step, StepError

_BY_PROVIDER: Final = frozenset({"server_tool_call", "server_tool_use"})
_PROVIDER_WORDS: Final = ("server_tool_", "providerExecuted")
_LOOK: Final = 64  # calls of one name that are compared with a step, on each side of it
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
    """Calls that model calls asked for, each with the number of the model call; `results` looks for their outcome.

    An id that a later model call gives to another call is told from history that is repeated by what was asked for;
    which of the calls a result answers is not known then.
    """
    outputs = [_list(facts.get("output_messages")) for facts in calls]
    placed: list[tuple[int, Step]] = []
    seen: dict[str, Step] = {}  # the latest of each id
    reused: set[str] = set()
    for number, output in enumerate(outputs):
        for call in calls_in(output) if output else ():
            if call.call_id is not None:
                before = seen.get(call.call_id)
                if before is not None:
                    if before.name == call.name and _agree(before.input, call.input):
                        continue
                    reused.add(call.call_id)
                seen[call.call_id] = call
            placed.append((number, call))
    if not results or not seen:
        return placed
    known = {step.call_id: step for step in _with_results(outputs, calls)}
    own = {None, *reused}
    return [(n, step if step.call_id in own else known.get(step.call_id, step)) for n, step in placed]


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


def lost(calls: Sequence[Facts], steps: Sequence[Step]) -> list[tuple[int, Step]]:
    """Calls that were answered and have no span, where an instrumentation loses the spans of those that fail."""
    left: dict[str, list[Step]] = {}
    for step in steps:
        if step.name is not None:
            left.setdefault(last_part(step.name), []).append(step)
    found: list[tuple[int, Step]] = []
    for number, call in asked_for(calls, results=True):
        named = left.get(last_part(call.name or ""), [])
        seen = next((s for s in named[:_LOOK] if _is_of(s, call)), None)
        if seen is not None:
            named.remove(seen)
        elif call.status in ("ok", "error"):
            found.append((number, replace(call, status="error", error=call.error or StepError())))
    return found


def _is_of(step: Step, call: Step) -> bool:
    """Whether a step is the call that was asked for: by id where the step has one of its own, else by name."""
    if step.call_id is not None and call.call_id is not None:
        return step.call_id == call.call_id
    return same_tool(step.name, call.name)


# ------------------------------------------------------------------ repair


def needs_repair(step: Step) -> bool:
    return step.call_id is None or step.name is None or not isinstance(step.input, Mapping) or lacks_output(step)


def lacks_output(step: Step) -> bool:
    """Whether messages may tell what a call gave back that its span didn't record; a failed one gave nothing."""
    return step.output is NOT_CAPTURED and step.status != "error"


def repaired(
    steps: Sequence[Step], asked: Sequence[tuple[int, Step]], starts: Sequence[int]
) -> list[tuple[Step, int | None]]:
    """Tool steps with what their spans lost, and the number of the model call that asked for each, where that is known.

    A call is found by its id, else by name and order among those whose arguments do not contradict the step's: one that
    no other step is, of the latest model call before it; for a further attempt also one that another step is. `starts`
    are those of the model calls.
    """
    if not asked:
        return [(step, None) for step in steps]
    by_id: dict[str, list[tuple[int, Step]]] = {}
    for entry in asked:
        if entry[1].call_id is not None:
            by_id.setdefault(entry[1].call_id, []).append(entry)
    matches = [_latest(by_id.get(step.call_id or "", []), step, starts) for step in steps]
    taken = {id(match[1]) for match in matches if match is not None}
    by_name = _ByName(asked, taken, starts)
    found: list[tuple[Step, int | None]] = []
    for step, match in zip(steps, matches, strict=True):
        if match is None and step.name is not None:
            match = by_name.take(step)
        found.append((step, None) if match is None else (_mend(step, match[1]), match[0]))
    return found


def _latest(named: Sequence[tuple[int, Step]], step: Step, starts: Sequence[int]) -> tuple[int, Step] | None:
    """Of the calls with a step's id its own: the only one, else that of the latest model call before the step."""
    if len(named) < 2:
        return named[0] if named else None
    before = bisect_right(starts, step.start_ns or 0)
    at = bisect_left(named, before, key=lambda e: e[0])
    return named[at - 1] if at else None


class _ByName:
    """Calls asked for, by what the spellings of a tool's name have in common, in the order asked."""

    def __init__(self, asked: Sequence[tuple[int, Step]], taken: set[int], starts: Sequence[int]) -> None:
        self._starts = starts
        self._open: dict[str, list[tuple[int, Step]]] = {}
        self._taken: dict[str, list[tuple[int, Step]]] = {}
        for entry in asked:
            if entry[1].name is not None:
                kept = self._taken if id(entry[1]) in taken else self._open
                kept.setdefault(last_part(entry[1].name), []).append(entry)

    def take(self, step: Step) -> tuple[int, Step] | None:
        name = last_part(step.name or "")
        entries = self._open.get(name, [])
        latest = bisect_right(self._starts, step.start_ns or 0)  # model calls that had started by then
        split = bisect_left(entries, latest, key=lambda e: e[0])
        before, after = entries[max(0, split - _LOOK) : split], entries[split : split + _LOOK]
        nearest = sorted(before, key=lambda e: -e[0])  # of one model call in the order asked
        for entry in (*nearest, *after):
            if _fits(step, entry[1]):
                entries.remove(entry)
                self._taken.setdefault(name, []).append(entry)
                return entry
        return next((e for e in reversed(self._taken.get(name, [])[-_LOOK:]) if _fits(step, e[1])), None)


def _fits(step: Step, call: Step) -> bool:
    if step.call_id is not None and call.call_id is not None:
        return False  # they were compared by id
    return same_tool(call.name, step.name) and _agree(step.input, call.input)


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
    if lacks_output(step):
        changes["output"] = call.output
    return replace(step, **changes) if changes else step
