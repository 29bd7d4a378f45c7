"""Strands: GenAI names, and its own word for how a tool call went; older ones leave the span's status OK either way."""

from __future__ import annotations

from typing import Final

from onpath.conventions import base
from onpath.conventions.base import Family

_STATUS: Final = base.outcome(("error", "failure"), ("success",))

FAMILY: Final = Family(
    name="strands",
    facts={
        "result": {"tool.result": base.result},
        "outcome": {"gen_ai.tool.status": _STATUS, "tool.status": _STATUS},
    },
    name_affixes=(("Tool: ", ""),),
)
