"""Vercel's AI SDK, versions 3 to 6 and 7's legacy telemetry: `ai.*`.

The outer operations run a loop of model calls and tools and repeat their tokens (all of them, or the last call's).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.messages import messages
from onpath.conventions.values import decode
from onpath.model import Attributes, Span

_OPERATIONS: Final[Mapping[str, Role]] = {
    "ai.generatetext": "loop",
    "ai.streamtext": "loop",
    "ai.generateobject": "loop",
    "ai.streamobject": "loop",
    "ai.toolcall": "tool",
    "ai.rerank": "other",
}


def _operation(value: Any, _: Span) -> Role | None:
    if not isinstance(value, str):
        return None
    name = value.split(" ", 1)[0].lower()
    if name.endswith((".dogenerate", ".dostream")):
        return "llm"
    return "embedding" if name.startswith("ai.embed") else _OPERATIONS.get(name)


def _output(_: Any, attributes: Attributes) -> Any:
    """Text, object and tool calls of a model call as one message, whichever of them are there."""
    text, made = attributes.get("ai.response.text"), attributes.get("ai.response.object")
    calls = attributes.get("ai.response.toolCalls")
    parts: list[Any] = [{"type": "text", "content": t} for t in (text, made) if isinstance(t, str) and t]
    if calls is not None:
        parts += messages(calls)
    return [{"role": "assistant", "parts": parts}]


def _prompt(value: Any, _: Attributes) -> Any:
    """The prompt of a whole operation: `{system, prompt}` or `{system, messages}`."""
    held = decode(value)
    if isinstance(held, dict):
        if held.get("messages") is not None:
            return messages(held["messages"])
        if held.get("prompt") is not None:
            return decode(held["prompt"])
    return held


FAMILY: Final = Family(
    name="vercel",
    roles={"ai.operationId": _operation},
    facts={
        "tool_name": {"ai.toolCall.name": base.text},
        "call_id": {"ai.toolCall.id": base.text},
        "arguments": {"ai.toolCall.args": base.arguments, "ai.toolCall.input": base.arguments},
        "result": {
            "ai.toolCall.result": base.json_result,
            "ai.toolCall.output": base.json_result,
        },
        "model": {"ai.response.model": base.text, "ai.model.id": base.text},
        "response_id": {"ai.response.id": base.text},
        "finish_reasons": {"ai.response.finishReason": base.texts, "ai.finishReason": base.texts},
        "agent_name": {"ai.telemetry.functionId": base.text},
        "session": {
            "ai.telemetry.metadata.sessionId": base.text,
            "ai.telemetry.metadata.session_id": base.text,
            "ai.telemetry.metadata.threadId": base.text,
            "ai.telemetry.metadata.conversationId": base.text,
            "ai.settings.context.sessionId": base.text,
        },
        "input": {"ai.prompt": _prompt},
        "output": {"ai.response.object": base.plain, "ai.response.text": base.text, "ai.result.text": base.text},
        "input_messages": {"ai.prompt.messages": base.messages},
        "output_messages": {
            "ai.response.toolCalls": _output,
            "ai.response.text": _output,
            "ai.response.object": _output,
        },
    },
    usage={
        "ai.usage.inputTokens": "input_tokens",
        "ai.usage.outputTokens": "output_tokens",
        "ai.usage.promptTokens": "prompt_tokens",
        "ai.usage.completionTokens": "completion_tokens",
        "ai.usage.totalTokens": "total_tokens",
        "ai.usage.cachedInputTokens": "cached_tokens",
        "ai.usage.reasoningTokens": "reasoning_tokens",
        "ai.usage.inputTokenDetails.cacheReadTokens": "cache_read_input_tokens",
        "ai.usage.inputTokenDetails.cacheWriteTokens": "cache_creation_input_tokens",
        "ai.usage.outputTokenDetails.reasoningTokens": "reasoning_tokens",
    },
)
