"""Google's Agent Development Kit: requests and responses in Gemini's form.

A failed tool span may bear nothing but a name. A span for the merged results of parallel calls stands for no call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.messages import messages, readable
from onpath.conventions.values import arguments, decode, given
from onpath.model import NOT_CAPTURED, Attributes, Span

_NAMES: Final[Mapping[str, Role]] = {"invocation": "workflow", "call_llm": "llm"}
_PREFIXES: Final[Mapping[str, Role]] = {
    "execute_tool ": "tool",
    "agent_run [": "agent",
    "invoke_agent ": "agent",
    "generate_content ": "llm",
}
_SCOPE: Final = "gcp.vertex.agent"
_MERGED: Final = "(merged tools)"
_EMPTY: Final = ("", "{}", "N/A")
_METRICS: Final = {
    "prompt_token_count": "input_tokens",
    "candidates_token_count": "output_tokens",
    "total_token_count": "total_tokens",
    "cached_content_token_count": "cache_read_input_tokens",
    "thoughts_token_count": "reasoning_tokens",
}


def _named(span: Span) -> Role | None:
    if span.name in _NAMES:
        return _NAMES[span.name]
    if span.name == "execute_tool (merged)":
        return "dropped"
    return next((role for prefix, role in _PREFIXES.items() if span.name.startswith(prefix)), None)


def _arguments(value: Any, _: Attributes) -> Any:
    if value in _EMPTY or value == {}:
        return NOT_CAPTURED
    value = given(value)
    return value if value is NOT_CAPTURED else arguments(value)


def _result(value: Any, attributes: Attributes) -> Any:
    held = decode(value)
    if value in _EMPTY or held == {}:
        return NOT_CAPTURED
    if isinstance(held, dict) and "response" in held and set(held) <= {"id", "name", "response"}:
        held = held["response"]
    return base.result(held, attributes)


def _request(value: Any, _: Attributes) -> Any:
    held = decode(value)
    return messages(held["contents"]) if isinstance(held, dict) and "contents" in held else NOT_CAPTURED


def _response(value: Any, _: Attributes) -> Any:
    """The content of a response as a message; Gemini calls the assistant `model`."""
    held = decode(value)
    content = held.get("content") if isinstance(held, dict) else None
    return [{**readable(content), "role": "assistant"}] if isinstance(content, dict) else NOT_CAPTURED


def _usage(value: Any, _: Attributes) -> Mapping[str, Any]:
    held = decode(value)
    counts = held.get("usage_metadata", held.get("usageMetadata")) if isinstance(held, dict) else None
    return {m: counts[k] for k, m in _METRICS.items() if k in counts} if isinstance(counts, dict) else {}


FAMILY: Final = Family(
    name="adk",
    named=_named,
    scopes=(_SCOPE,),
    placeholders={"gen_ai.tool.name": lambda value, _: value == _MERGED},
    facts={
        "arguments": {"gcp.vertex.agent.tool_call_args": _arguments},
        "result": {"gcp.vertex.agent.tool_response": _result},
        "session": {"gcp.vertex.agent.session_id": base.text},
        "input_messages": {"gcp.vertex.agent.llm_request": _request},
        "output_messages": {"gcp.vertex.agent.llm_response": _response},
    },
    usage_json={"gcp.vertex.agent.llm_response": _usage},
    fails_bare=((_SCOPE, "execute_tool "),),
    name_affixes=(("agent_run [", "]"),),
)
