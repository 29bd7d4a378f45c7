"""OpenTelemetry's GenAI conventions, `gen_ai.*`, from 1.27 to the newest.

Content stands in attributes (JSON or structured), in the event `gen_ai.client.inference.operation.details`, or in one
event a message (1.28 to 1.36); events are span events or log records. Older spellings are in `genai_old`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.messages import messages, readable
from onpath.conventions.values import decode
from onpath.model import Attributes

_OPERATIONS: Final[Mapping[str, Role]] = {
    "chat": "llm",
    "generate_content": "llm",
    "text_completion": "llm",
    "chat.completions": "llm",  # Semantic Kernel
    "text.completions": "llm",
    "text_completions": "llm",
    "completion": "llm",
    "responses": "llm",
    "embeddings": "embedding",
    "execute_tool": "tool",
    "retrieval": "retriever",
    "invoke_agent": "agent",
    "create_agent": "other",  # set-up, not a run
    "invoke_workflow": "workflow",
    "workflow": "workflow",
    "invoke_swarm": "workflow",
    "invoke_graph": "workflow",
    "chain": "chain",
    "task": "chain",
    "execute_task": "chain",
    "agent_step": "chain",
    "plan": "chain",
    "execute_event_loop_cycle": "chain",
}

Direction = Literal["input", "output"]


def _details(attributes: Attributes, body: Any) -> list[tuple[Direction, Any]]:
    """Messages of an inference's details event; some put them into the body."""
    held = {**body, **attributes} if isinstance(body, dict) else attributes
    found: list[tuple[Direction, Any]] = []
    for key, direction in _DETAILS.items():
        if held.get(key) is not None:
            found += [(direction, m) for m in messages(held[key])]
    return found


_DETAILS: Final[Mapping[str, Direction]] = {"gen_ai.input.messages": "input", "gen_ai.output.messages": "output"}


def message_event(attributes: Attributes, body: Any, role: str, direction: Direction) -> list[tuple[Direction, Any]]:
    """One message of 1.28: the body of a log record, or an event's attributes with texts in place of objects."""
    body = decode(body)
    held = dict(body) if isinstance(body, dict) else {}
    for key in ("content", "message", "role", "id", "finish_reason", "tool_calls", "tool.result"):
        if key in attributes and key not in held:
            held[key] = attributes[key]
    if isinstance(body, str) and "content" not in held:
        held["content"] = body
    if not held:
        return []
    message = decode(held.get("message"))
    if isinstance(message, dict):
        held = {**held, **message, "role": message.get("role", held.get("role"))}
    elif message is not None:
        held["content"] = message
    held.pop("message", None)
    if held.get("role") is None or role == "tool":
        held["role"] = role
    if role == "tool" and "id" in held:
        held["tool_call_id"] = held["id"]
    if "content" in held:
        held["content"] = decode(held["content"])
    return [(direction, readable(held, 2))]


FAMILY: Final = Family(
    name="genai",
    roles={"gen_ai.operation.name": _OPERATIONS},
    facts={
        "tool_name": {"gen_ai.tool.name": base.text},
        "call_id": {"gen_ai.tool.call.id": base.text},
        "arguments": {"gen_ai.tool.call.arguments": base.arguments},
        "result": {"gen_ai.tool.call.result": base.result},
        "model": {"gen_ai.response.model": base.text, "gen_ai.request.model": base.text},
        "response_id": {"gen_ai.response.id": base.text},
        "finish_reasons": {
            "gen_ai.response.finish_reasons": base.texts,
            "gen_ai.response.finish_reason": base.texts,
        },
        "agent_name": {"gen_ai.agent.name": base.text},
        "session": {"gen_ai.conversation.id": base.text},
        "input": {"gen_ai.input.messages": base.messages},
        "output": {"gen_ai.output.messages": base.messages},
        "input_messages": {"gen_ai.input.messages": base.messages},
        "output_messages": {"gen_ai.output.messages": base.messages},
    },
    usage={
        "gen_ai.usage.input_tokens": "input_tokens",
        "gen_ai.usage.output_tokens": "output_tokens",
        "gen_ai.usage.total_tokens": "total_tokens",
        "gen_ai.usage.prompt_tokens": "prompt_tokens",
        "gen_ai.usage.completion_tokens": "completion_tokens",
        "gen_ai.usage.cache_read.input_tokens": "cache_read.input_tokens",
        "gen_ai.usage.cache_creation.input_tokens": "cache_creation.input_tokens",
        "gen_ai.usage.cache_write.input_tokens": "cache_creation.input_tokens",
        "gen_ai.usage.reasoning.output_tokens": "reasoning.output_tokens",
        "gen_ai.usage.cache_read_input_tokens": "cache_read_input_tokens",
        "gen_ai.usage.cache_creation_input_tokens": "cache_creation_input_tokens",
        "gen_ai.usage.cache_write_input_tokens": "cache_creation_input_tokens",
        "gen_ai.usage.reasoning_tokens": "reasoning_tokens",
    },
    events={
        "gen_ai.client.inference.operation.details": _details,
        "gen_ai.system.message": lambda a, b: message_event(a, b, "system", "input"),
        "gen_ai.user.message": lambda a, b: message_event(a, b, "user", "input"),
        "gen_ai.assistant.message": lambda a, b: message_event(a, b, "assistant", "input"),
        "gen_ai.tool.message": lambda a, b: message_event(a, b, "tool", "input"),
        "gen_ai.choice": lambda a, b: message_event(a, b, "assistant", "output"),
    },
    name_affixes=(("execute_tool ", ""), ("invoke_agent ", ""), ("create_agent ", ""), ("execute_task ", "")),
)
