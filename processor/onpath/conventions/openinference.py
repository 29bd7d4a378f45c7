"""OpenInference, as Phoenix and Arize instrumentations write it: `openinference.span.kind`, `llm.*`, `tool.*`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.messages import messages as readable_messages
from onpath.conventions.values import decode, decode_json
from onpath.model import NOT_CAPTURED, Attributes, Span

_KINDS: Final[Mapping[str, Role]] = {
    "llm": "llm",
    "embedding": "embedding",
    "chain": "chain",
    "retriever": "retriever",
    "reranker": "other",
    "tool": "tool",
    "agent": "agent",
    "guardrail": "guardrail",
    "evaluator": "evaluator",
    "prompt": "chain",
    "unknown": "other",
}
_SESSION_KEYS: Final = ("session_id", "sessionId", "thread_id", "conversation_id")


def _kind(value: Any, span: Span) -> Role | None:
    role = _KINDS.get(value.strip().lower()) if isinstance(value, str) else None
    if role == "llm" and "._prepare_" in span.name:
        return "dropped"  # LlamaIndex: the request being put together, marked as a call
    if span.start_ns == span.end_ns and "metadata.path" in span.attributes and "metadata.id" in span.attributes:
        return "dropped"  # BeeAI: an event of the span above, recorded with that span's kind
    if role == "tool" and span.scope_name == "openinference.instrumentation.instructor":
        return "chain"  # the library's own work on requests and responses
    return role


def _arguments(value: Any, attributes: Attributes) -> Any:
    """The input of a tool span; a scalar is JSON where its MIME type says so."""
    if attributes.get("input.mime_type") == "application/json":
        value = decode_json(value)
    held = decode(value)
    if isinstance(held, dict) and held.keys() == {"input", "options"} and not held["options"]:
        value = held["input"]  # BeeAI
    return base.invocation(value, attributes)


def _result(value: Any, attributes: Attributes) -> Any:
    is_json = attributes.get("output.mime_type") == "application/json"
    return base.json_result(value, attributes) if is_json else base.result(value, attributes)


def session_of(metadata: Any, _: Attributes) -> Any:
    """The conversation's id in a JSON object of free metadata."""
    held = decode(metadata)
    if isinstance(held, dict):
        for key in _SESSION_KEYS:
            if isinstance(held.get(key), str | int) and held[key] != "":
                return str(held[key])
    return NOT_CAPTURED


def _messages(found: Any) -> list[Any]:
    """Flattened messages as plain ones: role, content, tool_calls."""
    if not isinstance(found, list):
        return []
    return readable_messages([_message(m.get("message")) for m in found if isinstance(m, dict)])


def _message(held: Any) -> Any:
    if not isinstance(held, dict):
        return held
    message = {k: held[k] for k in ("role", "content", "name", "tool_call_id") if k in held}
    contents = held.get("contents")
    if isinstance(contents, list):
        message["content"] = [part for c in contents if (part := _content(c)) is not None]
    calls = held.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [c.get("tool_call", c) for c in calls if isinstance(c, dict)]
    elif isinstance(held.get("function_call_name"), str):
        function = {"name": held["function_call_name"], "arguments": held.get("function_call_arguments_json")}
        message["tool_calls"] = [{"function": function}]
    return message


def _content(held: Any) -> Any:
    """One content block. Calls among blocks repeat those under `tool_calls`, where both stand the id tells."""
    if not isinstance(held, dict):
        return held
    block = held.get("message_content", held)
    call = held.get("tool_call", block.get("tool_call") if isinstance(block, dict) else None)
    if isinstance(call, dict):
        function = call.get("function")
        if not isinstance(function, dict):
            return None
        asked = {"type": "tool_use", "name": function.get("name"), "input": decode(function.get("arguments"))}
        return {**asked, "id": call["id"]} if "id" in call else None
    return block


FAMILY: Final = Family(
    name="openinference",
    roles={"openinference.span.kind": _kind},
    facts={
        "tool_name": {"tool.name": base.text},
        "call_id": {"tool_call.id": base.text, "tool.id": base.text},
        "arguments": {"input.value": _arguments},
        "result": {"output.value": _result},
        "model": {
            "llm.response.model_name": base.text,
            "llm.model_name": base.text,
            "llm.request.model_name": base.text,
        },
        "finish_reasons": {"llm.finish_reason": base.texts},
        "agent_name": {"agent.name": base.text, "graph.node.name": base.text, "graph.node.id": base.text},
        "session": {"session.id": base.text, "metadata.sessionId": base.text, "metadata": session_of},
        "input": {"input.value": base.plain},
        "output": {"output.value": base.plain},
        "input_messages": {
            "openinference.span.kind": base.Flattened("llm.input_messages", _messages),
            "input.value": base.messages,
        },
        "output_messages": {
            "openinference.span.kind": base.Flattened("llm.output_messages", _messages),
            "output.value": base.messages,
        },
    },
    usage={
        "llm.token_count.prompt": "prompt_tokens",
        "llm.token_count.completion": "completion_tokens",
        "llm.token_count.total": "total_tokens",
        "llm.token_count.prompt_details.cache_read": "cache_read_input_tokens",
        "llm.token_count.prompt_details.cache_write": "cache_creation_input_tokens",
        "llm.token_count.completion_details.reasoning": "reasoning_tokens",
    },
    # Agno records the agents that do the task beside the call.
    delegates=("delegate_task_to_member", "delegate_task_to_members", "transfer_task_to_member"),
    name_affixes=(
        ("", ".run"),
        ("", ".arun"),
        ("", "._execute_core"),
        ("", ".__call__"),
        ("", ".acall"),
        ("", ".on_messages_stream"),
    ),
)
