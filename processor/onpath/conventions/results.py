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
_BLOCK_KEYS: Final = frozenset({"text", "type", "annotations", "_meta", "meta", "id"})
_MCP_KEYS: Final = frozenset(
    {"content", "isError", "is_error", "structuredContent", "structured_content", "_meta", "meta"}
)
_MCP_MARKS: Final = _MCP_KEYS - {"content", "meta"}
_MESSAGE_MARKS: Final = frozenset({"additional_kwargs", "response_metadata"})
_MESSAGE_KEYS: Final = _MESSAGE_MARKS | {
    *("content", "name", "id", "type", "role", "tool_call_id", "artifact", "status", "metadata", "lc_kwargs"),
}


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
    if isinstance(held, dict) and "output" in held and held.keys() <= {"output", "kwargs", "tags", "metadata"}:
        inner = open_result(held["output"])
        if inner.call_id is not None or inner.failed is not None or isinstance(held.get("kwargs"), dict):
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
    elif held.keys() == {"type", "data"} and isinstance(held["data"], dict) and _is_message(held["data"]):
        body = held["data"]
    elif _is_message(held):
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


def _is_message(held: Mapping[str, Any]) -> bool:
    """Whether an object is a message that answers a call, and no value of a tool that has a key of the same name."""
    keys = held.keys()
    if "content" not in keys or not keys <= _MESSAGE_KEYS:
        return False
    return (
        "tool_call_id" in keys or held.get("role") == "tool" or (held.get("type") == "tool" and keys >= _MESSAGE_MARKS)
    )


def _object(held: Mapping[str, Any]) -> ToolResult:
    keys = held.keys()
    flag = held.get("isError", held.get("is_error"))
    failed = flag if isinstance(flag, bool) else None
    if "raw_output" in keys and "blocks" in keys:  # LlamaIndex
        return ToolResult(content=decode(held["raw_output"]), name=text_or_none(held.get("tool_name")), failed=failed)
    if _is_mcp(held):
        structured = held.get("structuredContent", held.get("structured_content"))
        return ToolResult(content=content(held["content"]) if structured is None else structured, failed=failed)
    inner = held.get("toolResult")
    if isinstance(inner, dict) and len(keys) == 1 and "content" in inner:
        return ToolResult(
            content=content(inner["content"]),
            call_id=text_or_none(inner.get("toolUseId")),
            failed=inner.get("status") == "error" if "status" in inner else None,
        )
    return ToolResult(content=held, failed=failed if "isError" in keys else None)


def _is_mcp(held: Mapping[str, Any]) -> bool:
    """Whether an object is MCP's result of a call; FastMCP's client adds `data` to a whole one."""
    blocks, keys = held.get("content"), held.keys()
    if not isinstance(blocks, list):
        return False
    if keys - {"data"} <= _MCP_KEYS and not _MCP_MARKS.isdisjoint(keys):
        return "data" not in keys or not {"isError", "is_error"}.isdisjoint(keys)
    return keys == {"content"} and all(isinstance(b, dict) and "type" in b for b in blocks)


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
    keys = block.keys()
    if keys == {"json"}:
        return block["json"]
    is_text = block.get("type") in _TEXTS
    if isinstance(block.get("text"), str) and (keys == {"text"} or (is_text and keys <= _BLOCK_KEYS)):
        return block["text"]
    if is_text and keys == {"type", "content"} and isinstance(block["content"], str):
        return block["content"]
    return NOT_CAPTURED


def text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
