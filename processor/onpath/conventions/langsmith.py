"""LangSmith: `langsmith.span.kind`, with a run's input and output as one JSON text under GenAI-like keys.

`langsmith.trace.session_id` and `session_name` are the project, not a conversation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.openinference import session_of
from onpath.conventions.values import decode
from onpath.model import Attributes

_KINDS: Final[Mapping[str, Role]] = {
    "llm": "llm",
    "chain": "chain",
    "tool": "tool",
    "retriever": "retriever",
    "embedding": "embedding",
    "prompt": "chain",
    "parser": "chain",
}
_METADATA: Final = "langsmith.metadata"


def _usage(value: Any, _: Attributes) -> Mapping[str, Any]:
    held = decode(value)
    if not isinstance(held, dict):
        return {}
    found = {k: held[k] for k in ("input_tokens", "output_tokens", "total_tokens") if k in held}
    given, gave = held.get("input_token_details"), held.get("output_token_details")
    if isinstance(given, dict):
        found |= {m: given[k] for k, m in _DETAILS.items() if k in given}
    if isinstance(gave, dict) and "reasoning" in gave:
        found["reasoning_tokens"] = gave["reasoning"]
    return found


_DETAILS: Final = {"cache_read": "cache_read_input_tokens", "cache_creation": "cache_creation_input_tokens"}

FAMILY: Final = Family(
    name="langsmith",
    roles={"langsmith.span.kind": _KINDS},
    facts={
        "arguments": {"langsmith.entity.input": base.invocation, "gen_ai.prompt": base.invocation},
        "result": {"langsmith.entity.output": base.result, "gen_ai.completion": base.result},
        "session": {
            _METADATA + ".session_id": base.text,
            _METADATA + ".thread_id": base.text,
            _METADATA + ".conversation_id": base.text,
            _METADATA: session_of,
        },
        "input": {"langsmith.entity.input": base.plain, "gen_ai.prompt": base.plain},
        "output": {"langsmith.entity.output": base.plain, "gen_ai.completion": base.plain},
        "input_messages": {"langsmith.entity.input": base.messages, "gen_ai.prompt": base.messages},
        "output_messages": {"langsmith.entity.output": base.messages, "gen_ai.completion": base.messages},
    },
    usage_json={"langsmith.usage_metadata": _usage},
)
