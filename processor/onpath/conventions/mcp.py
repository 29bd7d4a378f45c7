"""The MCP conventions: `mcp.method.name`. Of the protocol's requests only `tools/call` is a tool call."""

from __future__ import annotations

from typing import Any, Final

from onpath.conventions import base
from onpath.conventions.base import Family
from onpath.model import Span

_CALL: Final = "tools/call"


def _other_request(value: Any, _: Span) -> bool:
    return isinstance(value, str) and value != _CALL


FAMILY: Final = Family(
    name="mcp",
    roles={"mcp.method.name": {_CALL: "tool"}},
    placeholders={"mcp.method.name": _other_request},
    facts={"tool_name": {"mcp.tool.name": base.text}},
    name_affixes=(("tools/call ", ""), ("MCP send tools/call ", "")),
)
