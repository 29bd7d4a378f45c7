"""Spellings of the GenAI conventions before 1.27, and OpenLLMetry's of that time.

No operation names: a span with a model is a model call, one with a tool's name and a tool span's name is a tool call.
Messages are flattened into `gen_ai.prompt.N.*` and `gen_ai.completion.N.*`, or stand in two span events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.messages import messages
from onpath.model import Attributes, Span

_REQUESTS: Final[Mapping[str, Role]] = {
    "chat": "llm",
    "completion": "llm",
    "embedding": "embedding",
    "rerank": "other",
    "unknown": "other",
}


def _model_call(value: Any, span: Span) -> Role | None:
    """A model and no operation; with one, known or not, that says what the span is."""
    attributes = span.attributes
    if not isinstance(value, str) or not value or attributes.get("gen_ai.operation.name"):
        return None
    return "llm" if attributes.get("gen_ai.system") or attributes.get("gen_ai.provider.name") else None


def _tool_call(value: Any, span: Span) -> Role | None:
    if not isinstance(value, str) or not value or span.attributes.get("gen_ai.operation.name"):
        return None
    return "tool" if span.name.startswith("execute_tool ") or "gen_ai.tool.call.arguments" in span.attributes else None


def _evaluation(value: Any, _: Span) -> Role | None:
    return "evaluator" if value else None


def _event(key: str, direction: Any) -> base.EventReader:
    def read(attributes: Attributes, _: Any) -> list[tuple[Any, Any]]:
        value = attributes.get(key)
        return [] if value is None else [(direction, m) for m in messages(value)]

    return read


FAMILY: Final = Family(
    name="genai-old",
    roles={
        "llm.request.type": _REQUESTS,
        "gen_ai.tool.name": _tool_call,
        "gen_ai.request.model": _model_call,
        "gen_ai.evaluation.name": _evaluation,
    },
    facts={
        "model": {"llm.response.model": base.text, "llm.request.model": base.text},
        "finish_reasons": {"gen_ai.completion.0.finish_reason": base.texts, "llm.response.finish_reason": base.texts},
        "input_messages": {"": base.Flattened("gen_ai.prompt")},
        "output_messages": {"": base.Flattened("gen_ai.completion")},
    },
    usage={"llm.usage.total_tokens": "total_tokens"},
    events={
        "gen_ai.content.prompt": _event("gen_ai.prompt", "input"),
        "gen_ai.content.completion": _event("gen_ai.completion", "output"),
    },
)
