"""The step and the scope: all that a validator ever sees of a trace (steps.md sections 2 and 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from onpath.model import NOT_CAPTURED as NOT_CAPTURED
from onpath.model import Attributes, Resource

Kind: TypeAlias = Literal["llm", "tool", "agent", "span"]
StepStatus: TypeAlias = Literal["ok", "error", "unset", "awaiting_approval", "cancelled"]
Source: TypeAlias = Literal["spans", "messages"]
Nested: TypeAlias = Literal["agents_as_steps", "flatten"]
Usage: TypeAlias = Mapping[str, int | float]  # METRIC or MODEL:METRIC to a number (flow.md section 9)


Value: TypeAlias = Any  # a JSON value, or NOT_CAPTURED


@dataclass(frozen=True, slots=True)
class StepError:
    """What went wrong, as far as it was recorded."""

    type: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """Place in a retry group: groups count from 0 in a scope, attempts from 1."""

    group: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing an agent did. Steps stand in order of (start, end, span id); one without times keeps its place.

    `name` is None when a tool call ran whose name was not recorded. `start_ns` is None without times
    (`source: messages`), `end_ns` also for an unfinished step. A step whose status is `awaiting_approval` or
    `cancelled` never ran. `attributes` are the raw ones of the spans that recorded it, for what a policy reads by key.
    """

    kind: Kind
    name: str | None
    agent: str | None = None
    model: str | None = None
    status: StepStatus = "unset"
    error: StepError | None = None
    usage: Usage = field(default_factory=dict)
    input: Value = NOT_CAPTURED
    output: Value = NOT_CAPTURED
    start_ns: int | None = None
    end_ns: int | None = None
    span_ids: tuple[str, ...] = ()
    call_id: str | None = None
    turn: int | None = None
    attempt: Attempt | None = None
    source: Source = "spans"
    finish_reasons: tuple[str, ...] = ()  # of a model call
    attributes: Attributes = field(default_factory=dict)

    @property
    def ran(self) -> bool:
        return self.status not in ("awaiting_approval", "cancelled")

    @property
    def failed(self) -> bool:
        return self.status == "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """One agent's run: its steps and its own record. Exactly one scope of a trace has `run` set (the run scope)."""

    trace_id: str
    span_id: str  # the scope's own span, on which results are hung
    agent: str | None = None
    run: bool = False
    session: str | None = None
    steps: tuple[Step, ...] = ()
    ignored: tuple[Step, ...] = ()  # those that the workflow's `ignore` took out of `steps`
    recorded: bool = True  # whether the scope's own span was seen at all (flow.md section 11)
    input: Value = NOT_CAPTURED
    output: Value = NOT_CAPTURED
    prompt: str | None = None  # last user message of the input of the scope's span, else of its first model call
    start_ns: int | None = None
    end_ns: int | None = None
    status: Literal["ok", "error", "unset"] = "unset"
    error: StepError | None = None
    usage: Usage = field(default_factory=dict)
    output_messages: Sequence[Any] | None = None  # what the model calls put out, in order; None: not captured
    input_messages: Sequence[Any] | None = None  # what they were given
    content: Literal["full", "partial", "none"] = "none"
    attributes: Attributes = field(default_factory=dict)  # raw ones of the scope's own span
    resource: Resource = field(default_factory=Resource)
