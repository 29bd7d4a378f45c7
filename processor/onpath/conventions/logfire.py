"""Logfire and pydantic-ai: older spellings beside the GenAI ones, and spans named by message templates.

Versions 1 and 2 name every tool span `running tool` and every agent span `agent run`. A span whose type is
`pending_span` announces one that comes later.
"""

from __future__ import annotations

from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.genai import FAMILY as GENAI
from onpath.conventions.values import decode
from onpath.model import NOT_CAPTURED, Attributes, Span

_TOOL_NAMES: Final = ("running tool", "running output function", "Function: ")
_GROUP: Final = "running tools"


def _tool(value: Any, span: Span) -> Role | None:
    """A tool's name on a span that is named as these name their tool calls."""
    if not isinstance(value, str) or not value or span.name.startswith(_GROUP):
        return None
    return "tool" if span.name.startswith(_TOOL_NAMES) else None


def _agent(value: Any, span: Span) -> Role | None:
    return "agent" if value and span.name.endswith(("agent run", " run")) else None


def _template(value: Any, span: Span) -> Role | None:
    """Logfire's own spans of the OpenAI Agents SDK."""
    if not isinstance(value, str):
        return None
    if value.startswith("Function: {name}") and span.attributes.get("name"):
        return "tool"
    return "agent" if value.startswith("Agent run: {name") else None


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
        return found

    return read


FAMILY: Final = Family(
    name="logfire",
    roles={"gen_ai.tool.name": _tool, "tool": _tool, "agent_name": _agent, "logfire.msg_template": _template},
    placeholders={"logfire.span_type": lambda value, _: value == "pending_span"},
    facts={
        "tool_name": {"tool": base.text, "name": base.text},
        "call_id": {"tool_call_id": base.text},
        "arguments": {"tool_arguments": base.arguments, "args": base.arguments, "input": base.arguments},
        "result": {"tool_response": base.result, "result": base.result, "output": base.result},
        "agent_name": {"agent_name": base.text, "agent": base.text},
        "model": {"model_name": base.text},
        "session": {"group_id": base.text},
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
