"""How items, steps and failures read in a message (flow.md section 12)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from onpath.steps.model import Step
from onpath.values.equality import type_name
from onpath.values.outcome import MISSING
from onpath.values.tree import Failure

_CUT: Final = 80
_ALWAYS_SHOWN: Final = ("elapsed", "usage", "attempt", "status")


def step_text(step: Step, index: int) -> str:
    """`index` counts from 0."""
    name = "" if step.name is None or step.name == step.kind else f" {step.name}"
    return f"step {index + 1} ({step.kind}{name})"


def step_name(step: Step) -> str:
    return step.kind if step.name is None else step.name


def failure_text(failures: Sequence[Failure], *, capture_content: bool) -> str:
    """The first of them: its path and key, what it wants, what was met; how many more there are."""
    failure = failures[0]
    path, check = failure.leaf.path, failure.leaf.check
    shown = capture_content or path[:1] in [(name,) for name in _ALWAYS_SHOWN]
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    where = ".".join(path)
    return f"{where} {check.key} expected {_json(check.argument)}, got {met_text(failure.value, shown=shown)}{more}"


def met_text(value: Any, *, shown: bool) -> str:
    """A value by its type, with the length of texts, lists and objects; as JSON only where it may be shown."""
    if value is MISSING:
        return "missing"
    kind = type_name(value)
    if value is None:
        return kind
    if isinstance(value, str | list | tuple | dict):
        kind = f"{kind}({len(value)})"
    return f"{kind} {_json(value)[:_CUT]}" if shown else kind


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
