"""Builds traces as an instrumentation after the GenAI conventions would record them, and steps as validators see them.

Data flow: parts (`tool`, `llm`, `agent`, `together`), nested as the agent ran -> `trace` lays them out in time, one
after the other, those of `together` side by side -> Span values -> Trace. The same call gives the same ids and times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from onpath.model import NOT_CAPTURED, STATUS_ERROR, STATUS_UNSET, Resource, Span, Trace
from onpath.steps.model import Kind, Scope, Step, StepError

START_NS: Final = 1_700_000_000_000_000_000
MS: Final = 1_000_000
TRACE_ID: Final = "0" * 31 + "1"

_OPERATIONS: Final = {"tool": "execute_tool", "llm": "chat", "agent": "invoke_agent"}


@dataclass(frozen=True, slots=True)
class Part:
    """Something an agent did, with what happened inside. `kind` group stands for parts that run side by side."""

    kind: Literal["tool", "llm", "agent", "span", "group"]
    name: str
    ms: float
    attributes: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    inside: tuple[Part, ...] = ()


def tool(
    name: str,
    input: Mapping[str, Any] | None = None,
    output: Any = NOT_CAPTURED,
    *,
    error: str | None = None,
    ms: float = 10,
    inside: Sequence[Part] = (),
    **attributes: Any,
) -> Part:
    """A tool call. `error` makes it fail with that message."""
    found: dict[str, Any] = {"gen_ai.tool.name": name}
    if input is not None:
        found["gen_ai.tool.call.arguments"] = json.dumps(input)
    if output is not NOT_CAPTURED:
        found["gen_ai.tool.call.result"] = output if isinstance(output, str) else json.dumps(output)
    return Part("tool", name, ms, {**found, **attributes}, error, tuple(inside))


def llm(
    model: str = "model",
    *,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    error: str | None = None,
    ms: float = 10,
    **attributes: Any,
) -> Part:
    """A model call."""
    usage = {"gen_ai.usage.input_tokens": input_tokens, "gen_ai.usage.output_tokens": output_tokens}
    counted = {key: number for key, number in usage.items() if number is not None}
    return Part("llm", model, ms, {"gen_ai.request.model": model, **counted, **attributes}, error)


def agent(name: str, *inside: Part, error: str | None = None, **attributes: Any) -> Part:
    """An agent's run, as long as what happens inside."""
    return Part("agent", name, 0, {"gen_ai.agent.name": name, **attributes}, error, inside)


def span(name: str, *inside: Part, ms: float = 0, error: str | None = None, **attributes: Any) -> Part:
    """Any other span."""
    return Part("span", name, ms, attributes, error, inside)


def together(*parts: Part) -> Part:
    """Parts that start at the same time."""
    return Part("group", "", 0, inside=parts)


def trace(
    *inside: Part,
    agent: str | None = "agent",
    service: str | None = None,
    trace_id: str = TRACE_ID,
    start_ns: int = START_NS,
    release_reason: str | None = None,
) -> Trace:
    """A trace of one agent's run; with `agent` None, of the parts themselves."""
    resource = Resource({} if service is None else {"service.name": service})
    parts = inside if agent is None else (Part("agent", agent, 0, {"gen_ai.agent.name": agent}, inside=inside),)
    return Trace(_Layout(trace_id, resource).lay(parts, None, start_ns)[0], release_reason=release_reason)


class _Layout:
    """Gives ids and times in the order of the parts."""

    def __init__(self, trace_id: str, resource: Resource) -> None:
        self._trace_id = trace_id
        self._resource = resource
        self._made = 0

    def lay(self, parts: Sequence[Part], parent: str | None, at: int) -> tuple[list[Span], int]:
        """The spans of parts that follow each other from a time on, and when the last one ends."""
        spans: list[Span] = []
        for part in parts:
            if part.kind == "group":
                ends = [at]
                for beside in part.inside:
                    made, end = self.lay([beside], parent, at)
                    spans += made
                    ends.append(end)
                at = max(ends) + MS
            else:
                made, end = self._span(part, parent, at)
                spans += made
                at = end + MS
        return spans, max((s.end_ns or at for s in spans), default=at)

    def _span(self, part: Part, parent: str | None, at: int) -> tuple[list[Span], int]:
        self._made += 1
        span_id = f"{self._made:016x}"
        inside, end = self.lay(part.inside, span_id, at + MS)
        end = max(end + MS if inside else at, at + int(part.ms * MS))
        operation = _OPERATIONS.get(part.kind)
        own = Span(
            trace_id=self._trace_id,
            span_id=span_id,
            name=part.name if operation is None else f"{operation} {part.name}",
            start_ns=at,
            end_ns=end,
            parent_span_id=parent,
            attributes={**({"gen_ai.operation.name": operation} if operation else {}), **part.attributes},
            resource=self._resource,
            kind=1,
            status_code=STATUS_UNSET if part.error is None else STATUS_ERROR,
            status_message=part.error or "",
        )
        return [own, *inside], end


def step(
    name: str | None,
    at: tuple[float, float | None] | None = None,
    *,
    kind: Kind = "tool",
    error: str | None = None,
    span_id: str | None = None,
    **values: Any,
) -> Step:
    """A step. `at` is its start and end in milliseconds; `values` are further fields of a Step."""
    start, end = at if at is not None else (None, None)
    failed: dict[str, Any] = {} if error is None else {"status": "error", "error": StepError(message=error)}
    return Step(
        kind=kind,
        name=name,
        start_ns=None if start is None else START_NS + int(start * MS),
        end_ns=None if end is None else START_NS + int(end * MS),
        span_ids=() if span_id is None else (span_id,),
        **failed,
        **values,
    )


def scope(*steps: Step | str, trace_id: str = TRACE_ID, span_id: str = "f" * 16, **values: Any) -> Scope:
    """An agent's run with these steps; names stand for tool calls of 10 ms that follow each other."""
    return Scope(trace_id=trace_id, span_id=span_id, run=True, steps=tuple(_placed(steps)), **values)


def _placed(steps: Sequence[Step | str]) -> Iterator[Step]:
    for number, given in enumerate(steps, 1):
        found = given
        if isinstance(found, str):
            found = step(found, (20 * number, 20 * number + 10))
        yield found if found.span_ids else replace(found, span_ids=(f"{number:016x}",))
