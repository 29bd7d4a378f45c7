"""OpenLLMetry (Traceloop): `traceloop.span.kind` and the entity's name, input and output as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family, Role
from onpath.conventions.values import decorated
from onpath.model import NOT_CAPTURED, Attributes

_KINDS: Final[Mapping[str, Role]] = {
    "workflow": "workflow",
    "task": "chain",
    "agent": "agent",
    "tool": "tool",
    "unknown": "other",
}
_PROPERTIES: Final = "traceloop.association.properties."


def _arguments(value: Any, _: Attributes) -> Any:
    return NOT_CAPTURED if value in (None, "") else decorated(value)


FAMILY: Final = Family(
    name="traceloop",
    roles={"traceloop.span.kind": _KINDS},
    facts={
        "tool_name": {"traceloop.entity.name": base.text},
        "arguments": {"traceloop.entity.input": _arguments},
        "result": {"traceloop.entity.output": base.json_result},
        "agent_name": {"traceloop.entity.name": base.text},
        "session": {
            _PROPERTIES + "session_id": base.text,
            _PROPERTIES + "thread_id": base.text,
            _PROPERTIES + "conversation_id": base.text,
            _PROPERTIES + "chat_id": base.text,
        },
        "input": {"traceloop.entity.input": _arguments},
        "output": {"traceloop.entity.output": base.json_value},
    },
    loses_failed=("@traceloop/node-server-sdk",),
    name_affixes=(("", ".tool"), ("", ".agent"), ("", ".workflow"), ("", ".task")),
)
