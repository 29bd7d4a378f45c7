"""Mastra: `mastra.span.type` beside GenAI names.

What it labels `chat` is the whole loop (`model_generation`); a turn is a `model_step`, around one `model_inference`.
All three are read as model calls: the one that holds several is then seen to be a loop, nested single ones are one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Fact, Family, Reader, Role
from onpath.conventions.messages import messages
from onpath.conventions.values import decode
from onpath.model import Attributes

_TYPES: Final[Mapping[str, Role]] = {
    "agent_run": "agent",
    "model_generation": "llm",
    "model_step": "llm",
    "model_inference": "llm",
    "llm_generation": "llm",
    "llm_step": "llm",
    "model_chunk": "other",
    "llm_chunk": "other",
    "tool_call": "tool",
    "mcp_tool_call": "tool",
    "client_tool_call": "tool",
    "workflow_run": "workflow",
    "workflow_step": "chain",
    "generic": "chain",
}
_CALLS: Final = ("tool_call", "mcp_tool_call", "client_tool_call")
_MODELS: Final = ("model_inference", "model_step", "llm_step", "model_generation", "llm_generation")


def _output(value: Any, _: Attributes) -> list[Any]:
    """A step's `{text, toolCalls}` as one message."""
    held = decode(value)
    if not isinstance(held, dict):
        return messages(held)
    parts: list[Any] = [{"type": "text", "content": held["text"]}] if isinstance(held.get("text"), str) else []
    calls = held.get("toolCalls")
    if isinstance(calls, list):
        parts += messages([c.get("payload", c) if isinstance(c, dict) else c for c in calls])
    return [{"role": "assistant", "parts": parts}]


def _answer(value: Any, _: Attributes) -> Any:
    """What an agent answered: `{text, ...}`, or a value made to a schema."""
    held = decode(value)
    if isinstance(held, dict):
        return next((held[k] for k in ("object", "text") if held.get(k) is not None), held)
    return held


def _each(types: tuple[str, ...], side: str, reader: Reader) -> dict[str, Reader]:
    return {f"mastra.{kind}.{side}": reader for kind in types}


_FACTS: Final[Mapping[Fact, Mapping[str, Reader]]] = {
    "tool_name": {"mastra.metadata.toolName": base.text},
    "call_id": {"mastra.metadata.toolCallId": base.text},
    "arguments": _each(_CALLS, "input", base.arguments),
    "result": _each(_CALLS, "output", base.result),
    "session": {
        "mastra.metadata.sessionId": base.text,
        "mastra.metadata.session_id": base.text,
        "mastra.metadata.threadId": base.text,
    },
    "input": {"mastra.agent_run.input": base.plain, "mastra.workflow_run.input": base.plain},
    "output": {"mastra.agent_run.output": _answer, "mastra.workflow_run.output": base.plain},
    "input_messages": _each(_MODELS, "input", base.messages),
    "output_messages": _each(_MODELS, "output", _output),
}

FAMILY: Final = Family(name="mastra", roles={"mastra.span.type": _TYPES}, facts=_FACTS)
