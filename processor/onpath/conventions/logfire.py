"""Logfire and pydantic-ai: older spellings beside the GenAI ones, and spans named by message templates.

Versions 1 and 2 name every tool span `running tool` and every agent span `agent run`. A span whose type is
`pending_span` announces one that comes later. Attributes of spans made with Logfire's own functions are named by the
program, in plain words: they are read where the span bears a message template, names of things where it shows them.
"""

from __future__ import annotations

from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Own, Reader, Role
from onpath.conventions.genai import FAMILY as GENAI
from onpath.conventions.values import decode
from onpath.model import NOT_CAPTURED, Attributes, Span

_TOOL_NAMES: Final = ("running tool", "running output function", "Function: ")
_GROUP: Final = "running tools"
_TEMPLATE: Final = "logfire.msg_template"


def _tool(value: Any, span: Span) -> Role | None:
    """A tool's name on a span that is named as these name their tool calls."""
    if not isinstance(value, str) or not value or span.name.startswith(_GROUP):
        return None
    return "tool" if span.name.startswith(_TOOL_NAMES) else None


def _templated_tool(value: Any, span: Span) -> Role | None:
    return _tool(value, span) if _TEMPLATE in span.attributes else None


def _agent(value: Any, span: Span) -> Role | None:
    return "agent" if value and span.name in ("agent run", f"{value} run") else None


def _template(value: Any, span: Span) -> Role | None:
    """Logfire's own spans of the OpenAI Agents SDK."""
    if not isinstance(value, str):
        return None
    if value.startswith("Function: {name}") and span.attributes.get("name"):
        return "tool"
    return "agent" if value.startswith("Agent run: {name") else None


def _templated(read: Reader) -> Own:
    return Own(read, frozenset({_TEMPLATE}))


def _shown(*beginnings: str) -> Own:
    """A name, where a placeholder for it is what the template shows after one of these beginnings."""

    def shows(attributes: Attributes) -> bool:
        template = attributes.get(_TEMPLATE)
        return isinstance(template, str) and any(b in template for b in beginnings)

    return Own(base.text, frozenset({_TEMPLATE}), shows)


def _history(side: str) -> base.Reader:
    """Messages of one side in version 1's list of events."""

    def read(value: Any, _: Attributes) -> Any:
        held = decode(value)
        if not isinstance(held, list):
            return NOT_CAPTURED
        found: list[Any] = []
        for event in held:
            name = event.get("event.name") if isinstance(event, dict) else None
            reader = GENAI.events.get(name) if isinstance(name, str) else None
            if reader is not None:
                found += [message for direction, message in reader({}, event) if direction == side]
        return found or NOT_CAPTURED  # events of another kind, the program's own, are no messages

    return read


FAMILY: Final = Family(
    name="logfire",
    roles={"gen_ai.tool.name": _tool, "tool": _templated_tool, "agent_name": _agent, _TEMPLATE: _template},
    placeholders={"logfire.span_type": lambda value, _: value == "pending_span"},
    facts={
        "tool_name": {"tool": _shown("{tool"), "name": _shown("Function: {name")},
        "call_id": {"tool_call_id": base.text},
        "arguments": {
            "tool_arguments": base.arguments,
            "args": _templated(base.arguments),
            "input": _templated(base.arguments),
        },
        "result": {"tool_response": base.result, "result": _templated(base.result), "output": _templated(base.result)},
        "agent_name": {"agent_name": base.text, "agent": _shown("{agent")},
        "model": {"model_name": base.text},
        "session": {"group_id": Own(base.text, frozenset({_TEMPLATE, "logfire.msg"}))},
        "input": {"pydantic_ai.all_messages": base.messages, "all_messages_events": _history("input")},
        "output": {"final_result": base.plain},
        "input_messages": {"events": _history("input")},
        "output_messages": {"events": _history("output")},
    },
    usage={
        "gen_ai.usage.details.reasoning_tokens": "reasoning_tokens",
        "gen_ai.usage.details.cached_tokens": "cached_tokens",
    },
    name_affixes=(("running tool: ", ""), ("Function: ", "")),
)
