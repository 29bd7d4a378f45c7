"""What a run shows: the list of steps that count, and what does not count, from tool calls or from the output.

Data flow: scope -> tool steps, else calls in messages (adherence.md sections 4 and 5), or the output (section 6) ->
Extraction. `reason` says why nothing, or not everything, is known (section 9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from onpath.redaction import is_redacted
from onpath.steps import attempts, messages
from onpath.steps.model import NOT_CAPTURED, Scope, Step
from onpath.validators.adherence.formats import Format, extract
from onpath.validators.adherence.names import Names

Reason: TypeAlias = Literal[
    "output_not_captured", "output_redacted", "no_steps", "tool_calls_not_captured", "tool_names_not_captured"
]
Found: TypeAlias = Literal["spans", "messages", "output"]

_TOOL_REQUESTS: Final = frozenset({"toolcall", "toolcalls", "tooluse", "functioncall"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One extracted call: all its attempts, with the interval of the last."""

    name: str | None
    steps: tuple[Step, ...]

    @property
    def failed(self) -> bool:
        return self.steps[-1].failed

    @property
    def span_ids(self) -> tuple[str, ...]:
        if len(self.steps) == 1:
            return self.steps[0].span_ids
        return tuple(i for step in self.steps for i in step.span_ids)


@dataclass(frozen=True, slots=True)
class Extraction:
    """`names` is the extracted list as shown, with None for a call without a name; `entries` is empty for a text."""

    source: Found
    names: tuple[str | None, ...] = ()
    format: Format | None = None
    entries: tuple[Entry, ...] = ()
    failed: tuple[Entry, ...] = ()
    waiting: tuple[str | None, ...] = ()
    retries: int = 0
    reason: Reason | None = None

    @property
    def where(self) -> str:
        """The source in the words of the explanation."""
        return (self.format or "output") if self.source == "output" else self.source

    def span_ids(self, position: int) -> tuple[str, ...]:
        return self.entries[position].span_ids if self.entries else ()


def from_output(scope: Scope, names: Names, only: Format | None) -> Extraction:
    """The steps that the scope's output lists."""
    if scope.output is NOT_CAPTURED:
        return Extraction("output", reason="output_not_captured")
    if is_redacted(scope.output):
        return Extraction("output", reason="output_redacted")
    found = extract(scope.output, names, only)
    return Extraction("output", found.names, found.format)


def from_calls(scope: Scope, names: Names, prohibited: Sequence[str], count_failed: bool) -> Extraction:
    """The tool calls of the scope."""
    tools = [s for s in scope.steps if s.kind == "tool"]
    if tools:
        source: Found = "messages" if all(s.source == "messages" for s in tools) else "spans"
        return _of_calls(tools, source, names, prohibited, count_failed)
    if any(s.kind == "tool" for s in scope.ignored):
        return Extraction("spans")
    if messages.readable(scope.output_messages):
        asked = messages.calls_in(scope.output_messages or (), scope.input_messages or ())
        return _of_calls(asked, "messages", names, prohibited, count_failed)
    steps = (*scope.steps, *scope.ignored)
    if _asked_for_no_tool([s for s in steps if s.kind == "llm"]):
        return Extraction("spans")
    nothing = not (steps or scope.output_messages or scope.input_messages)
    return Extraction("spans", reason="no_steps" if nothing else "tool_calls_not_captured")


def _asked_for_no_tool(model_calls: Sequence[Step]) -> bool:
    """Whether every model call says why it ended, and none of them ended to have a tool called."""
    if not model_calls or not all(call.finish_reasons for call in model_calls):
        return False
    reasons = {r.strip().lower().replace("-", "").replace("_", "") for call in model_calls for r in call.finish_reasons}
    return reasons.isdisjoint(_TOOL_REQUESTS)


def _of_calls(
    calls: Sequence[Step], source: Found, names: Names, prohibited: Sequence[str], count_failed: bool
) -> Extraction:
    called = [_name(step, names) for step in calls]
    entries = _entries(calls, called)
    counted = [e for e in entries if not e.failed or count_failed or e.name in prohibited]
    failed = [e for e in entries if e.failed and not count_failed and e.name not in prohibited]
    return Extraction(
        source,
        tuple([e.name for e in counted]),
        entries=tuple(counted),
        failed=tuple(failed),
        waiting=tuple([name for step, name in zip(calls, called, strict=True) if not step.ran]),
        retries=sum([len(e.steps) - 1 for e in entries]),
        reason="tool_names_not_captured" if None in [e.name for e in entries] else None,
    )


def _entries(calls: Sequence[Step], called: Sequence[str | None]) -> list[Entry]:
    """Calls that ran, all attempts of one together."""
    if not any(step.failed for step in calls):
        return [Entry(name, (step,)) for step, name in zip(calls, called, strict=True) if step.ran]
    groups: dict[int, tuple[str | None, list[Step]]] = {}
    for step, name, attempt in zip(calls, called, attempts.attempts_of(calls, called), strict=True):
        if attempt is not None:
            first, made = groups.pop(attempt.group, (name, []))
            made.append(step)
            groups[attempt.group] = (first, made)  # taken out and put back: the place is that of the last attempt
    return [Entry(name, tuple(made)) for name, made in groups.values()]


def _name(step: Step, names: Names) -> str | None:
    """The name as it is shown, None where it was not captured."""
    if step.name is None or not step.name.strip() or is_redacted(step.name):
        return None
    return names.shown(step.name)
