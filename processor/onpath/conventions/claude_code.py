"""Claude Code's traces: `span.type`, or the span's name, says what a span is.

A `claude_code.tool` span is the call; below it stand the wait for a person's permission and the execution, which may
be the only one to say how it went. Input tokens exclude cached ones. Most of its keys are plain words: they are read
where the span's type or a key that only it writes says whose they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Own, Reader, Role
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


# Keys that only Claude Code writes, and keys by which another convention claims a span.
_WRITTEN: Final = frozenset({"tool_use_id", "interaction.sequence", "cache_read_tokens", "cache_creation_tokens",
                             "ttft_ms"})  # fmt: skip
_CLAIMED: Final = frozenset({"gen_ai.operation.name", "openinference.span.kind", "langfuse.observation.type",
                             "langsmith.span.kind", "mlflow.spanType", "mastra.span.type", "ai.operationId",
                             "genkit:type", "traceloop.span.kind"})  # fmt: skip


def _is_own(attributes: Attributes) -> bool:
    kind = attributes.get("span.type")
    if isinstance(kind, str) and kind in _TYPES:
        return True
    return _CLAIMED.isdisjoint(attributes) and not _WRITTEN.isdisjoint(attributes)


def _own(read: Reader) -> Own:
    return Own(read, _WRITTEN | {"span.type"}, _is_own)


def _arguments(_: Any, attributes: Attributes) -> Any:
    found = {name: attributes[key] for key, name in _ARGUMENTS.items() if isinstance(attributes.get(key), str)}
    return found or NOT_CAPTURED


def _count(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _usage(value: Any, attributes: Attributes) -> Mapping[str, Any]:
    if not _is_own(attributes):
        return {}
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
        "arguments": {
            "tool_input": _own(base.arguments),
            "tool_parameters": _own(base.arguments),
            "tool_name": _own(_arguments),
        },
        "agent_name": {"subagent_type": base.text},
        "model": {"model": _own(base.text)},
        "finish_reasons": {"stop_reason": _own(base.texts)},
        "input": {"user_prompt": base.text},
        # That a call did not succeed any span may say (conventions.md section 14, item 7).
        "outcome": {"decision": _own(_decision), "success": base.outcome(("false",), ("true",), "error")},
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
