"""MLflow: `mlflow.spanType`, inputs and outputs. Every attribute is JSON, so texts stand in quotation marks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.values import decode, decode_json
from onpath.model import NOT_CAPTURED, Attributes, Span

_TYPES: Final[Mapping[str, Role]] = {
    "llm": "llm",
    "chat_model": "llm",
    "chain": "chain",
    "agent": "agent",
    "tool": "tool",
    "retriever": "retriever",
    "parser": "chain",
    "embedding": "embedding",
    "reranker": "other",
    "memory": "other",
    "workflow": "workflow",
    "task": "chain",
    "guardrail": "guardrail",
    "evaluator": "evaluator",
    "unknown": "other",
}


def _type(value: Any, _: Span) -> Role | None:
    kind = decode_json(value)
    return _TYPES.get(kind.lower()) if isinstance(kind, str) else None


def _arguments(value: Any, attributes: Attributes) -> Any:
    return NOT_CAPTURED if value in (None, "") else base.invocation(decode_json(value), attributes)


def _usage(value: Any, _: Attributes) -> Mapping[str, Any]:
    held = decode(value)
    return held if isinstance(held, dict) else {}


FAMILY: Final = Family(
    name="mlflow",
    roles={"mlflow.spanType": _type},
    facts={
        "call_id": {"tool_call_id": base.json_text},
        "arguments": {"mlflow.spanInputs": _arguments},
        "result": {"mlflow.spanOutputs": base.json_result},
        "model": {"mlflow.llm.model": base.json_text},
        "session": {"mlflow.trace.session": base.json_text, "mlflow.traceTag.mlflow.trace.session": base.json_text},
        "input": {"mlflow.spanInputs": base.json_value},
        "output": {"mlflow.spanOutputs": base.json_value},
        "input_messages": {"mlflow.spanInputs": base.messages},
        "output_messages": {"mlflow.spanOutputs": base.messages},
    },
    usage_json={"mlflow.chat.tokenUsage": _usage},
)
