"""Nodes -> steps: name, values, status, usage and ids of one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onpath.conventions.base import Fact
from onpath.conventions.messages import last_text
from onpath.model import Span
from onpath.steps.agents import agent_name
from onpath.steps.facts import Facts
from onpath.steps.failures import status_of
from onpath.steps.model import Step, Usage
from onpath.steps.tree import Node


def build(node: Node, agent: str | None, smeared: frozenset[str]) -> Step:
    """The step of one node; `agent` is the one in whose scope it stands."""
    facts = node.facts
    taker = agent or facts.text("agent_name") if node.kind != "agent" else agent
    status, error = status_of(facts, smeared)
    common: dict[str, Any] = {
        "agent": taker,
        "status": status,
        "error": error,
        "start_ns": node.start_ns,
        "end_ns": node.end_ns,
        "span_ids": tuple(s.span_id for s in node.spans),
        "attributes": facts.attributes,
    }
    if node.kind == "llm":
        return _model_call(facts, common)
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


class _Unread:
    """A value that stands in an attribute and has not been decoded."""

    __slots__ = ("_fact", "_facts")

    def __init__(self, facts: Facts, fact: Fact) -> None:
        self._facts = facts
        self._fact = fact

    def read(self) -> Any:
        return self._facts.get(self._fact)


class ModelCall(Step):
    """A model call, whose messages are decoded when somebody looks: they repeat the whole talk at every call."""

    __slots__ = ("_input", "_output")

    def _get_input(self) -> Any:
        return self._input.read() if isinstance(self._input, _Unread) else self._input

    def _set_input(self, value: Any) -> None:
        object.__setattr__(self, "_input", value)

    def _get_output(self) -> Any:
        return self._output.read() if isinstance(self._output, _Unread) else self._output

    def _set_output(self, value: Any) -> None:
        object.__setattr__(self, "_output", value)

    _input: Any
    _output: Any
    input = property(_get_input, _set_input)
    output = property(_get_output, _set_output)


def _model_call(facts: Facts, common: dict[str, Any]) -> Step:
    model = facts.text("model")
    reasons = facts.get("finish_reasons")
    return ModelCall(
        kind="llm",
        name="llm",
        model=model,
        input=_Unread(facts, "input_messages"),
        output=_Unread(facts, "output_messages"),
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
    held = value
    for key in ("inputs", "outputs", "messages"):
        if isinstance(held, Mapping) and isinstance(held.get(key), list | Mapping):
            held = held[key]
    if not isinstance(held, list) or not held or not all(isinstance(m, Mapping) and "role" in m for m in held):
        return value
    text = last_text(held, role)
    return value if text is None else text
