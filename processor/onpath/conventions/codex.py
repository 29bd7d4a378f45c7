"""Codex CLI: its spans are internal; tool calls stand in events and log records, one when a call has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Own, Role
from onpath.model import NOT_CAPTURED, Attributes, Span

_TURN: Final = "codex.turn.token_usage."
_MARKS: Final = frozenset({_TURN + "total_tokens", _TURN + "input_tokens", "turn.id", "conversation.id"})
_MS: Final = 1_000_000


def _turn(_: Any, span: Span) -> Role | None:
    return "agent" if span.name.endswith("turn") else None


def _response(_: Any, span: Span) -> Role | None:
    return "llm" if span.name == "handle_responses" else None


def _thread(value: Any, _: Attributes) -> Any:
    """The conversation; a number under this key is the operating system's thread."""
    return value if isinstance(value, str) and value else NOT_CAPTURED


def _call(attributes: Attributes, body: Any) -> Mapping[str, Any] | None:
    """A finished call as the attributes of a tool span."""
    held = {**body, **attributes} if isinstance(body, dict) else attributes
    if not isinstance(held.get("tool_name"), str):
        return None
    found = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": held["tool_name"]}
    for key, name in _KEYS.items():
        if held.get(key) not in (None, ""):
            found[name] = held[key]
    duration = held.get("duration_ms")
    if isinstance(duration, str) and duration.isascii() and duration.isdecimal() and len(duration) < 12:
        duration = int(duration)
    if isinstance(duration, int | float) and not isinstance(duration, bool) and 0 <= duration < 1e12:
        found["duration_ns"] = int(duration * _MS)
    return found


_KEYS: Final = {
    "call_id": "gen_ai.tool.call.id",
    "arguments": "gen_ai.tool.call.arguments",
    "output": "gen_ai.tool.call.result",
    "success": "success",
    "error.message": "error",
}

FAMILY: Final = Family(
    name="codex",
    roles={_TURN + "total_tokens": _turn, _TURN + "input_tokens": _turn, "gen_ai.usage.input_tokens": _response},
    facts={
        "session": {"conversation.id": base.text, "thread.id": Own(_thread, _MARKS)},
        "model": {"slug": Own(base.text, _MARKS)},
    },
    calls={"codex.tool_result": _call},
)
