"""Genkit: keys with colons; usage, finish reason and calls only inside the output of a model action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.messages import messages, readable
from onpath.conventions.values import decode
from onpath.model import NOT_CAPTURED, Attributes

_SUBTYPES: Final[Mapping[str, Role]] = {
    "flow": "workflow",
    "model": "llm",
    "tool": "tool",
    "tool.v2": "tool",
    "agent": "agent",
    "prompt": "chain",
    "executable-prompt": "chain",
    "retriever": "retriever",
    "embedder": "embedding",
    "evaluator": "evaluator",
    "reranker": "other",
    "indexer": "other",
}
_TYPES: Final[Mapping[str, Role]] = {
    "flow": "workflow",
    "flowstep": "chain",
    "model": "llm",
    "tool": "tool",
    "retriever": "retriever",
    "embedder": "embedding",
    "evaluator": "evaluator",
    "util": "chain",  # `generate`: one for each turn, each inside the one before
    "prompttemplate": "chain",
}
_METRICS: Final = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "totalTokens": "total_tokens",
    "cachedContentTokens": "cache_read_input_tokens",
    "thoughtsTokens": "reasoning_tokens",
}


def _usage(value: Any, _: Attributes) -> Mapping[str, Any]:
    held = decode(value)
    found = held.get("usage") if isinstance(held, dict) else None
    return {m: found[k] for k, m in _METRICS.items() if k in found} if isinstance(found, dict) else {}


def _finish(value: Any, _: Attributes) -> Any:
    held = decode(value)
    reason = held.get("finishReason") if isinstance(held, dict) else None
    return (reason,) if isinstance(reason, str) else NOT_CAPTURED


def _output(value: Any, _: Attributes) -> Any:
    """The message of a model's response; Genkit calls the assistant `model`."""
    held = decode(value)
    if not isinstance(held, dict):
        return messages(held)
    message = held.get("message")
    if not isinstance(message, dict):
        candidates = held.get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates else None
        message = first.get("message") if isinstance(first, dict) else None
    return [{**readable(message), "role": "assistant"}] if isinstance(message, dict) else NOT_CAPTURED


FAMILY: Final = Family(
    name="genkit",
    roles={"genkit:metadata:subtype": _SUBTYPES, "genkit:type": _TYPES},
    facts={
        "tool_name": {"genkit:name": base.text},
        "arguments": {"genkit:input": base.invocation},
        "result": {"genkit:output": base.json_result},
        "model": {"genkit:name": base.text},
        "finish_reasons": {"genkit:output": _finish},
        "agent_name": {"genkit:name": base.text},
        "session": {"genkit:sessionId": base.text},
        "input": {"genkit:input": base.json_value},
        "output": {"genkit:output": base.json_value},
        "input_messages": {"genkit:input": base.messages},
        "output_messages": {"genkit:output": _output},
        "outcome": {"genkit:state": base.outcome(("error",), ("success",))},
    },
    usage_json={"genkit:output": _usage},
)
