"""Claude Code's traces: `span.type`, or the span's name, says what a span is.

A `claude_code.tool` span is the call; below it stand the wait for a person's permission and the execution, which may
be the only one to say how it went. Input tokens exclude cached ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.model import NOT_CAPTURED, Attributes, Span

_TYPES: Final[Mapping[str, Role]] = {
    "interaction": "agent",
    "llm_request": "llm",
    "tool": "tool",
    "tool.execution": "tool",
    "tool.blocked_on_user": "tool",
    "hook": "other",
}
_WORD: Final = "claude_code"
# Attributes that hold one argument of the tool, under the name that the tool has for it.
_ARGUMENTS: Final = {"file_path": "file_path", "full_command": "command", "skill_name": "skill",
                     "subagent_type": "subagent_type"}  # fmt: skip


def _named(span: Span) -> Role | None:
    return _TYPES.get(span.name.removeprefix(_WORD + ".")) if span.name.startswith(_WORD + ".") else None


def _typed(value: Any, span: Span) -> Role | None:
    return _TYPES.get(value) if isinstance(value, str) and span.name.startswith(_WORD) else None


def _arguments(_: Any, attributes: Attributes) -> Any:
    found = {name: attributes[key] for key, name in _ARGUMENTS.items() if isinstance(attributes.get(key), str)}
    return found or NOT_CAPTURED


def _count(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _usage(value: Any, attributes: Attributes) -> Mapping[str, Any]:
    read, made = (_count(attributes.get(k)) for k in ("cache_read_tokens", "cache_creation_tokens"))
    found = {"input_tokens": _count(value) + read + made}
    for key, metric in _PARTS.items():
        if key in attributes:
            found[metric] = _count(attributes[key])
    return found


_PARTS: Final = {
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_input_tokens",
    "cache_creation_tokens": "cache_creation_input_tokens",
}


def _decision(value: Any, _: Attributes) -> Any:
    """What a person said when asked: a call that was refused never ran."""
    return ("cancelled", None, None) if value in ("reject", "rejected", "deny", "denied") else NOT_CAPTURED


FAMILY: Final = Family(
    name="claude-code",
    roles={"span.type": _typed},
    named=_named,
    words=(_WORD,),
    facts={
        "tool_name": {"tool_name": base.text},
        "call_id": {"tool_use_id": base.text},
        "arguments": {"tool_input": base.arguments, "tool_parameters": base.arguments, "tool_name": _arguments},
        "agent_name": {"subagent_type": base.text},
        "model": {"model": base.text},
        "finish_reasons": {"stop_reason": base.texts},
        "input": {"user_prompt": base.text},
        "outcome": {"decision": _decision, "success": base.outcome(("false",), ("true",), "error")},
    },
    usage_json={"input_tokens": _usage},
    events={"tool.output": lambda attributes, _: _tool_output(attributes)},
    name_affixes=(("claude_code.interaction", ""), ("claude_code.tool.execution", ""),
                  ("claude_code.tool.blocked_on_user", ""), ("claude_code.tool", "")),
)  # fmt: skip


def _tool_output(attributes: Attributes) -> list[tuple[Any, Any]]:
    for key in ("output", "content", "tool.output", "result"):
        if attributes.get(key) is not None:
            return [("output", {"role": "tool", "content": attributes[key]})]
    return []
