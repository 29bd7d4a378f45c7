"""Nodes -> steps: name, values, status, usage and ids of one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onpath.conventions.messages import spoken
from onpath.model import Span
from onpath.steps.agents import agent_name
from onpath.steps.facts import Facts
from onpath.steps.failures import status_of
from onpath.steps.model import Step, Usage
from onpath.steps.tree import Node
from onpath.steps.unread import ModelCall, Unread


def build(node: Node, agent: str | None, smeared: frozenset[str], turn: int | None = None) -> Step:
    """The step of one node; `agent` is the one in whose scope it stands, `turn` the model call that asked for it."""
    facts = node.facts
    taker = agent or facts.text("agent_name") if node.kind != "agent" else agent
    status, error = status_of(facts, smeared, is_tool=node.kind == "tool")
    common: dict[str, Any] = {
        "agent": taker,
        "status": status,
        "error": error,
        "start_ns": node.start_ns,
        "end_ns": node.end_ns,
        "span_ids": tuple(s.span_id for s in node.spans),
        "attributes": facts.attributes,
        "turn": turn,
    }
    if node.kind == "llm":
        return _model_call(node, common)
    if node.kind == "tool":
        return Step(
            kind="tool",
            name=facts.tool_name(),
            input=facts.get("arguments"),
            output=facts.result.content,
            call_id=facts.text("call_id") or facts.result.call_id,
            **common,
        )
    return Step(kind="agent", name=agent_name(node), input=shown_input(facts), output=shown_output(facts), **common)


def model_of(node: Node) -> str | None:
    """The model of a call; where only the loop around it names one, that."""
    model = node.facts.text("model")
    return node.loop.facts.text("model") if model is None and node.loop is not None else model


def _model_call(node: Node, common: dict[str, Any]) -> Step:
    facts = node.facts
    model = model_of(node)
    reasons = facts.get("finish_reasons")
    return ModelCall(
        kind="llm",
        name="llm",
        model=model,
        input=Unread(lambda: facts.get("input_messages")),
        output=Unread(lambda: facts.get("output_messages")),
        usage=usage_of(facts, model),
        finish_reasons=reasons if isinstance(reasons, tuple) else (),
        **common,
    )


def usage_of(facts: Facts, model: str | None) -> Usage:
    prefix = f"{model}:" if model else ""
    return {prefix + metric: number for metric, number in facts.usage().items()}


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
