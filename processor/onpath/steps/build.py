"""Nodes -> steps: name, values, status, usage and ids of one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from onpath.conventions.messages import spoken
from onpath.model import Span
from onpath.steps.agents import agent_name
from onpath.steps.facts import Facts
from onpath.steps.failures import status_of
from onpath.steps.model import Step, Usage
from onpath.steps.tree import Node
from onpath.steps.unread import ModelCall, Unread

# A frozen dataclass's own constructor takes twice as long as setting its slots.
_new: Final = object.__new__
(
    _set_kind, _set_name, _set_agent, _set_model, _set_status, _set_error, _set_usage, _set_input, _set_output,
    _set_start_ns, _set_end_ns, _set_span_ids, _set_call_id, _set_turn, _set_attempt, _set_source, _set_finish_reasons,
    _set_attributes,
) = (getattr(Step, f.name).__set__ for f in fields(Step))  # fmt: skip
_set_unread_input, _set_unread_output = (getattr(ModelCall, name).__set__ for name in ModelCall.__slots__)


def build(node: Node, agent: str | None, smeared: frozenset[str], turn: int | None = None) -> Step:
    """The step of one node; `agent` is the one in whose scope it stands, `turn` the model call that asked for it."""
    facts, kind = node.facts, node.kind
    spans = facts.spans
    status, error = status_of(facts, smeared, is_tool=kind == "tool")
    step: Step = _new(ModelCall if kind == "llm" else Step)
    _set_agent(step, agent if kind == "agent" else agent or facts.text("agent_name"))
    _set_status(step, status)
    _set_error(step, error)
    _set_start_ns(step, spans[0].start_ns)
    _set_end_ns(step, spans[0].end_ns)
    _set_span_ids(step, (spans[0].span_id,) if len(spans) == 1 else tuple([s.span_id for s in spans]))
    _set_turn(step, turn)
    _set_attempt(step, None)
    _set_source(step, "spans")
    _set_attributes(step, facts.attributes)
    if kind == "llm":
        _fill_model_call(step, node)
        return step
    _set_model(step, None)
    _set_usage(step, {})
    _set_finish_reasons(step, ())
    if kind == "tool":
        _set_kind(step, "tool")
        _set_name(step, facts.tool_name())
        _set_input(step, facts.get("arguments"))
        _set_output(step, facts.result.content)
        _set_call_id(step, facts.text("call_id") or facts.result.call_id)
    else:
        _set_kind(step, "agent")
        _set_name(step, agent_name(node))
        _set_input(step, shown_input(facts))
        _set_output(step, shown_output(facts))
        _set_call_id(step, None)
    return step


def model_of(node: Node) -> str | None:
    """The model of a call; where only the loop around it names one, that."""
    model = node.facts.text("model")
    return node.loop.facts.text("model") if model is None and node.loop is not None else model


def _fill_model_call(step: Step, node: Node) -> None:
    facts = node.facts
    model = model_of(node)
    reasons = facts.get("finish_reasons")
    _set_kind(step, "llm")
    _set_name(step, "llm")
    _set_model(step, model)
    _set_unread_input(step, Unread(lambda: facts.get("input_messages")))
    _set_unread_output(step, Unread(lambda: facts.get("output_messages")))
    _set_usage(step, usage_of(facts, model))
    _set_call_id(step, None)
    _set_finish_reasons(step, reasons if isinstance(reasons, tuple) else ())


def usage_of(facts: Facts, model: str | None) -> Usage:
    if not (usage := facts.usage()):
        return {}
    prefix = f"{model}:" if model else ""
    return {prefix + metric: number for metric, number in usage.items()}


def add_usage(parts: Sequence[Usage]) -> dict[str, int | float]:
    total: dict[str, int | float] = {}
    for part in parts:
        for key, number in part.items():
            total[key] = total.get(key, 0) + number
    return total


def other_span(span: Span, agent: str | None) -> Step:
    """A span that the workflow asked for by name."""
    facts = Facts([span], {})
    status, error = status_of(facts)
    return Step(
        kind="span",
        name=span.name,
        agent=agent,
        status=status,
        error=error,
        input=facts.get("input"),
        output=facts.get("output"),
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        span_ids=(span.span_id,),
        attributes=span.attributes,
    )


# ------------------------------------------------------------------ what an agent was given and gave


def shown_input(facts: Facts) -> Any:
    """What an agent was asked: the last user message where messages were recorded, else the value."""
    return _shown(facts.get("input"), "user")


def shown_output(facts: Facts) -> Any:
    """What an agent answered: the last assistant message where messages were recorded, else the value."""
    return _shown(facts.get("output"), "assistant")


def _shown(value: Any, role: str) -> Any:
    text = spoken(value, role) if isinstance(value, (list, dict)) else None
    return value if text is None else text
