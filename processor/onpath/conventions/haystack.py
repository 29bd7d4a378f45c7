"""Haystack's own tracing: one span a component, told apart by the component's class; tool calls only in messages.

A tool invoker runs the calls of one turn and records none of them by itself: what is inside it was started by a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.messages import messages
from onpath.conventions.values import decode
from onpath.model import NOT_CAPTURED, Attributes, Span

_COMPONENT: Final = "haystack.component.type"
_NAMES: Final[Mapping[str, Role]] = {
    "haystack.agent.run": "agent",
    "haystack.pipeline.run": "workflow",
    "haystack.async_pipeline.run": "workflow",
    "haystack.component.run": "chain",
}


def _component(value: Any, _: Span) -> Role | None:
    if not isinstance(value, str):
        return None
    if value == "ToolInvoker":
        return "calls"
    if "Generator" in value:
        return "llm"
    if "Embedder" in value:
        return "embedding"
    return "retriever" if "Retriever" in value else "chain"


def _replies(value: Any, _: Attributes) -> Any:
    held = decode(value)
    if isinstance(held, dict) and "replies" in held:
        return messages(held["replies"])
    return messages(held["tool_messages"]) if isinstance(held, dict) and "tool_messages" in held else NOT_CAPTURED


def _given(value: Any, _: Attributes) -> Any:
    held = decode(value)
    return messages(held["messages"]) if isinstance(held, dict) and "messages" in held else NOT_CAPTURED


def _model(value: Any, _: Attributes) -> Any:
    model = _meta(value).get("model")
    return model if isinstance(model, str) and model else NOT_CAPTURED


def _finish(value: Any, _: Attributes) -> Any:
    reason = _meta(value).get("finish_reason")
    return (reason,) if isinstance(reason, str) else NOT_CAPTURED


def _usage(value: Any, _: Attributes) -> Mapping[str, Any]:
    usage = _meta(value).get("usage")
    if not isinstance(usage, dict):
        return {}
    found = {k: v for k, v in usage.items() if isinstance(v, int | float)}
    for key in ("prompt_tokens_details", "completion_tokens_details"):
        details = usage.get(key)
        if isinstance(details, dict):
            found |= {f"{key}.{k}": v for k, v in details.items() if k in ("cached_tokens", "reasoning_tokens")}
    return found


def _meta(value: Any) -> Mapping[str, Any]:
    held = decode(value)
    replies = held.get("replies") if isinstance(held, dict) else None
    first = replies[0] if isinstance(replies, list) and replies else None
    meta = first.get("meta", first.get("_meta")) if isinstance(first, dict) else None
    return meta if isinstance(meta, dict) else {}


FAMILY: Final = Family(
    name="haystack",
    roles={_COMPONENT: _component},
    named=lambda span: _NAMES.get(span.name),
    scopes=("haystack",),
    words=("haystack",),
    facts={
        "tool_name": {"haystack.component.name": base.text},
        "model": {"haystack.component.output": _model},
        "finish_reasons": {"haystack.component.output": _finish},
        "input": {"haystack.agent.input": base.plain},
        "output": {"haystack.agent.output": base.plain},
        "input_messages": {"haystack.component.input": _given},
        "output_messages": {"haystack.component.output": _replies},
    },
    usage_json={"haystack.component.output": _usage},
    name_affixes=(("haystack.agent.run", ""),),
)
