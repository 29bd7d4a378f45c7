"""Langfuse: `langfuse.observation.*`. Errors stand in the observation's level, never in the span's status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.values import decode
from onpath.model import NOT_CAPTURED, Attributes

_TYPES: Final[Mapping[str, Role]] = {
    "span": "chain",
    "event": "other",
    "generation": "llm",
    "agent": "agent",
    "tool": "tool",
    "chain": "chain",
    "retriever": "retriever",
    "evaluator": "evaluator",
    "guardrail": "guardrail",
    "embedding": "embedding",
}
_PARTS: Final = {
    "input_cache_read": "cache_read_input_tokens",
    "input_cached_tokens": "cache_read_input_tokens",
    "cache_read_input_tokens": "cache_read_input_tokens",
    "input_cache_creation": "cache_creation_input_tokens",
    "cache_creation_input_tokens": "cache_creation_input_tokens",
    "output_reasoning": "reasoning_tokens",
    "output_reasoning_tokens": "reasoning_tokens",
}
_METADATA: Final = "langfuse.observation.metadata."


def usage(value: Any, _: Attributes) -> Mapping[str, Any]:
    """Usage details. Cached and reasoning tokens count inside `input` and `output`, or beside them; the total tells."""
    held = decode(value)
    if not isinstance(held, dict):
        return {}
    found: dict[str, Any] = {metric: held[key] for key, metric in _PARTS.items() if key in held}
    given, gave, total = (held.get(key) for key in ("input", "output", "total"))
    if total is not None:
        found["total_tokens"] = total
    counts = [c for c in (given, gave) if isinstance(c, int | float)]
    beside = len(counts) == 2 and isinstance(total, int | float) and sum(counts) < total
    for name, count in (("input", given), ("output", gave)):
        if isinstance(count, int | float):
            parts = [v for k, v in held.items() if k.startswith(name + "_") and isinstance(v, int | float)]
            found[name + "_tokens"] = count + sum(parts) if beside else count
    return found


def _outcome(value: Any, attributes: Attributes) -> Any:
    if value != "ERROR":
        return NOT_CAPTURED
    message = attributes.get("langfuse.observation.status_message")
    return ("error", None, message if isinstance(message, str) and message else None)


FAMILY: Final = Family(
    name="langfuse",
    roles={"langfuse.observation.type": _TYPES},
    facts={
        "arguments": {"langfuse.observation.input": base.invocation},
        "result": {"langfuse.observation.output": base.result},
        "model": {"langfuse.observation.model.name": base.text},
        "session": {
            "langfuse.session.id": base.text,
            _METADATA + "thread_id": base.text,
            _METADATA + "session_id": base.text,
        },
        "input": {"langfuse.observation.input": base.plain, "langfuse.trace.input": base.plain},
        "output": {"langfuse.observation.output": base.plain, "langfuse.trace.output": base.plain},
        "input_messages": {"langfuse.observation.input": base.messages},
        "output_messages": {"langfuse.observation.output": base.messages},
        "outcome": {"langfuse.observation.level": _outcome},
    },
    usage_json={"langfuse.observation.usage_details": usage},
)
