"""Finds the loaders of what a workflow may ask; a key whose loader is not part of this build is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from onpath.policy.model import Check
from onpath.policy.problems import Problems, pointer


def _find(module: str, name: str) -> Callable[..., Any] | None:
    found: Callable[..., Any] | None = None
    if find_spec(f"onpath.policy.{module}"):
        found = getattr(import_module(f"onpath.policy.{module}"), name)
    return found


def _refuse(problems: Problems, at: str) -> None:
    problems.error(at, "this validator is not available yet")


def load_tree(raw: object, problems: Problems) -> Any:
    found = _find("flow", "load_tree")
    return found(raw, problems) if found else _refuse(problems, "")


def load_flow(entry: Mapping[str, Any], problems: Problems, *, known: tuple[str, ...]) -> tuple[Check, ...]:
    found = _find("flow", "load_flow")
    if found:
        checks: tuple[Check, ...] = found(entry, problems, known=known)
        return checks
    for key in entry:
        if key not in known:
            _refuse(problems, pointer(key))
    return ()


def describe_flow(check: Check) -> list[str]:
    found = _find("words", "describe")
    return found(check) if found else [f"`{check.key}`."]
