"""What a tool gave back, out of the envelopes in which frameworks and protocols record it.

LangChain messages (as constructors, as `{type, data}`, as plain objects), MCP results, Bedrock content, LlamaIndex
tool outputs. Beside the content an envelope may tell the tool's name, the call id and that the call failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from onpath.conventions.values import decode, decode_json, literal
from onpath.model import NOT_CAPTURED

_TEXTS: Final = ("text", "input_text", "output_text")
_MCP_KEYS: Final = frozenset(
    {"content", "isError", "is_error", "structuredContent", "structured_content", "_meta", "meta", "data"}
)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the envelope of a result says; `failed` is None where it says nothing about it."""

    content: Any = NOT_CAPTURED
    name: str | None = None
    call_id: str | None = None
    failed: bool | None = None


def open_result(value: Any, *, is_json: bool = False) -> ToolResult:
    """The result of a tool call as recorded -> its content and what its envelope tells."""
    held = decode_json(value) if is_json else decode(value)
    if isinstance(held, dict) and "output" in held and set(held) <= {"output", "kwargs", "tags", "metadata"}:
        inner = open_result(held["output"])
        if inner.call_id is not None or inner.failed is not None or set(held) != {"output"}:
            return inner
    message = tool_message(held)
    if message is not None:
        return message
    if isinstance(held, dict):
        return _object(held)
    return ToolResult(content=content(held))


def tool_message(held: Any) -> ToolResult | None:
    """A LangChain ToolMessage in any of its serialised forms; None for anything else."""
    if not isinstance(held, dict):
        return None
    body: Any = None
    if held.get("lc") is not None and isinstance(held.get("kwargs"), dict):
        body = held["kwargs"]
    elif isinstance(held.get("data"), dict) and isinstance(held.get("type"), str):
        body = held["data"]
    elif "content" in held and (held.get("type") == "tool" or held.get("role") == "tool" or "tool_call_id" in held):
        body = held
    if body is None or "content" not in body:
        return None
    status = body.get("status")
    return ToolResult(
        content=content(body["content"]),
        name=text_or_none(body.get("name")),
        call_id=text_or_none(body.get("tool_call_id")),
        failed=status == "error" if isinstance(status, str) else None,
    )


def _object(held: Mapping[str, Any]) -> ToolResult:
    keys = set(held)
    flag = held.get("isError", held.get("is_error"))
    failed = flag if isinstance(flag, bool) else None
    if "raw_output" in keys and "blocks" in keys:  # LlamaIndex
        return ToolResult(content=decode(held["raw_output"]), name=text_or_none(held.get("tool_name")), failed=failed)
    if isinstance(held.get("content"), list) and keys <= _MCP_KEYS:
        structured = held.get("structuredContent", held.get("structured_content"))
        return ToolResult(content=content(held["content"]) if structured is None else structured, failed=failed)
    if isinstance(held.get("toolResult"), dict) and len(keys) == 1:
        inner = held["toolResult"]
        return ToolResult(
            content=content(inner.get("content")),
            call_id=text_or_none(inner.get("toolUseId")),
            failed=inner.get("status") == "error" if "status" in inner else None,
        )
    return ToolResult(content=held, failed=failed if "isError" in keys else None)


# What the OpenAI Agents SDK puts in place of the result of a tool that raised.
_REPLACED: Final = "An error occurred while running the tool."


def says_failed(value: Any) -> bool:
    """Whether a result is a framework's own sentence for a call that failed; the words of a tool never are."""
    return isinstance(value, str) and value.startswith(_REPLACED)


def content(value: Any) -> Any:
    """A list of text or JSON blocks (MCP, Bedrock, GenAI parts) as what it holds, texts one after another."""
    value = literal(value)
    if not isinstance(value, list) or not value or not all(isinstance(b, dict) for b in value):
        return value
    held = [_block(b) for b in value]
    if any(h is NOT_CAPTURED for h in held):
        return value
    if len(held) == 1:
        return literal(held[0])
    return "\n".join(held) if all(isinstance(h, str) for h in held) else held


def _block(block: Mapping[str, Any]) -> Any:
    keys = set(block)
    if keys == {"json"}:
        return block["json"]
    if isinstance(block.get("text"), str) and keys <= {"text", "type", "annotations", "_meta", "meta", "id"}:
        return block["text"]
    if block.get("type") in _TEXTS and isinstance(block.get("content"), str):
        return block["content"]
    return NOT_CAPTURED


def text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
